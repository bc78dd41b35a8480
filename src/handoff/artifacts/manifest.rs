//! A bundle's manifest and the digests in it.

use std::io::{self, Read};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::handoff::digest::{NotCanonical, Sha256Hex, canonical};

/// What the id of a bundle begins with that is named by its contents.
pub const BUNDLE_ID_PREFIX: &str = "artifact-bundle-sha256-";
/// The manifest's own name in a bundle.
pub const MANIFEST: &str = "manifest.json";
/// In place of the inputs' names: the digest is of the list of files, and not of what is in them.
pub(crate) const FILE_LIST: &str = "manifest.files";

const CONTENT_DOMAIN: &str = "wp-codebox/artifact-content/v1";
const LIST_DOMAIN: &str = "wp-codebox/artifact-manifest-file-list/v1";
const SELF_DOMAIN: &str = "wp-codebox/artifact-manifest-self/v1";

/// Why a manifest cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not what a manifest looks like.
    #[error("it does not look like a bundle's manifest")]
    Shape,
    /// It has a number that readers take differently.
    #[error(transparent)]
    Number(#[from] NotCanonical),
}

/// A manifest that looks like one. What it says was not compared with anything.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    value: Value,
}

impl Manifest {
    /// A manifest of this value.
    ///
    /// # Errors
    /// [`ManifestError::Shape`].
    pub fn new(value: Value) -> Result<Self, ManifestError> {
        if is_shape(&value) {
            Ok(Self { value })
        } else {
            Err(ManifestError::Shape)
        }
    }

    /// All of it.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The bundle's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.value["id"].as_str().unwrap_or_default()
    }

    /// The content digest, as it is written.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.value["contentDigest"]["value"]
            .as_str()
            .unwrap_or_default()
    }

    /// What the content digest is of.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        items(&self.value["contentDigest"]["inputs"]).filter_map(Value::as_str)
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Value> {
        items(&self.value["files"])
    }

    /// The cases.
    pub fn cases(&self) -> impl Iterator<Item = &Value> {
        items(&self.value["cases"])
    }
}

fn items(value: &Value) -> std::slice::Iter<'_, Value> {
    value
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

/// A file's digest as manifests spell it; none where it is misspelled.
pub(crate) fn digest_of(value: &Value) -> Option<Sha256Hex> {
    if value.get("algorithm").and_then(Value::as_str) != Some("sha256") {
        return None;
    }
    Sha256Hex::parse(value.get("value")?.as_str()?)
}

/// A digest as manifests spell it.
pub(crate) fn digest_value(digest: &Sha256Hex) -> Value {
    json!({ "algorithm": "sha256", "value": digest })
}

fn is_shape(value: &Value) -> bool {
    let digest = &value["contentDigest"];
    value.is_object()
        && value["id"].is_string()
        && value["createdAt"].is_string()
        && value["runtime"].is_object()
        && digest["algorithm"] == "sha256"
        && digest["value"].is_string()
        && all(&digest["inputs"], Value::is_string)
        && all(&value["files"], |file| {
            ["path", "kind", "contentType"]
                .iter()
                .all(|name| file[name].is_string())
        })
        && (value.get("cases").is_none() || all(&value["cases"], is_case))
}

fn is_case(case: &Value) -> bool {
    let digest = |name| {
        case.get(name)
            .is_none_or(|digest| digest_of(digest).is_some())
    };
    case["id"].as_str().is_some_and(|id| !id.trim().is_empty())
        && digest("hash")
        && digest("digest")
        && all(&case["artifacts"], |artifact| {
            let optional = |name| artifact.get(name).is_none_or(Value::is_string);
            artifact["path"].is_string()
                && artifact["kind"].is_string()
                && optional("contentType")
                && optional("publicUrl")
                && artifact
                    .get("sha256")
                    .is_none_or(|digest| digest_of(digest).is_some())
        })
        && case.get("verification").is_none_or(|verification| {
            let optional = |name| verification.get(name).is_none_or(Value::is_string);
            verification["status"].is_string()
                && optional("verifiedAt")
                && optional("verifier")
                && verification
                    .get("diagnostics")
                    .is_none_or(|diagnostics| all(diagnostics, Value::is_string))
        })
}

fn all(items: &Value, check: impl Fn(&Value) -> bool) -> bool {
    items
        .as_array()
        .is_some_and(|items| items.iter().all(check))
}

/// The digest of a bundle's contents: each input's path and bytes, in the order in which they are
/// declared. `open` opens an input.
///
/// # Errors
/// What opening or reading says.
pub fn content_digest<'a, R: Read>(
    inputs: impl IntoIterator<Item = &'a str>,
    mut open: impl FnMut(&str) -> io::Result<R>,
) -> io::Result<Sha256Hex> {
    let mut hash = Sha256::new();
    hash.update(format!("{CONTENT_DOMAIN}\n"));
    for (at, input) in inputs.into_iter().enumerate() {
        if at > 0 {
            hash.update(b"\n");
        }
        hash.update(format!("{input}\n"));
        io::copy(&mut open(input)?, &mut Hashing(&mut hash))?;
    }
    Ok(Sha256Hex::finish(hash))
}

struct Hashing<'a>(&'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The digest of the list of files. It does not bind what is in them.
pub(crate) fn list_digest(manifest: &Manifest) -> Result<Sha256Hex, NotCanonical> {
    let kept = [
        "path",
        "kind",
        "contentType",
        "redaction",
        "provenance",
        "viewer",
    ];
    let list: Vec<Value> = manifest
        .files()
        .map(|file| {
            let members = kept
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), file.get(*name)?.clone())));
            Value::Object(members.collect())
        })
        .collect();
    Sha256Hex::of_value(LIST_DOMAIN, &Value::Array(list))
}

/// The digest of a manifest: of all of it, with noughts in the place of this digest.
///
/// # Errors
/// [`NotCanonical`].
pub fn self_digest(manifest: &Value) -> Result<Sha256Hex, NotCanonical> {
    let mut blank = manifest.clone();
    if let Some(Value::Array(files)) = blank.get_mut("files") {
        for file in files.iter_mut().filter(|file| file["path"] == MANIFEST) {
            file["sha256"] = json!({ "algorithm": "sha256", "value": "0".repeat(64) });
        }
    }
    let mut hash = Sha256::new();
    hash.update(format!("{SELF_DOMAIN}\n"));
    hash.update(canonical(&blank)?);
    Ok(Sha256Hex::finish(hash))
}
