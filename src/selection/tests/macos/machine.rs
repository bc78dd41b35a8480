//! The processor and the network.

use super::*;
use crate::config::NetworkMode;
use crate::host::Sysctl;
use crate::selection::store::Fault;
use crate::selection::{Obstacle, Refusal, Selection};
use crate::settings::{NETWORK, VM_HOME};

#[test]
fn the_machine() {
    run(&[
        ("a whole store", |_| {}, |m| Ok(m.default_selection())),
        (
            "another processor",
            |m| m.host.arch = "x86_64".to_owned(),
            |m| {
                m.refused(Obstacle::Architecture {
                    arch: "x86_64".to_owned(),
                })
            },
        ),
        (
            "another processor, before anything else is looked at",
            |m| {
                m.host.arch = "x86_64".to_owned();
                m.host.home = None;
                m.set(VM_HOME, "relative");
                m.set(NETWORK.variable, "wrong");
                m.flags.sandbox_rootfs = Some("".into());
            },
            |m| {
                m.refused(Obstacle::Architecture {
                    arch: "x86_64".to_owned(),
                })
            },
        ),
        (
            "the user, the parameters and the programs are Linux's alone",
            |m| {
                m.host.uid = None;
                m.host.path = None;
                let reason = Sysctl::Unreadable("Permission denied".to_owned());
                m.host
                    .sysctls
                    .insert("user.max_user_namespaces".to_owned(), reason);
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "root is not special",
            |m| m.host.uid = Some(0),
            |m| Ok(m.default_selection()),
        ),
        (
            "network none",
            |m| m.set(NETWORK.variable, "none"),
            |m| {
                Ok(Selection {
                    network: NetworkMode::None,
                    ..m.default_selection()
                })
            },
        ),
        (
            "network bridge",
            |m| m.set(NETWORK.variable, "bridge"),
            |m| Ok(m.default_selection()),
        ),
        (
            "network host",
            |m| m.set(NETWORK.variable, "host"),
            |m| {
                Ok(Selection {
                    network: NetworkMode::Host,
                    ..m.default_selection()
                })
            },
        ),
        (
            "another word for the network",
            |m| m.set(NETWORK.variable, "vmnet"),
            |_| {
                Err(Refusal::UnknownNetwork {
                    value: "vmnet".into(),
                })
            },
        ),
        (
            "the store comes before another word",
            |m| {
                m.set(NETWORK.variable, "vmnet");
                m.remove(m.store().join("config.json"));
            },
            |m| lacks(m, CONFIG, Fault::Missing),
        ),
    ]);
}
