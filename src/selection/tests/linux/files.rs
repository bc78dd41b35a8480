//! The rootfs and the policy.

use nix::errno::Errno;

use super::*;
use crate::selection::store::Fault;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{Obstacle, Reason, Selection};
use crate::settings::{POLICY, ROOTFS};

#[test]
fn the_rootfs_and_the_policy() {
    let cases: &[Case] = &[
        (
            "a named rootfs is not looked for in the store",
            |m| {
                m.set(ROOTFS.variable, "/image");
                m.remove(m.store().join("images"));
            },
            |m| {
                Ok(Selection {
                    rootfs: "/image".into(),
                    ..m.default_selection()
                })
            },
        ),
        (
            "a relative rootfs is below the working directory, unfolded",
            |m| m.flags.sandbox_rootfs = Some("a/../image".into()),
            |m| {
                Ok(Selection {
                    rootfs: m.root().join("cwd/a/../image"),
                    ..m.default_selection()
                })
            },
        ),
        (
            "one that opens with a tilde is left for the trust check to refuse",
            |m| m.flags.sandbox_rootfs = Some("~/image".into()),
            |m| {
                Ok(Selection {
                    rootfs: "~/image".into(),
                    ..m.default_selection()
                })
            },
        ),
        (
            "a relative rootfs without a working directory",
            |m| {
                m.set(ROOTFS.variable, "image");
                m.host.cwd = None;
            },
            |m| {
                m.refused(Obstacle::NoWorkingDirectory {
                    setting: ROOTFS,
                    value: "image".into(),
                })
            },
        ),
        (
            "an empty rootfs flag",
            |m| m.flags.sandbox_rootfs = Some(" ".into()),
            |m| m.refused(Obstacle::EmptyRootfs),
        ),
        (
            "an empty rootfs flag, before the policy and the pieces",
            |m| {
                m.flags.sandbox_rootfs = Some("".into());
                m.set(ROOTFS.variable, "/image");
                m.look.unreadable.push(m.home_policy());
                m.remove(m.store().join("bin"));
            },
            |m| m.refused(Obstacle::EmptyRootfs),
        ),
        (
            "an empty rootfs variable names none",
            |m| m.set(ROOTFS.variable, ""),
            |m| Ok(m.default_selection()),
        ),
        (
            "a named policy",
            |m| {
                m.set(POLICY.variable, "/policy");
                m.remove(m.home_policy());
            },
            |m| {
                Ok(Selection {
                    policy: Some("/policy".into()),
                    ..m.default_selection()
                })
            },
        ),
        (
            "a policy flag over the variable",
            |m| {
                m.set(POLICY.variable, "/policy");
                m.flags.sandbox_cfc_policy = Some("mine.json".into());
            },
            |m| {
                Ok(Selection {
                    policy: Some(m.root().join("cwd/mine.json")),
                    ..m.default_selection()
                })
            },
        ),
        (
            "a relative policy without a working directory",
            |m| {
                m.set(POLICY.variable, "mine.json");
                m.host.cwd = None;
            },
            |m| {
                m.refused(Obstacle::NoWorkingDirectory {
                    setting: POLICY,
                    value: "mine.json".into(),
                })
            },
        ),
        (
            "an empty policy flag is a policy that was named",
            |m| {
                m.flags.sandbox_cfc_policy = Some("".into());
                m.remove(m.home_policy());
            },
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.default_selection()
                })
            },
        ),
        (
            "an empty policy flag over one that is there, and unreadable",
            |m| {
                m.flags.sandbox_cfc_policy = Some("".into());
                m.set(POLICY.variable, "/policy");
                m.look.unreadable.push(m.home_policy());
            },
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.default_selection()
                })
            },
        ),
        (
            "an empty policy variable names none",
            |m| m.set(POLICY.variable, ""),
            |m| Ok(m.default_selection()),
        ),
        (
            "no policy",
            |m| m.remove(m.home_policy()),
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "a directory for the policy is none",
            |m| {
                m.remove(m.home_policy());
                m.directory(m.home_policy());
            },
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "a policy behind a link",
            |m| m.move_behind_link(m.home_policy()),
            |m| Ok(m.default_selection()),
        ),
        (
            "a link to nothing for the policy is none",
            |m| {
                m.remove(m.home_policy());
                m.link(m.home_policy(), "/nowhere");
            },
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "a loop of links for the policy",
            |m| {
                m.remove(m.home_policy());
                m.link(m.home_policy(), "cfc-policy.json");
            },
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::ELOOP),
                })
            },
        ),
        (
            "a policy that cannot be opened, before the pieces",
            |m| {
                m.look.unreadable.push(m.home_policy());
                m.remove(m.store().join("bin"));
            },
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::EACCES),
                })
            },
        ),
        (
            "a policy that cannot be examined",
            |m| m.look.unexaminable.push(m.home_policy()),
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::EACCES),
                })
            },
        ),
        (
            "a home that is a file: nothing can be under it",
            |m| {
                m.remove(m.home());
                m.file(m.home(), 0o644);
            },
            |m| {
                let fault = || Fault::Unexaminable(Reason(Errno::ENOTDIR));
                let pieces = [piece(0, fault()), piece(1, fault())];
                not_set_up(m, pieces.into_iter().chain([no_policy(m)]).collect())
            },
        ),
    ];
    for case in cases {
        check(Machine::linux(1000), *case);
    }
}
