//! The effects: files, processes, pipes, and taking them down again.

pub(crate) mod bundle;
pub(crate) mod deadline;
pub(crate) mod donation;
pub(crate) mod network;
pub(crate) mod output;
pub(crate) mod spawn;
#[cfg(target_os = "linux")]
pub(crate) mod stand_in;
pub(crate) mod state;
pub mod sys;
pub(crate) mod teardown;

use std::path::PathBuf;

pub use network::NetworkError;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A file of the bundle could not be made.
    #[error("could not write {path:?} ({source}): check the room and the rights there")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A pipe could not be made.
    #[error("could not make a pipe ({0}): too many files may be open")]
    Pipe(std::io::Error),
    /// The files of a call's context and result could not be made.
    #[error("could not make the files of a call's labels ({0}): memory may be short")]
    Donation(std::io::Error),
    /// The program could not be executed.
    #[error(
        "could not execute {program:?} ({source}): see that it is a program for this machine that \
         this user may execute"
    )]
    Execute {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child could not make the user namespace that it runs runsc in.
    #[error(
        "this process may make no user namespace ({source}): see `sysctl \
         user.max_user_namespaces kernel.unprivileged_userns_clone \
         kernel.apparmor_restrict_unprivileged_userns`, or run as root"
    )]
    UserNamespace {
        /// What the system said.
        source: std::io::Error,
    },
    /// The image lacks a mount point and no overlay can take it.
    #[error(
        "the image lacks the mount points {missing:?}, and no overlay can be mounted over it \
         ({source}): make them in the image, or mount at paths that it has"
    )]
    Overlay {
        /// The mount points.
        missing: Vec<PathBuf>,
        /// What the system said.
        source: std::io::Error,
    },
    /// A mount could not be made read-only.
    #[error(
        "the kernel could not make {mounts:?} read-only ({source}), which needs Linux 5.12 or \
         newer: mount them writable, or leave them out"
    )]
    ReadOnly {
        /// The sources of the mounts.
        mounts: Vec<PathBuf>,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child's death could not be tied to ours.
    #[error(
        "could not tie the life of {program:?} to this process ({source}): Linux 5.9 or newer is \
         needed, and nothing that keeps prctl and close_range from a child"
    )]
    Tie {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child could not enter the namespaces that were made for it.
    #[error("{program:?} could not enter the namespaces that were made for it ({source})")]
    Enter {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child could not make the PID namespace that it is to run in.
    #[error(
        "{program:?} could not be started in a PID namespace of its own ({source}): take the \
         network layout holder"
    )]
    PidNamespace {
        /// Which program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The container's network could not be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The thread that starts processes is gone.
    #[error(
        "the thread that starts processes could not be started or has ended: this user may have \
         too many (`ulimit -u`)"
    )]
    NoLauncher,
}

impl LaunchError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Write { .. } => "scratch-write-failed",
            Self::Pipe(_) => "pipe-failed",
            Self::Donation(_) => "donation-failed",
            Self::Execute { .. } => "execute-failed",
            Self::UserNamespace { .. } => "user-namespace-unavailable",
            Self::Overlay { .. } => "overlay-unavailable",
            Self::ReadOnly { .. } => "read-only-unavailable",
            Self::Tie { .. } => "death-signal-failed",
            Self::Enter { .. } => "namespace-not-entered",
            Self::PidNamespace { .. } => "pid-namespace-unavailable",
            Self::Network(err) => err.code(),
            Self::NoLauncher => "no-launcher",
        }
    }
}

#[cfg(test)]
mod tests;
