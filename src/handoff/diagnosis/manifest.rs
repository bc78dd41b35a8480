//! The files that a task handed off, as it listed them.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::files::MAX_FILE;
use crate::cfc::json as strict;
use crate::handoff::artifacts::{PayloadPath, read_up_to};
use crate::handoff::beneath::{NotRead, Tree};
use crate::handoff::contract::Contract;
use crate::handoff::digest::{Sha256Hex, whole};

/// The most bytes of all files together.
const MAX_TOTAL: u64 = 8 * 1024 * 1024 * 1024;
/// The largest manifest.
const MAX_MANIFEST: u64 = strict::MAX_BYTES as u64;

/// A file that was handed off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Below the handoff's root.
    pub path: PayloadPath,
    /// How many bytes it has.
    pub bytes: u64,
    /// The digest of them.
    pub sha256: Sha256Hex,
}

/// A producer's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileManifest {
    /// Who made the files.
    pub producer: String,
    /// In which attempt.
    pub attempt: String,
    /// The files, by their paths' bytes.
    pub files: Vec<Listed>,
    /// The digest of the manifest, however it is spelled.
    pub digest: Sha256Hex,
}

/// Why there is no manifest to go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestProblem {
    /// It is not there.
    Missing,
    /// There is something other than a file.
    NotRegular,
    /// It does not look like one.
    Malformed,
    /// It lists more than is taken.
    TooMuch,
    /// It could not be read.
    Unavailable,
}

impl FileManifest {
    pub(crate) fn read(tree: Option<&Tree>, path: &Path) -> Result<Self, ManifestProblem> {
        let tree = tree.ok_or(ManifestProblem::Unavailable)?;
        let mut file = tree.file_of_any_links(path).map_err(|why| match why {
            NotRead::Missing => ManifestProblem::Missing,
            NotRead::Unavailable => ManifestProblem::Unavailable,
            NotRead::Link | NotRead::NotRegular | NotRead::HardLink => ManifestProblem::NotRegular,
        })?;
        let bytes = read_up_to(&mut file, MAX_MANIFEST).map_err(|err| match err.kind() {
            std::io::ErrorKind::FileTooLarge => ManifestProblem::TooMuch,
            _ => ManifestProblem::Unavailable,
        })?;
        Self::parse(&bytes)
    }

    /// Reads a manifest's bytes.
    ///
    /// # Errors
    /// [`ManifestProblem`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestProblem> {
        let malformed = ManifestProblem::Malformed;
        let value = strict::read(bytes).map_err(|_| malformed)?;
        Contract::FileManifest
            .check(&value)
            .map_err(|_| malformed)?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let listed = value["files"].as_array().ok_or(malformed)?;
        let files: Vec<_> = listed
            .iter()
            .map(listed_file)
            .collect::<Option<_>>()
            .ok_or(malformed)?;
        // In one order, so that none is there twice.
        if !files.is_sorted_by(|a, b| a.path < b.path) {
            return Err(malformed);
        }
        let total = files
            .iter()
            .try_fold(0_u64, |sum, file| sum.checked_add(file.bytes));
        if total.is_none_or(|total| total > MAX_TOTAL)
            || files.iter().any(|file| file.bytes > MAX_FILE)
        {
            return Err(ManifestProblem::TooMuch);
        }
        Ok(Self {
            producer: text("producer"),
            attempt: text("attempt"),
            files,
            digest: Sha256Hex::of_value("runsc-driver/file-manifest/v1", &value)
                .map_err(|_| malformed)?,
        })
    }
}

fn listed_file(value: &Value) -> Option<Listed> {
    Some(Listed {
        path: PayloadPath::new(Path::new(value["path"].as_str()?)).ok()?,
        bytes: whole(&value["bytes"])?,
        sha256: Sha256Hex::parse(value["sha256"].as_str()?)?,
    })
}
