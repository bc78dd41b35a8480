//! The parent of the default scratch directories: looked at before anything is started, and verified
//! before anything is written.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use super::{
    Found, PROBE_PREFIX, ScratchError, again_where_swept, make_private, not_a_directory,
    random_name,
};

/// The parent of the default scratch directories, in the directory for temporary files.
pub const PARENT_NAME: &str = "cf-harness-runsc";

/// Makes the parent of the default scratch directories where it is absent, and checks that nobody
/// else can reach into it. The caller does this once and keeps the answer.
///
/// # Errors
/// [`ScratchError`] where it is not a private directory of this process's user.
pub fn verify_parent(parent: &Path) -> Result<(), ScratchError> {
    verify_parent_by(parent, |path| {
        std::fs::symlink_metadata(path).map(|found| found.uid())
    })
}

/// The owner of what this process makes is asked of the filesystem rather than of the process:
/// the filesystem's answer is the one that decides who may open a file.
pub(super) fn verify_parent_by(
    parent: &Path,
    owner_of: impl Fn(&Path) -> io::Result<u32>,
) -> Result<(), ScratchError> {
    let unverified = |step| {
        move |reason| ScratchError::Unverified {
            parent: parent.to_owned(),
            step,
            reason: Arc::new(reason),
        }
    };
    let not_private = |found| ScratchError::NotPrivate {
        parent: parent.to_owned(),
        found,
    };
    if let Some(above) = parent.parent() {
        // Where this fails, making the parent says so.
        let _ = std::fs::create_dir_all(above);
    }
    match make_private(parent) {
        Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unverified("made")(err));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(parent).map_err(unverified("examined"))?;
    let mode = found.mode() & 0o7777;
    if let Some(wrong) = not_a_directory(&found) {
        return Err(not_private(wrong));
    }
    if mode & 0o077 != 0 {
        let owner = found.uid();
        return Err(not_private(Found::Open { owner, mode }));
    }
    let probed = again_where_swept(|| {
        let probe = parent.join(random_name(parent, PROBE_PREFIX)?);
        make_private(&probe).map_err(|err| (err.kind(), unverified("written to")(err)))?;
        let ours = owner_of(&probe);
        // A probe that stays behind says nothing about the parent.
        let _ = std::fs::remove_dir(&probe);
        ours.map_err(|err| (err.kind(), unverified("examined")(err)))
    });
    let (ours, owner) = (probed?, owner_of(parent).map_err(unverified("examined"))?);
    if owner != ours {
        return Err(not_private(Found::Foreign { owner, mode, ours }));
    }
    Ok(())
}

/// What is at the parent's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Nothing yet: the first run makes it.
    Absent,
    /// A private directory.
    Private,
    /// Something that no scratch directory may be in.
    Wrong(Found),
}

/// Looks at the parent, and makes and changes nothing: its verification is what writes there.
///
/// # Errors
/// It cannot be examined.
pub(crate) fn look_at_parent(parent: &Path, user: Option<u32>) -> io::Result<Parent> {
    let found = match std::fs::symlink_metadata(parent) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Parent::Absent),
        found => found?,
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    Ok(match (not_a_directory(&found), user) {
        (Some(wrong), _) => Parent::Wrong(wrong),
        (None, _) if mode & 0o077 != 0 => Parent::Wrong(Found::Open { owner, mode }),
        (None, Some(ours)) if owner != ours => Parent::Wrong(Found::Foreign { owner, mode, ours }),
        (None, _) => Parent::Private,
    })
}

/// Refuses what the verification is going to refuse, as far as that can be told beforehand.
pub(super) fn look_before(parent: &Path, user: Option<u32>) -> Result<(), ScratchError> {
    let unverified = |step, reason| ScratchError::Unverified {
        parent: parent.to_owned(),
        step,
        reason: Arc::new(reason),
    };
    match look_at_parent(parent, user).map_err(|err| unverified("examined", err))? {
        Parent::Absent => match parent.ancestors().skip(1).find(|above| above.exists()) {
            Some(above) => may_write(above).map_err(|err| unverified("made", err)),
            None => Ok(()),
        },
        Parent::Private => may_write(parent).map_err(|err| unverified("written to", err)),
        // The filesystem has the last word on whose it is.
        Parent::Wrong(Found::Foreign { .. }) => verify_parent(parent),
        Parent::Wrong(found) => Err(ScratchError::NotPrivate {
            parent: parent.to_owned(),
            found,
        }),
    }
}

/// Whether this process may make something in a directory.
fn may_write(dir: &Path) -> io::Result<()> {
    let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
    Ok(faccessat(AT_FDCWD, dir, wanted, AtFlags::AT_EACCESS)?)
}
