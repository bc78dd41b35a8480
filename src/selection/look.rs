//! How the selection looks at files: the one part of it that is not pure.

use std::fmt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag};
use nix::unistd::AccessFlags;

/// Why the system would not look at a file or open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub(crate) Errno);

impl Reason {
    /// The system's number for it.
    #[must_use]
    pub fn errno(self) -> i32 {
        self.0 as i32
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.desc())
    }
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File {
        /// Whether anybody at all may execute it.
        executable: bool,
    },
    Directory,
    Link,
    Other,
}

/// Looks at files. A trait, so that a test running as root can make a file unreadable.
pub(crate) trait Look {
    /// What a path leads to, through links.
    fn stat(&self, path: &Path) -> Result<Kind, Errno>;
    /// What is at the path itself.
    fn lstat(&self, path: &Path) -> Result<Kind, Errno>;
    /// Where a link points, as it is written.
    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno>;
    /// Whether this process can open a file to read.
    fn readable(&self, path: &Path) -> Result<(), Errno>;
    /// Whether this process can execute a file.
    fn executable(&self, path: &Path) -> Result<(), Errno>;
}

/// The real file system.
pub(crate) struct Disk;

impl Look for Disk {
    fn stat(&self, path: &Path) -> Result<Kind, Errno> {
        nix::sys::stat::stat(path).map(|stat| kind(&stat))
    }

    fn lstat(&self, path: &Path) -> Result<Kind, Errno> {
        nix::sys::stat::lstat(path).map(|stat| kind(&stat))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        nix::fcntl::readlink(path).map(PathBuf::from)
    }

    fn readable(&self, path: &Path) -> Result<(), Errno> {
        // Not blocking: what was a regular file a moment ago may be a FIFO now.
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        nix::fcntl::open(path, flags, Mode::empty()).map(drop)
    }

    fn executable(&self, path: &Path) -> Result<(), Errno> {
        nix::unistd::faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS)
    }
}

fn kind(stat: &FileStat) -> Kind {
    let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if format == SFlag::S_IFREG {
        let mode = Mode::from_bits_truncate(stat.st_mode);
        Kind::File {
            executable: mode.intersects(Mode::S_IXUSR | Mode::S_IXGRP | Mode::S_IXOTH),
        }
    } else if format == SFlag::S_IFDIR {
        Kind::Directory
    } else if format == SFlag::S_IFLNK {
        Kind::Link
    } else {
        Kind::Other
    }
}
