//! Who owns a scratch tree: a file that says so, under a lock that the kernel drops however its
//! owner ends.
//!
//! The lock alone decides whether a tree is in use. What the file says is for what comes after: a
//! process of the tree was started in the same boot and not before its owner.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use serde::{Deserialize, Serialize};

/// The name of the file in a tree.
pub const OWNER_FILE: &str = "owner";

const SCHEMA: &str = "runsc-driver/owner/v1";
/// No owner's file is as long as this.
const LONGEST: u64 = 4096;

/// A process that made a scratch tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    pub(crate) schema: String,
    /// The boot of the machine, by the kernel's id of it; empty where there is none.
    pub boot_id: String,
    /// Its pid, as its own pid namespace has it.
    pub pid: u32,
    /// When it was started, in clock ticks since the boot.
    pub start_time: u64,
    /// Its pid namespace, as `/proc/self/ns/pid` leads to it.
    pub pid_namespace: String,
}

/// Why a file names no owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAnOwner {
    /// It is no file, or not one of this user's, or too long.
    #[error("is no plain file of this user's")]
    NotAFile,
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is empty: whoever made it got no further.
    #[error("is empty")]
    Empty,
    /// It is not what the driver writes.
    #[error("is not what this driver writes")]
    Malformed,
    /// A driver of another release wrote it.
    #[error("is of a schema that this release does not know")]
    UnknownSchema,
}

impl Owner {
    /// This process. What the system does not tell is left empty.
    #[must_use]
    pub fn this_process() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            schema: SCHEMA.to_owned(),
            boot_id: text("/proc/sys/kernel/random/boot_id").trim().to_owned(),
            pid: std::process::id(),
            start_time: start_time(&text("/proc/self/stat")).unwrap_or_default(),
            pid_namespace: namespace.to_string_lossy().into_owned(),
        }
    }

    /// What a file says.
    ///
    /// # Errors
    /// [`NotAnOwner`] where it is not an owner of a known schema.
    pub fn parse(text: &[u8]) -> Result<Self, NotAnOwner> {
        #[derive(Deserialize)]
        struct Schema {
            schema: String,
        }
        if text.is_empty() {
            return Err(NotAnOwner::Empty);
        }
        let Schema { schema } = serde_json::from_slice(text).map_err(|_| NotAnOwner::Malformed)?;
        if schema != SCHEMA {
            return Err(NotAnOwner::UnknownSchema);
        }
        serde_json::from_slice(text).map_err(|_| NotAnOwner::Malformed)
    }
}

/// When a process was started, in clock ticks since the boot; none where there is no such process.
pub(crate) fn start_time_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    start_time(&String::from_utf8_lossy(&stat))
}

/// The 22nd field of a `/proc/PID/stat`. The second, a name in brackets, may hold anything.
fn start_time(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// An owner's file, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct OwnerFile {
    file: File,
    path: PathBuf,
}

impl OwnerFile {
    /// Makes the file in a directory, locks it, and writes this process into it.
    ///
    /// `NotFound` and `WouldBlock` mean that a sweep took the directory, or is looking at it.
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        let path = dir.join(OWNER_FILE);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        file.try_lock()?;
        // Between the file's making and its lock a sweep may have locked and removed it.
        if file.metadata()?.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        let owned = Self { file, path };
        owned.write()?;
        Ok(owned)
    }

    /// Takes over a file that an ended owner left in a directory of the caller's; none where it
    /// belongs to somebody who lives, or is not ours to write to.
    pub(super) fn adopt(dir: &Path) -> Option<Self> {
        let path = dir.join(OWNER_FILE);
        let file = open(&path, true).ok()?;
        file.try_lock().ok()?;
        read(&file).ok()?;
        let owned = Self { file, path };
        if !owned.is_in_place() {
            return None;
        }
        owned.file.set_len(0).ok()?;
        owned.write().ok()?;
        Some(owned)
    }

    /// The same file after its directory was renamed.
    pub(super) fn moved_to(self, dir: &Path) -> Self {
        Self {
            path: dir.join(OWNER_FILE),
            ..self
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&Owner::this_process())?;
        text.push(b'\n');
        // In one call, which no signal cuts short.
        (&self.file).rewind()?;
        (&self.file).write_all(&text)
    }

    /// Whether the path still leads to this file.
    fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Removes the file, and not another that took its place.
    pub(super) fn remove(&self) {
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens an owner's file without following a link or waiting for a pipe's other end.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    File::options()
        .read(true)
        .write(write)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
}

/// Whether a path leads to an open file, itself and not through a link.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let ids = |found: std::fs::Metadata| (found.dev(), found.ino());
    let there = std::fs::symlink_metadata(path).map(ids);
    file.metadata()
        .map(ids)
        .is_ok_and(|open| there.is_ok_and(|there| open == there))
}

/// What an owner's file says.
pub(crate) fn read(file: &File) -> Result<Owner, NotAnOwner> {
    let unreadable = |err: io::Error| NotAnOwner::Unreadable(err.to_string());
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() || found.len() > LONGEST {
        return Err(NotAnOwner::NotAFile);
    }
    let mut text = Vec::new();
    let mut from = file;
    from.rewind().map_err(unreadable)?;
    from.take(LONGEST)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    Owner::parse(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let owned = OwnerFile::create(dir.path()).unwrap();
        let file = open(&dir.path().join(OWNER_FILE), false).unwrap();
        let owner = read(&file).unwrap();
        assert_eq!(owner, Owner::this_process());
        assert_eq!(owner.pid, std::process::id());
        assert_eq!(start_time_of(owner.pid), Some(owner.start_time));
        owned.remove();
        assert!(!is_at(&file, &dir.path().join(OWNER_FILE)));
    }

    #[test]
    fn the_lock_holds_until_its_owner_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let owned = OwnerFile::create(dir.path()).unwrap();
        let taken = OwnerFile::create(dir.path()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert!(OwnerFile::adopt(dir.path()).is_none());
        let file = open(&dir.path().join(OWNER_FILE), false).unwrap();
        assert!(file.try_lock_shared().is_err());
        drop(owned);
        let adopted = OwnerFile::adopt(dir.path()).unwrap();
        assert_eq!(read(&adopted.file).err(), None);
        assert!(file.try_lock_shared().is_err());
    }

    #[test]
    fn another_file_in_its_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let owned = OwnerFile::create(dir.path()).unwrap();
        let path = dir.path().join(OWNER_FILE);
        std::fs::remove_file(&path).unwrap();
        File::create(&path).unwrap();
        owned.remove();
        assert!(path.exists());
        // And nobody adopts a file that is not an owner's.
        assert!(OwnerFile::adopt(dir.path()).is_none());
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    #[test]
    fn what_is_no_owner_is_told_apart() {
        let whole = r#"{"schema":"runsc-driver/owner/v1","bootId":"b","pid":7,"startTime":9,"pidNamespace":"pid:[1]"}"#;
        let owner = Owner::parse(whole.as_bytes()).unwrap();
        assert_eq!(
            (owner.boot_id.as_str(), owner.pid, owner.start_time),
            ("b", 7, 9)
        );
        let cases = [
            ("", NotAnOwner::Empty),
            ("7", NotAnOwner::Malformed),
            (&whole[..30], NotAnOwner::Malformed),
            (
                r#"{"schema":"runsc-driver/owner/v1"}"#,
                NotAnOwner::Malformed,
            ),
            (
                r#"{"schema":"runsc-driver/owner/v2"}"#,
                NotAnOwner::UnknownSchema,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Owner::parse(text.as_bytes()), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let fields: Vec<_> = (3..=52).map(|field: u32| field.to_string()).collect();
        let rest = fields.join(" ");
        for name in ["sh", "a b", "a) R 1 (b", ")"] {
            assert_eq!(
                start_time(&format!("7 ({name}) {rest}")),
                Some(22),
                "{name}"
            );
        }
        assert_eq!(start_time("7 (sh) S 1"), None);
        assert_eq!(start_time(""), None);
        let own = start_time_of(std::process::id()).unwrap();
        assert!(own > 0);
    }
}
