//! Why nothing was started.

use super::args::ArgsError;
use super::policy::PolicyError;
use super::registry::RegistryError;
use super::spec::SpecError;
use crate::launch::LaunchError;

/// The exit status of a refusal, which is runsc's own for whatever it fails on.
pub const EXIT: u8 = 128;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The arguments say nothing that could be acted on.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// `--cfc` without a policy.
    #[error("--cfc needs --cfc-policy: without a policy there is nothing to hold labels to")]
    NoPolicy,
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The bundle cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The subcommand leaves no process whose end could be awaited, or writes what it knows of a
    /// container to files that would have no label.
    #[error("labels cannot be kept for `{command}`: use an attached `run`, and `exec`")]
    Unsupported {
        /// The subcommand.
        command: String,
    },
    /// There is no stock runsc beside the front.
    #[error("there is no stock runsc at {path:?}: install the store again")]
    NoStock {
        /// Where it belongs.
        path: std::path::PathBuf,
    },
    /// A descriptor that was named is not open.
    #[error("descriptor {number} of --{flag} is not open: {source}")]
    Descriptor {
        /// Which flag.
        flag: &'static str,
        /// The number.
        number: i32,
        /// What the system said.
        source: std::io::Error,
    },
    /// The registry cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The container could write what decides over its labels.
    #[error(
        "the mount {mount:?} would let the container write the registry {registry:?}, which \
         decides over its labels: mount another directory"
    )]
    RegistryExposed {
        /// The mount's source.
        mount: std::path::PathBuf,
        /// The registry.
        registry: std::path::PathBuf,
    },
    /// Labelled by what it can read, with egress.
    #[error(
        "the container can read what is labelled ({why}) and would have egress ({egress}): it \
         would run with `--network=none`, without host sockets and without writable mounts of \
         other machines, or without what is labelled"
    )]
    Egress {
        /// Which rule labelled it.
        why: String,
        /// Which egress.
        egress: String,
    },
    /// Labelled by the call itself, with egress, where the policy refuses that.
    #[error(
        "the call is labelled and the policy refuses it egress ({egress}): it would run with \
         `--network=none`, or without the label"
    )]
    CallEgress {
        /// Which egress.
        egress: String,
    },
    /// A container beside this one, with egress, could see what this one writes.
    #[error(
        "the container is labelled ({why}), and the container {beside} beside it has egress and \
         sees what it can write: it would run once that one has ended, or with a mount of its own"
    )]
    EgressBeside {
        /// Which rule labelled it.
        why: String,
        /// The other container.
        beside: String,
    },
    /// A container beside this one, of a lower label, could see what this one writes.
    #[error(
        "the container is labelled ({why}), and the container {beside} beside it is of a lower \
         label and sees what it can write: it would run once that one has ended, or with a mount \
         of its own"
    )]
    LowerBeside {
        /// Which rule labelled it.
        why: String,
        /// The other container.
        beside: String,
    },
    /// A call with labels in a container that keeps none.
    #[error(
        "the call is labelled and the container {container} was not started with --cfc, so \
         nothing would label what it writes: start it with --cfc"
    )]
    NotOurs {
        /// The container.
        container: String,
    },
    /// A signal came before the start.
    #[error("{signal} came before the container was started")]
    Interrupted {
        /// Which.
        signal: &'static str,
    },
    /// A killed container's processes are still there.
    #[error("the processes of the killed container {container} are still there: {pids:?}")]
    Unsettled {
        /// The container.
        container: String,
        /// Its processes.
        pids: Vec<u32>,
    },
    /// Without a policy, over what is labelled.
    #[error(
        "the mounts hold labels ({why}) and no policy was given: name one with --cfc-policy, or \
         give --cfc-ignore-labels, with which nothing keeps what is labelled from leaving"
    )]
    Unpoliced {
        /// What is labelled.
        why: String,
    },
    /// The stock runsc could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl Refusal {
    /// The stable word that a driver branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Args(_) => "cfc-bad-arguments",
            Self::NoPolicy => "cfc-no-policy",
            Self::Policy(_) => "cfc-bad-policy",
            Self::Spec(_) => "cfc-bad-bundle",
            Self::Unsupported { .. } => "cfc-unsupported-command",
            Self::NoStock { .. } => "cfc-no-stock-runsc",
            Self::Descriptor { .. } => "cfc-bad-descriptor",
            Self::Registry(_) => "cfc-registry-unavailable",
            Self::RegistryExposed { .. } => "cfc-registry-exposed",
            Self::Egress { .. } => "cfc-egress-refused",
            Self::CallEgress { .. } => "cfc-call-egress-refused",
            Self::EgressBeside { .. } => "cfc-egress-beside",
            Self::LowerBeside { .. } => "cfc-lower-beside",
            Self::NotOurs { .. } => "cfc-unknown-container",
            Self::Interrupted { .. } => "cfc-interrupted",
            Self::Unsettled { .. } => "cfc-unsettled",
            Self::Unpoliced { .. } => "cfc-labels-without-policy",
            Self::Launch(_) => "cfc-launch-failed",
        }
    }
}
