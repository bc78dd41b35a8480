//! A named runsc on macOS and elsewhere.

use super::*;
use crate::host::Platform;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{Obstacle, Selection};
use crate::settings::{Entrypoint, ROOTFS, Source, VM_HOME};

#[test]
fn on_macos() {
    let cases: &[Case] = &[
        (
            "never the store's own policy",
            |_| {},
            |m| Ok(m.named_selection()),
        ),
        (
            "the home's policy",
            |m| m.file(m.home_policy(), 0o644),
            |m| {
                Ok(Selection {
                    policy: Some(m.home_policy()),
                    ..m.named_selection()
                })
            },
        ),
        (
            "no processor or store is looked at",
            |m| {
                m.host.arch = "x86_64".to_owned();
                m.remove(m.home());
            },
            |m| Ok(m.named_selection()),
        ),
        (
            "a store behind a link is the driver's to resolve",
            |m| m.move_behind_link(m.store()),
            |m| Ok(m.named_selection()),
        ),
        (
            "the image of the store that CFC_VM_HOME names",
            |m| m.set(VM_HOME, "/vm"),
            |m| {
                Ok(Selection {
                    rootfs: "/vm/images/kitchensink".into(),
                    native_store: Some("/vm".into()),
                    ..m.named_selection()
                })
            },
        ),
        (
            "a relative CFC_VM_HOME, even where a rootfs is named",
            |m| {
                m.set(VM_HOME, "vm");
                m.set(ROOTFS.variable, "/image");
            },
            |_| refused(Obstacle::StoreRelative { store: "vm".into() }),
        ),
        (
            "a relative home, for the same reason",
            |m| {
                m.host.home = Some("home".into());
                m.set(ROOTFS.variable, "/image");
            },
            |_| {
                refused(Obstacle::HomeRelative {
                    home: "home".into(),
                })
            },
        ),
        (
            "no home and no rootfs",
            |m| m.host.home = None,
            |_| refused(Obstacle::NoRootfs),
        ),
        (
            "no home and a rootfs",
            |m| {
                m.host.home = None;
                m.set(ROOTFS.variable, "/image");
            },
            |m| {
                Ok(Selection {
                    rootfs: "/image".into(),
                    native_store: None,
                    ..m.named_selection()
                })
            },
        ),
    ];
    for case in cases {
        for by in [Source::Flag, Source::Environment] {
            check(Machine::macos().naming_runsc(by), *case);
        }
    }
}

#[test]
fn on_another_platform_a_named_runsc_needs_a_rootfs() {
    let mut machine = Machine::linux(1000).naming_runsc(Source::Flag);
    machine.host.platform = Platform::Other("freebsd".to_owned());
    assert_eq!(
        machine.select(&Entrypoint::BATCH),
        refused(Obstacle::NoRootfs)
    );
    machine.set(ROOTFS.variable, "/image");
    assert_eq!(
        machine.select(&Entrypoint::BATCH),
        Ok(Selection {
            rootfs: "/image".into(),
            native_store: None,
            ..machine.named_selection()
        })
    );
}
