//! The host's mounts, and what of them a container sees.
//!
//! Two containers share a file where one tree of the one lies in a tree of the other. That is told
//! three ways, any of which is enough: by the inode of a tree's root among the other's ancestors,
//! by the place in the filesystem (so that a bind mount elsewhere is recognised), and by the path.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use serde::{Deserialize, Serialize};

use super::path_text;
use crate::trust;

/// Filesystems on which a write leaves the machine, or goes to a process of it.
const ELSEWHERE: &[&str] = &[
    "9p",
    "acfs",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "drvfs",
    "fuse",
    "fuseblk",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "orangefs",
    "pvfs2",
    "prl_fs",
    "smb2",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
];

/// One line of the kernel's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    device: String,
    /// What of the filesystem is mounted.
    root: PathBuf,
    /// Where.
    at: PathBuf,
    kind: String,
    options: String,
}

/// The mounts of this process, in the kernel's order.
#[derive(Debug, Clone, Default)]
pub struct MountTable(Vec<MountPoint>);

/// A directory or file of the host, with all below it on its filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Where it is for this process.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// Its inode.
    pub id: FileId,
    /// Its filesystem, as the kernel's table names it.
    pub device: String,
    /// Where it is in that filesystem.
    #[serde(with = "path_text")]
    pub place: PathBuf,
    /// The directories above it.
    pub ancestors: Vec<FileId>,
    /// Whether it can be written through this mount, as far as the kernel is concerned.
    pub writable: bool,
    /// The kind of its filesystem, where a write to it leaves the machine.
    pub elsewhere: Option<String>,
}

/// An inode of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64, pub u64);

/// Something of the host in a container, with what is mounted below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// In the container, links resolved.
    #[serde(with = "path_text")]
    pub destination: PathBuf,
    /// Where this process sees it.
    #[serde(with = "path_text")]
    pub source: PathBuf,
    /// The source, and then each mount below it. Of an overlay, its layers.
    pub trees: Vec<Tree>,
}

impl MountTable {
    /// Reads this process's.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/mountinfo")?))
    }

    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// The mount that a path is on: the last of those that are nearest above it.
    fn of(&self, path: &Path) -> Option<&MountPoint> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        above.max_by_key(|mount| mount.at.components().count())
    }

    /// The layers of a path that is an overlay's root: what is below, and what is over it.
    #[must_use]
    pub fn overlay_layers(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let mount = self.of(path).filter(|mount| mount.at == path)?;
        if mount.kind != "overlay" {
            return None;
        }
        let option = |name: &str| {
            let value = split_options(&mount.options)
                .into_iter()
                .find_map(|option| option.strip_prefix(name).map(str::to_owned))?;
            Some(value)
        };
        let lower = option("lowerdir=").filter(|lower| !has_bare_colon(lower))?;
        let upper = option("upperdir=")?;
        Some((unescaped(&lower), unescaped(&upper)))
    }

    /// What of the host is at a path, with what is mounted below it. Links are followed.
    ///
    /// # Errors
    /// There is nothing.
    pub fn trees(&self, path: &Path) -> io::Result<Vec<Tree>> {
        let source = trust::walk("a mount's source", path).map_err(io::Error::other)?;
        let source = source.as_path();
        let mut trees = vec![self.tree(source)?];
        let below = self.0.iter().filter(|mount| {
            mount.at != source && mount.at.starts_with(source) && mount.at.as_os_str() != "/"
        });
        for mount in below {
            // One that is hidden by another or was just taken away has nothing to show.
            if let Ok(tree) = self.tree(&mount.at) {
                trees.push(tree);
            }
        }
        Ok(trees)
    }

    fn tree(&self, path: &Path) -> io::Result<Tree> {
        let found = std::fs::symlink_metadata(path)?;
        let mount = self
            .of(path)
            .ok_or_else(|| io::Error::other("it is on no mount that the kernel tells of"))?;
        let below = path.strip_prefix(&mount.at).unwrap_or(Path::new(""));
        let ancestors = path.ancestors().skip(1);
        let ancestors = ancestors.map(|above| std::fs::metadata(above).map(|f| FileId::of(&f)));
        let flags = statvfs(path)?.f_flag;
        Ok(Tree {
            path: path.to_owned(),
            id: FileId::of(&found),
            device: mount.device.clone(),
            place: joined(&mount.root, below),
            ancestors: ancestors.collect::<Result<_, _>>()?,
            writable: !flags.contains(StatVfsMountFlags::RDONLY),
            elsewhere: is_elsewhere(&mount.kind).then(|| mount.kind.clone()),
        })
    }

    /// Where a tree that another process named is for this one: the same path where that is still
    /// the same inode, or any mount that shows its place.
    #[must_use]
    pub fn locate(&self, tree: &Tree) -> Option<PathBuf> {
        let is_it = |path: &PathBuf| {
            std::fs::symlink_metadata(path).is_ok_and(|found| FileId::of(&found) == tree.id)
        };
        let shown = self
            .0
            .iter()
            .filter(|mount| mount.device == tree.device)
            .filter_map(|mount| {
                Some(joined(
                    &mount.at,
                    tree.place.strip_prefix(&mount.root).ok()?,
                ))
            });
        std::iter::once(tree.path.clone()).chain(shown).find(is_it)
    }
}

impl FileId {
    pub(super) fn of(found: &std::fs::Metadata) -> Self {
        Self(found.dev(), found.ino())
    }
}

impl Tree {
    /// Whether some file is in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let within = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
        self.id == other.id
            || self.ancestors.contains(&other.id)
            || other.ancestors.contains(&self.id)
            || (self.device == other.device && within(&self.place, &other.place))
            || within(&self.path, &other.path)
    }
}

impl Bind {
    /// Whether anything of it can be written.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.trees.iter().any(|tree| tree.writable)
    }
}

/// Whether what one may write of `written` is seen in `seen`.
#[must_use]
pub fn shows_writes(written: &[Bind], seen: &[Bind]) -> bool {
    let writable = written
        .iter()
        .flat_map(|bind| bind.trees.iter().filter(|tree| tree.writable));
    let mut seen = seen.iter().flat_map(|bind| &bind.trees).peekable();
    if seen.peek().is_none() {
        return false;
    }
    let seen: Vec<_> = seen.collect();
    writable
        .into_iter()
        .any(|tree| seen.iter().any(|other| tree.overlaps(other)))
}

/// `base` itself where nothing is to be joined to it: a trailing slash would change it.
fn joined(base: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() {
        base.to_owned()
    } else {
        base.join(below)
    }
}

fn is_elsewhere(kind: &str) -> bool {
    ELSEWHERE.contains(&kind) || kind.starts_with("fuse.") || kind.starts_with("nfs")
}

fn line(line: &[u8]) -> Option<MountPoint> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let text = |at: usize| Some(String::from_utf8_lossy(fields.get(at)?).into_owned());
    Some(MountPoint {
        device: text(2)?,
        root: octal(fields.get(3)?),
        at: octal(fields.get(4)?),
        kind: text(dash + 1)?,
        options: octal(fields.get(dash + 3)?).to_string_lossy().into_owned(),
    })
}

/// The kernel writes white space and backslashes as three octal digits.
fn octal(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match (byte, digits) {
            (b'\\', Some(value)) => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// Splits at the commas that no backslash is before.
fn split_options(options: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut escaped = false;
    for c in options.chars() {
        if c == ',' && !escaped {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    all
}

fn has_bare_colon(value: &str) -> bool {
    let mut escaped = false;
    value.chars().any(|c| {
        let bare = c == ':' && !escaped;
        escaped = c == '\\' && !escaped;
        bare
    })
}

fn unescaped(value: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut escaped = false;
    for byte in OsString::from(value).as_bytes() {
        if *byte == b'\\' && !escaped {
            escaped = true;
            continue;
        }
        escaped = false;
        bytes.push(*byte);
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 22 254:0 /a/x /b/y rw - ext4 /dev/vda rw\n\
        31 22 0:40 / /a/tmp\\040fs ro - tmpfs tmpfs rw\n\
        32 22 0:41 / /net rw - nfs4 server:/x rw\n\
        33 22 0:42 / /m rw - overlay overlay rw,lowerdir=/im\\134,age,upperdir=/u\\134:p,workdir=/w\n";

    fn tree(path: &str, ids: (u64, u64), device: &str, place: &str, above: &[u64]) -> Tree {
        Tree {
            path: path.into(),
            id: FileId(ids.0, ids.1),
            device: device.into(),
            place: place.into(),
            ancestors: above.iter().map(|ino| FileId(ids.0, *ino)).collect(),
            writable: true,
            elsewhere: None,
        }
    }

    #[test]
    fn the_kernels_table_is_read() {
        let table = MountTable::parse(TABLE);
        let of = |path: &str| {
            let mount = table.of(Path::new(path)).unwrap();
            (mount.device.as_str(), mount.root.to_str().unwrap())
        };
        assert_eq!(of("/b/y/z"), ("254:0", "/a/x"));
        assert_eq!(of("/b/other"), ("254:0", "/"));
        assert_eq!(of("/a/tmp fs/f"), ("0:40", "/"));
        assert_eq!(table.of(Path::new("/net/f")).unwrap().kind, "nfs4");
        assert!(is_elsewhere("nfs4") && is_elsewhere("fuse.sshfs") && !is_elsewhere("ext4"));
    }

    #[test]
    fn an_overlays_layers_are_told() {
        let table = MountTable::parse(TABLE);
        assert_eq!(
            table.overlay_layers(Path::new("/m")),
            Some(("/im,age".into(), "/u:p".into()))
        );
        assert_eq!(table.overlay_layers(Path::new("/")), None);
    }

    #[test]
    fn trees_overlap_by_inode_by_place_and_by_path() {
        let whole = tree("/a", (1, 10), "254:0", "/a", &[2]);
        // The same inode below another name; below it; bound elsewhere; mounted below it.
        for other in [
            tree("/z", (1, 10), "254:0", "/z", &[2]),
            tree("/z/x", (1, 11), "254:0", "/z/x", &[10, 2]),
            tree("/b/y", (1, 11), "254:0", "/a/x", &[3, 2]),
            tree("/a/m", (9, 1), "0:40", "/", &[]),
        ] {
            assert!(
                whole.overlaps(&other) && other.overlaps(&whole),
                "{other:?}"
            );
        }
        let other = tree("/ab", (1, 12), "254:0", "/ab", &[2]);
        assert!(!whole.overlaps(&other));
    }

    #[test]
    fn a_tree_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let table = MountTable::read().unwrap();
        let mut tree = table.trees(dir.path()).unwrap().remove(0);
        assert_eq!(table.locate(&tree).as_deref(), Some(dir.path()));
        tree.path = "/nowhere".into();
        assert_eq!(table.locate(&tree).as_deref(), Some(dir.path()));
        tree.id.1 += 1;
        assert_eq!(table.locate(&tree), None);
    }
}
