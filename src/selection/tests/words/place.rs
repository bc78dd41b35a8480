//! Where a store is.

use std::sync::Arc;

use super::*;
use crate::selection::macos::STORE;
use crate::selection::{Obstacle, Unresolved};
use crate::trust::{Fault as PathFault, PathError};

#[test]
fn every_obstacle_of_a_place() {
    check([
        (
            default(
                MacOs,
                Obstacle::Architecture {
                    arch: "x86_64".to_owned(),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             its VM runs on Apple silicon alone, this Mac is x86_64, and there is no other \
             runtime; run it on Apple silicon or on Linux",
        ),
        (
            default(Linux, Obstacle::NoHome, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store is under the home, and HOME is not set; set HOME to an absolute path",
        ),
        (
            default(Linux, Obstacle::HomeRelative { home: "h".into() }, true),
            "no sandbox runtime is named, so the default on Linux applies, its native runtime: \
             the store is under the home, and HOME is h, which is not an absolute path; set \
             HOME to an absolute path",
        ),
        (
            default(MacOs, Obstacle::NoHome, true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store is under the home, and HOME is not set; set HOME to an absolute path, or \
             CFC_VM_HOME to the store's",
        ),
        (
            default(MacOs, Obstacle::HomeRelative { home: "h".into() }, true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store is under the home, and HOME is h, which is not an absolute path; set \
             HOME to an absolute path, or CFC_VM_HOME to the store's",
        ),
        (
            named(Obstacle::HomeRelative { home: "h".into() }, true),
            "the store is under the home, and HOME is h, which is not an absolute path; set \
             HOME to an absolute path, or name a rootfs with --sandbox-rootfs or \
             CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            named(Obstacle::HomeRelative { home: "h".into() }, false),
            "the store is under the home, and HOME is h, which is not an absolute path; set \
             HOME to an absolute path, or name a rootfs with CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            named(Obstacle::NoRootfs, true),
            "no rootfs is named, and there is no home to have a default under; name a rootfs \
             with --sandbox-rootfs or CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            named(Obstacle::NoRootfs, false),
            "no rootfs is named, and there is no home to have a default under; name a rootfs \
             with CF_HARNESS_SANDBOX_ROOTFS",
        ),
        (
            default(MacOs, Obstacle::StoreRelative { store: "vm".into() }, true),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             CFC_VM_HOME is vm, which is not an absolute path; set CFC_VM_HOME to the \
             store's absolute path",
        ),
        (
            named(Obstacle::StoreRelative { store: "vm".into() }, true),
            "CFC_VM_HOME is vm, which is not an absolute path; set CFC_VM_HOME to the \
             store's absolute path",
        ),
        (
            default(
                MacOs,
                Obstacle::StoreElsewhere {
                    given: "/vm".into(),
                    resolved: "/real".into(),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the store /vm is really at /real, and the macOS runsc knows its images by its \
             store's path as given; set CFC_VM_HOME to /real",
        ),
        (
            default(
                MacOs,
                Obstacle::StoreUnresolved {
                    reason: Unresolved(Arc::new(PathError {
                        setting: STORE.to_owned(),
                        path: "/vm".into(),
                        fault: PathFault::DanglingLink { link: "/vm".into() },
                    })),
                },
                true,
            ),
            "no sandbox runtime is named, so the default on macOS applies, its native runtime: \
             the macOS store /vm leads through the link /vm, whose target is missing: whoever \
             makes the target decides where the path leads; set CFC_VM_HOME to a path that \
             leads to the store",
        ),
    ]);
}
