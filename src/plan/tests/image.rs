//! What is asked of the image, over made-up ones.

use std::path::PathBuf;

use super::{config, mount};
use crate::config::SandboxConfig;
use crate::host::{Host, Platform};
use crate::plan::id::ContainerId;
use crate::plan::image::{check_owner, missing_mount_points, source_kinds};
use crate::plan::{IdMap, Layout, Overlay, Plan, PlanError, Request, plan};
use crate::trust::TrustedPath;
use crate::trust::testing::{Tree, host};

/// A workspace, and an image with its mount point.
fn made_up(tree: &Tree) -> SandboxConfig {
    tree.dir("image/workspace");
    let mut config = config();
    config.rootfs = TrustedPath::made_up(tree.at("image"));
    config.mounts = vec![mount(tree.dir("work"), "/workspace", false)];
    config
}

#[test]
fn the_image_is_a_directory_of_the_callers() {
    let tree = Tree::new();
    let mut config = made_up(&tree);
    let ours = host(&tree);
    assert_eq!(check_owner(&config, &ours), Ok(()));

    let uid = ours.uid.unwrap();
    let theirs = Host {
        uid: Some(uid + 1),
        ..ours.clone()
    };
    assert_eq!(
        check_owner(&config, &theirs),
        Err(PlanError::ForeignRootfs {
            path: tree.at("image"),
            owner: uid,
            uid: uid + 1,
        })
    );
    // On macOS the image is a marker, and the VM has files of its own.
    let mac = Host {
        platform: Platform::MacOs,
        ..theirs
    };
    assert_eq!(check_owner(&config, &mac), Ok(()));

    config.rootfs = TrustedPath::made_up(tree.file("file", 0o600));
    assert_eq!(
        check_owner(&config, &ours),
        Err(PlanError::BadRootfs {
            path: tree.at("file"),
            reason: "it is not a directory".into(),
        })
    );
    config.rootfs = TrustedPath::made_up(tree.at("gone"));
    assert_eq!(
        check_owner(&config, &ours),
        Err(PlanError::BadRootfs {
            path: tree.at("gone"),
            reason: "No such file or directory (os error 2)".into(),
        })
    );
}

#[test]
fn sources_are_told_apart_and_one_that_is_gone_is_refused() {
    let tree = Tree::new();
    let mut config = made_up(&tree);
    config.mounts.extend([
        mount(tree.file("file", 0o600), "/file", true),
        mount(tree.dir("dir"), "/dir", true),
    ]);
    assert_eq!(source_kinds(&config), Ok(vec![true, false, true]));
    config.mounts.push(mount(tree.at("gone"), "/gone", true));
    assert_eq!(
        source_kinds(&config),
        Err(PlanError::BadMountSource {
            path: tree.at("gone"),
            sandbox_path: PathBuf::from("/gone"),
            reason: "No such file or directory (os error 2)".into(),
        })
    );
}

#[test]
fn mount_points_are_looked_for_as_the_container_would_see_them() {
    let tree = Tree::new();
    let base = made_up(&tree);
    let host = host(&tree);
    tree.dir("image/dir/sub");
    tree.file("image/file", 0o600);
    // In the image's own root, so not to this machine's /dir, nor out of it.
    tree.link("/dir", "image/absolute");
    tree.link("../../../../dir", "image/climbing");
    tree.link("/nowhere", "image/dangling");
    tree.link("loop", "image/loop");

    let look = |place: &str, directory: bool| {
        let mut config = base.clone();
        config.mounts.push(mount("/source", place, true));
        missing_mount_points(&config, &host, &[true, directory])
    };
    for there in [
        "/dir",
        "/dir/sub",
        "/absolute",
        "/absolute/sub",
        "/climbing",
    ] {
        assert_eq!(look(there, true), Ok(vec![]), "{there}");
    }
    assert_eq!(look("/file", false), Ok(vec![]));
    for missing in ["/nothing", "/dir/nothing/deep", "/dangling"] {
        for directory in [true, false] {
            assert_eq!(
                look(missing, directory),
                Ok(vec![PathBuf::from(missing)]),
                "{missing}"
            );
        }
    }
    let not_a_dir = "something that cannot be examined (ENOTDIR: Not a directory)";
    let looping = "something that cannot be examined (ELOOP: Too many symbolic links encountered)";
    for (place, directory, found) in [
        ("/file", true, "a file where a directory is to be mounted"),
        ("/dir", false, "a directory where a file is to be mounted"),
        (
            "/absolute",
            false,
            "a directory where a file is to be mounted",
        ),
        ("/file/below", true, not_a_dir),
        ("/loop", true, looping),
    ] {
        assert_eq!(
            look(place, directory),
            Err(PlanError::BadMountPoint {
                sandbox_path: PathBuf::from(place),
                rootfs: tree.at("image"),
                found: found.into(),
            }),
            "{place}"
        );
    }
}

#[test]
fn on_macos_the_image_is_in_the_vm_and_is_not_looked_at() {
    let tree = Tree::new();
    let mut config = made_up(&tree);
    config.mounts.push(mount("/source", "/nothing", true));
    let mac = Host {
        platform: Platform::MacOs,
        ..host(&tree)
    };
    assert_eq!(
        missing_mount_points(&config, &mac, &[true, true]),
        Ok(vec![])
    );
}

fn laid_out(tree: &Tree, config: &SandboxConfig, host: &Host) -> Result<Plan, PlanError> {
    let layout = Layout {
        state_dir: tree.at("scratch/state"),
        bundles_dir: tree.at("scratch/bundles"),
    };
    let request = Request {
        argv: &["true".into()],
        cwd: None,
        env: &[],
        context: None,
        host_uds: false,
    };
    let id = ContainerId::one_shot("run").unwrap();
    plan(config, host, &layout, id, request)
}

#[test]
fn a_mount_point_that_is_missing_is_taken_by_an_overlay_in_the_bundle() {
    let tree = Tree::new();
    let mut config = made_up(&tree);
    config
        .mounts
        .push(mount(tree.dir("data"), "/data/deep", true));
    let laid_out = laid_out(&tree, &config, &host(&tree)).unwrap();
    let bundle = tree.at("scratch/bundles").join(laid_out.id.as_str());
    assert_eq!(
        laid_out.overlay,
        Some(Overlay {
            lower: tree.at("image"),
            upper: bundle.join("upper"),
            work: bundle.join("work"),
            merged: bundle.join("rootfs"),
            missing: vec![PathBuf::from("/data/deep")],
        })
    );
    let spec: serde_json::Value = serde_json::from_slice(&laid_out.config_json).unwrap();
    assert_eq!(
        spec["root"]["path"].as_str(),
        bundle.join("rootfs").to_str()
    );
    // Nothing was made: neither in the image nor where the plan would write.
    assert_eq!(tree.listing("image"), ["image/workspace"]);
    assert!(!tree.at("scratch").exists());
}

#[test]
fn directfs_is_off_exactly_where_the_kernel_cannot_keep_a_mount_read_only() {
    let tree = Tree::new();
    tree.dir("image/data");
    let mut writable = made_up(&tree);
    writable
        .mounts
        .push(mount(tree.dir("data"), "/data", false));
    let mut read_only = writable.clone();
    read_only.mounts[1].read_only = true;
    let machine = |uid| Host {
        uid: Some(uid),
        platform: Platform::MacOs,
        ..host(&tree)
    };
    let linux = |uid| Host {
        platform: Platform::Linux,
        ..machine(uid)
    };
    let ours = host(&tree).uid.unwrap();
    let off = |config: &SandboxConfig, host: &Host| {
        let laid_out = laid_out(&tree, config, host).unwrap();
        let flag = std::ffi::OsStr::new("--directfs=false");
        let off = laid_out.command.args.iter().any(|arg| arg == flag);
        assert_eq!(
            off,
            laid_out.read_only.len() != config.mounts.iter().filter(|m| m.read_only).count()
        );
        off
    };
    // The image is ours, so on Linux the driver is ours too.
    assert_eq!(off(&read_only, &linux(ours)), ours != 0);
    assert!(!off(&writable, &linux(ours)));
    assert!(off(&read_only, &machine(0)));
    assert!(!off(&writable, &machine(1000)));
    let mut rootless = read_only.clone();
    rootless.rootless = true;
    assert!(!off(&rootless, &linux(ours)));
}

#[test]
fn a_user_namespace_maps_the_caller_and_needs_to_know_who_that_is() {
    let tree = Tree::new();
    let mut config = made_up(&tree);
    let host = host(&tree);
    let user_namespace =
        |config: &SandboxConfig, host: &Host| Ok(laid_out(&tree, config, host)?.user_namespace);
    assert_eq!(user_namespace(&config, &host), Ok(None));
    config.rootless = true;
    let map = IdMap {
        uid: host.uid.unwrap(),
        gid: host.gid.unwrap(),
    };
    assert_eq!(user_namespace(&config, &host), Ok(Some(map)));
    for unknown in [
        Host {
            uid: None,
            ..host.clone()
        },
        Host { gid: None, ..host },
    ] {
        assert_eq!(
            user_namespace(&config, &unknown),
            Err(PlanError::UnknownUser)
        );
    }
}
