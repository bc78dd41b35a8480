//! A journal's file: appended to by one host, repaired where it was torn, watched without being
//! touched.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use super::entry::{Entry, EntryError};
use crate::cfc::json::{self as strict, JsonError};
use crate::handoff::digest::whole;
use crate::handoff::files::{self, FileError};

/// The largest journal that is read.
pub const MAX_JOURNAL: u64 = 256 * 1024 * 1024;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process appends to it.
    #[error("another process writes the journal {0:?}")]
    Held(PathBuf),
    /// A line that is not the last one is no entry.
    #[error("line {line} of the journal is no entry: {reason}")]
    Corrupt {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: LineError,
    },
    /// An entry is larger than a reader takes.
    #[error("an entry of {0} bytes is larger than a journal's reader takes")]
    TooLarge(usize),
}

impl JournalError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::File(_) => "journal-file",
            Self::Held(_) => "journal-held",
            Self::Corrupt { .. } => "journal-corrupt",
            Self::TooLarge(_) => "journal-entry-too-large",
        }
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It has another version than 1.
    #[error("it has another version than 1")]
    Version,
    /// Its entry is wrong.
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// What a line says: an entry, or something that a replay skips.
fn line_of(line: &[u8]) -> Result<Option<Entry>, LineError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value = strict::read(line)?;
    if value.get("v").and_then(whole) != Some(1) {
        return Err(LineError::Version);
    }
    match value.get("e") {
        Some(entry) => Ok(Some(Entry::from_value(entry)?)),
        None => Ok(None),
    }
}

/// What a journal's bytes say.
#[derive(Debug, Default)]
struct Parsed {
    entries: Vec<Entry>,
    /// Up to where the bytes can be believed.
    good: usize,
    /// Whether the last good line lacks its end.
    unended: bool,
}

fn parse(bytes: &[u8]) -> Result<Parsed, JournalError> {
    let mut parsed = Parsed::default();
    let mut lines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .enumerate()
        .peekable();
    while let Some((at, line)) = lines.next() {
        match line_of(line) {
            Ok(entry) => {
                parsed.entries.extend(entry);
                parsed.good += line.len();
                parsed.unended = !line.ends_with(b"\n");
            }
            // The tail was torn as its writer died. What came before it stands.
            Err(_) if lines.peek().is_none() => {}
            Err(reason) => {
                return Err(JournalError::Corrupt {
                    line: at + 1,
                    reason,
                });
            }
        }
    }
    Ok(parsed)
}

/// Reads a journal that somebody may still be writing, and changes nothing.
///
/// # Errors
/// [`JournalError`].
pub fn watch(path: &Path) -> Result<Vec<Entry>, JournalError> {
    Ok(parse(&files::read_bounded(path, MAX_JOURNAL)?)?.entries)
}

/// Reads a journal before it is written on, and repairs a torn tail by cutting it off.
///
/// # Errors
/// [`JournalError`].
pub fn load(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let bytes = match files::read_bounded(path, MAX_JOURNAL) {
        Ok(bytes) => bytes,
        Err(err) if err.is_not_found() => return Ok(Vec::new()),
        Err(err) => return Err(err.into()),
    };
    let parsed = parse(&bytes)?;
    if parsed.good < bytes.len() || parsed.unended {
        let mut kept = bytes[..parsed.good].to_vec();
        if parsed.unended {
            kept.push(b'\n');
        }
        files::replace(path, &kept)?;
    }
    Ok(parsed.entries)
}

/// A journal that is written on; without a path it is gone with the process.
#[derive(Debug)]
pub struct Journal(Mutex<Kept>);

#[derive(Debug)]
enum Kept {
    File { path: PathBuf, file: Flock<File> },
    Memory(Vec<Entry>),
}

impl Journal {
    /// A journal in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Mutex::new(Kept::Memory(Vec::new())))
    }

    /// Opens a journal for this process alone, and tells what it holds.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path) -> Result<(Self, Vec<Entry>), JournalError> {
        let hold = |file| {
            Flock::lock(file, FlockArg::LockExclusiveNonblock)
                .map_err(|_| JournalError::Held(path.to_owned()))
        };
        // The repair puts another file in the place of this one, so each is held in its turn.
        let before = hold(files::open_append(path)?)?;
        let entries = load(path)?;
        let repaired = files::open_append(path)?;
        let same = std::os::unix::fs::MetadataExt::ino;
        let inode = |file: &File| file.metadata().map(|found| same(&found)).ok();
        let file = if inode(&before) == inode(&repaired) {
            before
        } else {
            hold(repaired)?
        };
        let path = path.to_owned();
        Ok((Self(Mutex::new(Kept::File { path, file })), entries))
    }

    /// Appends an entry, whole and synced.
    ///
    /// # Errors
    /// [`JournalError`]; the outcome stands all the same.
    pub fn append(&self, entry: &Entry) -> Result<(), JournalError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *kept {
            Kept::Memory(entries) => entries.push(entry.clone()),
            Kept::File { path, file } => {
                let line = format!("{}\n", entry.to_value());
                if line.len() > strict::MAX_BYTES {
                    return Err(JournalError::TooLarge(line.len()));
                }
                let length = file.metadata().map(|found| found.len());
                let written = file
                    .write_all(line.as_bytes())
                    .and_then(|()| file.sync_data());
                if let Err(err) = written {
                    // What is there of the line must not meet the next one.
                    let _ = length.and_then(|length| file.set_len(length));
                    return Err(FileError::of("write", path)(err).into());
                }
            }
        }
        Ok(())
    }

    /// What a journal in memory holds.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Kept::Memory(entries) => entries.clone(),
            Kept::File { path, .. } => watch(path).unwrap_or_default(),
        }
    }
}

/// The value of a line that is not an entry: written by hosts, skipped by replays.
#[must_use]
pub fn metadata_line(mut members: Value) -> String {
    if let Value::Object(members) = &mut members {
        members.insert("v".into(), 1.into());
        members.shift_remove("e");
    }
    format!("{members}\n")
}

#[cfg(test)]
mod tests;
