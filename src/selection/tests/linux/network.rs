//! The network, and what gives it.

use super::*;
use crate::config::NetworkMode;
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{NetworkHelper, Obstacle, Refusal, Selection};
use crate::settings::NETWORK;

#[test]
fn the_network() {
    let cases: &[Case] = &[
        (
            "none",
            |m| m.set(NETWORK.variable, "none"),
            |m| without_helper(m, NetworkMode::None),
        ),
        (
            "bridge is pasta's",
            |m| m.set(NETWORK.variable, "bridge"),
            |m| Ok(m.default_selection()),
        ),
        (
            "white space around it",
            |m| m.set(NETWORK.variable, " bridge "),
            |m| Ok(m.default_selection()),
        ),
        (
            "host",
            |m| m.set(NETWORK.variable, "host"),
            |m| without_helper(m, NetworkMode::Host),
        ),
        (
            "an empty variable names none",
            |m| m.set(NETWORK.variable, " "),
            |m| Ok(m.default_selection()),
        ),
        (
            "another word",
            |m| m.set(NETWORK.variable, "sandbox"),
            |_| {
                Err(Refusal::UnknownNetwork {
                    value: "sandbox".into(),
                })
            },
        ),
        (
            "a word in another case",
            |m| m.set(NETWORK.variable, "Host"),
            |_| {
                Err(Refusal::UnknownNetwork {
                    value: "Host".into(),
                })
            },
        ),
        (
            "the store comes before another word",
            |m| {
                m.set(NETWORK.variable, "sandbox");
                m.remove(m.home_policy());
            },
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "the flag wins over another word",
            |m| {
                m.set(NETWORK.variable, "sandbox");
                m.flags.network = Some(NetworkMode::None);
            },
            |m| without_helper(m, NetworkMode::None),
        ),
        (
            "the flag's sandbox is pasta's",
            |m| {
                m.set(NETWORK.variable, "none");
                m.flags.network = Some(NetworkMode::Sandbox);
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "no pasta",
            |m| m.remove(m.root().join("bin/pasta")),
            |m| m.refused(Obstacle::NoPasta),
        ),
        (
            "no pasta for bridge",
            |m| {
                m.remove(m.root().join("bin/pasta"));
                m.set(NETWORK.variable, "bridge");
            },
            |m| m.refused(Obstacle::NoPasta),
        ),
        (
            "no program at all for none",
            |m| {
                m.host.path = None;
                m.set(NETWORK.variable, "none");
            },
            |m| without_helper(m, NetworkMode::None),
        ),
        (
            "no program at all for host",
            |m| {
                m.host.path = None;
                m.set(NETWORK.variable, "host");
            },
            |m| without_helper(m, NetworkMode::Host),
        ),
        (
            "no PATH",
            |m| m.host.path = None,
            |m| m.refused(Obstacle::NoPasta),
        ),
        (
            "pasta comes before setpriv",
            |m| m.host.path = Some(m.home().into()),
            |m| m.refused(Obstacle::NoPasta),
        ),
        (
            "the store comes before pasta",
            |m| {
                m.host.path = None;
                m.remove(m.home_policy());
            },
            |m| not_set_up(m, vec![no_policy(m)]),
        ),
        (
            "no setpriv",
            |m| m.remove(m.root().join("bin/setpriv")),
            |m| m.refused(Obstacle::NoSetpriv),
        ),
        (
            "an earlier pasta that nobody can execute is passed over",
            |m| {
                m.file(m.root().join("first/pasta"), 0o644);
                let path = format!("{0}/first:{0}/bin", m.root().display());
                m.host.path = Some(path.into());
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "and one that this process cannot, and a directory",
            |m| {
                m.file(m.root().join("first/pasta"), 0o755);
                m.look.unexecutable.push(m.root().join("first/pasta"));
                m.directory(m.root().join("second/pasta"));
                let path = format!("{0}/first:{0}/second:{0}/bin", m.root().display());
                m.host.path = Some(path.into());
            },
            |m| Ok(m.default_selection()),
        ),
        (
            "an empty entry of PATH is the working directory, and a relative one below it",
            |m| {
                m.file(m.root().join("cwd/pasta"), 0o755);
                m.file(m.root().join("cwd/tools/setpriv"), 0o755);
                m.host.path = Some(":tools".into());
            },
            |m| {
                Ok(Selection {
                    helper: Some(NetworkHelper {
                        pasta: m.root().join("cwd/pasta"),
                        setpriv: m.root().join("cwd/tools/setpriv"),
                        unshare: None,
                    }),
                    ..m.default_selection()
                })
            },
        ),
        (
            "without a working directory they hold nothing",
            |m| {
                m.host.path = Some(":bin".into());
                m.host.cwd = None;
            },
            |m| m.refused(Obstacle::NoPasta),
        ),
    ];
    for case in cases {
        check(Machine::linux(1000), *case);
    }
}
