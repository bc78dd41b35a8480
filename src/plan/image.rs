//! What the image has to have before runsc is started on it.
//!
//! runsc makes a mount point that is missing in the image itself, in-memory overlay or not, so the
//! driver finds out first.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::PlanError;
use crate::config::{Mount, SandboxConfig};
use crate::host::{Host, Platform};

/// The image must belong to whoever runs it. The container has no capabilities: its root is the
/// caller, who can use neither a `/root` nor a file of somebody else's.
///
/// # Errors
/// [`PlanError::BadRootfs`], [`PlanError::ForeignRootfs`].
pub fn check_owner(config: &SandboxConfig, host: &Host) -> Result<(), PlanError> {
    let path = config.rootfs.as_path();
    let bad = |reason: String| PlanError::BadRootfs {
        path: path.to_owned(),
        reason,
    };
    let found = std::fs::metadata(path).map_err(|err| bad(err.to_string()))?;
    if !found.is_dir() {
        return Err(bad("it is not a directory".to_owned()));
    }
    match (&host.platform, host.uid) {
        (Platform::Linux, Some(uid)) if uid != found.uid() => Err(PlanError::ForeignRootfs {
            path: path.to_owned(),
            owner: found.uid(),
            uid,
        }),
        _ => Ok(()),
    }
}

/// Of each mount, whether its source is a directory.
///
/// # Errors
/// [`PlanError::BadMountSource`] for a source that is gone.
pub fn source_kinds(config: &SandboxConfig) -> Result<Vec<bool>, PlanError> {
    let kind = |mount: &Mount| {
        let found = std::fs::metadata(mount.host_path());
        found
            .map(|found| found.is_dir())
            .map_err(|err| PlanError::BadMountSource {
                path: mount.host_path().to_owned(),
                sandbox_path: mount.sandbox_path().to_owned(),
                reason: err.to_string(),
            })
    };
    config.mounts.iter().map(kind).collect()
}

/// The mount points that the image lacks. On macOS the rootfs is a marker for an image that the
/// VM holds, so there is nothing to look at.
///
/// # Errors
/// [`PlanError::BadMountPoint`] for a directory where a file would be mounted or the other way
/// round.
pub fn missing_mount_points(
    config: &SandboxConfig,
    host: &Host,
    directories: &[bool],
) -> Result<Vec<PathBuf>, PlanError> {
    let mut missing = Vec::new();
    if host.platform != Platform::Linux {
        return Ok(missing);
    }
    for (mount, directory) in config.mounts.iter().zip(directories) {
        let bad = |found: String| PlanError::BadMountPoint {
            sandbox_path: mount.sandbox_path().to_owned(),
            rootfs: config.rootfs.as_path().to_owned(),
            found,
        };
        match is_directory_in(config.rootfs.as_path(), mount.sandbox_path()) {
            Ok(found) if found == *directory => {}
            Ok(true) => return Err(bad("a directory where a file is to be mounted".to_owned())),
            Ok(false) => return Err(bad("a file where a directory is to be mounted".to_owned())),
            Err(nix::Error::ENOENT) => missing.push(mount.sandbox_path().to_owned()),
            Err(errno) => return Err(bad(format!("something that cannot be examined ({errno})"))),
        }
    }
    Ok(missing)
}

/// Whether a path of the image is a directory, its links resolved as the container would.
#[cfg(target_os = "linux")]
pub(crate) fn is_directory_in(rootfs: &Path, path: &Path) -> nix::Result<bool> {
    use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
    use nix::sys::stat::{Mode, SFlag, fstat};

    let root = open(rootfs, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let found = fstat(openat2(&root, path, how)?)?;
    Ok(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_directory_in(rootfs: &Path, path: &Path) -> nix::Result<bool> {
    let path = rootfs.join(path.strip_prefix("/").unwrap_or(path));
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(err) => Err(nix::Error::from_raw(err.raw_os_error().unwrap_or(0))),
    }
}
