//! Reading a tree that somebody else made: never out of it, never through a link, and nothing but
//! plain files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstatat};

/// A directory that paths are looked up below.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
}

/// Why a file of a tree cannot be read. None of it repeats what the system said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRead {
    /// There is nothing.
    Missing,
    /// There is a link, here or on the way.
    Link,
    /// There is something other than a plain file.
    NotRegular,
    /// The file has other names too.
    HardLink,
    /// It could not be read for another reason.
    Unavailable,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    Socket,
    Other,
}

/// An entry that a walk came to.
#[derive(Debug)]
pub(crate) struct Entry {
    /// From the tree's root.
    pub path: PathBuf,
    pub kind: Kind,
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub entries: usize,
    pub depth: usize,
}

/// How a walk came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walked {
    All,
    TooMany,
    TooDeep,
    Unreadable,
}

impl Tree {
    /// A tree at a directory, which is not a link.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open(dir, flags | OFlag::O_RDONLY, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a plain file with one name.
    pub(crate) fn file(&self, path: &Path) -> Result<File, NotRead> {
        let file = self.file_of_any_links(path)?;
        match file.metadata() {
            Ok(found) if found.nlink() == 1 => Ok(file),
            Ok(_) => Err(NotRead::HardLink),
            Err(_) => Err(NotRead::Unavailable),
        }
    }

    /// Opens a plain file, whatever other names it has.
    pub(crate) fn file_of_any_links(&self, path: &Path) -> Result<File, NotRead> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = File::from(self.at(path, flags).map_err(not_read)?);
        let found = file.metadata().map_err(|_| NotRead::Unavailable)?;
        if !found.is_file() {
            return Err(NotRead::NotRegular);
        }
        Ok(file)
    }

    /// Opens a directory; that of the tree itself by an empty path.
    pub(crate) fn dir(&self, path: &Path) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        match path.as_os_str().is_empty() {
            true => nix::fcntl::openat(&self.root, ".", flags | OFlag::O_CLOEXEC, Mode::empty()),
            false => self.at(path, flags),
        }
    }

    #[cfg(target_os = "linux")]
    fn at(&self, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        use nix::fcntl::{OpenHow, ResolveFlag, openat2};
        // What a name stands for is looked at before it is opened: to open a device can do things.
        let resolve = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = |flags| {
            OpenHow::new()
                .flags(flags | OFlag::O_CLOEXEC)
                .resolve(resolve)
        };
        let looked_at = openat2(&self.root, path, how(OFlag::O_PATH | OFlag::O_NOFOLLOW))?;
        let kind = SFlag::from_bits_truncate(nix::sys::stat::fstat(&looked_at)?.st_mode);
        match kind & SFlag::S_IFMT {
            SFlag::S_IFREG | SFlag::S_IFDIR => {
                openat2(&self.root, path, how(flags | OFlag::O_NOFOLLOW))
            }
            SFlag::S_IFLNK => Err(nix::Error::ELOOP),
            _ => Err(nix::Error::ENXIO),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn at(&self, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        use nix::fcntl::openat;
        let mut names: Vec<_> = path.components().collect();
        let last = names.pop().ok_or(nix::Error::ENOENT)?;
        let step = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut reached = nix::unistd::dup(&self.root)?;
        for name in names {
            reached = openat(&reached, name.as_os_str(), step, Mode::empty())?;
        }
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&reached, last.as_os_str(), flags, Mode::empty())
    }

    /// Looks at every entry, directories before what is in them, in the order of their names.
    pub(crate) fn walk(&self, bounds: Bounds, mut look: impl FnMut(&Entry)) -> Walked {
        let mut pending = vec![(PathBuf::new(), 0)];
        let mut count = 0;
        let mut end = Walked::All;
        while let Some((path, depth)) = pending.pop() {
            let room = bounds.entries.saturating_sub(count);
            let (entries, all) = match self.list(&path, room) {
                Ok(listed) => listed,
                // It may have been taken away, or belong to somebody else.
                Err(_) => {
                    end = Walked::Unreadable;
                    continue;
                }
            };
            count += entries.len();
            let below = pending.len();
            for entry in entries {
                look(&entry);
                if entry.kind == Kind::Directory {
                    if depth + 1 >= bounds.depth {
                        end = Walked::TooDeep;
                    } else {
                        pending.push((entry.path, depth + 1));
                    }
                }
            }
            pending[below..].reverse();
            if !all {
                return Walked::TooMany;
            }
        }
        end
    }

    /// The entries of a directory, sorted, and whether that is all of them.
    fn list(&self, path: &Path, room: usize) -> nix::Result<(Vec<Entry>, bool)> {
        let mut dir = Dir::from_fd(self.dir(path)?)?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == room {
                return Ok((Vec::new(), false));
            }
            names.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let mut entries = Vec::with_capacity(names.len());
        for (name, kind) in names {
            let kind = match kind {
                Some(kind) => of_type(kind),
                None => {
                    let found = fstatat(&dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
                    of_mode(found.st_mode)
                }
            };
            entries.push(Entry {
                path: path.join(name),
                kind,
            });
        }
        Ok((entries, true))
    }
}

fn of_type(kind: Type) -> Kind {
    match kind {
        Type::File => Kind::File,
        Type::Directory => Kind::Directory,
        Type::Symlink => Kind::Link,
        Type::Socket => Kind::Socket,
        _ => Kind::Other,
    }
}

fn of_mode(mode: nix::libc::mode_t) -> Kind {
    match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Directory,
        SFlag::S_IFLNK => Kind::Link,
        SFlag::S_IFSOCK => Kind::Socket,
        _ => Kind::Other,
    }
}

fn not_read(errno: nix::Error) -> NotRead {
    match errno {
        nix::Error::ENOENT | nix::Error::ENOTDIR => NotRead::Missing,
        nix::Error::ELOOP | nix::Error::EXDEV => NotRead::Link,
        nix::Error::ENXIO => NotRead::NotRegular,
        _ => NotRead::Unavailable,
    }
}

/// What a file was when it was looked at: another answer later says that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// How much of it is really there.
    pub allocated: u64,
}

impl Stamp {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            size: found.size(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            allocated: found.blocks().saturating_mul(512),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_plain_file_below_the_root_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a")).unwrap();
        for name in ["root/a/file", "root/once", "outside"] {
            File::create(dir.path().join(name)).unwrap();
        }
        std::fs::hard_link(root.join("once"), root.join("twice")).unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("../outside", root.join("out")).unwrap();
        nix::unistd::mkfifo(&root.join("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let tree = Tree::open(&root).unwrap();
        let rows = [
            ("a/file", None),
            ("none", Some(NotRead::Missing)),
            ("a/file/x", Some(NotRead::Missing)),
            ("a", Some(NotRead::NotRegular)),
            ("link/file", Some(NotRead::Link)),
            ("out", Some(NotRead::Link)),
            ("../outside", Some(NotRead::Link)),
            ("fifo", Some(NotRead::NotRegular)),
            ("socket", Some(NotRead::NotRegular)),
            ("once", Some(NotRead::HardLink)),
            ("/etc/passwd", Some(NotRead::Link)),
        ];
        for (path, expected) in rows {
            assert_eq!(tree.file(Path::new(path)).err(), expected, "{path}");
        }
        let mut seen = Vec::new();
        let bounds = Bounds {
            entries: 100,
            depth: 8,
        };
        assert_eq!(
            tree.walk(bounds, |entry| seen.push(format!(
                "{} {:?}",
                entry.path.display(),
                entry.kind
            ))),
            Walked::All
        );
        assert_eq!(
            seen,
            [
                "a Directory",
                "fifo Other",
                "link Link",
                "once File",
                "out Link",
                "socket Socket",
                "twice File",
                "a/file File"
            ]
        );
        assert!(Tree::open(&root.join("link")).is_err());
    }

    #[test]
    fn a_walk_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b/c/d")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let walk = |entries, depth| tree.walk(Bounds { entries, depth }, |_| {});
        assert_eq!(walk(4, 5), Walked::All);
        assert_eq!(walk(3, 5), Walked::TooMany);
        assert_eq!(walk(9, 3), Walked::TooDeep);
    }
}
