//! The bytes of `config.json`, compared with files that were reviewed by eye.
//!
//! Where a change is meant, `cargo test --lib golden -- --ignored` writes the files again, and
//! their diff is reviewed like code.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{config, mount};
use crate::config::{
    ContainerUser, FABRIC_MOUNT_PATH, MountKind, NetworkMode, SandboxConfig, WORKSPACE_MOUNT_PATH,
};
use crate::plan::bundle::{Process, Sources, SpecInput, config_json};
use crate::plan::{Link, ReadOnly, Request};

const BUNDLE: &str = "/tmp/cf-harness-runsc/run-00000000/bundles/c-run-00000000-11111111";

/// What a golden file is made from.
struct Golden {
    name: &'static str,
    reviewed: &'static str,
    config: SandboxConfig,
    /// Whether each mount's source is a directory.
    directories: Vec<bool>,
    own_mounts: bool,
    rootfs: Option<PathBuf>,
    argv: Vec<&'static str>,
    cwd: Option<&'static str>,
    env: Vec<(&'static str, &'static str)>,
}

impl Golden {
    fn new(name: &'static str, reviewed: &'static str, config: SandboxConfig) -> Self {
        Self {
            name,
            reviewed,
            directories: vec![true; config.mounts.len()],
            config,
            own_mounts: true,
            rootfs: None,
            argv: vec!["make", "test"],
            cwd: None,
            env: Vec::new(),
        }
    }

    fn sources(&self) -> Sources {
        Sources::new(
            &self.config,
            &self.directories,
            Path::new(BUNDLE),
            self.own_mounts,
        )
    }

    fn bytes(&self) -> Vec<u8> {
        let argv: Vec<_> = self.argv.iter().map(Into::into).collect();
        let env: Vec<_> = self
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let request = Request {
            argv: &argv,
            cwd: self.cwd.map(Path::new),
            env: &env,
            context: None,
            host_uds: false,
        };
        let process = Process::check(&self.config, request).unwrap();
        config_json(&SpecInput {
            config: &self.config,
            process: &process,
            rootfs: self
                .rootfs
                .as_deref()
                .unwrap_or(self.config.rootfs.as_path()),
            sources: &self.sources(),
        })
        .unwrap()
    }
}

macro_rules! golden {
    ($name:literal, $config:expr) => {
        Golden::new(
            $name,
            include_str!(concat!("../../../bundles/golden/", $name, ".json")),
            $config,
        )
    };
}

fn with_mounts() -> SandboxConfig {
    let mut config = config();
    config.mounts.extend([
        mount("/srv/data", "/data", true),
        mount("/home/ada/cache", "/cache", false),
        mount("/mnt/fabric", FABRIC_MOUNT_PATH, false),
    ]);
    config.mounts[3].kind = MountKind::FabricFuse;
    config
}

fn with_file() -> SandboxConfig {
    let mut config = config();
    config.mounts.extend([
        mount("/etc/ssl/cert.pem", "/etc/ssl/cert.pem", true),
        mount("/home/ada/notes.txt", "/notes.txt", false),
    ]);
    config
}

fn rootless() -> SandboxConfig {
    let mut config = config();
    config.rootless = true;
    config
}

fn host_network() -> SandboxConfig {
    let mut config = config();
    config.network = NetworkMode::Host;
    config
}

fn user() -> SandboxConfig {
    let mut config = config();
    config.user = ContainerUser {
        uid: 1000,
        gid: 2000,
    };
    config
}

fn odd_names() -> SandboxConfig {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let mut config = config();
    config.mounts = vec![
        mount(path(b"/home/ada/pro\xffject"), WORKSPACE_MOUNT_PATH, false),
        mount(path(b"/srv/da\xffta"), "/data", true),
        mount("/srv/a b:c,d\n\"e\"\\ü", "/odd", false),
    ];
    config
}

fn all() -> Vec<Golden> {
    vec![
        golden!("default", config()),
        golden!("rootless", rootless()),
        golden!("host-network", host_network()),
        golden!("user", user()),
        golden!("mounts", with_mounts()),
        Golden {
            own_mounts: false,
            ..golden!("mounts-without-own-namespace", with_mounts())
        },
        Golden {
            directories: vec![true, false, false],
            ..golden!("file-mounts", with_file())
        },
        golden!("odd-names", odd_names()),
        Golden {
            rootfs: Some(Path::new(BUNDLE).join("rootfs")),
            ..golden!("overlay", config())
        },
        Golden {
            argv: vec!["sh", "-c", "printf '%s\n' \"$1\" ü \u{1b}[0m", "", "--"],
            cwd: Some("./src/../docs//"),
            env: vec![
                ("LANG", "C.UTF-8"),
                ("HOME", "/workspace"),
                ("EMPTY", ""),
                ("LANG", "de_DE.UTF-8"),
                ("a b", "x=y\n"),
            ],
            ..golden!("command", config())
        },
    ]
}

#[test]
fn the_bytes_are_the_reviewed_ones() {
    for golden in all() {
        let bytes = String::from_utf8(golden.bytes()).unwrap();
        assert_eq!(bytes, golden.reviewed, "{}", golden.name);
        assert_eq!(
            golden.bytes(),
            golden.bytes(),
            "{}: not the same twice",
            golden.name
        );
    }
}

/// runsc takes what is absent as nothing granted and nothing limited.
#[test]
fn nothing_is_granted_that_was_not_asked_for() {
    for golden in all() {
        for absent in [
            "capabilities",
            "rlimits",
            "annotations",
            "seccomp",
            "cgroupsPath",
            "resources",
            "uidMappings",
            "gidMappings",
            "noNewPrivileges",
            "maskedPaths",
            "readonlyPaths",
            "devices",
            "hooks",
            "\"type\": \"user\"",
            "\"type\": \"cgroup\"",
            "additionalGids",
        ] {
            assert!(
                !golden.reviewed.contains(absent),
                "{} has {absent}",
                golden.name
            );
        }
    }
}

#[test]
fn rootless_changes_nothing_in_the_bundle() {
    let find = |name: &str| {
        all()
            .into_iter()
            .find(|golden| golden.name == name)
            .unwrap()
    };
    assert_eq!(find("rootless").bytes(), find("default").bytes());
}

#[test]
fn every_file_in_the_directory_is_compared() {
    let mut files: Vec<_> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut names: Vec<_> = all()
        .iter()
        .map(|golden| format!("{}.json", golden.name))
        .collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
}

#[test]
fn sources_that_the_spec_cannot_name_are_linked_and_read_only_ones_are_bound() {
    let bundle = Path::new(BUNDLE);
    let golden = golden!("odd-names", odd_names());
    let source = |at: usize| golden.config.mounts[at].host_path().to_owned();
    assert_eq!(
        golden.sources(),
        Sources {
            links: vec![Link {
                at: bundle.join("source-0"),
                target: source(0),
            }],
            read_only: vec![ReadOnly {
                source: source(1),
                at: bundle.join("source-1"),
                directory: true,
            }],
        }
    );

    let without = Golden {
        own_mounts: false,
        ..golden!("odd-names", odd_names())
    };
    assert_eq!(
        without.sources(),
        Sources {
            links: vec![
                Link {
                    at: bundle.join("source-0"),
                    target: source(0),
                },
                Link {
                    at: bundle.join("source-1"),
                    target: source(1),
                },
            ],
            read_only: Vec::new(),
        }
    );

    let files = Golden {
        directories: vec![true, false, false],
        ..golden!("file-mounts", with_file())
    };
    assert_eq!(
        files.sources(),
        Sources {
            links: Vec::new(),
            read_only: vec![ReadOnly {
                source: PathBuf::from("/etc/ssl/cert.pem"),
                at: bundle.join("source-1"),
                directory: false,
            }],
        }
    );
}

#[test]
fn a_source_that_is_mounted_both_ways_is_read_only_in_one_of_them_alone() {
    let mut config = config();
    config.mounts.extend([
        mount("/srv/both", "/ro", true),
        mount("/srv/both", "/rw", false),
    ]);
    let golden = Golden::new("both", "", config);
    let spec: serde_json::Value = serde_json::from_slice(&golden.bytes()).unwrap();
    let sources: Vec<_> = spec["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .skip(7)
        .map(|mount| (mount["source"].as_str(), mount["options"][1].as_str()))
        .collect();
    let bound = format!("{BUNDLE}/source-1");
    assert_eq!(
        sources,
        [
            (Some(bound.as_str()), Some("ro")),
            (Some("/srv/both"), Some("rw"))
        ]
    );
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles/golden")
}

#[test]
#[ignore = "writes the golden files again, where a change of them is meant"]
#[expect(
    clippy::disallowed_methods,
    reason = "it writes the repository's own files"
)]
fn write_the_golden_files_again() {
    for golden in all() {
        let file = directory().join(format!("{}.json", golden.name));
        std::fs::write(file, golden.bytes()).unwrap();
    }
}
