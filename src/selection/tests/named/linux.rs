//! A named runsc on Linux.

use nix::errno::Errno;

use super::*;
use crate::config::NetworkMode;
use crate::host::Sysctl;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{Obstacle, Reason, Refusal, Selection};
use crate::settings::{BINARY, NETWORK, POLICY, ROOTFS, Source};

#[test]
fn on_linux() {
    let cases: &[Case] = &[
        ("a home policy", |_| {}, |m| Ok(m.named_selection())),
        (
            "no user, parameter, program or store is looked at",
            |m| {
                m.host.uid = None;
                m.host.path = None;
                let reason = Sysctl::Unreadable("Permission denied".to_owned());
                m.host
                    .sysctls
                    .insert("user.max_user_namespaces".to_owned(), reason);
                m.remove(m.home());
            },
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "everything named",
            |m| {
                m.set(BINARY.variable, "./runsc");
                m.set(ROOTFS.variable, "image");
                m.set(POLICY.variable, "/policy");
                m.set(NETWORK.variable, "host");
            },
            |m| {
                Ok(Selection {
                    runsc: "./runsc".into(),
                    rootfs: m.root().join("cwd/image"),
                    policy: Some("/policy".into()),
                    network: NetworkMode::Host,
                    ..m.named_selection()
                })
            },
        ),
        (
            "no home and no rootfs",
            |m| m.host.home = None,
            |_| refused(Obstacle::NoRootfs),
        ),
        (
            "a relative home and no rootfs",
            |m| m.host.home = Some("home".into()),
            |_| {
                refused(Obstacle::HomeRelative {
                    home: "home".into(),
                })
            },
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
                    policy: None,
                    native_store: None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "a relative home's policy is not passed over",
            |m| {
                m.host.home = Some("../home".into());
                m.directory(m.root().join("cwd"));
                m.set(ROOTFS.variable, "/image");
            },
            |m| {
                Ok(Selection {
                    rootfs: "/image".into(),
                    policy: Some(
                        m.root()
                            .join("cwd/../home/.local/share/runsc-cfc/cfc-policy.json"),
                    ),
                    native_store: None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "an empty rootfs flag is the default, whatever the variable",
            |m| {
                m.flags.sandbox_rootfs = Some("".into());
                m.set(ROOTFS.variable, "/image");
            },
            |m| Ok(m.named_selection()),
        ),
        (
            "an empty policy flag is none",
            |m| m.flags.sandbox_cfc_policy = Some("".into()),
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "an empty policy variable names none",
            |m| m.set(POLICY.variable, " "),
            |m| Ok(m.named_selection()),
        ),
        (
            "no policy anywhere is none",
            |m| m.remove(m.home_policy()),
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "a home policy that cannot be read",
            |m| m.look.unreadable.push(m.home_policy()),
            |m| {
                refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::EACCES),
                })
            },
        ),
        (
            "a home policy that cannot be examined, before another network word",
            |m| {
                m.remove(m.home_policy());
                m.link(m.home_policy(), "cfc-policy.json");
                m.set(NETWORK.variable, "wrong");
            },
            |m| {
                refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::ELOOP),
                })
            },
        ),
        (
            "a relative policy without a working directory",
            |m| {
                m.host.cwd = None;
                m.set(POLICY.variable, "policy.json");
            },
            |_| {
                refused(Obstacle::NoWorkingDirectory {
                    setting: POLICY,
                    value: "policy.json".into(),
                })
            },
        ),
        (
            "network none",
            |m| m.set(NETWORK.variable, "none"),
            |m| {
                Ok(Selection {
                    network: NetworkMode::None,
                    ..m.named_selection()
                })
            },
        ),
        (
            "network bridge is runsc's own stack",
            |m| m.set(NETWORK.variable, "bridge"),
            |m| Ok(m.named_selection()),
        ),
        (
            "another network word",
            |m| m.set(NETWORK.variable, "wrong"),
            |_| {
                Err(Refusal::UnknownNetwork {
                    value: "wrong".into(),
                })
            },
        ),
    ];
    for case in cases {
        for by in [Source::Flag, Source::Environment] {
            check(Machine::linux(1000).naming_runsc(by), *case);
        }
    }
}
