//! What this process may do.

use nix::libc;

use crate::doctor::Name;
use crate::doctor::gather::ask::Reading;
use crate::doctor::gather::machine::Machine;
use crate::doctor::gather::probe::UserNamespace;
use crate::doctor::report::{Findings, Words};
use crate::host::{Host, Sysctl};
use crate::selection::{NamespaceNeed, Native, Obstacle, PARAMETERS, Parameter};

/// What root's runsc cannot be without.
const NEEDED: &str = "CAP_SYS_ADMIN";
/// What it uses beside that.
const USED: [&str; 5] = [
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
];
const SYSCTLS: [Name; 3] = [
    Name::MaxUserNamespaces,
    Name::UnprivilegedUsernsClone,
    Name::ApparmorUserns,
];
const FILTER: u8 = 2;

pub(super) fn judge(
    to: &mut Findings,
    host: &Host,
    machine: &Machine,
    namespace: &Reading<UserNamespace>,
) {
    user(to, host.uid);
    for (name, parameter) in SYSCTLS.into_iter().zip(PARAMETERS) {
        sysctl(to, name, parameter, host.sysctl(parameter.name), host.uid);
    }
    user_namespace(to, namespace, machine.seccomp);
    capabilities(to, host.uid, machine);
    seccomp(to, machine.seccomp);
    selinux(to, machine.selinux.as_deref());
    yama(to, machine.ptrace_scope.as_deref());
}

pub(super) fn user(to: &mut Findings, uid: Option<u32>) {
    match uid {
        None => to.fail(
            Name::User,
            "not known",
            super::obstacle(
                Native::Linux,
                Obstacle::UserUnknown {
                    need: NamespaceNeed::Runsc,
                },
            ),
        ),
        Some(0) => to.pass(Name::User, "uid 0: the store's runsc runs as root"),
        Some(uid) => to.pass(
            Name::User,
            format!("uid {uid}: the store's runsc runs rootless"),
        ),
    }
}

/// Root is bound by the number of namespaces alone: its runsc makes one for the gofer.
pub(super) fn sysctl(
    to: &mut Findings,
    name: Name,
    parameter: Parameter,
    found: &Sysctl,
    uid: Option<u32>,
) {
    let uid = uid.unwrap_or_default();
    let binding = uid != 0 || name == Name::MaxUserNamespaces;
    match found {
        Sysctl::Absent => to.pass(name, "not in this kernel"),
        Sysctl::Value(value) if value != parameter.forbids => to.pass(name, value),
        Sysctl::Value(value) if !binding => to.pass(name, format!("{value}, which root may")),
        Sysctl::Value(value) if uid == 0 => {
            let words = Words::new(
                format!(
                    "{} is {value}: {}, and root's runsc makes one too",
                    parameter.name, parameter.meaning
                ),
                format!("run `sudo sysctl -w {}={}`", parameter.name, parameter.lift),
            );
            to.fail(name, value, words);
        }
        Sysctl::Value(value) => {
            let obstacle = Obstacle::NamespaceForbidden {
                uid,
                need: NamespaceNeed::Runsc,
                parameter,
            };
            to.fail(name, value, super::obstacle(Native::Linux, obstacle));
        }
        Sysctl::Unreadable(reason) if !binding || uid == 0 => {
            to.info(name, format!("not known: {reason}"));
        }
        Sysctl::Unreadable(reason) => {
            let obstacle = Obstacle::NamespaceUnknown {
                uid,
                need: NamespaceNeed::Runsc,
                parameter,
                reason: reason.clone(),
            };
            let value = format!("not known: {reason}");
            to.fail(name, value, super::obstacle(Native::Linux, obstacle));
        }
    }
}

pub(super) fn user_namespace(
    to: &mut Findings,
    probe: &Reading<UserNamespace>,
    seccomp: Option<u8>,
) {
    let name = Name::UserNamespaces;
    let Some(found) = probe.known() else {
        return to.info(name, probe.why_not());
    };
    match found {
        UserNamespace::Works => to.pass(name, "made one, with a mount in it"),
        UserNamespace::NotMade(libc::EPERM, reason) if seccomp == Some(FILTER) => {
            let words = Words::new(
                format!(
                    "this process may make no user namespace ({reason}), and a seccomp filter is \
                     over it, as in a container: where the parameters above pass, the filter is \
                     what forbids it"
                ),
                "start the container with a seccomp profile that lets unshare, clone and mount \
                 through (Docker: --security-opt seccomp=PROFILE)",
            );
            to.fail_covered(name, "forbidden", words, &SYSCTLS);
        }
        UserNamespace::NotMade(_, reason) => {
            let words = Words::new(
                format!("this process may make no user namespace ({reason})"),
                "see `sysctl user.max_user_namespaces kernel.unprivileged_userns_clone \
                 kernel.apparmor_restrict_unprivileged_userns`, or run as root",
            );
            to.fail_covered(name, "forbidden", words, &SYSCTLS);
        }
        UserNamespace::Powerless(reason) => {
            let words = Words::new(
                format!(
                    "a user namespace can be made and gives no right to mount in it ({reason}), \
                     as AppArmor has it for an unconfined program"
                ),
                "give runsc-driver an AppArmor profile with `userns,`, or run `sudo sysctl -w \
                 kernel.apparmor_restrict_unprivileged_userns=0`",
            );
            to.fail_covered(name, "made one, without rights", words, &SYSCTLS);
        }
        UserNamespace::Other(reason) => to.info(name, format!("not known: {reason}")),
    }
}

pub(super) fn capabilities(to: &mut Findings, uid: Option<u32>, machine: &Machine) {
    let name = Name::Capabilities;
    let held = match &machine.capabilities {
        None => return to.info(name, "not known"),
        Some(Err(reason)) => return to.info(name, format!("not known: {reason}")),
        Some(Ok(held)) => held,
    };
    if uid != Some(0) {
        return to.pass(name, "none is needed: not root");
    }
    let lacking: Vec<_> = USED
        .into_iter()
        .chain([NEEDED])
        .filter(|used| !held.contains(*used))
        .collect();
    if lacking.is_empty() {
        return to.pass(name, format!("{} held", held.len()));
    }
    let lacking = lacking.join(", ");
    let value = format!("without {lacking}");
    let words = Words::new(
        format!("this is root without {lacking}, as in a container, and runsc as root uses them"),
        "grant them (Docker: --cap-add), or run as an ordinary user",
    );
    match held.contains(NEEDED) {
        true => to.warn(name, value, words),
        false => to.fail(name, value, words),
    }
}

pub(super) fn seccomp(to: &mut Findings, mode: Option<u8>) {
    match mode {
        None => to.info(Name::Seccomp, "not known"),
        Some(0) => to.pass(Name::Seccomp, "no filter"),
        Some(_) => to.info(Name::Seccomp, "a filter is over this process"),
    }
}

pub(super) fn selinux(to: &mut Findings, enforce: Option<&str>) {
    match enforce {
        None => to.pass(Name::Selinux, "not in this kernel"),
        Some("1") => to.warn(
            Name::Selinux,
            "enforcing",
            Words::new(
                "SELinux enforces, and its denials reach runsc as errors that name no cause",
                "where the real call fails, look for denials with `ausearch -m avc -ts recent`",
            ),
        ),
        Some(_) => to.pass(Name::Selinux, "not enforcing"),
    }
}

/// runsc's own platform traces the processes of a sandbox.
pub(super) fn yama(to: &mut Findings, scope: Option<&str>) {
    let name = Name::Yama;
    let fix = "run `sudo sysctl -w kernel.yama.ptrace_scope=1`";
    match scope {
        None => to.pass(name, "not in this kernel"),
        Some(scope @ ("0" | "1")) => to.pass(name, scope),
        Some("2") => to.warn(
            name,
            "2",
            Words::new(
                "kernel.yama.ptrace_scope is 2: only an administrator's process may trace \
                 another, which runsc does",
                fix,
            ),
        ),
        Some("3") => to.fail(
            name,
            "3",
            Words::new(
                "kernel.yama.ptrace_scope is 3: no process may trace another, which runsc does",
                "boot with a lower kernel.yama.ptrace_scope: this one cannot be lowered again",
            ),
        ),
        Some(other) => to.info(name, other),
    }
}
