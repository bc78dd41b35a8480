//! Where bundles are kept: each in a directory that its id names, put there whole, never changed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::{MANIFEST, Manifest};
use super::path::PayloadPath;
use super::verify::{Verification, verify};
use super::{content, labelled};
use crate::cfc::json as strict;
use crate::handoff::beneath::Tree;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::files::{self, FileError, create_new, make_dirs};
use crate::handoff::host::ordinals_of;
use crate::trust::scratch::random_hex;

/// What a directory is called while a bundle is put together in it.
const ASIDE: &str = ".incoming-";
/// The largest bundle that is taken in.
const MAX_BUNDLE: u64 = 8 * 1024 * 1024 * 1024;

/// A directory of bundles.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

/// A bundle that is in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// Its id.
    pub id: String,
    /// The digest of its contents.
    pub digest: Sha256Hex,
    /// Whether it was there before.
    pub existing: bool,
    /// What the verification of the stored copy said.
    pub verification: Verification,
}

/// Why a bundle is not in the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It has another id than was expected.
    #[error("the bundle has another id than was expected")]
    IdMismatch,
    /// It has other contents than were expected.
    #[error("the bundle has other contents than were expected")]
    DigestMismatch,
    /// It does not verify.
    #[error("the bundle does not verify: {}", first(.0))]
    Unverified(Box<Verification>),
    /// Its id cannot name a directory.
    #[error("the bundle's id is no plain name")]
    OddId,
    /// A file of it has a name that is not kept.
    #[error("the bundle has a file whose name readers take differently")]
    OddPath,
    /// Another bundle has its id.
    #[error("the store has another bundle of this id")]
    Conflict,
    /// The stored copy was changed. It is left as it is.
    #[error("the stored copy of the bundle does not verify any more: {}", first(.0))]
    StoredDamaged(Box<Verification>),
    /// The store does not have it.
    #[error("the store has no such bundle")]
    NotStored,
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn first(verification: &Verification) -> &str {
    verification
        .violations
        .first()
        .map_or("it is not valid", |violation| violation.message.as_str())
}

impl ImportError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::IdMismatch => "wp_codebox_artifact_import_id_mismatch",
            Self::DigestMismatch => "wp_codebox_artifact_import_digest_mismatch",
            Self::Unverified(_) => "artifact-unverified",
            Self::OddId => "artifact-odd-id",
            Self::OddPath => "artifact-odd-path",
            Self::Conflict => "artifact-id-conflict",
            Self::StoredDamaged(_) => "artifact-stored-damaged",
            Self::NotStored => "artifact-not-stored",
            Self::File(_) => "artifact-file",
        }
    }

    /// What the verification said that refused it.
    #[must_use]
    pub fn verification(&self) -> Option<&Verification> {
        match self {
            Self::Unverified(verification) | Self::StoredDamaged(verification) => {
                Some(verification)
            }
            _ => None,
        }
    }
}

/// What an importer expects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected<'a> {
    /// The id.
    pub id: Option<&'a str>,
    /// The digest of the contents.
    pub digest: Option<&'a str>,
}

impl Store {
    /// A store in a directory, which is made where it is missing.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(dir: &Path) -> Result<Self, FileError> {
        make_dirs(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// A store to read from. Nothing is made.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// An empty directory in which a bundle can be put together, beside the bundles.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn aside(&self) -> Result<Aside, FileError> {
        let random =
            random_hex().map_err(|err| FileError::of("name", &self.dir)(io::Error::other(err)))?;
        let dir = self
            .dir
            .join(format!("{ASIDE}{}-{random}", std::process::id()));
        files::make_dir(&dir)?;
        Ok(Aside(dir))
    }

    /// Removes what killed processes left half-done.
    pub fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(ASIDE)) else {
                continue;
            };
            // Where the number was given to somebody else since, it stays until they are gone.
            let pid = ordinals_of("{n}", rest)
                .last()
                .and_then(|pid| i32::try_from(pid).ok());
            let alive = pid.is_some_and(|pid| {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)
                    != Err(nix::Error::ESRCH)
            });
            if !alive {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Takes a bundle in by a copy of it, which is verified and then put in its place. A bundle
    /// that is there is verified again and never replaced.
    ///
    /// # Errors
    /// [`ImportError`]; nothing is left of what was refused.
    pub fn import(&self, source: &Path, expected: &Expected<'_>) -> Result<Import, ImportError> {
        let manifest = checked(verify(source), expected)?.1;
        let aside = self.aside()?;
        copy_bundle(source, &manifest, &aside.0)?;
        self.admit(aside, expected)
    }

    /// Puts a bundle in its place that was put together beside it.
    ///
    /// # Errors
    /// [`ImportError`].
    pub fn admit(&self, aside: Aside, expected: &Expected<'_>) -> Result<Import, ImportError> {
        let (verification, manifest) = checked(verify(&aside.0), expected)?;
        let id = manifest.id().to_owned();
        let Some(digest) = Sha256Hex::parse(manifest.digest()) else {
            return Err(ImportError::Unverified(Box::new(verification)));
        };
        let target = self.place(&id)?;
        loop {
            match self.stored(&id) {
                Ok(stored) if stored.digest == digest => {
                    return Ok(Import {
                        existing: true,
                        ..stored
                    });
                }
                Ok(_) => return Err(ImportError::Conflict),
                Err(ImportError::NotStored) => {}
                Err(err) => return Err(err),
            }
            files::sync_dir(&aside.0)?;
            match rename_new(&aside.0, &target) {
                Ok(()) => break,
                // Somebody else was first.
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err) => return Err(FileError::of("place", &target)(err).into()),
            }
        }
        files::sync_dir(&self.dir)?;
        Ok(Import {
            id,
            digest,
            existing: false,
            verification: verification.of(target),
        })
    }

    /// Verifies a stored bundle again. Nothing is written, whatever is found.
    ///
    /// # Errors
    /// [`ImportError`].
    pub fn stored(&self, id: &str) -> Result<Import, ImportError> {
        let dir = self.place(id)?;
        match std::fs::symlink_metadata(&dir) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(ImportError::NotStored);
            }
            Err(err) => return Err(FileError::of("examine", &dir)(err).into()),
            Ok(_) => {}
        }
        let verification = verify(&dir);
        let manifest = verification
            .manifest
            .as_ref()
            .filter(|_| verification.valid);
        let digest = manifest
            .filter(|manifest| manifest.id() == id)
            .and_then(|manifest| Sha256Hex::parse(manifest.digest()));
        match digest {
            Some(digest) => Ok(Import {
                id: id.to_owned(),
                digest,
                existing: true,
                verification,
            }),
            None => Err(ImportError::StoredDamaged(Box::new(verification))),
        }
    }

    fn place(&self, id: &str) -> Result<PathBuf, ImportError> {
        if !crate::handoff::host::is_plain_name(id) {
            return Err(ImportError::OddId);
        }
        Ok(self.dir.join(id))
    }
}

/// A bundle that is not in its place yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Aside(PathBuf);

impl Aside {
    /// Where it is put together.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Where it was put in its place, there is nothing here any more.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Renames a directory to a name that nothing has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        Ok(renameat2(
            AT_FDCWD,
            from,
            AT_FDCWD,
            to,
            RenameFlags::RENAME_NOREPLACE,
        )?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        // A directory takes the place of an empty one alone, and no bundle is empty.
        std::fs::rename(from, to).map_err(|err| match err.kind() {
            io::ErrorKind::DirectoryNotEmpty => io::ErrorKind::AlreadyExists.into(),
            _ => err,
        })
    }
}

/// What a verification says of a bundle that is expected; what is not expected is told first.
fn checked(
    verification: Verification,
    expected: &Expected<'_>,
) -> Result<(Verification, Manifest), ImportError> {
    let Some(manifest) = verification.manifest.clone() else {
        return Err(ImportError::Unverified(Box::new(verification)));
    };
    if expected.id.is_some_and(|id| id != manifest.id()) {
        return Err(ImportError::IdMismatch);
    }
    if expected
        .digest
        .is_some_and(|digest| digest != manifest.digest())
    {
        return Err(ImportError::DigestMismatch);
    }
    if !verification.valid {
        return Err(ImportError::Unverified(Box::new(verification)));
    }
    Ok((verification, manifest))
}

/// Copies what a bundle's manifest lists. The source may change meanwhile: the copy is what is
/// verified and kept.
fn copy_bundle(source: &Path, manifest: &Manifest, into: &Path) -> Result<(), ImportError> {
    let tree = Tree::open(source).map_err(FileError::of("read", source))?;
    let mut room = MAX_BUNDLE;
    for file in manifest.files() {
        let path = file["path"].as_str().unwrap_or_default();
        let checked = PayloadPath::new(Path::new(path)).map_err(|_| ImportError::OddPath)?;
        let limit = match path {
            MANIFEST => strict::MAX_BYTES as u64,
            _ => room,
        };
        let changed = |_| FileError::of("read", source)(io::Error::other("it changed meanwhile"));
        let mut from = tree.file(checked.as_path()).map_err(changed)?;
        let target = into.join(checked.as_path());
        if let Some(dir) = target.parent() {
            make_dirs(dir)?;
        }
        let failed = |what| FileError::of(what, &target);
        let mut to: File = create_new(&target, 0o600).map_err(failed("write"))?;
        let copied = content::copy(&mut from, &mut to, limit).map_err(failed("copy"))?;
        labelled::carry(&from, &to).map_err(failed("label"))?;
        to.sync_all().map_err(failed("sync"))?;
        room = room.saturating_sub(copied.bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
