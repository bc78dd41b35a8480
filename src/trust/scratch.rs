//! The private directory of one runtime: bundles, state and results, out of everybody's reach.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Scratch;
use owner::OwnerFile;

mod error;
pub(crate) mod owner;
mod parent;

pub use error::{Found, ScratchError};
pub use owner::{NotAnOwner, OWNER_FILE, Owner};
pub use parent::{PARENT_NAME, verify_parent};
pub(crate) use parent::{Parent, look_at_parent};

/// The name of runsc's state directory in a tree.
pub(crate) const STATE: &str = "state";
/// The name of the directory of the bundles in a tree.
pub(crate) const BUNDLES: &str = "bundles";

/// What a tree is called until its owner is in it. A sweep may take one that nobody has locked.
pub(crate) const NEW_PREFIX: &str = ".new-";
/// What the directory is called that shows who owns what is made in the parent. A sweep may take
/// an empty one.
const PROBE_PREFIX: &str = ".owner-probe-";
/// How often a name is tried that a sweep takes away: twice in a row is rare already.
const TRIES: usize = 8;

/// Does something with a directory of a new name, and again where a sweep took that away or was
/// looking at it: nothing shows yet that somebody is there.
fn again_where_swept<T>(
    mut make: impl FnMut() -> Result<T, (io::ErrorKind, ScratchError)>,
) -> Result<T, ScratchError> {
    let swept = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::WouldBlock);
    let mut tries = 1;
    loop {
        match make() {
            Err((kind, _)) if swept(kind) && tries < TRIES => tries += 1,
            made => return made.map_err(|(_, err)| err),
        }
    }
}

fn random_name(dir: &Path, prefix: &str) -> Result<String, (io::ErrorKind, ScratchError)> {
    let random = random_hex().map_err(|reason| {
        let dir = dir.to_owned();
        (
            io::ErrorKind::Other,
            ScratchError::NoRandomness { dir, reason },
        )
    })?;
    Ok(format!("{prefix}{random}"))
}

fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(dir)
}

pub(crate) fn not_a_directory(found: &std::fs::Metadata) -> Option<Found> {
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
    /// None where a directory of the caller's has a file of another owner.
    owner: Option<OwnerFile>,
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
            owner: None,
        };
        match tree.fill(config.verified_parent.as_deref()) {
            Ok(()) => Ok(tree),
            Err(err) => {
                tree.remove();
                Err(err)
            }
        }
    }

    /// Refuses what making the tree is going to refuse, as far as that can be told without writing
    /// anything that stays.
    pub(crate) fn look_before(config: &Scratch, user: Option<u32>) -> Result<(), ScratchError> {
        match &config.verified_parent {
            Some(parent) => parent::look_before(parent, user),
            None => {
                let tree = Self {
                    dir: config.dir.clone(),
                    made: Vec::new(),
                    owner: None,
                };
                [&tree.dir, &tree.state_dir(), &tree.bundles_dir()]
                    .into_iter()
                    .try_for_each(|dir| nothing_in_the_way(dir))
            }
        }
    }

    fn fill(&mut self, verified_parent: Option<&Path>) -> Result<(), ScratchError> {
        let [dir, state, bundles] = [self.dir.clone(), self.state_dir(), self.bundles_dir()];
        match verified_parent {
            Some(parent) => {
                verify_parent(parent)?;
                self.make_owned(parent)?;
                self.make_new(&state)?;
                self.make_new(&bundles)
            }
            None => {
                self.make_missing(&dir)?;
                self.own()?;
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
        self.dir.join(BUNDLES)
    }

    /// runsc's state directory (its `--root`).
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join(STATE)
    }

    /// Removes the directories that this made and that are empty. What anybody else put there
    /// stays, with the directories that lead to it. The owner's file goes after what it owns: a
    /// later sweep finds the rest by it.
    pub fn remove(&self) {
        let (inside, outside): (Vec<_>, Vec<_>) = self
            .made
            .iter()
            .rev()
            .partition(|made| made.starts_with(&self.dir) && **made != self.dir);
        let mut left = false;
        for dir in inside {
            // Not empty, or gone: either way there is nothing to do.
            let _ = std::fs::remove_dir(dir);
            left |= std::fs::symlink_metadata(dir).is_ok();
        }
        if let Some(owner) = self.owner.as_ref().filter(|_| !left) {
            owner.remove();
        }
        for dir in outside {
            let _ = std::fs::remove_dir(dir);
        }
    }

    /// Makes the directory of a default tree with its owner in it. It has another name until the
    /// owner is there and locked, and under that name a sweep may take it. So no tree is ever seen
    /// that has its name and no owner but one that is being removed, and a process that is killed
    /// at any moment leaves something that a sweep can judge.
    fn make_owned(&mut self, parent: &Path) -> Result<(), ScratchError> {
        let (new, owner) = again_where_swept(|| {
            let new = parent.join(random_name(parent, NEW_PREFIX)?);
            let failed = |err: io::Error| (err.kind(), not_made(&self.dir, err));
            make_private(&new).map_err(failed)?;
            match OwnerFile::create(&new) {
                Ok(owner) => Ok((new, owner)),
                Err(err) => {
                    // What cannot be taken away here, a sweep takes.
                    let _ = std::fs::remove_file(new.join(OWNER_FILE));
                    let _ = std::fs::remove_dir(&new);
                    Err(failed(err))
                }
            }
        })?;
        // It fails where there is a tree: that is not empty. An empty directory of this name is
        // the end of a tree that was being removed.
        if let Err(err) = std::fs::rename(&new, &self.dir) {
            owner.remove();
            let _ = std::fs::remove_dir(&new);
            return Err(not_made(&self.dir, err));
        }
        self.made.push(self.dir.clone());
        self.owner = Some(owner.moved_to(&self.dir));
        Ok(())
    }

    /// Puts the owner into a directory of the caller's. No sweep looks there: the file tells whose
    /// the rest is. Several drivers may share such a directory, and the first one's stays.
    fn own(&mut self) -> Result<(), ScratchError> {
        match OwnerFile::create(&self.dir) {
            Ok(owner) => self.owner = Some(owner),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
                self.owner = OwnerFile::adopt(&self.dir);
            }
            Err(err) => return Err(not_made(&self.dir, err)),
        }
        Ok(())
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
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => nothing_in_the_way(dir),
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

/// A directory of the tree that is there has to be one, itself.
fn nothing_in_the_way(dir: &Path) -> Result<(), ScratchError> {
    let found = match std::fs::symlink_metadata(dir) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|reason| not_made(dir, reason))?,
    };
    match not_a_directory(&found) {
        None => Ok(()),
        Some(found) => Err(ScratchError::InTheWay {
            dir: dir.to_owned(),
            found,
        }),
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
