//! Why a call gives no outcome: fields and stable codes.

use std::path::PathBuf;

use super::SessionRefusal;
use crate::cfc::context::ContextError;
use crate::cfc::mode::EnforcementMode;
use crate::launch::LaunchError;
use crate::launch::teardown::NotTakenDown;
use crate::plan::PlanError;
use crate::trust::scratch::ScratchError;

/// Why a call gave no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver was closed.
    #[error("the driver is closed and takes no more calls")]
    Closed,
    /// The system gave no random bytes for an id.
    #[error("the system has no randomness to give ({0})")]
    NoRandomness(getrandom::Error),
    /// The runsc is older than the driver supports.
    #[error(
        "the runsc {path:?} of {date} is too old: the control socket of its sandboxes is open to \
         every user of the machine, and newer images fail on its statx; install release 20240729 \
         or newer (scripts/install-store.sh fetches one, in Debian 12 from bookworm-backports)"
    )]
    RunscTooOld {
        /// The binary.
        path: PathBuf,
        /// The date of its release, as a number: 20221219.
        date: u32,
    },
    /// The runsc does not tell its release.
    #[error(
        "the runsc {path:?} does not say which release it is, so it cannot be told to be new \
         enough: use one whose `--version` names its date, such as `release-20240729.0`"
    )]
    RunscUnknown {
        /// The binary.
        path: PathBuf,
    },
    /// The runsc does not track labels.
    #[error(
        "the runsc {path:?} does not know --cfc, so it cannot track the labels that a policy \
         asks for: use one that does (scripts/install-store.sh puts runsc-cfc in the store), or \
         run without a policy (--no-cfc)"
    )]
    CfcUnsupported {
        /// The binary.
        path: PathBuf,
    },
    /// The mode enforces labels and there is no policy to track them by. Nothing was run.
    #[error(
        "the mode {mode} enforces labels and no CFC policy is configured: name a policy, or a \
         mode that does not enforce (disabled, observe)"
    )]
    NoPolicy {
        /// The mode of the call.
        mode: EnforcementMode,
    },
    /// The caller's context cannot be used. Nothing was run.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The labelling runsc refused to start the container, by a rule of its own.
    #[error("{message}")]
    LabelRule {
        /// Its code for the rule.
        rule: String,
        /// Its sentence.
        message: String,
    },
    /// The call cannot be laid out. Nothing was written and nothing was started.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The scratch directory is not to be trusted or could not be made. Nothing is run.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The call cannot run in its session.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// A process could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A container may still be there.
    #[error(transparent)]
    NotTakenDown(#[from] NotTakenDown),
}

impl Error {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::NoRandomness(_) => "no-randomness",
            Self::RunscTooOld { .. } => "runsc-too-old",
            Self::RunscUnknown { .. } => "runsc-unknown",
            Self::CfcUnsupported { .. } => "cfc-unsupported",
            Self::NoPolicy { .. } => "policy-required",
            Self::Context(err) => err.code(),
            Self::LabelRule { .. } => "label-rule",
            Self::Plan(err) => err.code(),
            Self::Scratch(err) => err.code(),
            Self::Session(err) => err.reason(),
            Self::Launch(err) => err.code(),
            Self::NotTakenDown(_) => "not-taken-down",
        }
    }
}
