//! What a context tells of a call's inputs: how much there is and its digest, never the bytes.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A text's size and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "cf-harness.redacted-text-summary")]
pub struct TextSummary {
    /// The text's length in bytes.
    pub bytes: u64,
    /// `sha256:` and the lowercase hexadecimal SHA-256 of the bytes.
    pub digest: String,
}

impl TextSummary {
    /// Of these bytes, whatever they are.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            digest: digest(bytes),
        }
    }
}

/// A sequence's size and digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename = "cf-harness.redacted-sequence-summary",
    rename_all = "camelCase"
)]
pub struct SequenceSummary {
    /// How many texts there are.
    pub count: u64,
    /// Their lengths together, in bytes.
    pub total_bytes: u64,
    /// `sha256:` and the lowercase hexadecimal SHA-256 of the texts as a JSON array without white
    /// space, so that two ways to cut one text have two digests.
    pub digest: String,
}

impl SequenceSummary {
    /// Of these texts, in this order.
    #[must_use]
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let texts: Vec<&str> = texts.into_iter().collect();
        Self {
            count: texts.len() as u64,
            total_bytes: texts.iter().map(|text| text.len() as u64).sum(),
            digest: digest(Value::from(texts).to_string().as_bytes()),
        }
    }
}

/// The names of variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "cf-harness.env-summary")]
pub struct EnvSummary {
    /// How many names there are.
    pub count: u64,
    /// The names, sorted by their bytes, each once.
    pub names: Vec<String>,
}

impl EnvSummary {
    /// Of these names, in any order.
    #[must_use]
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.into_iter().collect();
        Self {
            count: names.len() as u64,
            names: names.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// What is told of a call's inputs; each only where there is such an input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inputs {
    /// A shell's command text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<TextSummary>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<SequenceSummary>,
    /// The arguments of a shell's command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<SequenceSummary>,
    /// Standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<TextSummary>,
    /// Variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvSummary>,
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_has_the_size_and_the_digest() {
        // Digests from coreutils' sha256sum.
        assert_eq!(
            serde_json::to_value(TextSummary::of(b"")).unwrap(),
            json!({
                "type": "cf-harness.redacted-text-summary",
                "bytes": 0,
                "digest":
                    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            })
        );
        assert_eq!(
            serde_json::to_value(SequenceSummary::of(["a\"\n", "é"])).unwrap(),
            json!({
                "type": "cf-harness.redacted-sequence-summary",
                "count": 2,
                "totalBytes": 5,
                "digest":
                    "sha256:544e9df37b205fa582fceee79044fdf662dc3b785c8871b2a9601975a4b78dc4",
            })
        );
        assert_eq!(
            serde_json::to_value(EnvSummary::of(["b", "A", "b"])).unwrap(),
            json!({"type": "cf-harness.env-summary", "count": 2, "names": ["A", "b"]})
        );
    }

    #[test]
    fn where_a_sequence_is_cut_shows() {
        let (one, other) = (
            SequenceSummary::of(["ab", "c"]),
            SequenceSummary::of(["a", "bc"]),
        );
        assert_eq!(one.total_bytes, other.total_bytes);
        assert_ne!(one.digest, other.digest);
    }
}
