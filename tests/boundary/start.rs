//! What runsc is started with.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use runsc_driver::config::{MountKind, MountRequest};
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{End, Stdin};
use runsc_driver::{Call, Driver, NetworkMode, SandboxOptions};

use crate::common::{is_root, walk};
use crate::fake::{Fake, Seen, ZERO, bounded, run};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0";

/// The whole command line of a run.
fn run_argv(driver: &DirectDriver, id: &str, flags: &[&str]) -> Vec<String> {
    let scratch = driver.config().scratch().dir().to_str().unwrap();
    let network = driver.config().network().as_str();
    let mut argv = vec![
        "--root".to_owned(),
        format!("{scratch}/state"),
        "--ignore-cgroups".to_owned(),
        format!("--network={network}"),
        "--overlay2=root:memory".to_owned(),
    ];
    argv.extend(flags.iter().map(|flag| (*flag).to_owned()));
    argv.extend([
        format!("--log={scratch}/bundles/{id}/runsc.log"),
        "--log-format=json".to_owned(),
        "run".to_owned(),
        "--bundle".to_owned(),
        format!("{scratch}/bundles/{id}"),
        id.to_owned(),
    ]);
    argv
}

fn bind(source: &Path, place: &str, read_only: bool) -> MountRequest {
    MountRequest {
        kind: MountKind::HostBind {
            name: place.to_owned(),
        },
        host_path: source.to_owned(),
        sandbox_path: Some(place.into()),
        read_only: Some(read_only),
    }
}

/// Runs a call under these options and says what runsc was started with.
async fn ran(fake: &Fake, options: SandboxOptions, flags: &[&str]) -> Seen {
    let driver = fake.driver_of(options);
    let outcome = run(&driver).await.unwrap();
    assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
    bounded(driver.close()).await;
    fake.place.assert_gone();
    let seen = fake.seen().pop().unwrap();
    assert_eq!(seen.argv, run_argv(&driver, &outcome.container_id, flags));
    seen
}

#[tokio::test]
async fn the_command_line_of_a_run_is_exactly_this() {
    for (network, rootless, flags) in [
        (NetworkMode::None, false, &[][..]),
        (NetworkMode::Host, false, &[]),
        (NetworkMode::None, true, &["--rootless"]),
        (NetworkMode::Host, true, &["--rootless"]),
    ] {
        let fake = Fake::new();
        let mut options = fake.options();
        options.network = network;
        options.rootless = rootless;
        ran(&fake, options, flags).await;
        assert_eq!(fake.seen().len(), 2);
        assert_eq!(fake.seen()[0].argv, ["--version"]);
    }
}

#[tokio::test]
async fn an_id_names_the_run_and_is_like_no_other() {
    let fake = Fake::new();
    let mut options = fake.options();
    options.run_id = "run/abc!".to_owned();
    let driver = fake.driver_of(options);
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let id = run(&driver).await.unwrap().container_id;
        assert_eq!(id.len(), "c-run-abc--00000000-00000000".len());
        let random = id.strip_prefix("c-run-abc--").unwrap();
        let hex = |part: &str| part.len() == 8 && part.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(random.split('-').all(hex), "{id}");
        ids.insert(id);
    }
    assert_eq!(ids.len(), 3);
    bounded(driver.close()).await;
}

#[tokio::test]
async fn runsc_sees_nothing_of_this_process() {
    for rootless in [false, true] {
        let fake = Fake::new();
        let mut options = fake.options();
        options.rootless = rootless;
        // Open here while runsc is started.
        let _ours = fs::File::open(&fake.image).unwrap();
        let seen = ran(&fake, options, if rootless { &["--rootless"] } else { &[] }).await;
        assert_eq!((seen.environ.as_str(), seen.cwd.as_str()), (PATH, "/"));
        assert_eq!(seen.group, seen.pid);
        assert_ne!(seen.pid, std::process::id());
        assert_streams(&seen, false);
        let version = &fake.seen()[0];
        assert_eq!(
            (version.environ.as_str(), version.cwd.as_str()),
            (PATH, "/")
        );
        assert_eq!(version.group, version.pid);
        assert_streams(version, false);
    }
}

#[tokio::test]
async fn standard_input_is_a_pipe_where_there_is_any() {
    let fake = Fake::doing("run", "cat >\"$here/stdin\"");
    let driver = fake.driver();
    let mut call = Call::new(["cat"]);
    call.stdin = Stdin::Bytes(b"in\0\xff\n".to_vec());
    assert_eq!(bounded(driver.run(call)).await.unwrap().exit(), ZERO);
    assert_streams(&fake.seen()[1], true);
    assert_eq!(fs::read(fake.dir.join("stdin")).unwrap(), b"in\0\xff\n");
    bounded(driver.close()).await;
}

/// Three descriptors, of which the output streams are pipes apart.
#[track_caller]
fn assert_streams(seen: &Seen, input: bool) {
    let numbers: Vec<_> = seen.descriptors.keys().copied().collect();
    assert_eq!(numbers, [0, 1, 2], "{seen:?}");
    let target = |number: i32| seen.descriptors[&number].as_str();
    if input {
        assert!(target(0).starts_with("pipe:["), "{seen:?}");
    } else {
        assert_eq!(target(0), "/dev/null");
    }
    let targets: BTreeSet<_> = seen.descriptors.values().collect();
    assert_eq!(targets.len(), 3, "{seen:?}");
    for number in [1, 2] {
        assert!(target(number).starts_with("pipe:["), "{seen:?}");
    }
}

#[tokio::test]
async fn a_call_starts_runsc_once_and_nothing_else() {
    let fake = Fake::new();
    let driver = fake.driver();
    for _ in 0..3 {
        assert_eq!(run(&driver).await.unwrap().end, End::Exited);
    }
    bounded(driver.close()).await;
    assert_eq!(fake.verb_names(), ["--version", "run", "run", "run"]);
    fake.place.assert_gone();
}

#[tokio::test]
async fn what_is_written_is_private_and_is_the_plan() {
    let fake = Fake::doing(
        "run",
        r#"cp "$bundle/config.json" "$here/config.json"
find "${root%/*}" ! -name runsc.log -printf '%P %y %m\n' | LC_ALL=C sort >"$here/modes""#,
    );
    let driver = fake.driver();
    let call = || {
        let mut call = Call::new(["printf", "%s", "ü"]);
        call.env.push(("NAME".into(), "value".into()));
        call
    };
    let id = bounded(driver.run(call())).await.unwrap().container_id;
    assert_eq!(
        fake.read("modes"),
        format!(
            " d 700\nbundles d 700\nbundles/{id} d 700\nbundles/{id}/config.json f 600\n\
             owner f 600\nstate d 700\n"
        )
    );
    // Neither names its bundle here, so the two calls' are the same.
    assert_eq!(
        fs::read(fake.dir.join("config.json")).unwrap(),
        driver.plan(&call()).unwrap().config_json
    );
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&fake.place.tmp.join("cf-harness-runsc")), 0o700);
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

/// As root or in a user namespace, the kernel keeps such a mount read-only for runsc itself, and
/// runsc keeps its quicker way to the host's files.
#[tokio::test]
async fn read_only_mounts_are_so_for_runsc_itself() {
    for rootless in [false, true] {
        let fake = Fake::doing(
            "run",
            r#"cat "$bundle/source-1/inside" "$bundle/source-2" >"$here/read"
(: >"$bundle/source-1/inside") 2>/dev/null || echo refused >>"$here/read"
(: >"$bundle/source-2") 2>/dev/null || echo refused >>"$here/read"
exit 0"#,
        );
        let (data, file) = (
            fake.place.dir.path().join("data"),
            fake.place.dir.path().join("file"),
        );
        fs::create_dir(&data).unwrap();
        fs::write(data.join("inside"), "in the directory\n").unwrap();
        fs::write(&file, "the file\n").unwrap();
        fake.mount_point("data");
        fs::write(fake.image.join("file"), "").unwrap();
        let mut options = fake.options();
        options.rootless = rootless;
        options.mounts = vec![bind(&data, "/data", true), bind(&file, "/file", true)];
        let own_mounts = rootless || is_root();
        let flags: Vec<_> = [
            rootless.then_some("--rootless"),
            (!own_mounts).then_some("--directfs=false"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !own_mounts {
            fake.does("run", "");
        }
        ran(&fake, options, &flags).await;
        if own_mounts {
            assert_eq!(
                fake.read("read"),
                "in the directory\nthe file\nrefused\nrefused\n"
            );
        }
        assert_eq!(
            fs::read_to_string(data.join("inside")).unwrap(),
            "in the directory\n"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "the file\n");
    }
}

#[tokio::test]
async fn a_mount_point_that_is_missing_never_reaches_the_image() {
    for rootless in [false, true] {
        let fake = Fake::doing("run", r#"mkdir -p "$bundle/rootfs/data/deep""#);
        let data = fake.place.dir.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut options = fake.options();
        options.rootless = rootless;
        options.mounts = vec![bind(&data, "/data/deep", false)];
        if rootless || is_root() {
            let flags: &[&str] = if rootless { &["--rootless"] } else { &[] };
            ran(&fake, options, flags).await;
        } else {
            let driver = fake.driver_of(options);
            let refused = run(&driver).await.unwrap_err();
            assert_eq!(refused.code(), "overlay-unavailable");
            assert!(
                refused.to_string().starts_with(
                    "the image lacks the mount points [\"/data/deep\"], and no overlay can be \
                     mounted over it"
                ),
                "{refused}"
            );
            assert_eq!(fake.verb_names(), ["--version"]);
            bounded(driver.close()).await;
            fake.place.assert_gone();
        }
        assert_eq!(walk(&fake.image), [fake.image.join("workspace")]);
    }
}

#[tokio::test]
async fn a_runsc_that_cannot_be_executed_is_told() {
    enum Spoil {
        Removed,
        NotExecutable,
        NoInterpreter,
    }
    for (what, reason, before_the_first) in [
        (
            Spoil::Removed,
            "No such file or directory (os error 2)",
            true,
        ),
        (
            Spoil::Removed,
            "No such file or directory (os error 2)",
            false,
        ),
        (
            Spoil::NotExecutable,
            "Permission denied (os error 13)",
            false,
        ),
        (
            Spoil::NoInterpreter,
            "No such file or directory (os error 2)",
            false,
        ),
    ] {
        let fake = Fake::new();
        let driver = fake.driver();
        if !before_the_first {
            assert_eq!(run(&driver).await.unwrap().end, End::Exited);
        }
        match what {
            Spoil::Removed => fs::remove_file(fake.runsc()).unwrap(),
            Spoil::NotExecutable => {
                fs::set_permissions(fake.runsc(), PermissionsExt::from_mode(0o644)).unwrap();
            }
            Spoil::NoInterpreter => fake.executable("#!/no/such/interpreter\n"),
        }
        let refused = run(&driver).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.to_string()),
            (
                "execute-failed",
                format!(
                    "could not execute {:?} ({reason}): see that it is a program for this machine \
                     that this user may execute",
                    fake.runsc()
                )
            )
        );
        bounded(driver.close()).await;
        if before_the_first {
            assert_eq!(walk(&fake.place.tmp), Vec::<PathBuf>::new());
        } else {
            fake.place.assert_gone();
        }
    }
}
