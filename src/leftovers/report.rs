//! What a sweep did, and why it left what it left.

use std::fmt;
use std::path::PathBuf;

use crate::trust::scratch::{Found, NotAnOwner, Owner};
use crate::trust::shown;

/// What a sweep found in a parent, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where it looked.
    pub parent: PathBuf,
    /// Whether it only looked. Then `stopped` and `Removed` say what would be.
    pub dry_run: bool,
    /// Everything that was there, by name.
    pub leftovers: Vec<Leftover>,
}

impl Report {
    /// Whether everything that a dead owner left is gone.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.leftovers.iter().all(|leftover| match &leftover.fate {
            Fate::Removed => true,
            Fate::Left(why) => !why.is_trouble(),
        })
    }
}

/// Something in the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Whose it is; none where that is not told.
    pub owner: Option<Owner>,
    /// The pids of the processes of the dead owner that were stopped.
    pub stopped: Vec<u32>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of something in the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is gone.
    Removed,
    /// It is still there.
    Left(Why),
}

/// Why something was left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Its owner's lock is held: by its owner, or by another sweep.
    InUse,
    /// Its owner let go of the lock and runs.
    OwnerRuns,
    /// There is no owner's file in it.
    NoOwner,
    /// Its owner's file names no owner.
    NotAnOwner(NotAnOwner),
    /// It is no directory.
    NotADirectory(Found),
    /// It belongs to another user.
    OtherUser {
        /// Its owner's uid.
        owner: u32,
    },
    /// Its owner ran in another pid namespace, whose processes may be hidden from here.
    OtherNamespace,
    /// Another boot of this machine or another machine made it, and which is not told.
    OtherMachine,
    /// Something is mounted in it.
    Mounted {
        /// Where.
        at: PathBuf,
    },
    /// Processes of it did not end.
    StillRunning {
        /// Their pids.
        pids: Vec<u32>,
    },
    /// The sweep's time was over.
    OutOfTime,
    /// The system refused something.
    Failed {
        /// Where.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl Why {
    /// The stable word for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse => "in-use",
            Self::OwnerRuns => "owner-runs",
            Self::NoOwner => "no-owner",
            Self::NotAnOwner(_) => "not-an-owner",
            Self::NotADirectory(_) => "not-a-directory",
            Self::OtherUser { .. } => "other-user",
            Self::OtherNamespace => "other-pid-namespace",
            Self::OtherMachine => "other-machine",
            Self::Mounted { .. } => "mounted",
            Self::StillRunning { .. } => "still-running",
            Self::OutOfTime => "out-of-time",
            Self::Failed { .. } => "failed",
        }
    }

    /// Whether it is known to be a dead owner's, and should have gone.
    fn is_trouble(&self) -> bool {
        matches!(
            self,
            Self::Mounted { .. }
                | Self::StillRunning { .. }
                | Self::OutOfTime
                | Self::Failed { .. }
        )
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str("its owner lives, or another sweep is at it"),
            Self::OwnerRuns => f.write_str("its owner gave it up and still runs: end that first"),
            Self::NoOwner => f.write_str(
                "nothing in it says whose it is: remove it by hand where nothing uses it",
            ),
            Self::NotAnOwner(wrong) => write!(
                f,
                "its owner's file {wrong}: remove it by hand where nothing uses it"
            ),
            Self::NotADirectory(found) => {
                write!(f, "it {found}, which this driver did not make there")
            }
            Self::OtherUser { owner } => write!(f, "it belongs to uid {owner}"),
            Self::OtherNamespace => f.write_str(
                "its owner ran in another pid namespace: sweep there, or remove it by hand where \
                 nothing uses it",
            ),
            Self::OtherMachine => f.write_str(
                "another machine may have made it and use it: remove it by hand where nothing \
                 uses it",
            ),
            Self::Mounted { at } => {
                write!(f, "something is mounted at {}: unmount it", shown(at))
            }
            Self::StillRunning { pids } => {
                write!(f, "its processes {} do not end", list(pids))
            }
            Self::OutOfTime => f.write_str("there was no time left: sweep again"),
            Self::Failed { path, reason } => write!(f, "{}: {reason}", shown(path)),
        }
    }
}

/// Numbers with commas between them.
pub(crate) fn list(pids: &[u32]) -> String {
    let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
    pids.join(", ")
}
