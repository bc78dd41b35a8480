//! The private directory of one runtime: bundles, state and results, out of everybody's reach.

use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::shown;
use crate::config::Scratch;

/// The parent of the default scratch directories, in the directory for temporary files.
pub const PARENT_NAME: &str = "cf-harness-runsc";

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

/// Makes the parent of the default scratch directories where it is absent, and checks that nobody
/// else can reach into it. The caller does this once and keeps the answer.
///
/// # Errors
/// [`ScratchError`] where it is not a private directory of this process's user.
pub fn verify_parent(parent: &Path) -> Result<(), ScratchError> {
    verify_parent_by(parent, |path| {
        std::fs::symlink_metadata(path).map(|found| found.uid())
    })
}

/// The owner of what this process makes is asked of the filesystem rather than of the process:
/// the filesystem's answer is the one that decides who may open a file.
fn verify_parent_by(
    parent: &Path,
    owner_of: impl Fn(&Path) -> io::Result<u32>,
) -> Result<(), ScratchError> {
    let unverified = |step| {
        move |reason| ScratchError::Unverified {
            parent: parent.to_owned(),
            step,
            reason: Arc::new(reason),
        }
    };
    let not_private = |found| ScratchError::NotPrivate {
        parent: parent.to_owned(),
        found,
    };
    if let Some(above) = parent.parent() {
        // Where this fails, making the parent says so.
        let _ = std::fs::create_dir_all(above);
    }
    match make_private(parent) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unverified("made")(err));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(parent).map_err(unverified("examined"))?;
    let mode = found.mode() & 0o7777;
    if let Some(wrong) = not_a_directory(&found) {
        return Err(not_private(wrong));
    }
    if mode & 0o077 != 0 {
        let owner = found.uid();
        return Err(not_private(Found::Open { owner, mode }));
    }
    let random = random_hex().map_err(|reason| ScratchError::NoRandomness {
        dir: parent.to_owned(),
        reason,
    })?;
    let probe = parent.join(format!(".owner-probe-{random}"));
    make_private(&probe).map_err(unverified("written to"))?;
    let owners = owner_of(&probe).and_then(|ours| Ok((owner_of(parent)?, ours)));
    // A probe that stays behind says nothing about the parent.
    let _ = std::fs::remove_dir(&probe);
    let (owner, ours) = owners.map_err(unverified("examined"))?;
    if owner != ours {
        return Err(not_private(Found::Foreign { owner, mode, ours }));
    }
    Ok(())
}

fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(dir)
}

fn not_a_directory(found: &std::fs::Metadata) -> Option<Found> {
    if found.is_symlink() {
        Some(Found::Link)
    } else if found.is_dir() {
        None
    } else {
        Some(Found::NotDirectory)
    }
}

/// The directories of one runtime, made.
#[derive(Debug)]
pub struct ScratchTree {
    dir: PathBuf,
    /// What this made, outermost first. Nothing else is ever removed.
    made: Vec<PathBuf>,
}

impl ScratchTree {
    /// Makes the tree: for the default directory after its parent was verified, and for one of the
    /// caller's with what is missing of it. Where that fails, what was made is taken away.
    ///
    /// # Errors
    /// [`ScratchError`] where the parent is not private or a directory cannot be made.
    pub fn create(config: &Scratch) -> Result<Self, ScratchError> {
        let mut tree = Self {
            dir: config.dir.clone(),
            made: Vec::new(),
        };
        match tree.fill(config.verified_parent.as_deref()) {
            Ok(()) => Ok(tree),
            Err(err) => {
                tree.remove();
                Err(err)
            }
        }
    }

    fn fill(&mut self, verified_parent: Option<&Path>) -> Result<(), ScratchError> {
        let [dir, state, bundles] = [self.dir.clone(), self.state_dir(), self.bundles_dir()];
        match verified_parent {
            Some(parent) => {
                verify_parent(parent)?;
                self.make_new(&dir)?;
                self.make_new(&state)?;
                self.make_new(&bundles)
            }
            None => {
                self.make_missing(&dir)?;
                self.make_missing(&state)?;
                self.make_missing(&bundles)
            }
        }
    }

    /// The directory of this runtime alone.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of the bundles, one below it for each container.
    #[must_use]
    pub fn bundles_dir(&self) -> PathBuf {
        self.dir.join("bundles")
    }

    /// runsc's state directory (its `--root`).
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Removes the directories that this made and that are empty. What anybody else put there
    /// stays, with the directories that lead to it.
    pub fn remove(&self) {
        for dir in self.made.iter().rev() {
            // Not empty, or gone: either way there is nothing to do.
            let _ = std::fs::remove_dir(dir);
        }
    }

    /// Makes a directory that must not be there yet.
    fn make_new(&mut self, dir: &Path) -> Result<(), ScratchError> {
        make_private(dir).map_err(|reason| not_made(dir, reason))?;
        self.made.push(dir.to_owned());
        Ok(())
    }

    /// Makes a directory and those above it that are missing. One that is there has to be a
    /// directory, and not a link that somebody may turn.
    fn make_missing(&mut self, dir: &Path) -> Result<(), ScratchError> {
        match make_private(dir) {
            Ok(()) => {
                self.made.push(dir.to_owned());
                Ok(())
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                let found =
                    std::fs::symlink_metadata(dir).map_err(|reason| not_made(dir, reason))?;
                match not_a_directory(&found) {
                    None => Ok(()),
                    Some(found) => Err(ScratchError::InTheWay {
                        dir: dir.to_owned(),
                        found,
                    }),
                }
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => match dir.parent() {
                Some(above) => {
                    self.make_missing(above)?;
                    self.make_new(dir)
                }
                None => Err(not_made(dir, err)),
            },
            Err(err) => Err(not_made(dir, err)),
        }
    }
}

fn not_made(dir: &Path, reason: io::Error) -> ScratchError {
    ScratchError::NotMade {
        dir: dir.to_owned(),
        reason: Arc::new(reason),
    }
}

/// A run id with nothing in it but what a file and a container may be named with, bounded.
fn sanitized(run_id: &str) -> String {
    run_id
        .chars()
        .take(40)
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || "_.-".contains(c) => c,
            _ => '-',
        })
        .collect()
}

/// The run id's first characters and something that no other runtime has.
fn tagged(run_id: &str, length: usize) -> Result<String, getrandom::Error> {
    let mut name = sanitized(run_id);
    name.truncate(length);
    Ok(format!("{name}-{}", random_hex()?))
}

/// The name of a default scratch directory.
pub(crate) fn dir_name(run_id: &str) -> Result<String, getrandom::Error> {
    tagged(run_id, 24)
}

/// The middle of every container's id.
pub(crate) fn run_tag(run_id: &str) -> Result<String, getrandom::Error> {
    tagged(run_id, 12)
}

/// Eight hex digits from the system's random source.
pub(crate) fn random_hex() -> Result<String, getrandom::Error> {
    Ok(format!("{:08x}", getrandom::u32()?))
}

#[cfg(test)]
mod tests;
