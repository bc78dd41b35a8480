//! runsc's command lines, word for word.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::config;
use crate::config::{NetworkMode, SandboxConfig};
use crate::plan::CommandLine;
use crate::plan::id::ContainerId;
use crate::plan::runsc;

const STATE: &str = "/scratch/state";

fn line(args: &[&str]) -> CommandLine {
    CommandLine {
        program: PathBuf::from("/opt/gvisor/runsc"),
        args: args.iter().map(Into::into).collect(),
    }
}

fn run(config: &SandboxConfig, id: &ContainerId, bundle: &Path, directfs: bool) -> CommandLine {
    runsc::run(&runsc::Run {
        labelled: false,
        host_uds: false,
        config,
        state_dir: Path::new(STATE),
        log: &bundle.join("runsc.log"),
        bundle_dir: bundle,
        id,
        directfs,
    })
}

#[test]
fn run_is_attached_and_logs_to_a_file_of_its_own() {
    let id = ContainerId::one_shot("run").unwrap();
    let mut config = config();
    let bundle = Path::new("/scratch/bundles/b");
    assert_eq!(
        run(&config, &id, bundle, true),
        line(&[
            "--root",
            STATE,
            "--ignore-cgroups",
            "--network=none",
            "--overlay2=root:memory",
            "--log=/scratch/bundles/b/runsc.log",
            "--log-format=json",
            "run",
            "--bundle",
            "/scratch/bundles/b",
            id.as_str(),
        ])
    );
    config.rootless = true;
    config.network = NetworkMode::Host;
    assert_eq!(
        run(&config, &id, bundle, false),
        line(&[
            "--root",
            STATE,
            "--ignore-cgroups",
            "--network=host",
            "--overlay2=root:memory",
            "--rootless",
            "--directfs=false",
            "--log=/scratch/bundles/b/runsc.log",
            "--log-format=json",
            "run",
            "--bundle",
            "/scratch/bundles/b",
            id.as_str(),
        ])
    );
}

#[test]
fn a_path_that_is_not_text_reaches_runsc_unchanged() {
    let id = ContainerId::one_shot("run").unwrap();
    let bundle = Path::new(OsStr::from_bytes(b"/scr\xffatch/b"));
    let args = run(&config(), &id, bundle, true).args;
    let bytes: Vec<_> = args.iter().map(|arg| arg.as_bytes()).collect();
    assert_eq!(bytes[5], b"--log=/scr\xffatch/b/runsc.log");
    assert_eq!(bytes[9], b"/scr\xffatch/b");
}

#[test]
fn control_commands_have_the_globals_of_run() {
    let id = ContainerId::one_shot("run").unwrap();
    let mut config = config();
    config.network = NetworkMode::Sandbox;
    for rootless in [false, true] {
        config.rootless = rootless;
        let globals: Vec<&str> = [
            "--root",
            STATE,
            "--ignore-cgroups",
            "--network=sandbox",
            "--overlay2=root:memory",
        ]
        .into_iter()
        .chain(rootless.then_some("--rootless"))
        .collect();
        let state = Path::new(STATE);
        let cases = [
            (
                runsc::kill(&config, state, &id),
                vec!["kill", "--all", id.as_str(), "KILL"],
            ),
            (
                runsc::delete(&config, state, &id),
                vec!["delete", "--force", id.as_str()],
            ),
            (
                runsc::state(&config, state, &id),
                vec!["state", id.as_str()],
            ),
        ];
        for (command, words) in cases {
            assert_eq!(command, line(&[globals.clone(), words].concat()));
        }
    }
}

#[test]
fn the_version_is_asked_for_with_nothing_else() {
    assert_eq!(runsc::version(&config(), false), line(&["--version"]));
}
