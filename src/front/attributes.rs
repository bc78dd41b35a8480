//! Labels of host files, in extended attributes that the sandbox cannot reach: gVisor passes none
//! between a host's file and a container.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, XattrFlags, getxattr, lgetxattr, llistxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::policy::Unseen;
use super::taint::{NotALabel, Taint};

/// What root alone can set and see.
pub const TRUSTED: &str = "trusted.cfc.contentLabel";
/// What a file's owner can set and see.
pub const USER: &str = "user.commonfabric.cfc.contentLabel";

/// The most that the kernel lets an attribute have.
const MOST: usize = 64 * 1024;

/// Whose labels this process sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// Whether `trusted.*` attributes can be set and got.
    pub trusted: bool,
    /// Whose files are ours.
    pub uid: u32,
    /// Whether we are the host's root, in a namespace where that does not count.
    pub root_outside: bool,
    /// What is thought of labels that cannot be seen.
    pub unseen: Unseen,
}

impl Sight {
    /// Finds out by setting and getting one on a file of ours. Never by the uid: root of a user
    /// namespace sees no `trusted.*`, and would read a label as none.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn probe(dir: &Path, unseen: Unseen) -> io::Result<Self> {
        let path = dir.join(format!(".probe-{}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        // Without its name nothing is left of it, wherever we are killed. A process of this number
        // in another namespace may have taken the name away first.
        match std::fs::remove_file(&path) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        let trusted = can_use_trusted(&file);
        Ok(Self {
            trusted,
            uid: rustix::process::geteuid().as_raw(),
            root_outside: !trusted && is_root_outside(),
            unseen,
        })
    }

    /// Whether a file of this owner may have a label that we do not see.
    #[must_use]
    pub fn may_hide(&self, owner: u32) -> bool {
        !self.trusted && self.unseen == Unseen::Doubt && (self.root_outside || owner != self.uid)
    }

    /// Whether a file of this owner is one whose mode the container's root could change.
    #[must_use]
    pub fn is_own(&self, owner: u32) -> bool {
        self.trusted || owner == self.uid
    }
}

fn can_use_trusted(file: &File) -> bool {
    const PROBE: &str = "trusted.cfc.probe";
    let path = fd_path(file);
    let mut value = [0_u8; 8];
    setxattr(&path, PROBE, b"1", XattrFlags::empty()).is_ok()
        && getxattr(&path, PROBE, &mut value[..]) == Ok(1)
        && removexattr(&path, PROBE).is_ok()
}

/// Whether the uid of this user namespace's root is outside of it root's too.
fn is_root_outside() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some("0")
    })
}

/// Why a label that is there cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// It cannot be read.
    Unreadable(Errno),
    /// It is no label.
    Malformed(NotALabel),
}

/// The label at a path that is not followed if it is a link; `seen` is told each value's bytes and
/// says whether they were seen before, so that one value is not read a thousand times.
///
/// # Errors
/// [`Unread`].
pub fn read(path: &CStr, seen: &mut impl FnMut(&[u8]) -> bool) -> Result<Option<Taint>, Unread> {
    let mut names = [0_u8; 512];
    let mut long = Vec::new();
    let names = match llistxattr(path, &mut names[..]) {
        Ok(0) => return Ok(None),
        Ok(length) => &names[..length],
        // The filesystem has no attributes, or the file is gone and so is its label.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT) => return Ok(None),
        Err(Errno::RANGE) => {
            long.resize(MOST, 0);
            let length = llistxattr(path, &mut long[..]).map_err(Unread::Unreadable)?;
            &long[..length]
        }
        Err(errno) => return Err(Unread::Unreadable(errno)),
    };
    let mut label = None;
    for name in names.split(|byte| *byte == 0) {
        if name != TRUSTED.as_bytes() && name != USER.as_bytes() {
            continue;
        }
        let mut value = vec![0_u8; MOST];
        let length = match lgetxattr(path, name, &mut value[..]) {
            Ok(length) => length,
            Err(Errno::NODATA | Errno::NOENT) => continue,
            Err(errno) => return Err(Unread::Unreadable(errno)),
        };
        let taint: &mut Taint = label.get_or_insert_default();
        if !seen(&value[..length]) {
            taint.join(&Taint::from_attribute(&value[..length]).map_err(Unread::Malformed)?);
        }
    }
    Ok(label)
}

/// Why a file could not be labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unlabelled {
    /// It holds no `user.*` attributes, and we set no others: it has its directory's label.
    #[error("it has its directory's label")]
    InDirectory,
    /// The system refused.
    #[error("{0}")]
    Refused(Errno),
}

/// Joins a label to the one that a file has; whether that changed the file. `file` may be open as
/// a path alone.
///
/// # Errors
/// [`Unlabelled`].
pub fn raise(
    file: &OwnedFd,
    kind: FileType,
    taint: &Taint,
    sight: &Sight,
) -> Result<bool, Unlabelled> {
    let path = fd_path(file);
    let mut whole = taint.clone();
    let mut said = true;
    for name in names(kind, sight)? {
        let there = get(&path, name).map_err(Unlabelled::Refused)?;
        // What is no label says something that joining it would lose.
        let there = there.map(|bytes| Taint::from_attribute(&bytes).unwrap_or(Taint::nobody()));
        said &= there.as_ref().is_some_and(|there| there.covers(taint));
        whole.join(&there.unwrap_or_default());
    }
    if said {
        return Ok(false);
    }
    put(&path, kind, &whole, sight).map(|()| true)
}

/// Sets a label, whatever was there. An empty one is removed.
///
/// # Errors
/// [`Unlabelled`].
pub fn replace(
    file: &OwnedFd,
    kind: FileType,
    taint: &Taint,
    sight: &Sight,
) -> Result<(), Unlabelled> {
    let path = fd_path(file);
    if taint.is_public() {
        for name in [TRUSTED, USER] {
            match removexattr(&path, name) {
                Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(Errno::PERM) if name == TRUSTED && !sight.trusted => {}
                Err(Errno::PERM) if !holds_user(kind) => {}
                Err(errno) => return Err(Unlabelled::Refused(errno)),
            }
        }
        return Ok(());
    }
    put(&path, kind, taint, sight)
}

fn put(path: &str, kind: FileType, taint: &Taint, sight: &Sight) -> Result<(), Unlabelled> {
    let names = names(kind, sight)?;
    match put_all(path, names, &taint.to_attribute()) {
        // Over the filesystem's room: what stands for it is short.
        Err(Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE) => {
            put_all(path, names, &Taint::nobody().to_attribute())
        }
        other => other,
    }
    .map_err(Unlabelled::Refused)
}

/// The attributes that a file of this kind gets.
fn names(kind: FileType, sight: &Sight) -> Result<&'static [&'static str], Unlabelled> {
    match (sight.trusted, holds_user(kind)) {
        (true, true) => Ok(&[TRUSTED, USER]),
        (true, false) => Ok(&[TRUSTED]),
        (false, true) => Ok(&[USER]),
        (false, false) => Err(Unlabelled::InDirectory),
    }
}

/// Where one of two is enough for us, since the filesystem knows no other, it is.
fn put_all(path: &str, names: &[&str], value: &[u8]) -> Result<(), Errno> {
    let mut set = false;
    let mut unsupported = Ok(());
    for name in names {
        match setxattr(path, *name, value, XattrFlags::empty()) {
            Ok(()) => set = true,
            Err(Errno::OPNOTSUPP) => unsupported = Err(Errno::OPNOTSUPP),
            Err(errno) => return Err(errno),
        }
    }
    if set { Ok(()) } else { unsupported }
}

fn get(path: &str, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0_u8; MOST];
    match getxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Links, FIFOs, sockets and devices hold no `user.*`.
pub(super) fn holds_user(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Directory)
}

/// The file itself, a link too, whatever its name leads to by now.
fn fd_path(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
