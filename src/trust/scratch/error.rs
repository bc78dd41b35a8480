//! Why there is no scratch tree.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::shown;

/// What is at a path where a private directory should be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A symbolic link.
    Link,
    /// Neither a link nor a directory.
    NotDirectory,
    /// A directory that its group or others may enter, read or write.
    Open {
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// A directory of another user than the one that owns what this process makes.
    Foreign {
        /// Its owner.
        owner: u32,
        /// Its permission bits.
        mode: u32,
        /// The owner of what this process makes in it.
        ours: u32,
    },
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("is a symbolic link"),
            Self::NotDirectory => f.write_str("is not a directory"),
            Self::Open { owner, mode } => write!(
                f,
                "belongs to uid {owner} and has mode {mode:04o}, which lets others in"
            ),
            Self::Foreign { owner, mode, ours } => write!(
                f,
                "belongs to uid {owner} (mode {mode:04o}), and what this process makes in it \
                 belongs to uid {ours}"
            ),
        }
    }
}

/// Why there is no scratch tree. It is kept and given to every call, so it can be cloned.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// The parent of the default directories is not private.
    #[error(
        "the scratch parent {} {found}: remove it, or set TMPDIR to a directory of your own",
        shown(parent)
    )]
    NotPrivate {
        /// The parent.
        parent: PathBuf,
        /// What it is.
        found: Found,
    },
    /// The parent of the default directories cannot be made or examined.
    #[error(
        "the scratch parent {} cannot be {step}: {reason}: remove it, or set TMPDIR to a \
         directory of your own",
        shown(parent)
    )]
    Unverified {
        /// The parent.
        parent: PathBuf,
        /// What was tried: `made`, `examined`, `written to`.
        step: &'static str,
        /// What the system said.
        reason: Arc<io::Error>,
    },
    /// A directory of the tree cannot be made.
    #[error("the scratch directory {} cannot be made: {reason}", shown(dir))]
    NotMade {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        reason: Arc<io::Error>,
    },
    /// There is something else in the place of a directory of the tree.
    #[error("the scratch directory {} {found}: name another one", shown(dir))]
    InTheWay {
        /// The directory.
        dir: PathBuf,
        /// What is there.
        found: Found,
    },
    /// The system gives no random bytes.
    #[error("no random name can be made below {}: {reason}", shown(dir))]
    NoRandomness {
        /// The directory that the name was for.
        dir: PathBuf,
        /// What the system said.
        reason: getrandom::Error,
    },
}

impl ScratchError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotPrivate { .. } => "scratch-not-private",
            Self::Unverified { .. } => "scratch-not-verified",
            Self::NotMade { .. } => "scratch-not-made",
            Self::InTheWay { .. } => "scratch-in-the-way",
            Self::NoRandomness { .. } => "no-randomness",
        }
    }
}
