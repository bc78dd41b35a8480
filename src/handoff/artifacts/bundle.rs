//! Sealing what was captured into a bundle.

use std::fs::File;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::capture::{Capture, CapturedFile};
use super::labelled;
use super::manifest::{
    BUNDLE_ID_PREFIX, MANIFEST, Manifest, ManifestError, content_digest, digest_value, self_digest,
};
use super::verify::{Verification, verify};
use crate::cfc::json as strict;
use crate::cfc::label::Label;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::files::{self, FileError};

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A file of it cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its manifest would not be one.
    #[error("the bundle's manifest would be unusable: {0}")]
    Manifest(#[from] ManifestError),
    /// Its manifest is larger than a strict reader takes.
    #[error("the bundle's manifest would have {0} bytes: declare fewer outputs")]
    TooLarge(usize),
    /// It was sealed and does not verify.
    #[error("the bundle does not verify: {0}")]
    Unverified(String),
}

impl BundleError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::File(_) => "bundle-file",
            Self::Manifest(_) => "bundle-manifest",
            Self::TooLarge(_) => "bundle-manifest-too-large",
            Self::Unverified(_) => "bundle-unverified",
        }
    }
}

/// A bundle that was sealed and verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    /// Its id, which its contents give it.
    pub id: String,
    /// The digest of its contents.
    pub digest: Sha256Hex,
    /// What its verification said.
    pub verification: Verification,
}

/// The file of a labelled bundle that has its label. It is part of the bundle's contents, so that
/// the same outputs without the label, or with another, are another bundle.
const LABEL: &str = "label.json";

/// Writes manifest and metadata beside captured files, and verifies the whole. With a label, each
/// file has it on disk, and the manifest for each.
///
/// # Errors
/// [`BundleError`].
pub fn seal(
    dir: &Path,
    capture: &Capture,
    label: Option<&Label>,
    metadata: Map<String, Value>,
    created_at: &str,
) -> Result<Sealed, BundleError> {
    let mut paths: Vec<_> = capture
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    let label_digest = match label {
        Some(label) => {
            paths.push(LABEL);
            Some(write_label(dir, label)?)
        }
        None => None,
    };
    paths.sort_unstable();
    let digest = content_digest(paths.iter().copied(), |path| File::open(dir.join(path)))
        .map_err(FileError::of("read", dir))?;
    let id = format!("{BUNDLE_ID_PREFIX}{digest}");

    let mut metadata = metadata;
    metadata.insert("artifacts".into(), json!({ "outputs": paths }));
    let metadata = pretty(&Value::Object(metadata));
    files::write_new(&dir.join("metadata.json"), &metadata)?;

    let mut listed: Vec<_> = capture.files.iter().map(entry).collect();
    if let Some(sha256) = &label_digest {
        listed.push(json!({
            "path": LABEL,
            "kind": "label",
            "contentType": "application/json",
            "sha256": digest_value(sha256),
        }));
    }
    if let Some(label) = label {
        for file in &mut listed {
            file["provenance"] =
                json!({ "source": "runsc-driver", "metadata": { "cfcLabel": label } });
        }
    }
    listed.push(json!({
        "path": "metadata.json",
        "kind": "metadata",
        "contentType": "application/json",
        "sha256": digest_value(&Sha256Hex::of(&metadata)),
    }));
    listed.push(json!({
        "path": MANIFEST,
        "kind": "manifest",
        "contentType": "application/json",
        "sha256": { "algorithm": "sha256", "value": "0".repeat(64) },
    }));
    let mut manifest = json!({
        "id": id,
        "contentDigest": { "algorithm": "sha256", "inputs": paths, "value": digest },
        "createdAt": created_at,
        "runtime": { "backend": "runsc-driver", "version": env!("CARGO_PKG_VERSION") },
        "files": listed,
    });
    let own = self_digest(&manifest).map_err(ManifestError::from)?;
    if let Some(last) = manifest["files"]
        .as_array_mut()
        .and_then(|files| files.last_mut())
    {
        last["sha256"] = digest_value(&own);
    }
    let manifest = Manifest::new(manifest)?;
    let bytes = pretty(manifest.value());
    if bytes.len() > strict::MAX_BYTES {
        return Err(BundleError::TooLarge(bytes.len()));
    }
    files::write_new(&dir.join(MANIFEST), &bytes)?;
    if let Some(label) = label {
        for path in paths.iter().copied().chain(["metadata.json", MANIFEST]) {
            let path = dir.join(path);
            File::open(&path)
                .and_then(|file| {
                    labelled::put(&file, label)?;
                    file.sync_all()
                })
                .map_err(FileError::of("label", &path))?;
        }
    }
    files::sync_dir(dir)?;

    let verification = verify(dir);
    match verification.violations.first() {
        None => Ok(Sealed {
            id,
            digest,
            verification,
        }),
        Some(violation) => Err(BundleError::Unverified(violation.message.clone())),
    }
}

fn write_label(dir: &Path, label: &Label) -> Result<Sha256Hex, BundleError> {
    let text = pretty(&json!(label));
    files::write_new(&dir.join(LABEL), &text)?;
    Ok(Sha256Hex::of(&text))
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

fn entry(file: &CapturedFile) -> Value {
    let policy = if file.redacted.is_empty() {
        "none"
    } else {
        "applied"
    };
    json!({
        "path": file.path,
        "kind": "file",
        "contentType": content_type(file),
        "sha256": digest_value(&file.sha256),
        "redaction": { "policy": policy },
    })
}

fn content_type(file: &CapturedFile) -> &'static str {
    let extension = file.path.as_path().extension().and_then(|ext| ext.to_str());
    match (file.binary, extension) {
        (true, _) => "application/octet-stream",
        (false, Some("json")) => "application/json",
        (false, Some("jsonl" | "ndjson")) => "application/x-ndjson",
        (false, Some("md")) => "text/markdown",
        (false, Some("csv")) => "text/csv",
        (false, _) => "text/plain",
    }
}
