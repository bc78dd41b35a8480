//! The order of policies.

use nix::errno::Errno;

use super::*;
use crate::selection::store::StoreProblem;
use crate::selection::{Obstacle, Reason, Selection};
use crate::settings::{POLICY, VM_HOME};

#[test]
fn the_policy() {
    run(&[
        (
            "the home's comes before the store's",
            |m| m.file(m.home_policy(), 0o644),
            |m| {
                Ok(Selection {
                    policy: Some(m.home_policy()),
                    ..m.default_selection()
                })
            },
        ),
        (
            "the home's stands in for the store's",
            |m| {
                m.file(m.home_policy(), 0o644);
                m.remove(m.store().join("policy.json"));
            },
            |m| {
                Ok(Selection {
                    policy: Some(m.home_policy()),
                    ..m.default_selection()
                })
            },
        ),
        (
            "the variable comes before both",
            |m| {
                m.file(m.home_policy(), 0o644);
                m.set(POLICY.variable, "/policy");
            },
            |m| {
                Ok(Selection {
                    policy: Some("/policy".into()),
                    ..m.default_selection()
                })
            },
        ),
        (
            "the flag before the variable",
            |m| {
                m.set(POLICY.variable, "/policy");
                m.flags.sandbox_cfc_policy = Some("/mine".into());
            },
            |m| {
                Ok(Selection {
                    policy: Some("/mine".into()),
                    ..m.default_selection()
                })
            },
        ),
        (
            "an empty flag is a policy that was named",
            |m| {
                m.remove(m.store().join("policy.json"));
                m.flags.sandbox_cfc_policy = Some("".into());
            },
            |m| {
                Ok(Selection {
                    policy: None,
                    ..m.default_selection()
                })
            },
        ),
        (
            "an empty variable names none",
            |m| m.set(POLICY.variable, ""),
            |m| Ok(m.default_selection()),
        ),
        (
            "none anywhere",
            |m| m.remove(m.store().join("policy.json")),
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "the store's never stands in for an unreadable one of the home",
            |m| {
                m.file(m.home_policy(), 0o644);
                m.look.unreadable.push(m.home_policy());
            },
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::EACCES),
                })
            },
        ),
        (
            "nor for one that cannot be examined, whatever the store lacks",
            |m| {
                m.link(m.home_policy(), "cfc-policy.json");
                m.remove(m.store().join("config.json"));
            },
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.home_policy(),
                    reason: Reason(Errno::ELOOP),
                })
            },
        ),
        (
            "a path through a file reads as none",
            |m| m.file(m.home().join(".local/share/runsc-cfc"), 0o644),
            |m| Ok(m.default_selection()),
        ),
        (
            "a directory in the home's place reads as none",
            |m| m.directory(m.home_policy()),
            |m| Ok(m.default_selection()),
        ),
        (
            "the store's own that this process cannot read",
            |m| m.look.unreadable.push(m.store().join("policy.json")),
            |m| {
                m.refused(Obstacle::PolicyUnreadable {
                    path: m.store().join("policy.json"),
                    reason: Reason(Errno::EACCES),
                })
            },
        ),
        (
            "the store's own behind a link",
            |m| m.move_behind_link(m.store().join("policy.json")),
            |m| Ok(m.default_selection()),
        ),
        (
            "without a home the store's alone is looked for",
            |m| {
                m.set(VM_HOME, m.store());
                m.host.home = None;
                m.remove(m.store().join("policy.json"));
            },
            |m| {
                let looked = vec![m.store().join("policy.json")];
                not_set_up(m, vec![StoreProblem::NoPolicy { looked }])
            },
        ),
    ]);
}
