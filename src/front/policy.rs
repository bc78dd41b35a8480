//! The policy: which container paths have which label, and what the operator chose beside it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::Pattern;
use super::taint::Taint;
use crate::cfc::json::{JsonError, MAX_BYTES, read};

/// A policy, as `bundles/schemas/cfc-policy-v1.schema.json` describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The labels of container paths.
    #[serde(default)]
    pub path_labels: Vec<PathLabel>,
    /// What labels mean for egress.
    #[serde(default)]
    pub egress: Egress,
    /// What is thought of `trusted.*` labels where they cannot be seen.
    #[serde(default)]
    pub unseen_trusted_labels: Unseen,
}

/// One label of container paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathLabel {
    /// Which paths.
    pub pattern: Pattern,
    /// Their label.
    pub label: PolicyLabel,
}

/// A label, as a policy has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLabel {
    /// Who may see it: each entry narrows.
    pub confidentiality: Taint,
}

/// What labels mean for egress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// What the labels that came with the call itself mean.
    #[serde(default)]
    pub call_labels: CallLabels,
}

/// What the labels that came with a call mean for its egress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallLabels {
    /// Nothing: the caller chose both.
    #[default]
    Allow,
    /// The same as labels of what the container can read.
    Refuse,
}

/// What is thought of labels that only root can see, by others than root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseen {
    /// They may be there.
    #[default]
    Doubt,
    /// The operator says that there are none.
    None,
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It cannot be read.
    #[error("the CFC policy {path:?} cannot be read: {source}")]
    Io {
        /// Where it is.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not one JSON value.
    #[error("the CFC policy {path:?} cannot be used: {source}")]
    Json {
        /// Where it is.
        path: std::path::PathBuf,
        /// Why.
        source: JsonError,
    },
    /// It is JSON, and no policy.
    #[error("the CFC policy {path:?} cannot be used: {reason}")]
    Shape {
        /// Where it is.
        path: std::path::PathBuf,
        /// Why.
        reason: String,
    },
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`PolicyError`]. A policy of which a part is not understood is none.
    pub fn open(path: &Path) -> Result<Self, PolicyError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|source| PolicyError::Io {
                path: path.to_owned(),
                source,
            })?;
        let value = read(&bytes).map_err(|source| PolicyError::Json {
            path: path.to_owned(),
            source,
        })?;
        Self::from_value(value).map_err(|reason| PolicyError::Shape {
            path: path.to_owned(),
            reason,
        })
    }

    fn from_value(value: Value) -> Result<Self, String> {
        if !value.is_object() {
            return Err("it is no JSON object".into());
        }
        serde_json::from_value(value).map_err(|err| err.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: Value) -> Result<Policy, String> {
        Policy::from_value(value)
    }

    #[test]
    fn an_empty_policy_is_one_and_choices_have_defaults() {
        assert_eq!(of(json!({})), Ok(Policy::default()));
        let policy = of(json!({
            "path_labels": [{"pattern": "/vault/*.txt", "label": {"confidentiality": ["finance"]}}],
            "egress": {"call_labels": "refuse"},
            "unseen_trusted_labels": "none",
        }))
        .unwrap();
        assert_eq!(policy.path_labels[0].pattern.text(), "/vault/*.txt");
        assert_eq!(
            policy.path_labels[0].label.confidentiality,
            Taint::of([json!("finance")])
        );
        assert_eq!(policy.egress.call_labels, CallLabels::Refuse);
        assert_eq!(policy.unseen_trusted_labels, Unseen::None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [
            json!([]),
            json!(null),
            json!({"path_label": []}),
            json!({"path_labels": {}}),
            json!({"path_labels": [{"pattern": "/a"}]}),
            json!({"path_labels": [{"pattern": "a", "label": {"confidentiality": []}}]}),
            json!({"path_labels": [{"pattern": "/a", "label": {}}]}),
            json!({"path_labels": [{"pattern": "/a", "label": {"confidentiality": "x"}}]}),
            json!({"path_labels": [
                {"pattern": "/a", "label": {"confidentiality": [], "integrity": []}}
            ]}),
            json!({"path_labels": [
                {"pattern": "/a", "label": {"confidentiality": []}, "more": 1}
            ]}),
            json!({"egress": {"call_labels": "maybe"}}),
            json!({"egress": {"all": true}}),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_schema_and_the_reader_agree() {
        let schema: Value = serde_json::from_slice(include_bytes!(
            "../../bundles/schemas/cfc-policy-v1.schema.json"
        ))
        .unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let sample: Value =
            serde_json::from_slice(include_bytes!("../../bundles/cfc-policy.json")).unwrap();
        for (value, expected) in [
            (sample, true),
            (json!({}), true),
            (json!({"egress": {"call_labels": "refuse"}}), true),
            (json!({"unseen_trusted_labels": "none"}), true),
            (
                json!({"path_labels": [{"pattern": "**/x", "label": {"confidentiality": [{"a": 1}]}}]}),
                true,
            ),
            (
                json!({"path_labels": [{"pattern": "x", "label": {"confidentiality": []}}]}),
                false,
            ),
            (json!({"path_labels": [{"pattern": "/x"}]}), false),
            (json!({"unseen_trusted_labels": "some"}), false),
            (json!({"more": 1}), false),
            (json!([]), false),
        ] {
            assert_eq!(schema.is_valid(&value), expected, "{value}");
            assert_eq!(of(value.clone()).is_ok(), expected, "{value}");
        }
    }
}
