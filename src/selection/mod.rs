//! Which runtime a run takes, from what is named and what the machine is.
//!
//! Decisions alone: this looks at files and executes nothing. Every platform's rules run on any
//! platform, since [`Host`] is data. What is selected here is named, not trusted: `trust` resolves
//! and checks it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::config::NetworkHelper;
use crate::config::{NetworkMode, SandboxOptions};
use crate::host::Host;
use crate::settings::{Entrypoint, RUNTIME, Settings, Source};
use crate::trust::shown;

pub mod description;
mod linux;
mod look;
mod macos;
mod named;
mod order;
mod policy;
mod program;
pub mod record;
mod refusal;
pub mod store;
mod text;

pub(crate) use linux::PARAMETERS;
pub use look::Reason;
pub use refusal::{NamespaceNeed, Obstacle, Parameter, Refusal, Unresolved};
pub use text::{Hint, Problem};

/// The one runtime there is.
pub const RUNSC: &str = "runsc";

/// A platform that has a native runtime, and so a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Native {
    /// gVisor's own `runsc`.
    #[serde(rename = "linux")]
    Linux,
    /// The darwin `runsc`, which forwards into a VM.
    #[serde(rename = "darwin")]
    MacOs,
}

impl fmt::Display for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
        })
    }
}

/// What chose the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub enum ChosenBy {
    /// The flag named it.
    Flag,
    /// The variable named it.
    Environment,
    /// Nothing named it.
    #[serde(rename_all = "camelCase")]
    Default {
        /// Whose default it is.
        platform: Native,
        /// The store that it is taken from.
        native_store: PathBuf,
    },
}

/// A runtime's name in a choice. There is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// The direct driver.
    #[default]
    Runsc,
}

/// Which runtime was chosen, and by what; the `selection` of a description. Its text is the line
/// that an operator is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The runtime.
    pub runtime: Runtime,
    /// What chose it.
    #[serde(flatten)]
    pub by: ChosenBy,
}

impl Choice {
    /// `runsc`, chosen by this.
    #[must_use]
    pub fn new(by: ChosenBy) -> Self {
        Self {
            runtime: Runtime::Runsc,
            by,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.by {
            ChosenBy::Flag => Source::Flag,
            ChosenBy::Environment => Source::Environment,
            ChosenBy::Default {
                platform,
                native_store,
            } => {
                return write!(
                    f,
                    "{RUNSC} (default on {platform}: the native store at {})",
                    shown(native_store)
                );
            }
        };
        write!(f, "{RUNSC} (named by {})", RUNTIME.named_by(source))
    }
}

/// What was selected. Nothing of it is trusted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Which runtime, and what chose it.
    pub choice: Choice,
    /// The `runsc` to execute: a path, or a bare name to look for on `PATH`.
    pub runsc: OsString,
    /// The unpacked image that each container starts from.
    pub rootfs: PathBuf,
    /// The CFC policy; none where no labels are tracked.
    pub policy: Option<PathBuf>,
    /// The network of each container.
    pub network: NetworkMode,
    /// Whether runsc runs in a user namespace of its own.
    pub rootless: bool,
    /// What gives the container its network, where runsc itself does not.
    pub helper: Option<NetworkHelper>,
    /// The platform's native store, whether or not anything was taken from it: it is held apart
    /// from every writable mount.
    pub native_store: Option<PathBuf>,
    /// Whether nothing named the runtime.
    pub defaulted: bool,
}

impl Selection {
    /// How the runtime was selected, for an operator.
    #[must_use]
    pub fn describe(&self) -> String {
        self.choice.to_string()
    }

    /// The options of a sandbox with this selection and nothing else set.
    #[must_use]
    pub fn options(&self, workspace: &Path) -> SandboxOptions {
        SandboxOptions {
            policy: self.policy.clone(),
            network: self.network,
            network_helper: self.helper.clone(),
            rootless: self.rootless,
            native_store: self.native_store.clone(),
            defaulted: self.defaulted,
            ..SandboxOptions::new(self.runsc.clone(), self.rootfs.clone(), workspace)
        }
    }
}

/// Selects the runtime, its files and its network.
///
/// # Errors
/// The first thing that is in the way, in a fixed order; all pieces that a store lacks are one
/// thing.
pub fn select(
    settings: &Settings,
    host: &Host,
    entrypoint: &Entrypoint,
) -> Result<Selection, Refusal> {
    order::select(settings, host, entrypoint, &look::Disk)
}

/// Whether a run may start with this policy: a mode that enforces CFC needs one.
///
/// # Errors
/// [`Refusal::EnforcementFloor`].
pub fn enforcement_floor(
    mode_enforces: bool,
    policy: Option<&Path>,
    entrypoint: &Entrypoint,
) -> Result<(), Refusal> {
    if mode_enforces && policy.is_none() {
        return Err(Refusal::EnforcementFloor {
            takes_flags: entrypoint.takes_flags,
        });
    }
    Ok(())
}

/// The first entry of the host's `PATH` that holds an executable file of this name. It decides
/// that the program is there, not that it may be trusted.
#[must_use]
pub fn find_program(name: &str, host: &Host) -> Option<PathBuf> {
    program::on_path(name, host, &look::Disk)
}

/// What is wrong with a piece of a platform's store, looked at as that platform's default does.
pub(crate) fn piece_fault(
    native: Native,
    store: &Path,
    piece: store::Piece,
) -> Option<store::Fault> {
    match native {
        Native::Linux => store::look_through(&look::Disk, store, piece),
        Native::MacOs => store::look_at(&look::Disk, store, piece),
    }
}

#[cfg(test)]
pub(crate) mod tests;
