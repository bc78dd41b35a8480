//! A run stays on the runtime that it started on: another one need not keep the CFC labels of its
//! files where that one kept them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::description::{DOCKER_KIND, KIND, RecordedDescription};
use super::order::DOCKER;
use super::{Choice, RUNSC};

/// What a run's state says of its runtime. Old states lack some or all of it, and whatever else
/// a state holds is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunRecord {
    /// The runtime that the run started on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_runtime: Option<String>,
    /// How it was chosen then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_runtime_choice: Option<RecordedChoice>,
    /// What the first probe found; the description is at `cfc.sandbox`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability_snapshot: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A choice as a record holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, from = "Value")]
pub enum RecordedChoice {
    /// One that this build makes.
    Known(Choice),
    /// Any other, kept as it is.
    Other(Value),
}

impl From<Value> for RecordedChoice {
    /// Known only where this build would write the same, so that writing it back loses nothing.
    fn from(value: Value) -> Self {
        match Choice::deserialize(&value) {
            Ok(choice) if serde_json::to_value(&choice).is_ok_and(|same| same == value) => {
                Self::Known(choice)
            }
            _ => Self::Other(value),
        }
    }
}

/// What an interactive session's status says of its runtime; whatever else it holds is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionRecord {
    /// The runtime of the host that started the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_runtime: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl RunRecord {
    /// The state of a run that starts: it is bound before its sandbox is probed, so that a run
    /// whose first probe fails is bound too.
    #[must_use]
    pub fn starting(choice: Option<&Choice>) -> Self {
        Self {
            sandbox_runtime: Some(RUNSC.to_owned()),
            sandbox_runtime_choice: choice.cloned().map(RecordedChoice::Known),
            ..Self::default()
        }
    }

    /// The description in the capability snapshot, where it has one that reads as one.
    #[must_use]
    pub fn description(&self) -> Option<RecordedDescription> {
        let sandbox = self.capability_snapshot.as_ref()?.pointer("/cfc/sandbox")?;
        RecordedDescription::deserialize(sandbox).ok()
    }

    /// The kind in the capability snapshot. One that is no string is a kind that nobody knows.
    fn recorded_kind(&self) -> Option<String> {
        let snapshot = self.capability_snapshot.as_ref()?;
        match snapshot.pointer("/cfc/sandbox/kind")? {
            Value::Null => None,
            Value::String(kind) => Some(kind.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOf {
    /// A run.
    Run,
    /// An interactive session.
    Session,
}

impl fmt::Display for RecordOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Session => "session",
        })
    }
}

/// Why a run is not resumed, a turn not taken, or a runtime not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRefusal {
    /// It started on the driver that is gone.
    #[error("this {of} started on the Docker driver, which is gone; start a new {of}")]
    Docker {
        /// What started.
        of: RecordOf,
    },
    /// It started on a runtime that this build does not know.
    #[error(
        "this {of} started on the runtime {runtime:?}, which this build does not know, so it \
         cannot be told to go on with the same one; start a new {of}"
    )]
    UnknownRuntime {
        /// What started.
        of: RecordOf,
        /// The runtime's name.
        runtime: String,
    },
    /// Its runtime described itself as a kind that this build does not know.
    #[error(
        "the runtime of this {of} described itself as {kind:?}, a kind that this build does not \
         know, so it cannot be told to go on with the same one; start a new {of}"
    )]
    UnknownKind {
        /// What started.
        of: RecordOf,
        /// The kind.
        kind: String,
    },
    /// A runtime that was handed in is of a kind that this build does not run.
    #[error(
        "the runtime that was handed in describes itself as {kind:?}, and only {KIND} is run here; \
         hand in one of that kind"
    )]
    HandedIn {
        /// The kind.
        kind: String,
    },
}

impl RecordRefusal {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "provider-mismatch"
    }
}

/// The state of a run that is resumed, bound to its runtime. `choice` is that of the engine that
/// resumes it, and is taken where the state holds none.
///
/// # Errors
/// The run started on another runtime, or on one that cannot be told.
pub fn resume(record: &RunRecord, choice: Option<&Choice>) -> Result<RunRecord, RecordRefusal> {
    let of = RecordOf::Run;
    match &record.sandbox_runtime {
        Some(runtime) => same_runtime(of, runtime)?,
        None => match record.recorded_kind().as_deref() {
            None | Some(KIND) => {}
            Some(DOCKER_KIND) => return Err(RecordRefusal::Docker { of }),
            Some(kind) => {
                return Err(RecordRefusal::UnknownKind {
                    of,
                    kind: kind.to_owned(),
                });
            }
        },
    }
    let mut bound = record.clone();
    bound.sandbox_runtime = Some(RUNSC.to_owned());
    if bound.sandbox_runtime_choice.is_none() {
        bound.sandbox_runtime_choice = choice.cloned().map(RecordedChoice::Known);
    }
    Ok(bound)
}

/// The status of a session whose next turn is taken, bound to its runtime: what the write that
/// records the turn writes.
///
/// # Errors
/// The session started on another runtime, or on one that cannot be told.
pub fn turn(record: &SessionRecord) -> Result<SessionRecord, RecordRefusal> {
    if let Some(runtime) = &record.sandbox_runtime {
        same_runtime(RecordOf::Session, runtime)?;
    }
    let mut bound = record.clone();
    bound.sandbox_runtime = Some(RUNSC.to_owned());
    Ok(bound)
}

/// Whether a runtime that is handed in, and describes itself as this kind, is one that is run.
///
/// # Errors
/// [`RecordRefusal::HandedIn`].
pub fn check_handed_in(kind: &str) -> Result<(), RecordRefusal> {
    match kind {
        KIND => Ok(()),
        other => Err(RecordRefusal::HandedIn {
            kind: other.to_owned(),
        }),
    }
}

fn same_runtime(of: RecordOf, runtime: &str) -> Result<(), RecordRefusal> {
    match runtime {
        RUNSC => Ok(()),
        DOCKER => Err(RecordRefusal::Docker { of }),
        other => Err(RecordRefusal::UnknownRuntime {
            of,
            runtime: other.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
