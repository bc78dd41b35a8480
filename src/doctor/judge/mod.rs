//! From readings to checks and problems. Everything here is pure.

mod default;
mod machine;
mod network;
mod resources;
mod rights;
mod runsc;
mod store;

#[cfg(test)]
mod tests;

use super::Name;
use super::gather::Readings;
use super::report::{Findings, Words};
use crate::host::Platform;
use crate::selection::{Native, Obstacle, Refusal};

/// Judges everything that was read.
pub(super) fn judge(readings: &Readings) -> Findings {
    let mut findings = Findings::default();
    let to = &mut findings;
    let host = &readings.host;
    let linux = host.platform == Platform::Linux;
    machine::platform(to, &host.platform);
    machine::arch(to, host);
    if linux {
        let machine = &readings.machine;
        machine::kernel(to, machine.kernel.as_deref());
        rights::judge(to, host, machine, &readings.user_namespace);
        network::judge(to, host, &readings.programs, readings.wants_pasta);
        resources::judge(to, machine, &readings.reaped);
        runsc::judge(to, &readings.runsc, &readings.scratch);
        store::image(to, host, readings.image.as_ref());
    } else {
        runsc::found(to, &readings.runsc);
    }
    resources::scratch(to, &readings.scratch);
    let needs_policy = readings.needs_policy();
    store::store(to, readings.store.as_ref(), &readings.policy, needs_policy);
    store::policy(to, &readings.policy, needs_policy);
    let network = readings.wants_pasta.then_some(&readings.network);
    default::judge(to, &readings.default, network);
    default::run(to, &readings.attempt);
    default::session_calls(to, &readings.session_call);
    findings
}

/// A refusal's own words.
fn words(refusal: &Refusal) -> Words {
    Words::new(refusal.problem().to_string(), refusal.hint().to_string())
}

/// The words with which a platform's default is refused for this.
fn obstacle(platform: Native, obstacle: Obstacle) -> Words {
    words(&Refusal::Default {
        platform,
        obstacle,
        takes_flags: true,
    })
}

/// The checks whose problem a refusal is, where they failed.
fn covered(refusal: &Refusal) -> &'static [Name] {
    let obstacle = match refusal {
        Refusal::NoNativeRuntime { .. } => return &[Name::Platform],
        Refusal::Default { obstacle, .. } | Refusal::Named { obstacle, .. } => obstacle,
        _ => return &[],
    };
    match obstacle {
        Obstacle::Architecture { .. } => &[Name::Arch],
        Obstacle::UserUnknown { .. } => &[Name::User],
        Obstacle::NamespaceForbidden { .. } | Obstacle::NamespaceUnknown { .. } => &[
            Name::MaxUserNamespaces,
            Name::UnprivilegedUsernsClone,
            Name::ApparmorUserns,
        ],
        Obstacle::NotSetUp { .. } => &[Name::Store],
        Obstacle::PolicyUnreadable { .. } => &[Name::Policy],
        Obstacle::NoPasta => &[Name::Pasta],
        Obstacle::NoSetpriv => &[Name::Setpriv],
        Obstacle::NoUnshare => &[Name::Unshare],
        _ => &[],
    }
}
