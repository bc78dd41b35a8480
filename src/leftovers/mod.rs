//! What killed drivers left: found by their owners' files, and taken away.
//!
//! Only the default trees are looked at, in their private parent. A tree is taken where its owner's
//! lock is free, its owner is known and gone, and nothing of it runs any more. Everything else is
//! left, with the reason. The sweep holds the owner's lock meanwhile, so that two never meet in one
//! tree; killed itself, it leaves a tree that the next one finds.

mod mounts;
mod processes;
mod remove;
mod report;
mod tree;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::host::Host;
use crate::trust::path::PathError;
use crate::trust::scratch::{self, Found, Owner, PARENT_NAME, Parent, ScratchError};
use crate::trust::walk;

pub(crate) use report::list;
pub use report::{Fate, Leftover, Report, Why};

/// How to sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Look, and neither stop nor remove anything.
    pub dry_run: bool,
    /// How long it may take. What was not reached by then is left for the next time.
    pub limit: Duration,
}

/// Where the default trees of this user are, by the path that the filesystem leads to.
///
/// # Errors
/// There is no such directory for temporary files.
pub fn parent(host: &Host) -> Result<PathBuf, PathError> {
    let temp_dir = walk("the directory for temporary files (TMPDIR)", &host.temp_dir)?;
    Ok(temp_dir.as_path().join(PARENT_NAME))
}

/// Looks at every tree in the parent, and takes away what dead owners left. Blocks.
///
/// # Errors
/// The parent is not private or not this user's: then nothing in it is looked at.
pub fn sweep(parent: &Path, user: Option<u32>, options: Options) -> Result<Report, ScratchError> {
    let due = Instant::now() + options.limit;
    let mut report = Report {
        parent: parent.to_owned(),
        dry_run: options.dry_run,
        leftovers: Vec::new(),
    };
    let unverified = |reason| ScratchError::Unverified {
        parent: parent.to_owned(),
        step: "examined",
        reason: Arc::new(reason),
    };
    match scratch::look_at_parent(parent, user).map_err(unverified)? {
        Parent::Absent => return Ok(report),
        Parent::Private => {}
        // Whose it is, the filesystem says; to ask it is to write.
        Parent::Wrong(Found::Foreign { .. }) if !options.dry_run => {
            scratch::verify_parent(parent)?;
        }
        Parent::Wrong(found) => {
            return Err(ScratchError::NotPrivate {
                parent: parent.to_owned(),
                found,
            });
        }
    }
    let found = std::fs::symlink_metadata(parent).map_err(unverified)?;
    let sweep = Sweep {
        dry_run: options.dry_run,
        due,
        ours: found.uid(),
        device: found.dev(),
        now: Owner::this_process(),
    };
    for entry in entries(parent).map_err(unverified)? {
        report.leftovers.extend(sweep.entry(&entry));
    }
    Ok(report)
}

/// What there is, in a fixed order.
fn entries(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(parent)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// What is the same for every tree.
struct Sweep {
    dry_run: bool,
    due: Instant,
    /// The owner of the parent, and so of what this user makes there.
    ours: u32,
    /// The filesystem of the parent.
    device: u64,
    /// This process.
    now: Owner,
}

impl Sweep {
    fn is_over(&self) -> bool {
        Instant::now() >= self.due
    }
}

#[cfg(test)]
mod tests;
