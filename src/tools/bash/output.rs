//! What a call gives back.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use crate::cfc::label::Label;
use crate::cfc::result::{Diagnostic, Policy};
use crate::driver::Observation;

/// The exit value of a call whose time was over.
pub const TIMED_OUT: u8 = 124;
/// The exit value of a call that was refused, or whose sandbox failed.
pub const REFUSED: u8 = 125;
/// The exit value of a call whose working directory cannot be used.
pub const BAD_CWD: u8 = 1;

/// A call's result. As JSON, it is the record of the call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The record's name: run, tool and number, joined with `:`.
    pub output_id: String,
    /// Standard output, trimmed.
    pub stdout: Shown<String>,
    /// Standard error, trimmed; the tool's own words where the command did not run to its end.
    pub stderr: Shown<String>,
    /// The command's exit value, or one of the tool's own.
    pub exit_code: Shown<u8>,
    /// Where the next call runs that names no directory, in the sandbox.
    pub cwd: PathBuf,
    /// What is known of the labels; none where nothing is tracked. Not for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfc_result: Option<CfcResult>,
}

impl Output {
    /// What a model is given.
    #[must_use]
    pub fn for_model(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(members) = value.as_object_mut() {
            members.shift_remove("cfcResult");
        }
        value
    }
}

/// What a verdict says of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CfcResult {
    /// What may be seen of it.
    pub policy: Policy,
    /// Its label; empty where none can be told.
    pub label: Label,
    /// What there is to tell of the result.
    pub diagnostics: Vec<Diagnostic>,
}

impl CfcResult {
    pub(super) fn of(observation: &Observation) -> Option<Self> {
        let (policy, label, diagnostics) = match observation {
            Observation::Untracked(_) => return None,
            Observation::Observed {
                label, diagnostics, ..
            } => (Policy::Observed, label.clone(), diagnostics),
            Observation::Opaque {
                label, diagnostics, ..
            } => (Policy::Opaque, label.clone(), diagnostics),
            Observation::Denied { diagnostics } => (Policy::Denied, Label::default(), diagnostics),
        };
        Some(Self {
            policy,
            label,
            diagnostics: diagnostics.clone(),
        })
    }
}

/// A part of a call's output: there, or an object that stands for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shown<T> {
    /// It may be seen.
    Observed(T),
    /// It may not.
    Withheld(Withheld),
}

impl<T> Shown<T> {
    /// The part, where it may be seen.
    pub fn observed(&self) -> Option<&T> {
        match self {
            Self::Observed(part) => Some(part),
            Self::Withheld(_) => None,
        }
    }
}

/// What stands for a part that may not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "cf-harness.observation-denied")]
pub struct Withheld {
    /// Why.
    pub reason: WithheldReason,
    /// What is wrong with the result, where none can be read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'static str>,
    /// The part's name: the record's and the part's, joined with `:`.
    pub handle: String,
}

/// Why a part may not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithheldReason {
    /// It may hold what is labelled.
    NeedsOpaquePassThrough,
    /// What it holds cannot be told.
    NotObservable,
}

impl Withheld {
    /// What stands for a part of a call that was not observed.
    pub(super) fn of(cfc: &CfcResult, output_id: &str, part: &str) -> Self {
        let (reason, detail) = match cfc.policy {
            Policy::Opaque => (WithheldReason::NeedsOpaquePassThrough, None),
            Policy::Observed | Policy::Denied => {
                let first = cfc.diagnostics.first();
                let detail = first.map(|diagnostic| diagnostic.code.message());
                (WithheldReason::NotObservable, detail)
            }
        };
        Self {
            reason,
            detail,
            handle: format!("{output_id}:{part}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_is_given_text_or_an_object_that_stands_for_it() {
        let cfc = CfcResult {
            policy: Policy::Opaque,
            label: Label {
                confidentiality: vec!["finance".into()],
                ..Label::default()
            },
            diagnostics: Vec::new(),
        };
        let withheld = |part| Withheld::of(&cfc, "r:bash:3", part);
        let mut output = Output {
            output_id: "r:bash:3".into(),
            stdout: Shown::Withheld(withheld("stdout")),
            stderr: Shown::Observed("e".into()),
            exit_code: Shown::Withheld(withheld("exitCode")),
            cwd: "/workspace".into(),
            cfc_result: Some(cfc.clone()),
        };
        let object = |part| {
            json!({
                "type": "cf-harness.observation-denied",
                "reason": "needs-opaque-pass-through",
                "handle": format!("r:bash:3:{part}"),
            })
        };
        assert_eq!(
            output.for_model(),
            json!({
                "outputId": "r:bash:3",
                "stdout": object("stdout"),
                "stderr": "e",
                "exitCode": object("exitCode"),
                "cwd": "/workspace",
            })
        );
        assert_eq!(
            serde_json::to_value(&output).unwrap()["cfcResult"]["label"],
            json!({"confidentiality": ["finance"]})
        );
        output.exit_code = Shown::Observed(7);
        assert_eq!(output.for_model()["exitCode"], 7);
    }
}
