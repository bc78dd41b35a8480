//! Labels on their files, and marks for those that could not be labelled.
//!
//! A mark keeps the whole mount labelled until each of those files is.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};
use serde::{Deserialize, Serialize};

use super::attributes::{self, Sight, Unlabelled};
use super::doubt::{Doubt, Found};
use super::look::{Against, Changed, Eyes, look};
use super::mounts::{Bind, FileId, MountTable, Tree};
use super::registry::{Links, Locked, RegistryError, token};
use super::scene::Change;
use super::taint::Taint;
use super::walk::{open_below, under};

/// How many files a mark lists; of more, all have to be labelled.
const MOST: usize = 1024;

/// A mount with files that could not be labelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// The mount.
    pub trees: Vec<Tree>,
    /// The label that its files should have.
    pub taint: Taint,
    /// Which files; all of them, where that is none.
    pub files: Option<Vec<FileId>>,
    /// Why the first of them could not be labelled.
    pub why: String,
}

/// Labels what changed. What cannot be labelled is told, with why the first could not.
#[must_use]
pub fn label(change: &Change, taint: &Taint, sight: &Sight) -> Option<Mark> {
    let mut failed: Vec<FileId> = Vec::new();
    let mut why = None;
    let mut refuse = |id: FileId, below: &[u8], err: &dyn std::fmt::Display| {
        failed.push(id);
        why.get_or_insert_with(|| format!("{}: {err}", under(&change.root, below).display()));
    };
    let root = Root::open(&change.root);
    let mut directories = HashSet::new();
    for entry in &change.entries {
        let raised = root.raise(entry, taint, sight);
        if let Err(err @ Unlabelled::Refused(_)) = &raised {
            refuse(entry.id, &entry.below, err);
        }
        // Whoever does not see what root alone sees finds the label there.
        if !attributes::holds_user(entry.kind) {
            match directory_of(&entry.below) {
                Some(directory) => {
                    directories.insert(directory.to_vec());
                }
                None if raised.is_err() => {
                    refuse(entry.id, &entry.below, &Unlabelled::InDirectory);
                }
                None => {}
            }
        }
    }
    for below in directories {
        let entry = Changed {
            id: change.trees.first().map_or(FileId(0, 0), |tree| tree.id),
            kind: FileType::Directory,
            below,
        };
        if let Err(err) = root.raise(&entry, taint, sight) {
            refuse(entry.id, &entry.below, &err);
        }
    }
    let why = why?;
    Some(Mark {
        trees: change.trees.clone(),
        taint: taint.clone(),
        files: (failed.len() <= MOST).then_some(failed),
        why,
    })
}

/// Labels one file by its path; whether that changed it. It is not followed if it is a link.
///
/// # Errors
/// [`Unlabelled`].
pub fn label_path(path: &Path, taint: &Taint, sight: &Sight) -> Result<bool, Unlabelled> {
    let Some((file, kind)) = open_path(path)? else {
        return Ok(false);
    };
    attributes::raise(&file, kind, taint, sight)
}

/// A file as a path alone, and what it is; none where it is gone.
///
/// # Errors
/// [`Unlabelled`].
pub(super) fn open_path(path: &Path) -> Result<Option<(OwnedFd, FileType)>, Unlabelled> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
        Ok(file) => {
            let kind = kind_of(&file)?;
            Ok(Some((file, kind)))
        }
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(errno) => Err(Unlabelled::Refused(errno)),
    }
}

fn kind_of(file: &OwnedFd) -> Result<FileType, Unlabelled> {
    let stat = rustix::fs::fstat(file).map_err(Unlabelled::Refused)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// The directory of a path below a root; none for the root itself.
fn directory_of(below: &[u8]) -> Option<&[u8]> {
    if below.is_empty() {
        return None;
    }
    let end = below.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    Some(&below[..end])
}

/// A bind's root: a directory to go on from, or the file itself.
struct Root {
    path: PathBuf,
    dir: Option<File>,
}

impl Root {
    fn open(path: &Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self {
            path: path.to_owned(),
            dir: rustix::fs::open(path, flags, rustix::fs::Mode::empty())
                .ok()
                .map(File::from),
        }
    }

    fn raise(&self, entry: &Changed, taint: &Taint, sight: &Sight) -> Result<bool, Unlabelled> {
        let Some(dir) = self.dir.as_ref().filter(|_| !entry.below.is_empty()) else {
            return label_path(&self.path, taint, sight);
        };
        match open_below(dir, &entry.below, OFlags::PATH) {
            Ok(file) => {
                let file = OwnedFd::from(file);
                let kind = kind_of(&file)?;
                attributes::raise(&file, kind, taint, sight)
            }
            // It is gone; what it was renamed to changed too.
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(errno) => Err(Unlabelled::Refused(errno)),
        }
    }
}

/// Keeps a mark.
///
/// # Errors
/// It cannot be written: then nothing is settled.
pub fn keep(locked: &Locked<'_>, mark: &Mark) -> Result<(), RegistryError> {
    // One that is there and says as much is enough: a container that is started again and again
    // over files that cannot be labelled would leave one more each time.
    let there = locked.marks::<Mark>()?;
    let said = there.iter().any(|(_, there)| {
        there.as_ref().is_some_and(|there| {
            there.trees.first().map(|tree| tree.id) == mark.trees.first().map(|tree| tree.id)
                && there.taint.covers(&mark.taint)
                && match (&there.files, &mark.files) {
                    (None, _) => true,
                    (Some(there), Some(files)) => files.iter().all(|id| there.contains(id)),
                    (Some(_), None) => false,
                }
        })
    });
    if said {
        return Ok(());
    }
    locked.put_mark(&token()?, mark)
}

/// The marks over what a container sees, and over files of which it sees other names.
///
/// # Errors
/// The marks cannot be read.
pub fn over(locked: &Locked<'_>, binds: &[Bind], links: &Links) -> Result<Found, RegistryError> {
    let mut found = Found::default();
    for (path, mark) in locked.marks::<Mark>()? {
        let Some(mark) = mark else {
            found.doubt(Doubt::at(Doubt::UnreadableRegistration, &path));
            continue;
        };
        if mark.is_over(binds) || mark.is_of(links) {
            let why = &mark.why;
            found.label(&mark.taint, || {
                format!("the mount is marked, since a file could not be labelled: {why}")
            });
        }
    }
    Ok(found)
}

/// Labels what could not be labelled, where it can be by now, and removes the marks of it. A look
/// has to follow, which finds the labels on the files.
///
/// # Errors
/// The marks cannot be read.
pub fn settle(
    locked: &Locked<'_>,
    table: &MountTable,
    binds: &[Bind],
    eyes: Eyes<'_>,
) -> Result<(), RegistryError> {
    for (path, mark) in locked.marks::<Mark>()? {
        if let Some(mark) = mark.filter(|mark| mark.is_over(binds))
            && mark.settle(table, eyes)
        {
            // One that is left settles again.
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

impl Mark {
    /// Whether some file of it is in one of these.
    #[must_use]
    pub fn is_over(&self, binds: &[Bind]) -> bool {
        let mut trees = binds.iter().flat_map(|bind| &bind.trees);
        trees.any(|tree| self.trees.iter().any(|own| own.overlaps(tree)))
    }

    /// Whether a file of it may have another name among these.
    fn is_of(&self, links: &Links) -> bool {
        let files = self.files.clone().map(|mut ids| {
            ids.sort_unstable();
            Links { more: false, ids }
        });
        match files {
            Some(files) => files.meets(links),
            None => !links.ids.is_empty(),
        }
    }

    /// Labels what could not be labelled; whether that is done now.
    fn settle(&self, table: &MountTable, eyes: Eyes<'_>) -> bool {
        let Some(root) = self.trees.first().and_then(|tree| table.locate(tree)) else {
            return false;
        };
        let seen = look(&root, eyes, Against::Since(None));
        let unsure = seen
            .found
            .doubts()
            .iter()
            .any(|doubt| !matches!(doubt, Doubt::MalformedLabel(_) | Doubt::UnseenTrusted(_)));
        if unsure {
            return false;
        }
        let wanted = |entry: &Changed| match &self.files {
            Some(files) => files.contains(&entry.id),
            None => true,
        };
        let change = Change {
            root,
            trees: self.trees.clone(),
            entries: seen.changed.into_iter().filter(wanted).collect(),
        };
        label(&change, &self.taint, eyes.sight).is_none()
    }
}
