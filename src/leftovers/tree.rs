//! One thing in the parent: what it is, whose it is, and whether that can be proven.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::libc;
#[cfg(target_os = "linux")]
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, F2FS_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC,
    TMPFS_MAGIC, XFS_SUPER_MAGIC,
};

use super::processes::{self, Stopped};
use super::report::{Fate, Leftover, Why};
use super::{Sweep, mounts, remove};
use crate::trust::scratch::{self, NEW_PREFIX, NotAnOwner, OWNER_FILE, Owner, owner};

impl Sweep {
    /// Looks at something in the parent and takes it away where it may; none where it went
    /// meanwhile.
    pub(super) fn entry(&self, path: &Path) -> Option<Leftover> {
        let mut leftover = Leftover {
            path: path.to_owned(),
            owner: None,
            stopped: Vec::new(),
            fate: Fate::Removed,
        };
        match self.settle(&mut leftover) {
            Ok(Some(())) => {}
            Ok(None) => return None,
            Err(why) => leftover.fate = Fate::Left(why),
        }
        Some(leftover)
    }

    fn settle(&self, leftover: &mut Leftover) -> Result<Option<()>, Why> {
        if self.is_over() {
            return Err(Why::OutOfTime);
        }
        let path = leftover.path.clone();
        let found = match std::fs::symlink_metadata(&path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|err| failed(&path, &err))?,
        };
        self.is_directory_of_ours(&path, &found)?;
        let Some(file) = open_owner(&path)? else {
            return self.without_owner(&path);
        };
        if !is_file_of(&file, self.ours) {
            return Err(Why::NotAnOwner(NotAnOwner::NotAFile));
        }
        let said = owner::read(&file);
        leftover.owner = said.as_ref().ok().cloned();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Why::InUse),
            Err(TryLockError::Error(err)) => return Err(failed(&path, &err)),
        }
        // Before the lock was ours, somebody may have taken the tree away or given it its name.
        if !owner::is_at(&file, &path.join(OWNER_FILE)) {
            return Ok(None);
        }
        if name(&path).starts_with(NEW_PREFIX.as_bytes()) {
            return self.unfinished(&path).map(Some);
        }
        // It was read before the lock: its owner may have been writing it.
        let said = owner::read(&file).map_err(Why::NotAnOwner)?;
        leftover.owner = Some(said.clone());
        self.is_dead(&said, &path)?;
        self.end(leftover, &said)?;
        Ok(Some(()))
    }

    fn is_directory_of_ours(&self, path: &Path, found: &std::fs::Metadata) -> Result<(), Why> {
        if let Some(wrong) = scratch::not_a_directory(found) {
            return Err(Why::NotADirectory(wrong));
        }
        if found.uid() != self.ours {
            let owner = found.uid();
            return Err(Why::OtherUser { owner });
        }
        if found.dev() != self.device {
            let at = path.to_owned();
            return Err(Why::Mounted { at });
        }
        Ok(())
    }

    /// What has no owner's file is the beginning or the end of a tree, or the mark of a look at the
    /// parent, where it is empty; otherwise nobody knows.
    fn without_owner(&self, path: &Path) -> Result<Option<()>, Why> {
        let unreadable = |err| failed(path, &err);
        let mut entries = std::fs::read_dir(path).map_err(unreadable)?;
        if entries.next().is_some() {
            // A tree that began between the two looks has its owner by now.
            return Err(match std::fs::symlink_metadata(path.join(OWNER_FILE)) {
                Ok(_) => Why::InUse,
                Err(_) => Why::NoOwner,
            });
        }
        if !self.dry_run {
            remove::empty_tree(path)?;
        }
        Ok(Some(()))
    }

    /// A tree whose owner was killed before it got its name. It holds the owner's file alone.
    fn unfinished(&self, path: &Path) -> Result<(), Why> {
        let entries = std::fs::read_dir(path).map_err(|err| failed(path, &err))?;
        let others = entries
            .flatten()
            .any(|entry| entry.file_name() != OWNER_FILE);
        match (others, self.dry_run) {
            (true, _) => Err(Why::NoOwner),
            (false, true) => Ok(()),
            (false, false) => remove::tree(path, self.device, self.due),
        }
    }

    /// Whether an owner that holds its lock no more is known to be gone.
    fn is_dead(&self, owner: &Owner, path: &Path) -> Result<(), Why> {
        let unknown = owner.boot_id.is_empty() || self.now.boot_id.is_empty();
        if unknown || owner.boot_id != self.now.boot_id {
            // Such a lock is held by a kernel. On a filesystem that no other has mounted, an
            // earlier boot's is free for good.
            return match !unknown && is_local(path) {
                true => Ok(()),
                false => Err(Why::OtherMachine),
            };
        }
        let unknown = owner.pid_namespace.is_empty();
        if unknown || owner.pid_namespace != self.now.pid_namespace {
            return Err(Why::OtherNamespace);
        }
        match processes::runs(owner.pid, owner.start_time) {
            true => Err(Why::OwnerRuns),
            false => Ok(()),
        }
    }

    /// Ends what is left of a dead owner's tree.
    fn end(&self, leftover: &mut Leftover, owner: &Owner) -> Result<(), Why> {
        let path = leftover.path.clone();
        let mounted = mounts::below(&path).map_err(|err| failed(&path, &err))?;
        if let Some(at) = mounted {
            return Err(Why::Mounted { at });
        }
        // Processes do not outlive a boot.
        if owner.boot_id == self.now.boot_id {
            let since = owner.start_time;
            if self.dry_run {
                let found = processes::of_tree(&path, since);
                leftover.stopped = found.iter().map(|process| process.pid).collect();
            } else {
                let Stopped { ended, running } = processes::stop(&path, since, self.due);
                leftover.stopped = ended;
                if !running.is_empty() {
                    return Err(Why::StillRunning { pids: running });
                }
            }
        }
        match self.dry_run {
            true => Ok(()),
            false => remove::tree(&path, self.device, self.due),
        }
    }
}

/// The owner's file, where there is one.
fn open_owner(tree: &Path) -> Result<Option<File>, Why> {
    match owner::open(&tree.join(OWNER_FILE), false) {
        Ok(file) => Ok(Some(file)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        // A link.
        Err(err) if err.raw_os_error() == Some(libc::ELOOP) => {
            Err(Why::NotAnOwner(NotAnOwner::NotAFile))
        }
        Err(err) => Err(Why::NotAnOwner(NotAnOwner::Unreadable(err.to_string()))),
    }
}

fn is_file_of(file: &File, uid: u32) -> bool {
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.uid() == uid)
}

fn name(path: &Path) -> &[u8] {
    path.file_name().map_or(&[], OsStr::as_bytes)
}

/// Whether a filesystem is one that a single kernel has mounted.
#[cfg(target_os = "linux")]
fn is_local(path: &Path) -> bool {
    const LOCAL: [FsType; 6] = [
        EXT4_SUPER_MAGIC,
        XFS_SUPER_MAGIC,
        BTRFS_SUPER_MAGIC,
        F2FS_SUPER_MAGIC,
        TMPFS_MAGIC,
        OVERLAYFS_SUPER_MAGIC,
    ];
    nix::sys::statfs::statfs(path).is_ok_and(|found| LOCAL.contains(&found.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_path: &Path) -> bool {
    false
}

fn failed(path: &Path, err: &io::Error) -> Why {
    Why::Failed {
        path: path.to_owned(),
        reason: err.to_string(),
    }
}
