//! Where the store is.

use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;

use super::*;
use crate::selection::macos::STORE;
use crate::selection::tests::support::Machine;
use crate::selection::{Obstacle, Refusal, Selection, Unresolved};
use crate::settings::VM_HOME;
use crate::trust::{Fault as PathFault, PathError};

/// The refusal of a store whose path, as given, has this fault.
fn unresolved(machine: &Machine, path: PathBuf, fault: PathFault) -> Result<Selection, Refusal> {
    let setting = STORE.to_owned();
    machine.refused(Obstacle::StoreUnresolved {
        reason: Unresolved(Arc::new(PathError {
            setting,
            path,
            fault,
        })),
    })
}

#[test]
fn where_the_store_is() {
    run(&[
        (
            "no home",
            |m| m.host.home = None,
            |m| m.refused(Obstacle::NoHome),
        ),
        (
            "a relative home",
            |m| m.host.home = Some("home".into()),
            |m| {
                m.refused(Obstacle::HomeRelative {
                    home: "home".into(),
                })
            },
        ),
        (
            "CFC_VM_HOME names another place, and no home is needed",
            |m| {
                std::fs::rename(m.store(), m.root().join("vm")).unwrap();
                m.set(VM_HOME, m.root().join("vm"));
                m.host.home = None;
            },
            |m| Ok(at(m.root().join("vm"), m)),
        ),
        (
            "an empty CFC_VM_HOME names none",
            |m| m.set(VM_HOME, ""),
            |m| Ok(m.default_selection()),
        ),
        (
            "a relative CFC_VM_HOME",
            |m| m.set(VM_HOME, "vm"),
            |m| m.refused(Obstacle::StoreRelative { store: "vm".into() }),
        ),
        (
            "CFC_VM_HOME is not expanded",
            |m| m.set(VM_HOME, "~/vm"),
            |m| {
                m.refused(Obstacle::StoreRelative {
                    store: "~/vm".into(),
                })
            },
        ),
        (
            "nor trimmed, since the macOS runsc does not",
            |m| m.set(VM_HOME, " /vm"),
            |m| {
                m.refused(Obstacle::StoreRelative {
                    store: " /vm".into(),
                })
            },
        ),
        (
            "slashes and dots that say nothing",
            |m| {
                let store = m.store();
                let given = format!("/{}//./x/..//", store.display());
                m.directory(store.join("x"));
                m.set(VM_HOME, given);
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "a store behind a link",
            |m| {
                m.move_behind_link(m.store());
                m.set(VM_HOME, m.store());
            },
            |m| {
                m.refused(Obstacle::StoreElsewhere {
                    given: m.store(),
                    resolved: m.root().join("moved"),
                })
            },
        ),
        (
            "a store behind a link, by its real path",
            |m| {
                m.move_behind_link(m.store());
                m.set(VM_HOME, m.root().join("moved"));
            },
            |m| Ok(at(m.root().join("moved"), m)),
        ),
        (
            "a home behind a link",
            |m| m.move_behind_link(m.home()),
            |m| {
                m.refused(Obstacle::StoreElsewhere {
                    given: m.store(),
                    resolved: m.root().join("moved/Library/Application Support/cfc-vm"),
                })
            },
        ),
        (
            "a `..` leaves the directory that a link led to",
            |m| {
                m.directory(m.root().join("far/away"));
                m.link(m.root().join("near"), m.root().join("far/away"));
                m.set(VM_HOME, m.root().join("near/../vm"));
            },
            |m| {
                m.refused(Obstacle::StoreElsewhere {
                    given: m.root().join("near/../vm"),
                    resolved: m.root().join("far/vm"),
                })
            },
        ),
        (
            "a link to nothing",
            |m| {
                m.link(m.root().join("vm"), "nowhere");
                m.set(VM_HOME, m.root().join("vm"));
            },
            |m| {
                let link = m.root().join("vm");
                unresolved(m, link.clone(), PathFault::DanglingLink { link })
            },
        ),
        (
            "a loop of links",
            |m| {
                m.link(m.root().join("vm"), "vm2");
                m.link(m.root().join("vm2"), "vm");
                m.set(VM_HOME, m.root().join("vm"));
            },
            |m| unresolved(m, m.root().join("vm"), PathFault::TooManyLinks),
        ),
        (
            "a path through a file",
            |m| {
                m.file(m.root().join("file"), 0o644);
                m.set(VM_HOME, m.root().join("file/vm"));
            },
            |m| {
                let at = m.root().join("file/vm");
                let reason = Errno::ENOTDIR.into();
                unresolved(m, at.clone(), PathFault::NotExamined { at, reason })
            },
        ),
        (
            "a `..` after a file",
            |m| {
                m.file(m.root().join("file"), 0o644);
                m.set(VM_HOME, m.root().join("file/../vm"));
            },
            |m| {
                let fault = PathFault::DotsAfterFile {
                    reached: m.root().join("file"),
                    dots: "..",
                };
                unresolved(m, m.root().join("file/../vm"), fault)
            },
        ),
        (
            "a `..` after what is not there",
            |m| m.set(VM_HOME, m.root().join("none/../vm")),
            |m| {
                let fault = PathFault::DotsAfterMissing {
                    missing: m.root().join("none"),
                    dots: "..",
                };
                unresolved(m, m.root().join("none/../vm"), fault)
            },
        ),
        (
            "a name that the system does not look up",
            |m| m.set(VM_HOME, m.root().join("x".repeat(300))),
            |m| {
                let at = m.root().join("x".repeat(300));
                let reason = Errno::ENAMETOOLONG.into();
                unresolved(m, at.clone(), PathFault::NotExamined { at, reason })
            },
        ),
        (
            "the store's path comes before the rootfs, the policy and the pieces",
            |m| {
                m.move_behind_link(m.store());
                m.flags.sandbox_rootfs = Some("".into());
                m.look.unreadable.push(m.home_policy());
                m.remove(m.root().join("moved/config.json"));
            },
            |m| {
                m.refused(Obstacle::StoreElsewhere {
                    given: m.store(),
                    resolved: m.root().join("moved"),
                })
            },
        ),
    ]);
}
