//! Verifying a bundle: everything that is wrong with it, not the first thing alone.
//!
//! Where this is stricter than other verifiers: a manifest with a key twice, of more than 1 MiB
//! or with numbers beyond 2^53 - 1 is malformed, nothing is cut before it is hashed, a file is
//! never read through a link, and local hosts are refused however they are spelled. It does not
//! look into the runtime's own replay formats.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::content;
use super::manifest::{
    BUNDLE_ID_PREFIX, FILE_LIST, MANIFEST, Manifest, content_digest, digest_of, list_digest,
    self_digest,
};
use super::path::has_scheme;
use crate::cfc::json as strict;
use crate::handoff::beneath::{Bounds, Kind, NotRead, Tree, Walked};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::text::flat;

mod inside;
mod url;

/// The largest file that is hashed.
const MAX_FILE: u64 = 8 * 1024 * 1024 * 1024;
/// How many entries of a bundle are looked at.
const BOUNDS: Bounds = Bounds {
    entries: 50_000,
    depth: 64,
};
/// How many violations are told.
const MAX_VIOLATIONS: usize = 1000;

/// What is wrong with a bundle, in the contract's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViolationCode {
    /// There is no manifest.
    MissingManifest,
    /// The manifest is not JSON.
    MalformedManifest,
    /// The manifest does not look like one.
    InvalidManifestShape,
    /// A path leaves the bundle.
    InvalidPath,
    /// A listed file is not there.
    MissingFile,
    /// A file is there and not listed.
    OrphanedFile,
    /// The contents are others than the digest says.
    DigestMismatch,
    /// A listed file has no digest.
    MissingFileHash,
    /// A file is another one than its digest says.
    FileHashMismatch,
    /// The id is not that of the contents.
    BundleIdMismatch,
    /// A reference is to nothing that is listed.
    MalformedReference,
    /// The review is of other contents.
    ReviewEvidenceMismatch,
    /// A file or a URL is not safe to open.
    UnsafeFile,
    /// A file has other names.
    Hardlink,
    /// A typed payload is not what its schema says.
    PayloadSchemaViolation,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// What kind of thing.
    pub code: ViolationCode,
    /// Where in the manifest or in a file.
    pub path: String,
    /// One sentence.
    pub message: String,
    /// The file that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// What a verification says (`wp-codebox/artifact-bundle-verification/v1`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    schema: &'static str,
    /// The directory as it was named.
    pub bundle_directory: PathBuf,
    /// Whether nothing is wrong.
    pub valid: bool,
    /// Everything that is.
    pub violations: Vec<Violation>,
    /// The manifest, where it looks like one.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "manifest_value"
    )]
    pub manifest: Option<Manifest>,
}

impl Verification {
    /// The same of a directory that was renamed.
    pub(super) fn of(mut self, dir: PathBuf) -> Self {
        self.bundle_directory = dir;
        self
    }

    /// What an envelope says of it: where the bundle is in its store, and nothing of the host.
    #[must_use]
    pub fn in_store(&self, id: &str) -> serde_json::Value {
        serde_json::json!({
            "schema": self.schema,
            "bundleDirectory": format!("artifacts/{id}"),
            "valid": self.valid,
            "violations": self.violations,
        })
    }
}

fn manifest_value<S: serde::Serializer>(
    manifest: &Option<Manifest>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    manifest.as_ref().map(Manifest::value).serialize(serializer)
}

/// Verifies the bundle in a directory. It is only read.
#[must_use]
pub fn verify(dir: &Path) -> Verification {
    let mut found = Found::default();
    let manifest = look(dir, &mut found);
    Verification {
        schema: "wp-codebox/artifact-bundle-verification/v1",
        bundle_directory: dir.to_owned(),
        valid: found.violations.is_empty(),
        violations: found.violations,
        manifest,
    }
}

/// The violations so far.
#[derive(Debug, Default)]
struct Found {
    violations: Vec<Violation>,
}

impl Found {
    fn add(
        &mut self,
        code: ViolationCode,
        path: impl Into<String>,
        file: Option<&str>,
        message: &str,
    ) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation {
                code,
                path: path.into(),
                message: message.to_owned(),
                file: file.map(|file| flat(file, 1024)),
            });
        }
    }
}

fn look(dir: &Path, found: &mut Found) -> Option<Manifest> {
    use ViolationCode as Code;
    let Ok(tree) = Tree::open(dir) else {
        found.add(
            Code::MissingManifest,
            MANIFEST,
            None,
            "there is no bundle to read",
        );
        return None;
    };
    let bytes = match read(&tree, MANIFEST, strict::MAX_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(NotRead::Missing) => {
            found.add(
                Code::MissingManifest,
                MANIFEST,
                None,
                "the bundle has no manifest",
            );
            return None;
        }
        Err(_) => {
            found.add(
                Code::MalformedManifest,
                MANIFEST,
                None,
                "the manifest cannot be read",
            );
            return None;
        }
    };
    let Ok(value) = strict::read(&bytes) else {
        found.add(
            Code::MalformedManifest,
            MANIFEST,
            None,
            "the manifest is not JSON",
        );
        return None;
    };
    let Ok(manifest) = Manifest::new(value) else {
        found.add(
            Code::InvalidManifestShape,
            MANIFEST,
            None,
            "the manifest does not look like a bundle's",
        );
        return None;
    };
    let listed = files(&tree, &manifest, found);
    orphans(&tree, &listed, found);
    hashes(&tree, &manifest, found);
    contents(&tree, &manifest, &listed, found);
    if manifest.id().starts_with(BUNDLE_ID_PREFIX)
        && manifest.id().strip_prefix(BUNDLE_ID_PREFIX) != Some(manifest.digest())
    {
        found.add(
            Code::BundleIdMismatch,
            "manifest.id",
            None,
            "the id is not that of the contents",
        );
    }
    let bundle = inside::Bundle {
        tree: &tree,
        manifest: &manifest,
        listed: &listed,
    };
    bundle.metadata(found);
    bundle.review(found);
    bundle.typed_artifacts(found);
    bundle.tool_calls(found);
    bundle.cases(found);
    Some(manifest)
}

/// Why a path is none of a bundle's; none where it is one.
fn path_violation(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("a path is empty");
    }
    if path.contains('\\') || path.starts_with('/') || has_scheme(path) {
        return Some("a path is not relative to the bundle");
    }
    if path.split('/').any(|name| name == "..") || path.contains('\0') {
        return Some("a path leaves the bundle");
    }
    None
}

fn files(tree: &Tree, manifest: &Manifest, found: &mut Found) -> BTreeSet<String> {
    use ViolationCode as Code;
    let mut listed = BTreeSet::new();
    for (at, file) in manifest.files().enumerate() {
        let path = file["path"].as_str().unwrap_or_default();
        let field = format!("manifest.files[{at}].path");
        if let Some(message) = path_violation(path) {
            found.add(Code::InvalidPath, field, Some(path), message);
            continue;
        }
        if !listed.insert(path.to_owned()) {
            found.add(
                Code::InvalidManifestShape,
                &*field,
                Some(path),
                "a file is listed twice",
            );
        }
        if let Some(base) = file["viewer"]["base"]
            .as_str()
            .filter(|base| !base.is_empty())
        {
            url::check(base, &format!("{field}.viewer.base"), Some(path), found);
        }
        match tree.file(Path::new(path)) {
            Ok(_) => {}
            Err(NotRead::HardLink) => {
                found.add(
                    Code::Hardlink,
                    field,
                    Some(path),
                    "a file has other names too",
                );
            }
            Err(NotRead::Link) => {
                found.add(
                    Code::UnsafeFile,
                    &*field,
                    Some(path),
                    "a file is a link or behind one",
                );
                found.add(
                    Code::MissingFile,
                    field,
                    Some(path),
                    "a listed file is no regular file",
                );
            }
            Err(NotRead::Missing) => {
                found.add(
                    Code::MissingFile,
                    field,
                    Some(path),
                    "a listed file is not there",
                );
            }
            Err(NotRead::NotRegular | NotRead::Unavailable) => {
                found.add(
                    Code::MissingFile,
                    field,
                    Some(path),
                    "a listed file is no regular file",
                );
            }
        }
    }
    if !listed.contains(MANIFEST) {
        found.add(
            Code::InvalidManifestShape,
            "manifest.files",
            Some(MANIFEST),
            "the manifest does not list itself",
        );
    }
    listed
}

fn orphans(tree: &Tree, listed: &BTreeSet<String>, found: &mut Found) {
    use ViolationCode as Code;
    let walked = tree.walk(BOUNDS, |entry| {
        let path = entry.path.to_string_lossy();
        if entry.kind != Kind::Directory && !listed.contains(path.as_ref()) {
            let path = flat(&path, 1024);
            found.add(
                Code::OrphanedFile,
                &*path,
                Some(&path),
                "a file is not listed",
            );
        }
    });
    if walked != Walked::All {
        found.add(
            Code::UnsafeFile,
            ".",
            None,
            "the bundle is too large or deep to be looked at whole",
        );
    }
}

fn hashes(tree: &Tree, manifest: &Manifest, found: &mut Found) {
    use ViolationCode as Code;
    for (at, file) in manifest.files().enumerate() {
        let path = file["path"].as_str().unwrap_or_default();
        if path_violation(path).is_some() {
            continue;
        }
        let field = format!("manifest.files[{at}].sha256");
        let Some(expected) = digest_of(&file["sha256"]) else {
            found.add(
                Code::MissingFileHash,
                field,
                Some(path),
                "a listed file has no digest",
            );
            continue;
        };
        let observed = match path {
            MANIFEST => self_digest(manifest.value()).ok(),
            path => hash(tree, path).ok(),
        };
        if observed != Some(expected) {
            found.add(
                Code::FileHashMismatch,
                field,
                Some(path),
                "a file is not the one that was listed",
            );
        }
    }
}

fn contents(tree: &Tree, manifest: &Manifest, listed: &BTreeSet<String>, found: &mut Found) {
    use ViolationCode as Code;
    for (at, input) in manifest.inputs().enumerate() {
        let field = format!("manifest.contentDigest.inputs[{at}]");
        if input == FILE_LIST {
            continue;
        }
        if let Some(message) = path_violation(input) {
            return found.add(Code::InvalidPath, field, Some(input), message);
        }
        if !listed.contains(input) {
            return found.add(
                Code::MalformedReference,
                field,
                Some(input),
                "what the digest is of is not listed",
            );
        }
    }
    let Some(expected) = Sha256Hex::parse(manifest.digest()) else {
        return found.add(
            Code::InvalidManifestShape,
            "manifest.contentDigest.value",
            None,
            "the content digest is no SHA-256 digest",
        );
    };
    let inputs: Vec<_> = manifest.inputs().collect();
    let observed = match inputs.as_slice() {
        [FILE_LIST] => list_digest(manifest).ok(),
        inputs => content_digest(inputs.iter().copied(), |path| {
            let file = tree.file(Path::new(path));
            file.map_err(|_| io::Error::from(io::ErrorKind::NotFound))
        })
        .ok(),
    };
    if observed != Some(expected) {
        found.add(
            Code::DigestMismatch,
            "manifest.contentDigest.value",
            None,
            "the contents are not those of the digest",
        );
    }
}

fn hash(tree: &Tree, path: &str) -> Result<Sha256Hex, NotRead> {
    let mut file = tree.file(Path::new(path))?;
    let copied = content::copy(&mut file, &mut io::sink(), MAX_FILE);
    Ok(copied.map_err(|_| NotRead::Unavailable)?.sha256)
}

fn read(tree: &Tree, path: &str, limit: u64) -> Result<Vec<u8>, NotRead> {
    let mut file = tree.file(Path::new(path))?;
    let mut bytes = Vec::new();
    content::copy(&mut file, &mut bytes, limit).map_err(|_| NotRead::Unavailable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
