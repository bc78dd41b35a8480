//! Removing a tree, by descriptors: no link is followed, no other filesystem entered, and no more
//! time taken than there is.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::report::Why;
use crate::trust::scratch::OWNER_FILE;

/// Deeper than any tree of the driver's.
const DEEPEST: usize = 32;

/// Removes what is in a tree, its owner's file last, and the tree.
pub(super) fn tree(dir: &Path, device: u64, due: Instant) -> Result<(), Why> {
    let open = open(AT_FDCWD, dir).map_err(|errno| failed(dir, errno))?;
    let emptying = Emptying { device, due };
    // Until all else is gone the file says whose the rest is.
    emptying.empty(open, dir, Some(OWNER_FILE), DEEPEST)?;
    let owner = dir.join(OWNER_FILE);
    ignore_absent(unlinkat(AT_FDCWD, &owner, UnlinkatFlags::NoRemoveDir))
        .map_err(|errno| failed(&owner, errno))?;
    empty_tree(dir)
}

/// Removes a directory that has nothing in it.
pub(super) fn empty_tree(dir: &Path) -> Result<(), Why> {
    ignore_absent(unlinkat(AT_FDCWD, dir, UnlinkatFlags::RemoveDir))
        .map_err(|errno| failed(dir, errno))
}

struct Emptying {
    device: u64,
    due: Instant,
}

impl Emptying {
    fn empty(
        &self,
        open: OwnedFd,
        path: &Path,
        kept: Option<&str>,
        depth: usize,
    ) -> Result<(), Why> {
        let on_device = fstat(&open).map(|found| found.st_dev);
        if on_device.map_err(|errno| failed(path, errno))? != self.device {
            return Err(Why::Mounted {
                at: path.to_owned(),
            });
        }
        let below = open.try_clone().map_err(|err| Why::Failed {
            path: path.to_owned(),
            reason: err.to_string(),
        })?;
        let mut entries = Dir::from_fd(open).map_err(|errno| failed(path, errno))?;
        for entry in entries.iter() {
            let entry = entry.map_err(|errno| failed(path, errno))?;
            let name = entry.file_name();
            let bytes = name.to_bytes();
            if [&b"."[..], b".."].contains(&bytes)
                || kept.is_some_and(|kept| kept.as_bytes() == bytes)
            {
                continue;
            }
            let at = path.join(OsStr::from_bytes(bytes));
            self.remove(&below, name, &at, depth)?;
        }
        Ok(())
    }

    fn remove(&self, dir: &OwnedFd, name: &CStr, at: &Path, depth: usize) -> Result<(), Why> {
        if Instant::now() >= self.due {
            return Err(Why::OutOfTime);
        }
        match ignore_absent(unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)) {
            Ok(()) => return Ok(()),
            Err(Errno::EISDIR) if depth > 0 => {}
            Err(errno) => return Err(failed(at, errno)),
        }
        let below = open_though_closed(dir, name).map_err(|errno| failed(at, errno))?;
        self.empty(below, at, None, depth - 1)?;
        ignore_absent(unlinkat(dir, name, UnlinkatFlags::RemoveDir))
            .map_err(|errno| failed(at, errno))
    }
}

fn open<P: nix::NixPath + ?Sized>(dir: impl std::os::fd::AsFd, name: &P) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// Opens a directory of ours also where its mode lets nobody in: an overlay makes such a one.
fn open_though_closed(dir: &OwnedFd, name: &CStr) -> nix::Result<OwnedFd> {
    match open(dir, name) {
        Err(Errno::EACCES) => {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let held = openat(dir, name, flags, Mode::empty())?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o700))
                .map_err(|err| Errno::from_raw(err.raw_os_error().unwrap_or_default()))?;
            open(dir, name)
        }
        opened => opened,
    }
}

fn ignore_absent(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ENOENT) => Ok(()),
        result => result,
    }
}

fn failed(path: &Path, errno: Errno) -> Why {
    Why::Failed {
        path: path.to_owned(),
        reason: errno.desc().to_owned(),
    }
}
