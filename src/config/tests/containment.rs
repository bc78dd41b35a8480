//! What decides over the sandbox and what the sandbox can reach, held apart.

use super::*;

/// Each of the three files with the name that refusals give it, its place in the tree, and how it
/// is set.
type Set = fn(&mut SandboxOptions, PathBuf);
const TRUSTED: [(&str, Set); 3] = [
    ("the runsc binary", |options, path| {
        options.runsc = path.into()
    }),
    ("the rootfs", |options, path| options.rootfs = path),
    ("the CFC policy", |options, path| {
        options.policy = Some(path)
    }),
];

/// Makes what the setting needs at a path.
fn plant(tree: &Tree, setting: &str, path: &str) {
    match setting {
        "the rootfs" => tree.dir(path),
        _ => tree.file(path, 0o755),
    };
}

const REWRITE: &str = "which the sandbox can write, so that it could replace it";
pub(super) const OTHER_WORKSPACE: &str =
    "name a workspace that does not hold it with --workspace DIR";
const OTHER_MOUNT: &str = "mount it read-only, or mount a directory that does not hold it";

#[test]
fn a_trusted_file_is_in_no_writable_mount() {
    for (setting, set) in TRUSTED {
        let (tree, options, host) = laid_out();
        let t = tree.root.display();
        plant(&tree, setting, "ws/own");
        plant(&tree, setting, "data/own");
        tree.link("ws/own", "link-to-own");
        tree.link("ws", "link-to-ws");
        tree.link("../outside", "ws/out");
        plant(&tree, setting, "outside");
        let with = |path: PathBuf, mounts: Vec<MountRequest>| {
            let mut options = SandboxOptions {
                mounts,
                ..options.clone()
            };
            set(&mut options, path);
            options
        };
        let ws = format!("the workspace {t}/ws");
        let in_ws = |path: &str, leads: &str| {
            refused(
                "trusted-file-in-mount",
                format!("{setting} {t}/{path}{leads} is inside {ws}, {REWRITE}: {OTHER_WORKSPACE}"),
            )
        };
        let leads = format!(", which leads to {t}/ws/own,");
        for (path, leads) in [
            ("ws/own", ""),
            ("link-to-own", leads.as_str()),
            ("link-to-ws/own", leads.as_str()),
            // Up and back in.
            ("link-to-ws/../ws/own", leads.as_str()),
        ] {
            let options = with(tree.at(path), vec![]);
            assert_eq!(refusal(&options, &host), in_ws(path, leads), "{path}");
        }
        let data = writable("one", tree.at("data"));
        let options = with(tree.at("data/own"), vec![data]);
        let sentence = format!(
            "{setting} {t}/data/own is inside the mount \"one\" {t}/data, {REWRITE}: {OTHER_MOUNT}"
        );
        assert_eq!(
            refusal(&options, &host),
            refused("trusted-file-in-mount", sentence)
        );

        // What the sandbox cannot write may hold it, and a path that leads out is outside.
        let read_only = bind("one", tree.at("data"), "/data");
        for (path, mounts, real) in [
            ("data/own", vec![read_only], "data/own"),
            ("ws/../outside", vec![], "outside"),
            ("ws/out", vec![], "outside"),
        ] {
            let config = SandboxConfig::resolve(with(tree.at(path), mounts), &host).unwrap();
            let resolved = match setting {
                "the rootfs" => config.rootfs(),
                "the CFC policy" => config.policy().unwrap(),
                _ => config.runsc(),
            };
            assert_eq!(resolved.as_path(), tree.at(real), "{path}");
        }
    }
}

#[test]
fn a_trusted_path_that_leads_nowhere_certain_is_refused() {
    for (setting, set) in TRUSTED {
        let (tree, options, host) = laid_out();
        tree.link("ws/later", "dangling");
        tree.link("loop", "loop");
        tree.file("plain", 0o644);
        let cases = [
            ("dangling", "path-dangling-link"),
            ("dangling/x", "path-dangling-link"),
            ("loop", "path-too-many-links"),
            ("plain/x", "path-not-examined"),
            ("none/../x", "path-dots-after-missing"),
        ];
        for (path, code) in cases {
            let mut options = options.clone();
            set(&mut options, tree.at(path));
            let (found, sentence) = refusal(&options, &host);
            assert_eq!(found, code, "{sentence}");
            let start = format!("{setting} {}/{path} ", tree.root.display());
            assert!(sentence.starts_with(&start), "{sentence}");
        }
        let mut options = options.clone();
        set(&mut options, "~/x".into());
        assert_eq!(refusal(&options, &host).0, "path-opens-with-tilde");
        if setting != "the runsc binary" {
            set(&mut options, "store/x".into());
            assert_eq!(
                refusal(&options, &host),
                refused(
                    "path-not-absolute",
                    format!("{setting} store/x is relative: give an absolute path on the host")
                )
            );
        }
    }
}

#[test]
fn a_mount_is_compared_in_both_readings() {
    for (setting, set) in TRUSTED {
        let (tree, options, host) = laid_out();
        // The kernel reads link/../work as deep/work, and by its spelling it is work.
        tree.dir("deep/inner");
        tree.link("deep/inner", "link");
        for work in ["deep/work", "work"] {
            tree.dir(work);
            plant(&tree, setting, &format!("{work}/own"));
            let mut options = SandboxOptions {
                workspace: tree.at("link/../work"),
                ..options.clone()
            };
            set(&mut options, tree.at(work).join("own"));
            assert_eq!(
                refusal(&options, &host).0,
                "trusted-file-in-mount",
                "{work}"
            );
        }
        let mut options = SandboxOptions {
            workspace: tree.at("link/../work"),
            ..options.clone()
        };
        options.scratch = Some(tree.at("work/scratch"));
        assert_eq!(refusal(&options, &host).0, "scratch-in-mount");
        options.scratch = None;
        let config = SandboxConfig::resolve(options, &host).unwrap();
        assert_eq!(config.workspace().host_path(), tree.at("deep/work"));
    }
}

#[test]
fn case_is_ignored_on_macos_alone() {
    let (tree, mut options, host) = laid_out();
    // Two directories here; one on a volume that ignores case.
    tree.file("WS/own", 0o755);
    options.runsc = tree.at("WS/own").into();
    let macos = Host {
        platform: Platform::MacOs,
        ..host.clone()
    };
    assert_eq!(refusal(&options, &macos).0, "trusted-file-in-mount");
    if !cfg!(target_os = "macos") {
        assert!(SandboxConfig::resolve(options, &host).is_ok());
    }
    let (tree, mut options, _) = laid_out();
    options.scratch = Some(tree.at("WS/scratch"));
    let macos = Host {
        platform: Platform::MacOs,
        ..super::host(&tree)
    };
    assert_eq!(refusal(&options, &macos).0, "scratch-in-mount");
    if !cfg!(target_os = "macos") {
        assert!(SandboxConfig::resolve(options, &super::host(&tree)).is_ok());
    }
}

#[test]
fn no_writable_mount_is_inside_the_rootfs() {
    let (tree, options, host) = laid_out();
    let t = tree.root.display();
    tree.dir("store/images/kitchensink/srv");
    tree.link("store/images/kitchensink/srv", "srv");
    let workspace = SandboxOptions {
        workspace: tree.at("srv"),
        ..options.clone()
    };
    let why = format!(
        "is writable and inside the rootfs {t}/store/images/kitchensink, so that the sandbox could \
         change the image that later containers start from"
    );
    assert_eq!(
        refusal(&workspace, &host),
        refused(
            "mount-in-rootfs",
            format!(
                "the workspace {t}/srv {why}: name a workspace outside it with --workspace DIR"
            )
        )
    );
    let mount = SandboxOptions {
        mounts: vec![writable("one", tree.at("srv"))],
        ..options.clone()
    };
    assert_eq!(
        refusal(&mount, &host),
        refused(
            "mount-in-rootfs",
            format!(
                "the mount \"one\" {t}/srv {why}: mount it read-only, or mount a directory \
                 outside it"
            )
        )
    );
    let read_only = SandboxOptions {
        mounts: vec![bind("one", tree.at("srv"), "/data")],
        ..options
    };
    assert!(SandboxConfig::resolve(read_only, &host).is_ok());
}

#[test]
fn the_native_store_is_apart_from_writable_mounts_both_ways() {
    for (platform, store) in [
        (Platform::Linux, "the runsc-cfc store"),
        (Platform::MacOs, "the cfc-vm store"),
    ] {
        let (tree, mut options, mut host) = laid_out();
        host.platform = platform;
        let t = tree.root.display();
        tree.dir("outer/store/images");
        tree.link("outer/store", "linked-store");
        // A store that this run takes nothing from, and whose link alone is named.
        options.native_store = Some(tree.at("linked-store"));
        let with = |mount| SandboxOptions {
            mounts: vec![mount],
            ..options.clone()
        };
        let later = "so that the sandbox could replace the runtime of later runs";
        assert_eq!(
            refusal(&with(writable("one", tree.at("outer"))), &host),
            refused(
                "store-in-mount",
                format!(
                    "{store} {t}/linked-store, which leads to {t}/outer/store, is inside the \
                     mount \"one\" {t}/outer, which the sandbox can write, so that it could \
                     replace the runtime of later runs: {OTHER_MOUNT}"
                )
            )
        );
        assert_eq!(
            refusal(
                &with(writable("one", tree.at("linked-store/images"))),
                &host
            ),
            refused(
                "mount-in-store",
                format!(
                    "the mount \"one\" {t}/linked-store/images is writable and inside {store} \
                     {t}/outer/store, {later}: mount it read-only, or mount a directory outside it"
                )
            )
        );
        for path in ["outer", "linked-store/images", "outer/store"] {
            let read_only = with(bind("one", tree.at(path), "/data"));
            assert!(SandboxConfig::resolve(read_only, &host).is_ok(), "{path}");
        }
        for (path, code) in [
            ("linked-store", "path-not-absolute"),
            ("~/store", "path-opens-with-tilde"),
        ] {
            let options = SandboxOptions {
                native_store: Some(path.into()),
                ..options.clone()
            };
            let (found, sentence) = refusal(&options, &host);
            assert_eq!(found, code, "{sentence}");
            assert!(
                sentence.starts_with(&format!("{store} {path} ")),
                "{sentence}"
            );
        }
    }
}

/// A workspace that is the home directory holds the default store, which nobody named.
#[test]
fn a_defaulted_runtime_says_where_it_is_from() {
    let (tree, mut options, host) = laid_out();
    let t = tree.root.display();
    tree.file("home/store/runsc", 0o755);
    tree.dir("home/store/rootfs/srv");
    options.runsc = tree.at("home/store/runsc").into();
    options.rootfs = tree.at("home/store/rootfs");
    options.policy = None;
    options.native_store = Some(tree.at("home/store"));
    options.defaulted = true;
    let note = format!("; no runtime was named, so the native store at {t}/home/store is used");
    options.workspace = tree.at("home");
    assert_eq!(
        refusal(&options, &host),
        refused(
            "trusted-file-in-mount",
            format!(
                "the runsc binary {t}/home/store/runsc is inside the workspace {t}/home, \
                 {REWRITE}: {OTHER_WORKSPACE}{note}"
            )
        )
    );
    options.workspace = tree.at("home/store/rootfs/srv");
    let (code, sentence) = refusal(&options, &host);
    assert_eq!(code, "mount-in-rootfs");
    assert!(sentence.ends_with(&note), "{sentence}");

    options.native_store = None;
    let (_, sentence) = refusal(&options, &host);
    let end = "; no runtime was named, so the platform's default applies";
    assert!(sentence.ends_with(end), "{sentence}");
    options.defaulted = false;
    let (_, sentence) = refusal(&options, &host);
    assert!(sentence.ends_with("--workspace DIR"), "{sentence}");
}
