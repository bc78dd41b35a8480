//! Why there is no selection, as data. text.rs has the words.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use super::look::Reason;
use super::store::StoreProblem;
use super::{Hint, Native, Problem};
use crate::settings::{Setting, Source};
use crate::trust::PathError;

/// Why there is no selection. Its text is the whole account; [`Refusal::problem`] and
/// [`Refusal::hint`] are its two parts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The runtime that is gone was named.
    Docker {
        /// What named it.
        by: Source,
        /// Whether leaving the runtime unnamed would take a default here.
        has_default: bool,
        /// Whether the operator can pass flags.
        takes_flags: bool,
    },
    /// A runtime was named that there never was.
    UnknownRuntime {
        /// Its name.
        value: OsString,
        /// What named it.
        by: Source,
    },
    /// No runtime was named, and this entrypoint takes no default.
    MustBeNamed {
        /// Who has to name it.
        who: &'static str,
        /// Whether the operator can pass flags.
        takes_flags: bool,
    },
    /// No runtime was named, and this platform has no default.
    NoNativeRuntime {
        /// The platform's name.
        platform: String,
    },
    /// No runtime was named, and the platform's default cannot be had.
    Default {
        /// Whose default.
        platform: Native,
        /// What is in the way.
        obstacle: Obstacle,
        /// Whether the operator can pass flags.
        takes_flags: bool,
    },
    /// `runsc` was named, and its settings cannot be had.
    Named {
        /// What is in the way.
        obstacle: Obstacle,
        /// Whether the operator can pass flags.
        takes_flags: bool,
    },
    /// The variable of the network mode holds none of its words.
    UnknownNetwork {
        /// What it holds.
        value: OsString,
    },
    /// The mode enforces CFC and there is no policy.
    EnforcementFloor {
        /// Whether the operator can pass flags.
        takes_flags: bool,
    },
}

impl Refusal {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "invalid-request"
    }

    /// What is in the way, without what is said of every default.
    #[must_use]
    pub fn problem(&self) -> Problem<'_> {
        Problem(self)
    }

    /// How to lift it.
    #[must_use]
    pub fn hint(&self) -> Hint<'_> {
        Hint(self)
    }
}

/// What is in the way of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// macOS: the VM runs on another processor.
    Architecture {
        /// The host's.
        arch: String,
    },
    /// Linux: it cannot be told whether this is root.
    UserUnknown {
        /// What depends on it.
        need: NamespaceNeed,
    },
    /// Linux: the kernel lets this user make no user namespace.
    NamespaceForbidden {
        /// The user.
        uid: u32,
        /// What would be in the namespace.
        need: NamespaceNeed,
        /// The parameter that forbids it.
        parameter: Parameter,
    },
    /// Linux: it cannot be told whether the kernel lets this user make a user namespace.
    NamespaceUnknown {
        /// The user.
        uid: u32,
        /// What would be in the namespace.
        need: NamespaceNeed,
        /// The parameter that cannot be read.
        parameter: Parameter,
        /// Why not.
        reason: String,
    },
    /// There is no home for the store to be under.
    NoHome,
    /// The home is not an absolute path.
    HomeRelative {
        /// The home.
        home: PathBuf,
    },
    /// macOS: `CFC_VM_HOME` is not an absolute path.
    StoreRelative {
        /// Its value.
        store: PathBuf,
    },
    /// macOS: the store's path leads elsewhere.
    StoreElsewhere {
        /// The path as given.
        given: PathBuf,
        /// The one that the file system leads to.
        resolved: PathBuf,
    },
    /// macOS: the store's path cannot be followed.
    StoreUnresolved {
        /// Why not, with the path as given.
        reason: Unresolved,
    },
    /// An empty rootfs was named, where one is needed.
    EmptyRootfs,
    /// `runsc` was named without a rootfs, and there is no home to have a default under.
    NoRootfs,
    /// A default policy is there, or may be, and cannot be read.
    PolicyUnreadable {
        /// Its path.
        path: PathBuf,
        /// Why not.
        reason: Reason,
    },
    /// The store lacks these.
    NotSetUp {
        /// The store.
        store: PathBuf,
        /// Everything that it lacks.
        problems: Vec<StoreProblem>,
    },
    /// A relative path was named and there is no working directory to take it against.
    NoWorkingDirectory {
        /// The setting.
        setting: Setting,
        /// Its value.
        value: OsString,
    },
    /// Linux: no `pasta`, which gives the network.
    NoPasta,
    /// Linux: no `setpriv`, which ends the container when pasta ends.
    NoSetpriv,
    /// Linux, root: no `unshare`, which keeps pasta's mounts to itself.
    NoUnshare,
}

/// Why a path cannot be followed: what the walk said. Two are equal where they say the same.
#[derive(Debug, Clone)]
pub struct Unresolved(pub Arc<PathError>);

impl PartialEq for Unresolved {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for Unresolved {}

/// What a user namespace is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceNeed {
    /// The store's runsc runs rootless.
    Runsc,
    /// pasta makes the network.
    Pasta,
}

/// A kernel parameter that can keep a user from making a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, with dots.
    pub name: &'static str,
    /// The value that forbids.
    pub forbids: &'static str,
    /// What that value means.
    pub meaning: &'static str,
    /// The value that lifts it.
    pub lift: &'static str,
}
