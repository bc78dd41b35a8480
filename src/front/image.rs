//! An index of an image: which labels are on it, and which names are in it.
//!
//! An image has some ten thousand files, and no container writes to it. So it is walked once, and
//! after that each directory is asked whether it is as it was: a name that came, went or was
//! exchanged changes its directory. What changes a file alone (its label, its content) is found by
//! asking each file, which is done beside the container as it runs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, OFlags, Stat, statat};
use serde::{Deserialize, Serialize};

use super::doubt::Found;
use super::look::{Against, Eyes, Look, look};
use super::mounts::FileId;
use super::paths::{Kind, name_of};
use super::walk::{Entry, Visit, Walk, changed_at};

/// The first bytes of an index. Another version is made anew.
const MAGIC: &[u8; 8] = b"cfcidx1\n";

/// What is known of an image.
#[derive(Debug, Default)]
pub struct Index {
    root: PathBuf,
    /// What the look at its attributes found.
    found: Found,
    directories: Vec<Directory>,
    by_path: HashMap<Vec<u8>, usize>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Directory {
    /// Below the image's root.
    below: Vec<u8>,
    entries: Vec<Known>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    /// Empty for the root itself, which its own directory lists first.
    name: Vec<u8>,
    kind: u8,
    id: FileId,
    changed: (i64, u64),
}

/// What an index is valid for, beside the image itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    found: Found,
    trusted: bool,
    uid: u32,
    root_outside: bool,
    doubted: bool,
}

impl Index {
    /// The index of an image, from `dir`, or made and kept there.
    #[must_use]
    pub fn open(dir: &Path, root: &Path, eyes: Eyes<'_>) -> Self {
        let path = kept_at(dir, root);
        if let Some(path) = &path
            && let Some(index) = Self::load(path, root, eyes)
            && index.directories_are_as_they_were()
        {
            return index;
        }
        Self::renew(path.as_deref(), root, eyes)
    }

    /// The same, where it is known that something changed.
    #[must_use]
    pub fn open_changed(dir: &Path, root: &Path, eyes: Eyes<'_>) -> Self {
        let path = kept_at(dir, root);
        Self::renew(path.as_deref(), root, eyes)
    }

    fn renew(path: Option<&Path>, root: &Path, eyes: Eyes<'_>) -> Self {
        let index = Self::make(root, eyes);
        // What was in doubt may not be so the next time.
        if let (Some(path), []) = (path, index.found.doubts()) {
            // An index that is not kept costs time and nothing else.
            let _ = index.save(path, eyes);
        }
        index
    }

    /// The image.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the look at its attributes found.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The entries of a directory of the container that is in the image.
    pub(super) fn children(&self, inside: &Path) -> Vec<(OsString, Kind)> {
        let below = inside.strip_prefix("/").unwrap_or(inside);
        let below = std::os::unix::ffi::OsStrExt::as_bytes(below.as_os_str());
        let Some(directory) = self.by_path.get(below) else {
            return Vec::new();
        };
        let entries = self.directories[*directory].entries.iter();
        entries
            .filter(|entry| !entry.name.is_empty())
            .map(|entry| {
                let kind = match entry.kind {
                    1 => Kind::Directory,
                    2 => Kind::Link,
                    _ => Kind::Other,
                };
                (name_of(&entry.name), kind)
            })
            .collect()
    }

    /// Whether no name came, went or was exchanged since.
    fn directories_are_as_they_were(&self) -> bool {
        self.are_as_they_were(|entry| entry.kind == 1)
    }

    /// Whether nothing at all changed since. It takes a while.
    #[must_use]
    pub fn is_as_it_was(&self) -> bool {
        self.are_as_they_were(|_| true)
    }

    fn are_as_they_were(&self, which: impl Fn(&Known) -> bool) -> bool {
        let Ok(root) = rustix::fs::openat(
            CWD,
            &self.root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        ) else {
            return false;
        };
        let root = File::from(root);
        self.directories.iter().all(|directory| {
            let mut wanted = directory
                .entries
                .iter()
                .filter(|entry| which(entry))
                .peekable();
            if wanted.peek().is_none() {
                return true;
            }
            let opened;
            let dir = if directory.below.is_empty() {
                &root
            } else {
                match super::walk::open_below(&root, &directory.below, OFlags::PATH) {
                    Ok(dir) => {
                        opened = dir;
                        &opened
                    }
                    Err(_) => return false,
                }
            };
            wanted.all(|entry| {
                let name = if entry.name.is_empty() {
                    &b"."[..]
                } else {
                    &entry.name
                };
                statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| entry.is(&stat))
            })
        })
    }

    fn make(root: &Path, eyes: Eyes<'_>) -> Self {
        let walk = Walk {
            root,
            sight: eyes.sight,
            limits: eyes.limits,
            tolerant: eyes.tolerant,
        };
        // The names first and the labels then: a file that changes in between is found changed.
        let (listings, mut found) = walk.run(Listing::default);
        let directories = listings.into_iter().flat_map(|listing| listing.directories);
        let Look { found: labels, .. } = look(root, eyes, Against::Nothing);
        found.join(labels);
        Self::of(root, found, directories.collect())
    }

    fn of(root: &Path, found: Found, directories: Vec<Directory>) -> Self {
        let mut by_path = HashMap::with_capacity(directories.len());
        // The root's own entry is a listing of its own, of the same path as its entries'.
        for (at, directory) in directories.iter().enumerate() {
            let itself = directory.entries.iter().all(|entry| entry.name.is_empty());
            if !itself || !by_path.contains_key(&directory.below) {
                by_path.insert(directory.below.clone(), at);
            }
        }
        Self {
            root: root.to_owned(),
            found,
            directories,
            by_path,
        }
    }

    fn load(path: &Path, root: &Path, eyes: Eyes<'_>) -> Option<Self> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.read_to_end(&mut bytes).ok()?;
        let mut reader = Reader(bytes.strip_prefix(MAGIC)?);
        let header: Header = serde_json::from_slice(reader.bytes()?).ok()?;
        if header != Header::of(header.found.clone(), eyes) {
            return None;
        }
        let mut directories = Vec::new();
        for _ in 0..reader.number()? {
            let mut directory = Directory {
                below: reader.bytes()?.to_vec(),
                entries: Vec::new(),
            };
            for _ in 0..reader.number()? {
                directory.entries.push(Known {
                    name: reader.bytes()?.to_vec(),
                    kind: u8::try_from(reader.number()?).ok()?,
                    id: FileId(reader.number()?, reader.number()?),
                    changed: (reader.number()? as i64, reader.number()?),
                });
            }
            directories.push(directory);
        }
        if !reader.0.is_empty() {
            return None;
        }
        Some(Self::of(root, header.found, directories))
    }

    fn save(&self, path: &Path, eyes: Eyes<'_>) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        let header = serde_json::to_vec(&Header::of(self.found.clone(), eyes))?;
        put_bytes(&mut bytes, &header);
        put_number(&mut bytes, self.directories.len() as u64);
        for directory in &self.directories {
            put_bytes(&mut bytes, &directory.below);
            put_number(&mut bytes, directory.entries.len() as u64);
            for entry in &directory.entries {
                put_bytes(&mut bytes, &entry.name);
                let (seconds, nanos) = entry.changed;
                let FileId(device, inode) = entry.id;
                for number in [entry.kind.into(), device, inode, seconds as u64, nanos] {
                    put_number(&mut bytes, number);
                }
            }
        }
        let partial = path.with_extension(format!("{}", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(&bytes)?;
        std::fs::rename(&partial, path)
    }
}

impl Header {
    fn of(found: Found, eyes: Eyes<'_>) -> Self {
        Self {
            found,
            trusted: eyes.sight.trusted,
            uid: eyes.sight.uid,
            root_outside: eyes.sight.root_outside,
            doubted: eyes.sight.unseen == super::policy::Unseen::Doubt,
        }
    }
}

impl Known {
    fn of(name: &[u8], stat: &Stat) -> Self {
        Self {
            name: name.to_vec(),
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => 1,
                FileType::Symlink => 2,
                _ => 0,
            },
            id: FileId(stat.st_dev, stat.st_ino),
            changed: changed_at(stat),
        }
    }

    fn is(&self, stat: &Stat) -> bool {
        self.id == FileId(stat.st_dev, stat.st_ino) && self.changed == changed_at(stat)
    }
}

/// Where the index of an image is kept: by its identity.
fn kept_at(dir: &Path, root: &Path) -> Option<PathBuf> {
    let FileId(device, inode) = FileId::of(&std::fs::metadata(root).ok()?);
    Some(dir.join(format!("{device:x}-{inode:x}")))
}

/// Lists directories.
#[derive(Default)]
struct Listing {
    directories: Vec<Directory>,
}

impl Visit for Listing {
    fn visit(&mut self, entry: &Entry<'_>) {
        if let Some(directory) = self.directories.last_mut() {
            directory.entries.push(Known::of(entry.name, entry.stat));
        }
    }

    fn open(&mut self, dir: &[u8]) {
        self.directories.push(Directory {
            below: dir.to_vec(),
            entries: Vec::new(),
        });
    }

    fn again(&mut self) {
        if let Some(directory) = self.directories.last_mut() {
            directory.entries.clear();
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_number(bytes, value.len() as u64);
    bytes.extend(value);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }
}

/// Removes what is kept of images: a label was set where a directory does not tell.
pub(super) fn forget_all(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::attributes::Sight;
    use crate::front::policy::Unseen;
    use crate::front::walk::Limits;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn an_index_is_kept_and_made_anew_once_a_name_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, image) = (dir.path().join("kept"), dir.path().join("image"));
        fs::create_dir_all(&kept).unwrap();
        fs::create_dir_all(image.join("a/b")).unwrap();
        File::create(image.join("a/b/c")).unwrap();
        std::os::unix::fs::symlink("a", image.join("l")).unwrap();
        let sight = Sight::probe(dir.path(), Unseen::Doubt).unwrap();
        let limits = Limits::new(1000, Duration::from_secs(10));
        let eyes = Eyes {
            sight: &sight,
            limits: &limits,
            tolerant: false,
        };
        let first = Index::open(&kept, &image, eyes);
        assert!(first.is_as_it_was());
        let path = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        let loaded = Index::load(&path, &image, eyes).unwrap();
        assert_eq!(loaded.directories, first.directories);
        let mut children = loaded.children(Path::new("/"));
        children.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            children,
            [("a".into(), Kind::Directory), ("l".into(), Kind::Link)]
        );

        // A file alone: its directory does not tell, each file does.
        fs::File::options()
            .append(true)
            .open(image.join("a/b/c"))
            .unwrap()
            .write_all(b"x")
            .unwrap();
        assert!(loaded.directories_are_as_they_were());
        assert!(!loaded.is_as_it_was());

        File::create(image.join("a/b/d")).unwrap();
        assert!(!loaded.directories_are_as_they_were());
        let second = Index::open(&kept, &image, eyes);
        assert_eq!(second.children(Path::new("/a/b")).len(), 2);
        forget_all(&kept).unwrap();
        assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
    }
}
