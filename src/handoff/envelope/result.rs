//! `wp-codebox/artifact-result-envelope/v1`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::leak::{Leak, check_leaks};
use crate::cfc::json::{self as strict, JsonError};
use crate::handoff::artifacts::Diagnostic;
use crate::handoff::contract::{Contract, NotOfContract};
use crate::handoff::digest::Sha256Hex;

const SCHEMA: &str = "wp-codebox/artifact-result-envelope/v1";

/// How an operation on artifacts ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There is something new.
    Created,
    /// It was there.
    Existing,
    /// It took the place of another; never by us.
    Updated,
    /// It failed.
    Failed,
    /// It was not done.
    Skipped,
}

impl Status {
    /// Whether there is something to use.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Created | Self::Existing | Self::Updated)
    }
}

/// An envelope that is of its contract. What was absent as it was read is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope(Value);

/// Why something is no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// It is not JSON.
    #[error("the envelope cannot be read, since {0}")]
    Json(#[from] JsonError),
    /// It is another document.
    #[error("the envelope is none: {0}")]
    Contract(#[from] NotOfContract),
    /// It has what may not leave the host.
    #[error("the envelope is held back: {0}")]
    Leak(#[from] Leak),
}

impl EnvelopeError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(err) => err.code(),
            Self::Contract(_) => "envelope-invalid",
            Self::Leak(_) => "envelope-leak",
        }
    }
}

impl Envelope {
    /// Reads an envelope and changes nothing of it.
    ///
    /// # Errors
    /// [`EnvelopeError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let value = strict::read(bytes)?;
        Contract::ResultEnvelope.check(&value)?;
        Ok(Self(value))
    }

    /// The envelope.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Whether the operation ended well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.0["success"] == true
    }

    /// The bundle's id, where there is one.
    #[must_use]
    pub fn bundle_id(&self) -> Option<&str> {
        self.0["artifactBundle"]["id"].as_str()
    }
}

/// A reference to something that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// What it is.
    pub kind: &'static str,
    /// Its name.
    pub id: Option<String>,
    /// Where it is, below the store or the bundle.
    pub path: Option<String>,
    /// The digest of what is in it.
    pub digest: Option<Sha256Hex>,
}

impl ArtifactRef {
    /// A bundle in the store.
    #[must_use]
    pub fn bundle(id: &str, digest: &Sha256Hex) -> Self {
        Self {
            kind: "artifact-bundle",
            id: Some(id.to_owned()),
            path: Some(format!("artifacts/{id}")),
            digest: Some(digest.clone()),
        }
    }

    /// A file below the run or the bundle.
    #[must_use]
    pub fn file(kind: &'static str, path: &str, digest: Option<Sha256Hex>) -> Self {
        Self {
            kind,
            id: None,
            path: Some(path.to_owned()),
            digest,
        }
    }

    fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("kind".into(), self.kind.into());
        if let Some(id) = &self.id {
            members.insert("id".into(), id.as_str().into());
        }
        if let Some(path) = &self.path {
            members.insert("path".into(), path.as_str().into());
        }
        if let Some(digest) = &self.digest {
            let digest = json!({ "algorithm": "sha256", "value": digest });
            members.insert("digest".into(), digest);
        }
        Value::Object(members)
    }
}

/// Builds an envelope whole.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    /// What was done.
    pub operation: &'static str,
    /// How it ended; failed where there is an error, else created.
    pub status: Option<Status>,
    /// The bundle.
    pub bundle: Option<ArtifactRef>,
    /// What else was made.
    pub artifacts: Vec<ArtifactRef>,
    /// What speaks for it.
    pub evidence: Vec<ArtifactRef>,
    /// What the verification said.
    pub verification: Option<Value>,
    /// What came of it.
    pub result: Option<Value>,
    /// What is to be told.
    pub diagnostics: Vec<Diagnostic>,
    /// The caller's keys and ours.
    pub metadata: Map<String, Value>,
    /// A stable word and a sentence, where it failed.
    pub error: Option<(String, String)>,
    /// Why it was not done.
    pub reason: Option<String>,
}

impl Builder {
    /// The envelope. `places` are paths of the host that may not be in it.
    ///
    /// # Errors
    /// [`EnvelopeError`] where it would not be of its contract, or would let something out.
    pub fn build(&self, places: &[&str]) -> Result<Envelope, EnvelopeError> {
        let status = self.status.unwrap_or(match self.error {
            Some(_) => Status::Failed,
            None => Status::Created,
        });
        let mut refs: Vec<Value> = Vec::new();
        for made in self.bundle.iter().chain(&self.artifacts) {
            let made = made.to_value();
            if !refs.contains(&made) {
                refs.push(made);
            }
        }
        let evidence: Vec<_> = self.evidence.iter().map(ArtifactRef::to_value).collect();
        let mut envelope = json!({
            "schema": SCHEMA,
            "operation": self.operation,
            "status": status,
            "success": status.is_success(),
            "artifactRefs": refs,
            "evidenceRefs": evidence,
            "typed_artifacts": [],
            "diagnostics": self.diagnostics,
            "metadata": self.metadata,
        });
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                envelope[name] = value;
            }
        };
        put(
            "artifactBundle",
            self.bundle.as_ref().map(ArtifactRef::to_value),
        );
        put("verification", self.verification.clone());
        put("result", self.result.clone());
        if status == Status::Failed {
            put("error", Some(self.error_value()));
        }
        if status == Status::Skipped {
            put("reason", self.reason.clone().map(Value::from));
        }
        Contract::ResultEnvelope.check(&envelope)?;
        check_leaks(&envelope, places)?;
        Ok(Envelope(envelope))
    }

    fn error_value(&self) -> Value {
        match (&self.error, self.diagnostics.first()) {
            (Some((code, message)), _) => {
                json!({ "name": "Error", "message": message, "code": code })
            }
            (None, Some(told)) => {
                json!({ "name": "Error", "message": told.message, "code": told.code })
            }
            (None, None) => json!({ "name": "Error", "message": "the operation failed" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contract's own example.
    fn example() -> Value {
        json!({
            "schema": SCHEMA,
            "operation": "handoff-artifacts",
            "status": "created",
            "success": true,
            "artifactBundle": {
                "kind": "artifact-bundle", "id": "bundle-123", "path": "artifacts/bundle-123",
                "digest": {"algorithm": "sha256", "value": "a".repeat(64)}
            },
            "artifactRefs": [],
            "evidenceRefs": [],
            "verification": {},
            "result": {},
            "diagnostics": [],
            "metadata": {"sandbox_session_id": "job-123", "source_digest": "b".repeat(64)}
        })
    }

    #[test]
    fn what_is_read_is_the_same_again() {
        let envelope = Envelope::parse(example().to_string().as_bytes()).unwrap();
        assert_eq!(envelope.value(), &example());
        assert!(envelope.is_success());
        assert_eq!(envelope.bundle_id(), Some("bundle-123"));
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let with = |name: &str, value: Value| {
            let mut envelope = example();
            envelope[name] = value;
            Envelope::parse(envelope.to_string().as_bytes()).map_err(|err| err.to_string())
        };
        for (name, value) in [
            ("schema", json!("other/v1")),
            ("status", json!("odd")),
            ("success", json!(false)),
            ("status", json!("failed")),
            ("operation", json!("")),
            ("artifactRefs", json!({})),
            (
                "artifactBundle",
                json!({"kind": "x", "digest": {"algorithm": "md5", "value": ""}}),
            ),
        ] {
            assert!(with(name, value.clone()).is_err(), "{name}: {value}");
        }
        assert_eq!(
            with("more", json!({"kept": null})).unwrap().value()["more"],
            json!({"kept": null})
        );
    }

    #[test]
    fn a_built_one_is_whole_and_lets_nothing_out() {
        let digest = Sha256Hex::of(b"x");
        let bundle = ArtifactRef::bundle("b-1", &digest);
        let builder = Builder {
            operation: "handoff-artifacts",
            artifacts: vec![bundle.clone()],
            bundle: Some(bundle),
            ..Builder::default()
        };
        let built = builder.build(&[]).unwrap();
        assert_eq!(built.value()["artifactRefs"].as_array().unwrap().len(), 1);
        assert_eq!(built.value()["typed_artifacts"], json!([]));
        assert!(built.value().get("error").is_none());
        assert_eq!(
            Envelope::parse(built.value().to_string().as_bytes()).unwrap(),
            built
        );

        let failed = Builder {
            error: Some(("x-failed".into(), "it failed".into())),
            ..builder.clone()
        };
        let failed = failed.build(&[]).unwrap();
        assert_eq!(
            failed.value()["error"],
            json!({"name": "Error", "message": "it failed", "code": "x-failed"})
        );
        assert!(!failed.is_success());

        let leaky = Builder {
            result: Some(json!({"path": "/srv/x"})),
            ..builder
        };
        assert_eq!(leaky.build(&[]).unwrap_err().code(), "envelope-leak");
    }
}
