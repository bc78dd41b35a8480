use super::*;
use crate::host::{Host, Platform};
use crate::trust::testing::{Tree, host};

mod containment;
mod places;
mod planted;
mod scratch;
mod user;

/// What a run has: a runsc, an image and a policy outside of the workspace.
fn laid_out() -> (Tree, SandboxOptions, Host) {
    let tree = Tree::new();
    tree.file("store/bin/runsc", 0o755);
    tree.dir("store/images/kitchensink");
    tree.file("store/policy.json", 0o644);
    for dir in ["ws/sub", "data", "fabric", "cwd", "tmp", "home"] {
        tree.dir(dir);
    }
    let options = SandboxOptions {
        policy: Some(tree.at("store/policy.json")),
        ..SandboxOptions::new(
            tree.at("store/bin/runsc"),
            tree.at("store/images/kitchensink"),
            tree.at("ws"),
        )
    };
    let host = host(&tree);
    (tree, options, host)
}

fn bind(name: &str, host_path: impl Into<PathBuf>, sandbox_path: &str) -> MountRequest {
    MountRequest {
        kind: MountKind::HostBind {
            name: name.to_owned(),
        },
        host_path: host_path.into(),
        sandbox_path: Some(sandbox_path.into()),
        read_only: None,
    }
}

fn writable(name: &str, host_path: impl Into<PathBuf>) -> MountRequest {
    MountRequest {
        read_only: Some(false),
        ..bind(name, host_path, "/data")
    }
}

fn refusal(options: &SandboxOptions, host: &Host) -> (&'static str, String) {
    let err = SandboxConfig::resolve(options.clone(), host).unwrap_err();
    (err.code(), err.to_string())
}

fn refused(code: &'static str, sentence: impl Into<String>) -> (&'static str, String) {
    (code, sentence.into())
}

#[test]
fn a_configuration_is_resolved_whole() {
    let (tree, mut options, host) = laid_out();
    tree.link("store/bin", "bin");
    tree.link("store", "st");
    tree.link("ws", "work");
    options.runsc = tree.at("bin/runsc").into();
    options.rootfs = tree.at("st/images/./kitchensink");
    options.policy = Some(tree.at("st/policy.json"));
    options.workspace = tree.at("work/sub/..");
    options.workspace_mount_path = "/w/./x/../y/".into();
    options.network = NetworkMode::None;
    options.run_id = "run/abc def ghi".to_owned();
    options.mounts = vec![
        bind("data", tree.at("data"), "/tmp/data"),
        MountRequest {
            kind: MountKind::FabricFuse,
            host_path: tree.at("fabric"),
            sandbox_path: None,
            read_only: None,
        },
        MountRequest {
            read_only: Some(false),
            ..bind("file", tree.file("a-file", 0o600), "/etc/a-file")
        },
    ];
    let config = SandboxConfig::resolve(options, &host).unwrap();

    let parent = tree.at("tmp/cf-harness-runsc");
    let dir = config.scratch().dir().to_owned();
    let name = dir.file_name().unwrap().to_str().unwrap();
    assert_eq!(dir.parent(), Some(parent.as_path()));
    assert!(name.starts_with("run-abc-def-ghi-"), "{name}");
    assert_eq!(name.len(), "run-abc-def-ghi-".len() + 8);
    let run_tag = config.run_tag().to_owned();
    assert!(run_tag.starts_with("run-abc-def--"), "{run_tag}");
    assert_eq!(run_tag.len(), 12 + 1 + 8);
    assert!(!parent.exists(), "nothing is made yet");

    let mount = |kind, host_path: &str, sandbox_path: &str, read_only| Mount {
        kind,
        host_path: tree.at(host_path),
        sandbox_path: sandbox_path.into(),
        read_only,
    };
    let named = |name: &str| MountKind::HostBind {
        name: name.to_owned(),
    };
    let expected = SandboxConfig {
        runsc: TrustedPath::made_up(tree.at("store/bin/runsc")),
        rootfs: TrustedPath::made_up(tree.at("store/images/kitchensink")),
        policy: Some(TrustedPath::made_up(tree.at("store/policy.json"))),
        ignore_labels: false,
        mode: EnforcementMode::EnforceStrict,
        network: NetworkMode::None,
        pasta: None,
        rootless: false,
        mounts: vec![
            mount(MountKind::Workspace, "ws", "/w/y", false),
            mount(named("data"), "data", "/tmp/data", true),
            mount(MountKind::FabricFuse, "fabric", "/fabric", false),
            mount(named("file"), "a-file", "/etc/a-file", false),
        ],
        user: ContainerUser { uid: 0, gid: 0 },
        scratch: Scratch {
            dir,
            verified_parent: Some(parent),
        },
        pool: None,
        run_tag,
    };
    assert_eq!(config, expected);
    assert_eq!(config.workspace(), &config.mounts()[0]);
}

/// macOS as Linux has it, beside the case of names: a binary on `PATH`, and no policy.
#[test]
fn macos_resolves_on_any_platform() {
    let (tree, mut options, mut host) = laid_out();
    host.platform = Platform::MacOs;
    host.uid = None;
    host.path = Some(tree.at("store/bin").into());
    options.runsc = "runsc".into();
    options.policy = None;
    options.native_store = Some(tree.at("store"));
    let config = SandboxConfig::resolve(options, &host).unwrap();
    assert_eq!(config.runsc().as_path(), tree.at("store/bin/runsc"));
    assert_eq!(config.policy(), None);
    assert_eq!(config.network(), NetworkMode::Sandbox);
}

#[test]
fn what_is_named_has_to_be_there_and_of_its_kind() {
    let (tree, options, host) = laid_out();
    let t = tree.root.display();
    let file = tree.file("plain", 0o644);
    let socket = tree.at("socket");
    std::os::unix::net::UnixListener::bind(&socket).unwrap();
    type Change = Box<dyn Fn(&mut SandboxOptions)>;
    let runsc = |path: PathBuf| -> Change { Box::new(move |o| o.runsc = path.clone().into()) };
    let rootfs = |path: PathBuf| -> Change { Box::new(move |o| o.rootfs = path.clone()) };
    let policy = |path: PathBuf| -> Change { Box::new(move |o| o.policy = Some(path.clone())) };
    let workspace = |path: PathBuf| -> Change { Box::new(move |o| o.workspace = path.clone()) };
    let mount = |path: PathBuf| -> Change {
        Box::new(move |o| o.mounts = vec![bind("one", path.clone(), "/data")])
    };
    let exec = "name an executable file with CF_HARNESS_RUNSC_BINARY";
    let image = "name the directory of an unpacked image";
    let text = "name a regular file that can be read";
    let dir = "name a directory with --workspace DIR";
    let source = "name a directory or a regular file";
    let cases = [
        (
            runsc(tree.at("none")),
            "runsc-not-executable",
            format!("the runsc binary {t}/none does not exist: {exec}"),
        ),
        (
            runsc("./none".into()),
            "runsc-not-executable",
            format!("the runsc binary {t}/cwd/none does not exist: {exec}"),
        ),
        (
            runsc(tree.at("data")),
            "runsc-not-executable",
            format!("the runsc binary {t}/data is a directory: {exec}"),
        ),
        (
            runsc(file.clone()),
            "runsc-not-executable",
            format!("the runsc binary {t}/plain is a regular file that nobody may execute: {exec}"),
        ),
        (
            runsc(socket.clone()),
            "runsc-not-executable",
            format!("the runsc binary {t}/socket is a device, a socket or a pipe: {exec}"),
        ),
        (
            rootfs(tree.at("none")),
            "rootfs-not-a-directory",
            format!("the rootfs {t}/none does not exist: {image}"),
        ),
        (
            rootfs(file.clone()),
            "rootfs-not-a-directory",
            format!("the rootfs {t}/plain is a regular file: {image}"),
        ),
        (
            policy(tree.at("none")),
            "policy-not-readable",
            format!("the CFC policy {t}/none does not exist: {text}"),
        ),
        (
            policy(tree.at("data")),
            "policy-not-readable",
            format!("the CFC policy {t}/data is a directory: {text}"),
        ),
        (
            policy(socket.clone()),
            "policy-not-readable",
            format!("the CFC policy {t}/socket is a device, a socket or a pipe: {text}"),
        ),
        (
            workspace(tree.at("none")),
            "workspace-not-a-directory",
            format!("the workspace {t}/none does not exist: {dir}"),
        ),
        (
            workspace(file),
            "workspace-not-a-directory",
            format!("the workspace {t}/plain is a regular file: {dir}"),
        ),
        (
            workspace("ws".into()),
            "path-not-absolute",
            "the workspace ws is relative: give an absolute path on the host".to_owned(),
        ),
        (
            mount(tree.at("none")),
            "mount-source-unusable",
            format!("the mount \"one\" {t}/none does not exist: {source}"),
        ),
        (
            mount(socket),
            "mount-source-unusable",
            format!("the mount \"one\" {t}/socket is a device, a socket or a pipe: {source}"),
        ),
    ];
    for (change, code, sentence) in cases {
        let mut options = options.clone();
        change(&mut options);
        assert_eq!(refusal(&options, &host), refused(code, sentence));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_policy_that_may_not_be_read_is_refused() {
    use crate::trust::testing::bound_by_modes;
    let (tree, options, host) = laid_out();
    tree.mode("", 0o755);
    let resolve = || SandboxConfig::resolve(options.clone(), &host);
    assert!(bound_by_modes(resolve).is_ok());
    tree.mode("store/policy.json", 0o000);
    let err = bound_by_modes(resolve).unwrap_err();
    let sentence = format!(
        "the CFC policy {}/store/policy.json cannot be read: Permission denied (os error 13): \
         name a regular file that can be read",
        tree.root.display()
    );
    assert_eq!(
        (err.code(), err.to_string()),
        refused("policy-not-readable", sentence)
    );
}

#[test]
fn a_pool_has_a_size_within_bounds() {
    let idle_timeout = std::time::Duration::from_secs(60);
    for (size, code) in [
        (0, Some("pool-size-invalid")),
        (1, None),
        (Pool::LARGEST, None),
        (Pool::LARGEST + 1, Some("pool-size-invalid")),
    ] {
        let (_tree, mut options, host) = laid_out();
        options.pool = Some(Pool { size, idle_timeout });
        let resolved = SandboxConfig::resolve(options, &host);
        assert_eq!(resolved.err().map(|err| err.code()), code, "{size}");
    }
}
