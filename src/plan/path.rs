//! Paths in the sandbox.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::PlanError;
use crate::config::{Mount, SandboxConfig};
use crate::trust::mounts::normalized;

/// A path in the sandbox that lies in a mount: absolute, without `.`, `..` or doubled slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPath(PathBuf);

impl SandboxPath {
    /// Resolves a path by its spelling: against the workspace where it is relative, and refused
    /// where it lies in no mount.
    ///
    /// # Errors
    /// [`PlanError::CwdOutsideMounts`].
    pub fn resolve(config: &SandboxConfig, path: Option<&Path>) -> Result<Self, PlanError> {
        let workspace = config.mounts[0].sandbox_path();
        let resolved =
            normalized(&path.map_or_else(|| workspace.to_owned(), |p| workspace.join(p)));
        if mount_of(config, &resolved).is_some() {
            return Ok(Self(resolved));
        }
        let mounts: Vec<_> = config
            .mounts
            .iter()
            .map(|m| m.sandbox_path().display().to_string())
            .collect();
        Err(PlanError::CwdOutsideMounts {
            path: resolved,
            mounts: mounts.join(", "),
        })
    }

    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

/// The mount that a path lies in. Mounts never overlap.
fn mount_of<'a>(config: &'a SandboxConfig, path: &Path) -> Option<&'a Mount> {
    config
        .mounts
        .iter()
        .find(|mount| path.starts_with(mount.sandbox_path()))
}

/// Checks that the working directory is a directory of its mount, since runsc would silently make
/// one that is missing. Links are followed where they stay below the mount.
///
/// # Errors
/// [`PlanError::BadCwd`].
pub fn check_cwd(config: &SandboxConfig, cwd: &SandboxPath) -> Result<(), PlanError> {
    let Some(mount) = mount_of(config, cwd.as_path()) else {
        return Ok(());
    };
    let below = cwd
        .as_path()
        .strip_prefix(mount.sandbox_path())
        .unwrap_or(Path::new(""));
    let below = if below.as_os_str().is_empty() {
        OsStr::new(".")
    } else {
        below.as_os_str()
    };
    let reason = match beneath::directory(mount.host_path(), Path::new(below)) {
        Ok(true) => return Ok(()),
        Ok(false) => "it is not a directory".to_owned(),
        Err(nix::Error::ENOENT) => "it does not exist".to_owned(),
        Err(nix::Error::EXDEV) => "it leads out of its mount through a link".to_owned(),
        Err(errno) => format!("it could not be examined ({})", errno.desc()),
    };
    Err(PlanError::BadCwd {
        path: cwd.as_path().to_owned(),
        host_path: mount.host_path().to_owned(),
        reason,
    })
}

/// Looking below a directory without leaving it.
mod beneath {
    use std::path::Path;

    use nix::fcntl::OFlag;
    use nix::sys::stat::{Mode, SFlag, fstat};

    /// Whether `path` below `dir` is a directory.
    #[cfg(target_os = "linux")]
    pub fn directory(dir: &Path, path: &Path) -> nix::Result<bool> {
        use nix::fcntl::{OpenHow, ResolveFlag, open, openat2};
        let dir = open(dir, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        is_directory(&openat2(&dir, path, how)?)
    }

    /// Without `openat2` a link on the way is refused, as one that leads out.
    #[cfg(not(target_os = "linux"))]
    pub fn directory(dir: &Path, path: &Path) -> nix::Result<bool> {
        use nix::fcntl::{open, openat};
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut reached = open(dir, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        for name in path.components() {
            reached = openat(&reached, name.as_os_str(), flags, Mode::empty())?;
        }
        is_directory(&reached)
    }

    fn is_directory(fd: &impl std::os::fd::AsFd) -> nix::Result<bool> {
        Ok(SFlag::from_bits_truncate(fstat(fd)?.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
    }
}
