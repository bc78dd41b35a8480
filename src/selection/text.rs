//! The words of a refusal: what is in the way, and how to lift it.

use std::fmt;

use super::order::DOCKER;
use super::refusal::{NamespaceNeed, Obstacle, Refusal};
use super::store::{Fault, StoreProblem};
use super::{Native, RUNSC};
use crate::settings::{NETWORK, POLICY, ROOTFS, RUNTIME, Setting, VM_HOME};
use crate::trust::shown;

/// What is in the way. See [`Refusal::problem`].
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a>(pub(super) &'a Refusal);

/// How to lift it. See [`Refusal::hint`].
#[derive(Debug, Clone, Copy)]
pub struct Hint<'a>(pub(super) &'a Refusal);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Default { platform, .. } = self {
            write!(
                f,
                "no sandbox runtime is named, so the default on {platform} applies, its native \
                 runtime: "
            )?;
        }
        write!(f, "{}; {}", self.problem(), self.hint())
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Refusal::Docker { by, .. } => write!(
                f,
                "{} names {DOCKER}, the Docker driver, which is gone: {RUNSC} is the one runtime",
                RUNTIME.named_by(*by)
            ),
            Refusal::UnknownRuntime { value, by } => write!(
                f,
                "{} names {value:?}, which is no sandbox runtime",
                RUNTIME.named_by(*by)
            ),
            Refusal::MustBeNamed { .. } => {
                f.write_str("no sandbox runtime is named, and this entrypoint takes no default")
            }
            Refusal::NoNativeRuntime { platform } => write!(
                f,
                "no sandbox runtime is named, and there is no default on {platform}: {RUNSC} runs \
                 on macOS (Apple silicon) and Linux alone"
            ),
            Refusal::Default { obstacle, .. } | Refusal::Named { obstacle, .. } => {
                problem(obstacle, f)
            }
            Refusal::UnknownNetwork { value } => write!(
                f,
                "{} is {value:?}, which is no network mode",
                NETWORK.variable
            ),
            Refusal::EnforcementFloor { .. } => {
                f.write_str("this mode enforces CFC, and no CFC policy is configured")
            }
        }
    }
}

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Refusal::Docker {
                has_default,
                takes_flags,
                ..
            } => {
                if *has_default {
                    f.write_str("leave the runtime unnamed to take the platform's default, or ")?;
                }
                name_runsc(f, *takes_flags)
            }
            Refusal::UnknownRuntime { by, .. } => {
                write!(f, "set {} to {RUNSC}", RUNTIME.named_by(*by))
            }
            Refusal::MustBeNamed { who, takes_flags } => {
                let naming = RUNTIME.naming(*takes_flags);
                write!(f, "{who} must name {RUNSC} with {naming}")
            }
            Refusal::NoNativeRuntime { .. } => f.write_str("run it on one of those"),
            Refusal::Default {
                platform,
                obstacle,
                takes_flags,
            } => hint(obstacle, Some(*platform), *takes_flags, f),
            Refusal::Named {
                obstacle,
                takes_flags,
            } => hint(obstacle, None, *takes_flags, f),
            Refusal::UnknownNetwork { .. } => {
                write!(f, "set {} to none, bridge or host", NETWORK.variable)
            }
            Refusal::EnforcementFloor { takes_flags } => {
                name_it(f, POLICY, *takes_flags)?;
                f.write_str(", or take a mode that does not enforce")
            }
        }
    }
}

fn problem(obstacle: &Obstacle, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match obstacle {
        Obstacle::Architecture { arch } => write!(
            f,
            "its VM runs on Apple silicon alone, this Mac is {arch}, and there is no other runtime"
        ),
        Obstacle::UserUnknown { need } => write!(
            f,
            "the user id of this process cannot be told, and {} depends on it",
            match need {
                NamespaceNeed::Runsc => "whether runsc runs rootless",
                NamespaceNeed::Pasta => "how pasta makes the network",
            }
        ),
        Obstacle::NamespaceForbidden {
            uid,
            need,
            parameter,
        } => {
            would(f, *need, *uid)?;
            write!(
                f,
                ", and {} is {}: {}",
                parameter.name, parameter.forbids, parameter.meaning
            )
        }
        Obstacle::NamespaceUnknown {
            uid,
            need,
            parameter,
            reason,
        } => {
            would(f, *need, *uid)?;
            write!(f, ", and {} could not be read ({reason})", parameter.name)
        }
        Obstacle::NoHome => f.write_str("the store is under the home, and HOME is not set"),
        Obstacle::HomeRelative { home } => write!(
            f,
            "the store is under the home, and HOME is {}, which is not an absolute path",
            shown(home)
        ),
        Obstacle::StoreRelative { store } => {
            write!(
                f,
                "{VM_HOME} is {}, which is not an absolute path",
                shown(store)
            )
        }
        Obstacle::StoreElsewhere { given, resolved } => write!(
            f,
            "the store {} is really at {}, and the macOS {RUNSC} knows its images by its store's \
             path as given",
            shown(given),
            shown(resolved)
        ),
        Obstacle::StoreUnresolved { reason } => write!(f, "{}", reason.0),
        Obstacle::EmptyRootfs => write!(
            f,
            "{} is empty, so it names no rootfs, and this default runs only from one",
            ROOTFS.flag.unwrap_or(ROOTFS.variable)
        ),
        Obstacle::NoRootfs => {
            f.write_str("no rootfs is named, and there is no home to have a default under")
        }
        Obstacle::PolicyUnreadable { path, reason } => write!(
            f,
            "the default CFC policy {} could not be read ({reason})",
            shown(path)
        ),
        Obstacle::NotSetUp { store, problems } => {
            write!(f, "the store at {} is not set up: ", shown(store))?;
            for (at, problem) in problems.iter().enumerate() {
                write!(f, "{}{problem}", if at == 0 { "" } else { "; " })?;
            }
            Ok(())
        }
        Obstacle::NoWorkingDirectory { setting, value } => write!(
            f,
            "the {} {value:?} is relative, and there is no working directory",
            setting.what
        ),
        Obstacle::NoPasta => f.write_str(
            "pasta gives it the sandbox network, egress and host.docker.internal, and no entry of \
             PATH holds pasta",
        ),
        Obstacle::NoSetpriv => f.write_str(
            "no entry of PATH holds setpriv, without which a container outlives a pasta that is \
             stopped",
        ),
        Obstacle::NoUnshare => f.write_str(
            "no entry of PATH holds unshare, without which root's pasta mounts its /proc over the \
             host's",
        ),
    }
}

fn hint(
    obstacle: &Obstacle,
    platform: Option<Native>,
    takes_flags: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match obstacle {
        Obstacle::Architecture { .. } => f.write_str("run it on Apple silicon or on Linux"),
        Obstacle::UserUnknown { need } => {
            f.write_str("run it where the user id can be read")?;
            or_other_network(f, *need, takes_flags)
        }
        Obstacle::NamespaceForbidden {
            need, parameter, ..
        } => {
            write!(
                f,
                "run `sudo sysctl -w {}={}` (a file in /etc/sysctl.d keeps it), or run as root",
                parameter.name, parameter.lift
            )?;
            or_other_network(f, *need, takes_flags)
        }
        Obstacle::NamespaceUnknown {
            need, parameter, ..
        } => {
            let file = parameter.name.replace('.', "/");
            write!(f, "make /proc/sys/{file} readable, or run as root")?;
            or_other_network(f, *need, takes_flags)
        }
        Obstacle::NoHome | Obstacle::HomeRelative { .. } => {
            f.write_str("set HOME to an absolute path")?;
            match platform {
                Some(Native::MacOs) => write!(f, ", or {VM_HOME} to the store's"),
                Some(Native::Linux) => Ok(()),
                None => or_name(f, ROOTFS, takes_flags),
            }
        }
        Obstacle::StoreRelative { .. } => {
            write!(f, "set {VM_HOME} to the store's absolute path")
        }
        Obstacle::StoreElsewhere { resolved, .. } => {
            write!(f, "set {VM_HOME} to {}", shown(resolved))
        }
        Obstacle::StoreUnresolved { .. } => {
            write!(f, "set {VM_HOME} to a path that leads to the store")
        }
        Obstacle::EmptyRootfs => {
            f.write_str("leave it out to take the store's image, or ")?;
            name_it(f, ROOTFS, takes_flags)
        }
        Obstacle::NoRootfs => name_it(f, ROOTFS, takes_flags),
        Obstacle::PolicyUnreadable { .. } => {
            f.write_str("make it readable")?;
            or_name(f, POLICY, takes_flags)
        }
        Obstacle::NotSetUp { problems, .. } => {
            f.write_str("set it up there with gVisor's ")?;
            if let Some(platform) = platform {
                write!(f, "{platform} ")?;
            }
            f.write_str("installer")?;
            instead(problems, takes_flags, f)
        }
        Obstacle::NoWorkingDirectory { .. } => f.write_str("name it by its absolute path"),
        Obstacle::NoPasta => {
            f.write_str("install passt, or ")?;
            other_network(f, takes_flags)
        }
        Obstacle::NoSetpriv | Obstacle::NoUnshare => {
            f.write_str("install util-linux, or ")?;
            other_network(f, takes_flags)
        }
    }
}

/// What can be named in place of what a store lacks.
fn instead(
    problems: &[StoreProblem],
    takes_flags: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut named = Vec::new();
    let mut linked = false;
    for problem in problems {
        let setting = match problem {
            StoreProblem::Piece { piece, fault } => {
                linked |= matches!(fault, Fault::Link { .. });
                piece.unless
            }
            StoreProblem::NoPolicy { .. } => Some(POLICY),
        };
        named.extend(setting.filter(|setting| !named.contains(setting)));
    }
    for (at, setting) in named.iter().enumerate() {
        let joint = match at {
            0 => "; what can be named in place of the store's:",
            _ => ",",
        };
        let naming = setting.naming(takes_flags);
        write!(f, "{joint} a {} with {naming}", setting.what)?;
    }
    if takes_flags && let (true, Some(flag)) = (named.contains(&POLICY), POLICY.flag) {
        write!(
            f,
            " (an empty {flag} runs without one, in a mode that does not enforce)"
        )?;
    }
    if linked {
        f.write_str("; a piece and the directories over it must be in the store themselves")?;
    }
    Ok(())
}

/// What a user who is not root would have happen.
fn would(f: &mut fmt::Formatter<'_>, need: NamespaceNeed, uid: u32) -> fmt::Result {
    let what = match need {
        NamespaceNeed::Runsc => "runsc would run rootless",
        NamespaceNeed::Pasta => "pasta would make the network",
    };
    write!(
        f,
        "user {uid} is not root, so {what}, in a user namespace of its own"
    )
}

/// Two of the networks are not pasta's. The store's runsc is rootless on any network.
fn or_other_network(
    f: &mut fmt::Formatter<'_>,
    need: NamespaceNeed,
    takes_flags: bool,
) -> fmt::Result {
    match need {
        NamespaceNeed::Runsc => Ok(()),
        NamespaceNeed::Pasta => {
            f.write_str(", or ")?;
            other_network(f, takes_flags)
        }
    }
}

fn other_network(f: &mut fmt::Formatter<'_>, takes_flags: bool) -> fmt::Result {
    f.write_str("take a network that needs no pasta, setpriv or unshare: ")?;
    let variable = NETWORK.variable;
    if let (true, Some(flag)) = (takes_flags, NETWORK.flag) {
        write!(f, "{flag} none or {flag} host, or ")?;
    }
    write!(f, "{variable}=none or {variable}=host")
}

fn name_runsc(f: &mut fmt::Formatter<'_>, takes_flags: bool) -> fmt::Result {
    write!(f, "name {RUNSC} with {}", RUNTIME.naming(takes_flags))
}

fn name_it(f: &mut fmt::Formatter<'_>, setting: Setting, takes_flags: bool) -> fmt::Result {
    let naming = setting.naming(takes_flags);
    write!(f, "name a {} with {naming}", setting.what)
}

fn or_name(f: &mut fmt::Formatter<'_>, setting: Setting, takes_flags: bool) -> fmt::Result {
    f.write_str(", or ")?;
    name_it(f, setting, takes_flags)
}
