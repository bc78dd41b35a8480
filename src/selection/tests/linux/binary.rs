//! A binary that is named beside the default.

use super::*;
use crate::config::NetworkMode;
use crate::host::Sysctl;
use crate::selection::linux::PARAMETERS;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{NamespaceNeed, Obstacle, Selection};
use crate::settings::{BINARY, NETWORK, POLICY, ROOTFS};

#[test]
fn a_named_binary() {
    let cases: &[Case] = &[
        (
            "is not looked for in the store and not run rootless",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.remove(m.store().join("bin"));
            },
            |m| Ok(own_binary(m)),
        ),
        (
            "still has pasta make a user namespace",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.sysctl(APPARMOR, "1");
            },
            |m| forbidden(m, NamespaceNeed::Pasta, 2),
        ),
        (
            "and that is checked after the store",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.sysctl(APPARMOR, "1");
                m.remove(m.home_policy());
            },
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "and after setpriv",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.sysctl(APPARMOR, "1");
                m.remove(m.root().join("bin/setpriv"));
            },
            |m| m.refused(Obstacle::NoSetpriv),
        ),
        (
            "with a parameter that cannot be read",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                let reason = Sysctl::Unreadable("Permission denied".to_owned());
                m.host.sysctls.insert(MAX.to_owned(), reason);
            },
            |m| {
                m.refused(Obstacle::NamespaceUnknown {
                    uid: 1000,
                    need: NamespaceNeed::Pasta,
                    parameter: PARAMETERS[0],
                    reason: "Permission denied".to_owned(),
                })
            },
        ),
        (
            "with a user id that cannot be read",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.host.uid = None;
            },
            |m| {
                m.refused(Obstacle::UserUnknown {
                    need: NamespaceNeed::Pasta,
                })
            },
        ),
        (
            "on network none needs no namespace",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.set(NETWORK.variable, "none");
                m.sysctl(MAX, "0");
            },
            |m| {
                Ok(Selection {
                    network: NetworkMode::None,
                    helper: None,
                    ..own_binary(m)
                })
            },
        ),
        (
            "on network host needs no namespace and no user id",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.set(NETWORK.variable, "host");
                m.host.uid = None;
            },
            |m| {
                Ok(Selection {
                    network: NetworkMode::Host,
                    helper: None,
                    ..own_binary(m)
                })
            },
        ),
        (
            "still needs a home",
            |m| {
                m.set(BINARY.variable, "my-runsc");
                m.set(ROOTFS.variable, "/image");
                m.set(POLICY.variable, "/policy");
                m.host.home = None;
            },
            |m| m.refused(Obstacle::NoHome),
        ),
    ];
    for case in cases {
        check(Machine::linux(1000), *case);
    }
}
