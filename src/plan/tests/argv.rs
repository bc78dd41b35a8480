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
fn labels_are_ignored_only_where_there_is_no_policy() {
    let id = ContainerId::one_shot("run").unwrap();
    let mut config = config();
    config.ignore_labels = true;
    let args = run(&config, &id, Path::new("/b"), true).args;
    assert_eq!(args[5], "--cfc-ignore-labels");
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

#[test]
fn a_policy_and_its_descriptors_are_on_every_command_that_has_them() {
    let id = ContainerId::session("run", 1);
    let mut config = config();
    config.policy = Some(crate::trust::TrustedPath::made_up("/policy.json"));
    let bundle = Path::new("/scratch/bundles/b");
    let globals = [
        "--root",
        STATE,
        "--ignore-cgroups",
        "--network=none",
        "--overlay2=root:memory",
        "--cfc",
        "--cfc-policy",
        "/policy.json",
    ];
    let line_of = |rest: &[&str]| line(&[&globals[..], rest].concat());
    let fds = ["--cfc-invocation-context-fd", "3", "--cfc-result-fd", "4"];
    let labelled = runsc::run(&runsc::Run {
        config: &config,
        state_dir: Path::new(STATE),
        log: Path::new("/l"),
        bundle_dir: bundle,
        id: &id,
        labelled: true,
        host_uds: true,
        directfs: true,
    });
    let logged = ["--host-uds=open", "--log=/l", "--log-format=json", "run"];
    let rest = ["--bundle", "/scratch/bundles/b", id.as_str()];
    assert_eq!(labelled, line_of(&[&logged[..], &fds, &rest].concat()));
    assert_eq!(
        runsc::state(&config, Path::new(STATE), &id),
        line_of(&["state", id.as_str()])
    );
    assert_eq!(runsc::version(&config, true), line(&["--cfc", "--version"]));
}

#[test]
fn exec_says_what_the_container_does_not_have_already() {
    let id = ContainerId::session("run", 7);
    let mut config = config();
    config.user.uid = 5;
    let argv = ["sh", "-c", "x", "--flag"].map(Into::into);
    let env = [("B", "2"), ("A", "x y"), ("HOME", "/h")].map(|(n, v)| (n.into(), v.into()));
    let request = crate::plan::Request {
        argv: &argv,
        cwd: Some(Path::new("sub")),
        env: &env,
        context: None,
        host_uds: false,
    };
    let process = crate::plan::bundle::Process::check(&config, request).unwrap();
    let file = PathBuf::from("/x/process.json");
    let exec = |labelled, process_file| {
        runsc::exec(&runsc::Exec {
            config: &config,
            state_dir: Path::new(STATE),
            log: Path::new("/x/log"),
            pid_file: Path::new("/x/pid"),
            id: &id,
            labelled,
            process: &process,
            process_file,
        })
    };
    let globals = [
        "--root",
        STATE,
        "--ignore-cgroups",
        "--network=none",
        "--overlay2=root:memory",
        "--log=/x/log",
        "--log-format=json",
        "exec",
    ];
    let line_of = |rest: &[&str]| line(&[&globals[..], rest].concat());
    assert_eq!(
        exec(false, None),
        line_of(&[
            "--internal-pid-file",
            "/x/pid",
            "--cwd",
            "/workspace/sub",
            "--env",
            "A=x y",
            "--env",
            "B=2",
            "--env",
            "HOME=/h",
            "--user",
            "5:0",
            id.as_str(),
            "sh",
            "-c",
            "x",
            "--flag",
        ])
    );
    assert_eq!(
        exec(true, Some(&file)),
        line_of(&[
            "--cfc-invocation-context-fd",
            "3",
            "--cfc-result-fd",
            "4",
            "--internal-pid-file",
            "/x/pid",
            "--process",
            "/x/process.json",
            id.as_str(),
        ])
    );
}
