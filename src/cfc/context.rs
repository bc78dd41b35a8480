//! The invocation context: what a `runsc` that tracks labels is told of a call before it starts.
//!
//! It tells how much of each input there is and its digest, and never the bytes.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::{JsonError, read};
use super::label::{LabelError, LabelView};
use super::mode::EnforcementMode;
use super::summary::{EnvSummary, Inputs, SequenceSummary, TextSummary};

mod fields;
mod shape;
#[cfg(test)]
mod tests;

pub use fields::{
    ContextFields, Operation, PromptRole, PromptSlotBinding, PromptSource, RenderRef, RunManifest,
};

const TYPE: &str = "cf-harness.cfc-invocation-context";
const MODE: &str = "cfcEnforcementMode";
const LABELS: &str = "cfcInputLabels";

/// A context that keeps the contract: of the right shape, with a mode, its input labels of
/// confidentiality alone.
///
/// A caller's own is handed on to the byte, unless its mode or labels are changed; then it is
/// written anew, with members that are not known here where they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationContext {
    members: Map<String, Value>,
    mode: EnforcementMode,
    labels: LabelView,
    /// As it was read, as long as it says the same.
    verbatim: Option<Vec<u8>>,
}

/// What there is to say where a caller gave no context, so that the mode travels all the same.
#[derive(Debug, Clone)]
pub struct MinimalContext<'a> {
    /// The run.
    pub run_id: &'a str,
    /// Which context of the run it is, from 1.
    pub sequence: NonZeroU64,
    /// When it was made.
    pub created_at: SystemTime,
    /// The tool that the call is of.
    pub tool_id: &'a str,
    /// How strictly labels are held to.
    pub mode: EnforcementMode,
    /// The working directory in the sandbox.
    pub cwd: &'a Path,
    /// The program and its arguments.
    pub argv: &'a [OsString],
    /// Variables beside the fixed ones; of their values nothing is told.
    pub env: &'a [(OsString, OsString)],
    /// Standard input, where it is known before the call starts.
    pub stdin: Option<TextSummary>,
    /// The labels of the call's inputs.
    pub labels: LabelView,
}

impl InvocationContext {
    /// A context that says this.
    ///
    /// # Errors
    /// [`ContextError::Member`] where a text that may not be empty is.
    pub fn new(fields: &ContextFields) -> Result<Self, ContextError> {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'static str,
            version: u8,
            #[serde(flatten)]
            fields: &'a ContextFields,
        }
        let wire = serde_json::to_value(Wire {
            r#type: TYPE,
            version: 1,
            fields,
        });
        match wire {
            Ok(Value::Object(members)) => Self::checked(members, None),
            _ => Err(ContextError::NotObject),
        }
    }

    /// The context of a command for which the caller gave none.
    ///
    /// # Errors
    /// [`ContextError::NotUtf8`] where the working directory, the argv or a variable's name is
    /// not UTF-8.
    pub fn minimal(call: &MinimalContext<'_>) -> Result<Self, ContextError> {
        let argv: Result<Vec<_>, _> = call
            .argv
            .iter()
            .enumerate()
            .map(|(index, argument)| utf8(argument, || format!("/argv/{index}")))
            .collect();
        let names: Result<Vec<_>, _> = call
            .env
            .iter()
            .enumerate()
            .map(|(index, (name, _))| utf8(name, || format!("/env/{index}")))
            .collect();
        let names = names?;
        Self::new(&ContextFields {
            sequence: call.sequence,
            run_id: call.run_id.into(),
            created_at: call.created_at,
            tool_id: call.tool_id.into(),
            tool_output_id: None,
            operation: Operation::Command,
            mode: call.mode,
            cwd: utf8(call.cwd.as_os_str(), || "/cwd".into())?.into(),
            prompt_slot: None,
            run_manifest: RunManifest::default(),
            inputs: Inputs {
                argv: Some(SequenceSummary::of(argv?)),
                stdin: call.stdin.clone(),
                env: (!names.is_empty()).then(|| EnvSummary::of(names)),
                ..Inputs::default()
            },
            labels: call.labels.clone(),
        })
    }

    /// Reads a caller's context. Members that are not known are kept, but for those whose names
    /// differ from a known one's in letter case alone: to some readers they are the known one.
    ///
    /// # Errors
    /// [`ContextError`] where it does not keep the contract.
    pub fn parse(bytes: &[u8]) -> Result<Self, ContextError> {
        match read(bytes)? {
            Value::Object(members) => Self::checked(members, Some(bytes.to_vec())),
            _ => Err(ContextError::NotObject),
        }
    }

    fn checked(
        members: Map<String, Value>,
        verbatim: Option<Vec<u8>>,
    ) -> Result<Self, ContextError> {
        shape::check(&members, shape::CONTEXT, "")?;
        let mode = members
            .get(MODE)
            .and_then(Value::as_str)
            .and_then(|word| EnforcementMode::from_str(word).ok())
            .ok_or_else(|| ContextError::Member {
                path: format!("/{MODE}"),
                expected: "a mode".into(),
            })?;
        let labels = match members.get(LABELS) {
            Some(view) => LabelView::from_value(view)?,
            None => LabelView::default(),
        };
        Ok(Self {
            members,
            mode,
            labels,
            verbatim,
        })
    }

    /// As `runsc` is given it: UTF-8 JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match &self.verbatim {
            Some(bytes) => bytes.clone(),
            None => format!("{:#}\n", Value::Object(self.members.clone())).into_bytes(),
        }
    }

    /// How strictly labels are held to.
    #[must_use]
    pub fn mode(&self) -> EnforcementMode {
        self.mode
    }

    /// Has labels held to so strictly.
    pub fn set_mode(&mut self, mode: EnforcementMode) {
        if mode != self.mode {
            self.mode = mode;
            self.put(MODE, mode.as_str().into());
        }
    }

    /// The labels of the call's inputs.
    #[must_use]
    pub fn labels(&self) -> &LabelView {
        &self.labels
    }

    /// Adds labels to those that are there.
    pub fn merge_labels(&mut self, view: &LabelView) {
        let merged = LabelView::merge([&self.labels, view]);
        if merged != self.labels {
            self.put(LABELS, merged.to_value());
            self.labels = merged;
        }
    }

    fn put(&mut self, name: &str, value: Value) {
        // A member that is there keeps its place.
        self.members.insert(name.into(), value);
        self.verbatim = None;
    }
}

fn utf8(text: &OsStr, path: impl Fn() -> String) -> Result<&str, ContextError> {
    text.to_str()
        .ok_or_else(|| ContextError::NotUtf8 { path: path() })
}

/// Why a context cannot be used. Paths are JSON pointers (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// It is not one JSON value within the bounds of [`super::json`].
    #[error("the context cannot be read: {0}")]
    Json(#[from] JsonError),
    /// It is JSON, and no object.
    #[error("the context is no JSON object")]
    NotObject,
    /// A member is missing, or is something else than it must be.
    #[error("the context has something else than {expected} at {path:?}")]
    Member {
        /// Where it is.
        path: String,
        /// What belongs there.
        expected: String,
    },
    /// A member's name differs from a known one's in letter case alone.
    #[error("the context has a member that only its letter case sets apart, at {path:?}")]
    Lookalike {
        /// Where it is.
        path: String,
    },
    /// Its input labels cannot be used.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// An input that must be UTF-8 is not.
    #[error("the call's {path:?} is not UTF-8, and a context is")]
    NotUtf8 {
        /// Which one.
        path: String,
    },
}

impl ContextError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "unreadable-context",
            Self::NotObject | Self::Member { .. } | Self::Lookalike { .. } => "malformed-context",
            Self::Labels(error) => error.code(),
            Self::NotUtf8 { .. } => "not-utf8",
        }
    }
}
