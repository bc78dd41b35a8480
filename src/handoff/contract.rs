//! The contracts' JSON Schemas, which are the one description of what a document looks like.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

/// A document's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contract {
    /// `WORKFLOW_HOST`, version 1.
    WorkflowHost,
    /// `wp-codebox/artifact-result-envelope/v1`.
    ResultEnvelope,
    /// `wp-codebox/artifact-bundle-verification/v1`.
    Verification,
    /// A bundle's `manifest.json`.
    BundleManifest,
    /// `wp-codebox/captured-artifact-file/v1`.
    CapturedFile,
    /// `wp-codebox/agent-fanout-event/v1`.
    FanoutEvent,
    /// `wp-codebox/agent-fanout-result/v1`.
    FanoutResult,
    /// `wp-codebox/host-delegation-request/v1`.
    DelegationRequest,
    /// `wp-codebox/host-delegation-event/v1`.
    DelegationEvent,
    /// `wp-codebox/host-delegation-result/v1`.
    DelegationResult,
    /// `wp-codebox/run-plan-progress/v1`.
    Progress,
    /// The files that a task hands off.
    FileManifest,
    /// `runsc-driver/handoff-plan/v1`.
    Plan,
    /// `runsc-driver/handoff-report/v1`.
    Report,
}

/// A document is not what its contract says, at this place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document is not of its contract at {at:?}")]
pub struct NotOfContract {
    /// A JSON pointer into the document.
    pub at: String,
}

macro_rules! schema {
    ($name:literal) => {
        include_str!(concat!(
            "../../bundles/schemas/handoff/",
            $name,
            ".schema.json"
        ))
    };
}

impl Contract {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::WorkflowHost,
        Self::ResultEnvelope,
        Self::Verification,
        Self::BundleManifest,
        Self::CapturedFile,
        Self::FanoutEvent,
        Self::FanoutResult,
        Self::DelegationRequest,
        Self::DelegationEvent,
        Self::DelegationResult,
        Self::Progress,
        Self::FileManifest,
        Self::Plan,
        Self::Report,
    ];

    /// The contract's JSON Schema.
    #[must_use]
    pub fn schema(self) -> &'static str {
        match self {
            Self::WorkflowHost => schema!("workflow-host-v1"),
            Self::ResultEnvelope => schema!("artifact-result-envelope-v1"),
            Self::Verification => schema!("artifact-bundle-verification-v1"),
            Self::BundleManifest => schema!("artifact-bundle-manifest-v1"),
            Self::CapturedFile => schema!("captured-artifact-file-v1"),
            Self::FanoutEvent => schema!("agent-fanout-event-v1"),
            Self::FanoutResult => schema!("agent-fanout-result-v1"),
            Self::DelegationRequest => schema!("host-delegation-request-v1"),
            Self::DelegationEvent => schema!("host-delegation-event-v1"),
            Self::DelegationResult => schema!("host-delegation-result-v1"),
            Self::Progress => schema!("run-plan-progress-v1"),
            Self::FileManifest => schema!("file-manifest-v1"),
            Self::Plan => schema!("handoff-plan-v1"),
            Self::Report => schema!("handoff-report-v1"),
        }
    }

    /// Whether a document is of this contract.
    ///
    /// # Errors
    /// [`NotOfContract`] names the first place where it is not.
    pub fn check(self, document: &Value) -> Result<(), NotOfContract> {
        static COMPILED: [OnceLock<Option<Validator>>; 14] = [const { OnceLock::new() }; 14];
        let compiled = COMPILED[self as usize].get_or_init(|| {
            let schema: Value = serde_json::from_str(self.schema()).ok()?;
            jsonschema::options()
                .with_pattern_options(jsonschema::PatternOptions::regex())
                .build(&schema)
                .ok()
        });
        // A test sees that each compiles; nothing is of a contract that cannot be read.
        let validator = compiled
            .as_ref()
            .ok_or(NotOfContract { at: String::new() })?;
        match validator.iter_errors(document).next() {
            None => Ok(()),
            Some(error) => Err(NotOfContract {
                at: super::text::flat(error.instance_path().as_str(), 256),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_compiles_and_takes_no_number_for_a_document() {
        for contract in Contract::ALL {
            let schema: Value = serde_json::from_str(contract.schema()).unwrap();
            assert!(jsonschema::meta::is_valid(&schema), "{contract:?}");
            let error = contract.check(&Value::from(1)).unwrap_err();
            assert_eq!(error.at, "", "{contract:?}");
        }
        let error = Contract::WorkflowHost
            .check(&serde_json::json!({"v": 1, "exe": "", "child_args": ["a"], "child_id": "{n}", "ids": [1, 1]}))
            .unwrap_err();
        assert_eq!(error.at, "/exe");
    }
}
