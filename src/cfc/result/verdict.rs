//! What a result comes to: whether the output may be seen, its label, and what there is to tell.

use std::io;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::cfc::json::JsonError;
use crate::cfc::label::Label;

/// Why there is nothing to read a verdict from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// There is no such file any more.
    #[error("there is none")]
    Missing,
    /// Reading failed.
    #[error("reading failed: {kind}")]
    Io {
        /// How.
        kind: io::ErrorKind,
    },
    /// It is `null`, as a writer with nothing to say spells it.
    #[error("it is null")]
    Null,
    /// It is not one JSON value within the bounds of [`crate::cfc::json`].
    #[error(transparent)]
    Json(#[from] JsonError),
}

impl Unreadable {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Null => "null",
            Self::Io { .. } => "io",
            Self::Json(error) => error.code(),
        }
    }
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            kind => Self::Io { kind },
        }
    }
}

impl Serialize for Unreadable {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// What a diagnostic is about, in the reference's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum DiagnosticCode {
    /// There is no result, or it is not one JSON value within the bounds.
    #[serde(rename = "runsc_cfc_result_fd_unreadable")]
    ResultFdUnreadable,
    /// It is of no version that is read here.
    #[serde(rename = "runsc_cfc_sidecar_version")]
    SidecarVersion,
    /// It is of another container.
    #[serde(rename = "runsc_cfc_sidecar_container_mismatch")]
    SidecarContainerMismatch,
    /// It has no taint.
    #[serde(rename = "runsc_cfc_sidecar_missing_taint")]
    SidecarMissingTaint,
    /// Its taint is no taint.
    #[serde(rename = "runsc_cfc_sidecar_malformed_taint")]
    SidecarMalformedTaint,
    /// It was read.
    #[serde(rename = "runsc_cfc_result")]
    Result,
}

impl DiagnosticCode {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ResultFdUnreadable => "runsc_cfc_result_fd_unreadable",
            Self::SidecarVersion => "runsc_cfc_sidecar_version",
            Self::SidecarContainerMismatch => "runsc_cfc_sidecar_container_mismatch",
            Self::SidecarMissingTaint => "runsc_cfc_sidecar_missing_taint",
            Self::SidecarMalformedTaint => "runsc_cfc_sidecar_malformed_taint",
            Self::Result => "runsc_cfc_result",
        }
    }

    /// A sentence for a person. It is of the code alone, so that nothing that was read is in it.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::ResultFdUnreadable => "runsc left no result that can be read",
            Self::SidecarVersion => "runsc's result is not of version 1",
            Self::SidecarContainerMismatch => "runsc's result is of another container",
            Self::SidecarMissingTaint => "runsc's result has no taint",
            Self::SidecarMalformedTaint => "the taint in runsc's result is malformed",
            Self::Result => "runsc's result was read",
        }
    }

    /// How much it matters.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::Result => Level::Info,
            _ => Level::Error,
        }
    }
}

/// How much a diagnostic matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing is wrong.
    Info,
    /// Something is odd, and was not acted on.
    Warning,
    /// The verdict is what it is because of this.
    Error,
}

/// What was read, for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Details {
    /// Of [`DiagnosticCode::ResultFdUnreadable`].
    Unreadable {
        /// The container that was run.
        container_id: String,
        /// Why.
        error: Unreadable,
    },
    /// Of a version, and of a taint, that is not what it must be.
    Container {
        /// The container that was run.
        container_id: String,
    },
    /// Of [`DiagnosticCode::SidecarContainerMismatch`].
    Mismatch {
        /// The container that was run.
        expected_container_id: String,
        /// The container that the result is of; empty where it names none.
        actual_container_id: String,
    },
    /// Of [`DiagnosticCode::Result`].
    Taint {
        /// The container that was run.
        container_id: String,
        /// The sandbox, where the result names one.
        #[serde(skip_serializing_if = "Option::is_none")]
        sandbox_id: Option<String>,
        /// The command's wait status, where the result has a whole number for it. It is not
        /// compared with runsc's exit status.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_status: Option<i64>,
        /// The label as runsc renders it, which nothing here takes apart.
        #[serde(skip_serializing_if = "Option::is_none")]
        runsc_taint: Option<String>,
        /// The label as JSON, all of it.
        #[serde(
            rename = "runscTaintXattrJSON",
            skip_serializing_if = "Option::is_none"
        )]
        runsc_taint_xattr_json: Option<Map<String, Value>>,
    },
}

/// One thing to tell an operator about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What it is about; level and message follow from it.
    pub code: DiagnosticCode,
    /// What was read.
    pub details: Details,
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut out = out.serialize_struct("Diagnostic", 4)?;
        out.serialize_field("level", &self.code.level())?;
        out.serialize_field("code", &self.code)?;
        out.serialize_field("message", self.code.message())?;
        out.serialize_field("details", &self.details)?;
        out.end()
    }
}

/// What may be seen of a command's output and exit value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// All of it.
    Observed,
    /// That it is there, how long it is, and its label.
    Opaque,
    /// Nothing: what its label is cannot be told.
    Denied,
}

impl Policy {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Opaque => "opaque",
            Self::Denied => "denied",
        }
    }
}

/// The verdict on a call: one policy and one label for both streams and the exit value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The output is public.
    Observed {
        /// Empty, as all that is public is.
        label: Label,
        /// What there is to tell.
        diagnostics: Vec<Diagnostic>,
    },
    /// The output has a label and is withheld.
    Opaque {
        /// As much of it as is of the right shape; atoms are not looked into.
        label: Label,
        /// What there is to tell.
        diagnostics: Vec<Diagnostic>,
    },
    /// The output is withheld because its label cannot be told.
    Denied {
        /// Empty: nothing is known.
        label: Label,
        /// What there is to tell; the first of them is the reason.
        diagnostics: Vec<Diagnostic>,
    },
}

impl Verdict {
    /// What may be seen.
    #[must_use]
    pub fn policy(&self) -> Policy {
        match self {
            Self::Observed { .. } => Policy::Observed,
            Self::Opaque { .. } => Policy::Opaque,
            Self::Denied { .. } => Policy::Denied,
        }
    }

    /// The label of both streams and the exit value.
    #[must_use]
    pub fn label(&self) -> &Label {
        match self {
            Self::Observed { label, .. }
            | Self::Opaque { label, .. }
            | Self::Denied { label, .. } => label,
        }
    }

    /// What there is to tell.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Observed { diagnostics, .. }
            | Self::Opaque { diagnostics, .. }
            | Self::Denied { diagnostics, .. } => diagnostics,
        }
    }

    /// Why nothing may be seen, where it is so.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Denied { diagnostics, .. } => Some(diagnostics.first()?.code.message()),
            Self::Observed { .. } | Self::Opaque { .. } => None,
        }
    }

    pub(super) fn denied(code: DiagnosticCode, details: Details) -> Self {
        Self::Denied {
            label: Label::default(),
            diagnostics: vec![Diagnostic { code, details }],
        }
    }
}

impl Serialize for Verdict {
    /// `{policy, label, reason?, diagnostics}`.
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut out = out.serialize_struct("Verdict", 4)?;
        out.serialize_field("policy", &self.policy())?;
        out.serialize_field("label", self.label())?;
        match self.reason() {
            Some(reason) => out.serialize_field("reason", reason)?,
            None => out.skip_field("reason")?,
        }
        out.serialize_field("diagnostics", self.diagnostics())?;
        out.end()
    }
}
