//! What this process may do.

use nix::libc;

use super::{judged, says};
use crate::doctor::gather::ask::Reading;
use crate::doctor::gather::machine::Machine;
use crate::doctor::gather::probe::UserNamespace;
use crate::doctor::judge::rights;
use crate::doctor::{Name, State};
use crate::host::Sysctl;
use crate::selection::PARAMETERS;

#[test]
fn users() {
    let cases: [(Option<u32>, State, &str, &[&str]); 3] = [
        (
            Some(0),
            State::Pass,
            "uid 0: the store's runsc runs as root",
            &[],
        ),
        (
            Some(7),
            State::Pass,
            "uid 7: the store's runsc runs rootless",
            &[],
        ),
        (
            None,
            State::Fail,
            "not known",
            &["user id of this process cannot be told"],
        ),
    ];
    for (uid, state, value, words) in cases {
        let said = judged(|to| rights::user(to, uid));
        says(&said, Name::User, state, value, words);
    }
}

#[test]
fn parameters() {
    let [most, clone, apparmor] = PARAMETERS;
    let value = |text: &str| Sysctl::Value(text.to_owned());
    let unreadable = || Sysctl::Unreadable("denied".to_owned());
    let (max, cloned, armor) = (
        Name::MaxUserNamespaces,
        Name::UnprivilegedUsernsClone,
        Name::ApparmorUserns,
    );
    let cases: [(Name, _, Sysctl, u32, State, &str, &[&str]); 13] = [
        (max, most, value("15000"), 7, State::Pass, "15000", &[]),
        (
            max,
            most,
            Sysctl::Absent,
            7,
            State::Pass,
            "not in this kernel",
            &[],
        ),
        (
            max,
            most,
            value("0"),
            7,
            State::Fail,
            "0",
            &[
                "nobody can make",
                "sudo sysctl -w user.max_user_namespaces=15000",
                "run as root",
            ],
        ),
        (
            max,
            most,
            value("0"),
            0,
            State::Fail,
            "0",
            &[
                "root's runsc makes one too",
                "sudo sysctl -w user.max_user_namespaces=15000",
            ],
        ),
        (
            max,
            most,
            unreadable(),
            7,
            State::Fail,
            "not known: denied",
            &["could not be read"],
        ),
        (
            max,
            most,
            unreadable(),
            0,
            State::Info,
            "not known: denied",
            &[],
        ),
        (cloned, clone, value("1"), 7, State::Pass, "1", &[]),
        (
            cloned,
            clone,
            value("0"),
            7,
            State::Fail,
            "0",
            &["only root", "sysctl -w kernel.unprivileged_userns_clone=1"],
        ),
        (
            cloned,
            clone,
            value("0"),
            0,
            State::Pass,
            "0, which root may",
            &[],
        ),
        (armor, apparmor, value("0"), 7, State::Pass, "0", &[]),
        (
            armor,
            apparmor,
            value("1"),
            7,
            State::Fail,
            "1",
            &["AppArmor", "kernel.apparmor_restrict_unprivileged_userns=0"],
        ),
        (
            armor,
            apparmor,
            value("1"),
            0,
            State::Pass,
            "1, which root may",
            &[],
        ),
        (
            armor,
            apparmor,
            unreadable(),
            0,
            State::Info,
            "not known: denied",
            &[],
        ),
    ];
    for (name, parameter, found, uid, state, value, words) in cases {
        let said = judged(|to| rights::sysctl(to, name, parameter, &found, Some(uid)));
        says(&said, name, state, value, words);
    }
}

#[test]
fn a_user_namespace_by_making_one() {
    let not_made =
        |errno| Reading::Known(UserNamespace::NotMade(errno, format!("os error {errno}")));
    let cases: [(Reading<UserNamespace>, Option<u8>, State, &str, &[&str]); 8] = [
        (
            Reading::Known(UserNamespace::Works),
            Some(2),
            State::Pass,
            "made one, with a mount in it",
            &[],
        ),
        (
            not_made(libc::EPERM),
            Some(2),
            State::Fail,
            "forbidden",
            &["a seccomp filter is over it", "seccomp=PROFILE"],
        ),
        (
            not_made(libc::EPERM),
            Some(0),
            State::Fail,
            "forbidden",
            &["see `sysctl user.max"],
        ),
        (
            not_made(libc::ENOSPC),
            Some(2),
            State::Fail,
            "forbidden",
            &["see `sysctl user.max"],
        ),
        (
            Reading::Known(UserNamespace::Powerless("denied".into())),
            None,
            State::Fail,
            "made one, without rights",
            &[
                "no right to mount in it (denied)",
                "AppArmor profile with `userns,`",
            ],
        ),
        (
            Reading::Known(UserNamespace::Other("odd".into())),
            None,
            State::Info,
            "not known: odd",
            &[],
        ),
        (Reading::Skipped, None, State::Info, "not probed", &[]),
        (
            Reading::Unknown("no true".into()),
            None,
            State::Info,
            "not known: no true",
            &[],
        ),
    ];
    for (probe, seccomp, state, value, words) in cases {
        let said = judged(|to| rights::user_namespace(to, &probe, seccomp));
        says(&said, Name::UserNamespaces, state, value, words);
    }
}

#[test]
fn a_parameter_tells_for_the_namespace_that_it_forbids() {
    let said = judged(|to| {
        let forbidden = Sysctl::Value("0".to_owned());
        rights::sysctl(
            to,
            Name::MaxUserNamespaces,
            PARAMETERS[0],
            &forbidden,
            Some(7),
        );
        let probe = UserNamespace::NotMade(libc::ENOSPC, "no space".to_owned());
        rights::user_namespace(to, &Reading::Known(probe), Some(0));
    });
    let told: Vec<_> = said.problems.iter().map(|problem| problem.check).collect();
    assert_eq!(told, [Name::MaxUserNamespaces]);
}

#[test]
fn capabilities() {
    let all = [
        "CAP_SETGID",
        "CAP_SETPCAP",
        "CAP_SETUID",
        "CAP_SYS_CHROOT",
        "CAP_SYS_PTRACE",
        "CAP_SYS_ADMIN",
    ];
    let held = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned());
        Some(Ok(names.collect()))
    };
    let cases: [(_, u32, State, &str, &[&str]); 6] = [
        (held(&all), 0, State::Pass, "6 held", &[]),
        (
            held(&all[..5]),
            0,
            State::Fail,
            "without CAP_SYS_ADMIN",
            &["root without CAP_SYS_ADMIN", "as an ordinary user"],
        ),
        (
            held(&all[2..]),
            0,
            State::Warn,
            "without CAP_SETGID, CAP_SETPCAP",
            &["CAP_SETGID, CAP_SETPCAP"],
        ),
        (held(&[]), 7, State::Pass, "none is needed: not root", &[]),
        (
            Some(Err("odd".to_owned())),
            0,
            State::Info,
            "not known: odd",
            &[],
        ),
        (None, 0, State::Info, "not known", &[]),
    ];
    for (capabilities, uid, state, value, words) in cases {
        let machine = Machine {
            capabilities,
            ..Machine::default()
        };
        let said = judged(|to| rights::capabilities(to, Some(uid), &machine));
        says(&said, Name::Capabilities, state, value, words);
    }
}

#[test]
fn seccomp_selinux_and_yama() {
    let filters = [
        (None, State::Info, "not known"),
        (Some(0), State::Pass, "no filter"),
        (Some(2), State::Info, "a filter is over this process"),
    ];
    for (mode, state, value) in filters {
        let said = judged(|to| rights::seccomp(to, mode));
        says(&said, Name::Seccomp, state, value, &[]);
    }
    let selinux: [(Option<&str>, State, &str, &[&str]); 3] = [
        (None, State::Pass, "not in this kernel", &[]),
        (Some("0"), State::Pass, "not enforcing", &[]),
        (
            Some("1"),
            State::Warn,
            "enforcing",
            &["SELinux enforces", "ausearch"],
        ),
    ];
    for (enforce, state, value, words) in selinux {
        let said = judged(|to| rights::selinux(to, enforce));
        says(&said, Name::Selinux, state, value, words);
    }
    let yama: [(Option<&str>, State, &str, &[&str]); 6] = [
        (None, State::Pass, "not in this kernel", &[]),
        (Some("0"), State::Pass, "0", &[]),
        (Some("1"), State::Pass, "1", &[]),
        (
            Some("2"),
            State::Warn,
            "2",
            &["ptrace_scope is 2", "ptrace_scope=1"],
        ),
        (Some("3"), State::Fail, "3", &["ptrace_scope is 3", "boot"]),
        (Some("9"), State::Info, "9", &[]),
    ];
    for (scope, state, value, words) in yama {
        let said = judged(|to| rights::yama(to, scope));
        says(&said, Name::Yama, state, value, words);
    }
}
