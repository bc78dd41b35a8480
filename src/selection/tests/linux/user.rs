//! Root, or a user who may make a user namespace.

use super::*;
use crate::config::NetworkMode;
use crate::host::Sysctl;
use crate::selection::linux::PARAMETERS;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{NamespaceNeed, Obstacle};
use crate::settings::{BINARY, NETWORK};

#[test]
fn for_a_user() {
    let cases: &[Case] = &[
        ("a whole store", |_| {}, |m| Ok(m.default_selection())),
        (
            "the parameters at values that forbid nothing",
            |m| {
                m.sysctl(MAX, "1");
                m.sysctl(CLONE, "1");
                m.sysctl(APPARMOR, "0");
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "no user namespaces at all",
            |m| m.sysctl(MAX, "0"),
            |m| forbidden(m, NamespaceNeed::Runsc, 0),
        ),
        (
            "none for anybody but root",
            |m| m.sysctl(CLONE, "0"),
            |m| forbidden(m, NamespaceNeed::Runsc, 1),
        ),
        (
            "AppArmor",
            |m| m.sysctl(APPARMOR, "1"),
            |m| forbidden(m, NamespaceNeed::Runsc, 2),
        ),
        (
            "the first parameter comes before the others",
            |m| {
                m.sysctl(APPARMOR, "1");
                m.sysctl(CLONE, "0");
                m.sysctl(MAX, "0");
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 0),
        ),
        (
            "the second before the third",
            |m| {
                m.sysctl(APPARMOR, "1");
                m.sysctl(CLONE, "0");
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 1),
        ),
        (
            "a parameter comes before the store",
            |m| {
                m.sysctl(APPARMOR, "1");
                m.remove(m.home());
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 2),
        ),
        (
            "a parameter comes before the home",
            |m| {
                m.sysctl(MAX, "0");
                m.host.home = None;
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 0),
        ),
        (
            "network none does not lift a parameter, since runsc is rootless",
            |m| {
                m.sysctl(MAX, "0");
                m.set(NETWORK.variable, "none");
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 0),
        ),
        (
            "nor does network host",
            |m| {
                m.sysctl(MAX, "0");
                m.set(NETWORK.variable, "host");
            },
            |m| forbidden(m, NamespaceNeed::Runsc, 0),
        ),
        (
            "a parameter that cannot be read",
            |m| {
                let reason = Sysctl::Unreadable("Permission denied".to_owned());
                m.host.sysctls.insert(CLONE.to_owned(), reason);
                m.sysctl(APPARMOR, "1");
            },
            |m| {
                m.refused(Obstacle::NamespaceUnknown {
                    uid: 1000,
                    need: NamespaceNeed::Runsc,
                    parameter: PARAMETERS[1],
                    reason: "Permission denied".to_owned(),
                })
            },
        ),
        (
            "no user id",
            |m| m.host.uid = None,
            |m| {
                m.refused(Obstacle::UserUnknown {
                    need: NamespaceNeed::Runsc,
                })
            },
        ),
        (
            "no user id, before the parameters and the store",
            |m| {
                m.host.uid = None;
                m.host.home = None;
                m.sysctl(MAX, "0");
            },
            |m| {
                m.refused(Obstacle::UserUnknown {
                    need: NamespaceNeed::Runsc,
                })
            },
        ),
        (
            "root's unshare is not looked for",
            |m| m.remove(m.root().join("bin/unshare")),
            |m| Ok(m.default_selection()),
        ),
    ];
    for case in cases {
        check(Machine::linux(1000), *case);
    }
}

#[test]
fn for_root() {
    let cases: &[Case] = &[
        ("a whole store", |_| {}, |m| Ok(m.default_selection())),
        (
            "no parameter is looked at",
            |m| {
                m.sysctl(MAX, "0");
                m.sysctl(CLONE, "0");
                let reason = Sysctl::Unreadable("Permission denied".to_owned());
                m.host.sysctls.insert(APPARMOR.to_owned(), reason);
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "no unshare",
            |m| m.remove(m.root().join("bin/unshare")),
            |m| m.refused(Obstacle::NoUnshare),
        ),
        (
            "no unshare, and none needed",
            |m| {
                m.remove(m.root().join("bin/unshare"));
                m.set(NETWORK.variable, "host");
            },
            |m| without_helper(m, NetworkMode::Host),
        ),
        (
            "no setpriv",
            |m| m.remove(m.root().join("bin/setpriv")),
            |m| m.refused(Obstacle::NoSetpriv),
        ),
        (
            "a named binary",
            |m| m.set(BINARY.variable, "my-runsc"),
            |m| Ok(own_binary(m)),
        ),
    ];
    for case in cases {
        check(Machine::linux(0), *case);
    }
}
