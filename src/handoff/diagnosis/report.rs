//! The report, and its checks.

use serde::Serialize;
use serde_json::{Value, json};

use crate::handoff::digest::Sha256Hex;
use crate::handoff::plan::Plan;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Source {
    /// The plan, or the definition that it is bound to.
    Plan,
    /// What came in.
    Input,
    /// What was prepared.
    Preparation,
    /// The handoff itself.
    Handoff,
    /// What the caller saw earlier.
    Context,
    /// An output that was not there.
    Output,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckStatus {
    /// It is as it should be.
    Satisfied,
    /// It is not there.
    Missing,
    /// It is another one.
    Changed,
    /// It is something else.
    Incompatible,
    /// It is of another consumer, input or moment.
    Stale,
    /// It could not be looked at.
    Unavailable,
}

impl CheckStatus {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Satisfied => "the file is the one that was expected",
            Self::Missing => "the file is not there",
            Self::Changed => "the file is another one than was expected",
            Self::Incompatible => "there is something other than a regular file",
            Self::Stale => "the file is of another handoff",
            Self::Unavailable => "the file could not be looked at",
        }
    }
}

/// A digest and a size, as far as they are known.
pub(super) type Content = (Option<Sha256Hex>, Option<u64>);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What kind of thing.
    pub kind: &'static str,
    /// What it is about.
    pub source: Source,
    /// Which file, below the plan's directory.
    pub path: Option<String>,
    /// What was found.
    pub status: CheckStatus,
    pub(super) expected: Option<Content>,
    pub(super) observed: Option<Content>,
    /// One sentence, in our own words.
    pub message: &'static str,
}

impl Check {
    pub(super) fn plain(
        kind: &'static str,
        source: Source,
        path: Option<&str>,
        status: CheckStatus,
        message: &'static str,
    ) -> Self {
        Self {
            kind,
            source,
            path: path.map(str::to_owned),
            status,
            expected: None,
            observed: None,
            message,
        }
    }

    /// Whether it is not as it should be.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.status != CheckStatus::Satisfied
    }

    fn to_value(&self, at: usize) -> Value {
        let content = |content: &Option<Content>| {
            content
                .as_ref()
                .map(|(sha256, bytes)| json!({ "sha256": sha256, "bytes": bytes }))
        };
        json!({
            "id": format!("check-{}", at + 1),
            "source": self.source,
            "kind": self.kind,
            "path": self.path,
            "status": self.status,
            "expected": content(&self.expected),
            "observed": content(&self.observed),
            "message": self.message,
        })
    }
}

/// What was found (`runsc-driver/handoff-report/v1`). It authorizes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    run: Value,
    consumer: String,
    inputs: Value,
    outputs: Value,
    provenance: Value,
    /// Why the definition that the plan is bound to is not the one.
    pub binding_error: Option<&'static str>,
    /// The identity of what was looked at.
    pub context_digest: Sha256Hex,
    /// What was looked at, by source and path.
    pub checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        inputs: Value,
        binding_error: Option<&'static str>,
        context_digest: Sha256Hex,
        mut checks: Vec<Check>,
    ) -> Self {
        checks.sort_by(|a, b| (a.source, &a.path).cmp(&(b.source, &b.path)));
        Self {
            run: json!({ "id": plan.run_id, "revision": plan.revision }),
            consumer: plan.consumer.clone(),
            inputs,
            outputs: plan.outputs_value(),
            provenance: json!(plan.provenance),
            binding_error,
            context_digest,
            checks,
        }
    }

    /// Whether everything is as it should be.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks
            .iter()
            .all(|check| check.status == CheckStatus::Satisfied)
    }

    /// The first thing that is not as it should be.
    #[must_use]
    pub fn blocker(&self) -> Option<&Check> {
        self.checks
            .iter()
            .find(|check| check.status != CheckStatus::Satisfied)
    }

    /// The report as it is handed out.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let checks = self.checks.iter().enumerate();
        json!({
            "schema": "runsc-driver/handoff-report/v1",
            "status": if self.is_ready() { "READY" } else { "BLOCKED" },
            "authorized": false,
            "run": self.run,
            "consumer": self.consumer,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "provenance": self.provenance,
            "bindingError": self.binding_error,
            "contextDigest": self.context_digest,
            "checks": checks.map(|(at, check)| check.to_value(at)).collect::<Vec<_>>(),
        })
    }
}
