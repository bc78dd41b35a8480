//! Files of the host's own: made exclusively, never through a link, synced where something
//! depends on them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;

use crate::trust::scratch::random_hex;

/// What could not be done with a file of the host's own.
#[derive(Debug, thiserror::Error)]
#[error("could not {what} {path:?} ({source})")]
pub struct FileError {
    /// The step that failed.
    pub what: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    pub(crate) fn of<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self {
            what,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Makes a directory and those above it that are missing, private, and syncs each one's parent,
/// so that what is synced in it later is found after a crash.
pub(crate) fn make_dirs(dir: &Path) -> Result<(), FileError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::symlink_metadata(dir).map_err(FileError::of("examine", dir))?;
            if found.is_dir() {
                return Ok(());
            }
            return Err(FileError::of("make", dir)(
                io::ErrorKind::NotADirectory.into(),
            ));
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
            let Some(above) = above else {
                return Err(FileError::of("make", dir)(err));
            };
            make_dirs(above)?;
            return make_dirs(dir);
        }
        Err(err) => return Err(FileError::of("make", dir)(err)),
    }
    sync_parent(dir)
}

/// Makes a private directory that must not be there.
pub(crate) fn make_dir(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .map_err(FileError::of("make", dir))
}

pub(crate) fn sync_dir(dir: &Path) -> Result<(), FileError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(FileError::of("sync", dir))
}

fn sync_parent(path: &Path) -> Result<(), FileError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

/// Opens a file to append to, made where it is missing. It must be a plain file with one name.
pub(crate) fn open_append(path: &Path) -> Result<File, FileError> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(FileError::of("open", path))?;
    let found = file.metadata().map_err(FileError::of("examine", path))?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(FileError::of("open", path)(io::Error::other(
            "it is not a plain file with one name",
        )));
    }
    Ok(file)
}

/// Writes a file that must not be there, synced.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    create_new(path, 0o600)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(FileError::of("write", path))
}

/// Makes a file that must not be there.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// Puts a file in the place of another, whole or not at all.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let random = random_hex().map_err(|err| FileError::of("name", path)(io::Error::other(err)))?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{random}"));
    let aside = path.with_file_name(name);
    write_new(&aside, bytes)?;
    if let Err(err) = std::fs::rename(&aside, path) {
        let _ = std::fs::remove_file(&aside);
        return Err(FileError::of("replace", path)(err));
    }
    sync_parent(path)
}

/// Reads a plain file of at most so many bytes.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(FileError::of("open", path))?;
    let found = file.metadata().map_err(FileError::of("examine", path))?;
    if !found.is_file() {
        return Err(FileError::of("read", path)(io::Error::other(
            "it is not a plain file",
        )));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(FileError::of("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(FileError::of("read", path)(
            io::ErrorKind::FileTooLarge.into(),
        ));
    }
    Ok(bytes)
}
