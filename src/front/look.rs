//! The look at a tree: which labels are on it, what is there, and, after the end, what changed.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use rustix::fs::{Access, AtFlags, FileType, accessat};

use super::attributes::{self, Sight, Unread};
use super::doubt::{Doubt, Found};
use super::mounts::FileId;
use super::walk::{Entry, Limits, Visit, Walk, changed_at};

/// When each inode of a tree last changed.
pub type Snapshot = HashMap<FileId, (i64, u64), BuildHasherDefault<InodeHasher>>;

/// What counts as changed.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// Nothing: the look is before the start, and takes a snapshot.
    Nothing,
    /// What is not as it was.
    Snapshot(&'a Snapshot),
    /// What changed from a point in time on; everything, where that cannot be told.
    Since(Option<(i64, u64)>),
}

/// What a look saw.
#[derive(Debug, Default)]
pub struct Look {
    /// The label, and why.
    pub found: Found,
    /// Before the start: what is there.
    pub snapshot: Snapshot,
    /// Files with other names: they may be seen elsewhere too.
    pub links: Vec<FileId>,
    /// After the end: what changed, below the tree's root.
    pub changed: Vec<Changed>,
}

/// An entry that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Where it is below the tree's root.
    pub below: Vec<u8>,
    /// Its inode.
    pub id: FileId,
    /// What it is.
    pub kind: FileType,
}

/// How to look.
#[derive(Debug, Clone, Copy)]
pub struct Eyes<'a> {
    /// What can be seen.
    pub sight: &'a Sight,
    /// How far.
    pub limits: &'a Limits,
    /// Whether a container that runs beside may keep changing what is looked at.
    pub tolerant: bool,
}

/// Looks at a tree.
#[must_use]
pub fn look(root: &Path, eyes: Eyes<'_>, against: Against<'_>) -> Look {
    let walk = Walk {
        root,
        sight: eyes.sight,
        limits: eyes.limits,
        tolerant: eyes.tolerant,
    };
    let (visitors, found) = walk.run(|| Visitor::new(root, eyes.sight, against));
    let mut look = Look {
        found,
        ..Look::default()
    };
    let known = visitors.iter().map(|visitor| visitor.known.len()).sum();
    look.snapshot.reserve(known);
    for visitor in visitors {
        look.found.join(visitor.found);
        look.snapshot.extend(visitor.known);
        look.links.extend(visitor.links);
        look.changed.extend(visitor.changed);
    }
    look.links.sort_unstable();
    look.links.dedup();
    look
}

struct Visitor<'a> {
    root: &'a Path,
    sight: &'a Sight,
    against: Against<'a>,
    found: Found,
    /// Labels as they are written: one that is on a thousand files is read once.
    seen: HashSet<Vec<u8>>,
    known: Vec<(FileId, (i64, u64))>,
    links: Vec<FileId>,
    changed: Vec<Changed>,
    /// How long the lists were as the directory was opened.
    before: (usize, usize, usize),
}

impl<'a> Visitor<'a> {
    fn new(root: &'a Path, sight: &'a Sight, against: Against<'a>) -> Self {
        Self {
            root,
            sight,
            against,
            found: Found::default(),
            seen: HashSet::new(),
            known: Vec::new(),
            links: Vec::new(),
            changed: Vec::new(),
            before: (0, 0, 0),
        }
    }

    fn read_label(&mut self, entry: &Entry<'_>, kind: FileType) {
        let seen = &mut self.seen;
        let read = attributes::read(entry.reach, &mut |value| !seen.insert(value.to_vec()));
        let at = || super::walk::under(self.root, &entry.below());
        match read {
            Ok(Some(taint)) => self
                .found
                .label(&taint, || format!("{} is labelled", at().display())),
            Ok(None) => {}
            Err(Unread::Malformed(_)) => {
                let at = at();
                self.found.doubt(Doubt::at(Doubt::MalformedLabel, &at));
            }
            Err(Unread::Unreadable(_)) => {
                // What the container can neither read nor make readable it does not learn from.
                if self.sight.is_own(entry.stat.st_uid) || readable(entry, kind) {
                    let at = at();
                    self.found.doubt(Doubt::at(Doubt::UnreadableLabel, &at));
                }
            }
        }
        if self.sight.may_hide(entry.stat.st_uid) && readable(entry, kind) {
            let at = at();
            self.found.doubt(Doubt::at(Doubt::UnseenTrusted, &at));
        }
    }
}

impl Visit for Visitor<'_> {
    fn visit(&mut self, entry: &Entry<'_>) {
        let id = FileId(entry.stat.st_dev, entry.stat.st_ino);
        let at = changed_at(entry.stat);
        let kind = FileType::from_raw_mode(entry.stat.st_mode);
        let (changed, read) = match self.against {
            Against::Nothing => {
                self.known.push((id, at));
                (false, true)
            }
            Against::Snapshot(snapshot) => {
                let changed = snapshot.get(&id) != Some(&at);
                // A label that was set since changed the inode.
                (changed, changed)
            }
            Against::Since(since) => (since.is_none_or(|since| at >= since), true),
        };
        if entry.stat.st_nlink > 1 && kind != FileType::Directory {
            self.links.push(id);
        }
        if changed {
            self.changed.push(Changed {
                below: entry.below(),
                id,
                kind,
            });
        }
        if read {
            self.read_label(entry, kind);
        }
    }

    fn open(&mut self, _dir: &[u8]) {
        self.before = (self.known.len(), self.links.len(), self.changed.len());
    }

    fn again(&mut self) {
        let (known, links, changed) = self.before;
        self.known.truncate(known);
        self.links.truncate(links);
        self.changed.truncate(changed);
    }
}

/// Whether this process, and so perhaps the container, can read it as it is.
fn readable(entry: &Entry<'_>, kind: FileType) -> bool {
    let mode = match kind {
        FileType::Symlink => return true,
        FileType::RegularFile | FileType::Fifo | FileType::Socket => Access::READ_OK,
        // Its names, or what it has under names that are known.
        FileType::Directory => {
            return [Access::READ_OK, Access::EXEC_OK].into_iter().any(|mode| {
                accessat(rustix::fs::CWD, entry.reach, mode, AtFlags::EACCESS).is_ok()
            });
        }
        // A container gets no device of the host's.
        _ => return false,
    };
    accessat(rustix::fs::CWD, entry.reach, mode, AtFlags::EACCESS).is_ok()
}

/// A container's view of one file or directory that holds no label of its own.
#[must_use]
pub fn is_special(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Inode numbers are spread well enough once they are multiplied.
#[derive(Debug, Default, Clone, Copy)]
pub struct InodeHasher(u64);

impl Hasher for InodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
