//! What a context says, as types.

use std::num::NonZeroU64;
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::cfc::label::LabelView;
use crate::cfc::mode::EnforcementMode;
use crate::cfc::summary::Inputs;
use crate::cfc::time::iso_millis;

/// All that a context says, in the order in which it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextFields {
    /// Which context of the run it is, from 1.
    pub sequence: NonZeroU64,
    /// The run.
    pub run_id: String,
    /// When it was made; written in UTC to the millisecond.
    #[serde(serialize_with = "as_iso_millis")]
    pub created_at: SystemTime,
    /// The tool that the call is of, such as `bash`.
    pub tool_id: String,
    /// The record that the call's output goes into: run, tool and sequence, joined with `:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output_id: Option<String>,
    /// What is run.
    pub operation: Operation,
    /// How strictly labels are held to.
    #[serde(rename = "cfcEnforcementMode")]
    pub mode: EnforcementMode,
    /// The working directory in the sandbox.
    pub cwd: String,
    /// The prompt that led to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_slot: Option<PromptSlotBinding>,
    /// The run's manifest.
    pub run_manifest: RunManifest,
    /// What is told of the call's inputs.
    pub inputs: Inputs,
    /// The labels of the call's inputs; left out where there are none.
    #[serde(rename = "cfcInputLabels", skip_serializing_if = "LabelView::is_empty")]
    pub labels: LabelView,
}

fn as_iso_millis<S: Serializer>(time: &SystemTime, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&iso_millis(*time))
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A command text, by a shell.
    Shell,
    /// A program and its arguments.
    Command,
}

/// What is told of a run's manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunManifest {
    /// Whether there is one.
    pub present: bool,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Who wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The wish that the run is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wish_id: Option<String>,
    /// How the run was dispatched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatch_class: Option<String>,
    /// The mode that it asks for.
    #[serde(rename = "cfcEnforcementMode", skip_serializing_if = "Option::is_none")]
    pub mode: Option<EnforcementMode>,
    /// Whether it has a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_slot_present: Option<bool>,
}

/// The prompt that led to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename = "https://commonfabric.org/cfc/atom/PromptSlotBound",
    rename_all = "camelCase"
)]
pub struct PromptSlotBinding {
    /// Where it is from.
    pub source: PromptSource,
    /// What it is to the model.
    pub role: PromptRole,
    /// The kernel that bound it.
    pub kernel_name: String,
    /// The surface that it came in by.
    pub surface: String,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Value>,
    /// What was shown as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_ref: Option<RenderRef>,
    /// The event that it came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The digest of its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_digest: Option<String>,
    /// The digest of its slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_digest: Option<String>,
    /// The digest of the snapshot that it was taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_digest: Option<String>,
    /// What it was written into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_path: Option<Value>,
}

/// Where a prompt is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PromptSource {
    /// A name, not empty.
    Name(String),
    /// A description of the harness's own.
    Object(Map<String, Value>),
}

/// What a prompt is to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptRole {
    /// What to do.
    DirectCommand,
    /// What to know.
    Context,
    /// What others said.
    Quote,
}

/// What was shown as a prompt was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderRef {
    /// Which rendering it was.
    pub seq: u64,
    /// Of what.
    pub root_ref: Value,
}
