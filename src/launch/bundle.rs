//! A call's own directory: made private, written exclusively, removed whatever happens.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::libc;

use super::LaunchError;
use crate::plan::Plan;

/// A bundle on disk. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct BundleDir {
    dir: PathBuf,
    overlay_work: Option<PathBuf>,
}

impl BundleDir {
    /// Writes a plan's bundle, and files that the container is shown.
    pub(crate) fn create(plan: &Plan, shown: &[(PathBuf, Vec<u8>)]) -> Result<Self, LaunchError> {
        make_dir(&plan.bundle_dir)?;
        let bundle = Self {
            dir: plan.bundle_dir.clone(),
            overlay_work: plan.overlay.as_ref().map(|overlay| overlay.work.clone()),
        };
        write_new(&plan.bundle_dir.join("config.json"), &plan.config_json)?;
        for (path, bytes) in shown {
            write_new(path, bytes)?;
            // The container's user may be another than ours; the directory around it is private.
            let mode = PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(path, mode).map_err(failed(path))?;
        }
        if let Some(meeting) = &plan.meeting {
            make_dir(meeting.dir())?;
            make_dir(&meeting.state_dir())?;
        }
        for link in &plan.links {
            symlink(&link.target, &link.at).map_err(failed(&link.at))?;
        }
        for bound in &plan.read_only {
            if bound.directory {
                make_dir(&bound.at)?
            } else {
                write_new(&bound.at, b"")?
            }
        }
        if let Some(overlay) = &plan.overlay {
            for dir in [&overlay.upper, &overlay.work, &overlay.merged] {
                make_dir(dir)?;
            }
            // The upper one's mode is that of the container's `/`, where a user may not be ours.
            std::fs::metadata(&overlay.lower)
                .and_then(|image| std::fs::set_permissions(&overlay.upper, image.permissions()))
                .map_err(failed(&overlay.upper))?;
        }
        Ok(bundle)
    }

    /// A directory of a call's own with nothing in it.
    pub(crate) fn bare(dir: &Path) -> Result<Self, LaunchError> {
        make_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            overlay_work: None,
        })
    }

    /// Writes a file of the call's.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), LaunchError> {
        write_new(path, bytes)
    }

    fn remove(&self) -> io::Result<()> {
        if let Some(work) = &self.overlay_work {
            // The filesystem makes this one with no mode at all, which its owner cannot look into.
            let inner = work.join("work");
            if inner.exists() {
                std::fs::set_permissions(&inner, PermissionsExt::from_mode(0o700))?;
            }
        }
        std::fs::remove_dir_all(&self.dir)
    }
}

impl Drop for BundleDir {
    fn drop(&mut self) {
        if let Err(err) = self.remove() {
            tracing::warn!(dir = %self.dir.display(), %err, "could not remove a bundle");
        }
    }
}

fn make_dir(path: &Path) -> Result<(), LaunchError> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(failed(path))
}

/// Writes a file that was not there.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), LaunchError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LaunchError + use<> {
    let path = path.to_owned();
    move |source| LaunchError::Write { path, source }
}
