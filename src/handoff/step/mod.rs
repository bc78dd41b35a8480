//! One step, from what it needs to what it hands back.
//!
//! What it needs is looked at three times: before the step is accepted, once its sandbox and
//! broker are there, and right before its command is handed to the driver. Up to there a refusal
//! lets go of the claim, and only the ordinals that were set aside stay spent. After it, what
//! cannot be told is [`Unknown`](StepEnd::Unknown): held, and not repeated.

mod claims;
mod dispatch;
mod payload;
mod sandbox;
mod settle;
mod sockets;
mod stage;
mod state;
mod view;

pub use view::{BROKER, CLAIMS, INPUTS, MakeSandbox, NotMade, OUTPUTS, Shown, View};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::artifacts::{CaptureLimits, Store};
use super::broker::{Limits, Records};
use super::diagnosis::{Look, Report, Standing, diagnose};
use super::digest::Sha256Hex;
use super::envelope::{Envelope, EnvelopeError};
use super::files::{self, FileError};
use super::host::{Allocator, Block, LedgerError, WriteError};
use super::journal::{JournalError, MAX_JOURNAL};
use super::plan::{Plan, PlanError};
use super::time;
use crate::cfc::json as strict;
use crate::cfc::label::LabelError;
use crate::trust::{self, path::PathError};

/// Why there is not even an envelope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It is nowhere.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Its labels cannot be used.
    #[error(transparent)]
    Labels(#[from] LabelError),
    /// Another host attempts this step.
    #[error("another host attempts this step: wait for it, or end it")]
    Claimed,
    /// What is known of the step cannot be read.
    #[error("the step's record {0:?} cannot be read, so that it cannot be told what became of it")]
    State(PathBuf),
    /// There are no ordinals.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file of the host's cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The plan's own values are too many to keep secret.
    #[error(transparent)]
    Secrets(#[from] super::redact::TooManySecrets),
    /// The envelope would not be one, or would let something out.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The document would be unusable.
    #[error(transparent)]
    Document(#[from] WriteError),
    /// A thread of the host's died.
    #[error("a part of the host ended before its work did")]
    Lost,
}

impl StepError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Plan(err) => err.code(),
            Self::Path(err) => err.code(),
            Self::Labels(_) => "labels-unusable",
            Self::Claimed => "step-claimed",
            Self::State(_) => "step-state",
            Self::Ledger(err) => err.code(),
            Self::Journal(err) => err.code(),
            Self::File(_) => "handoff-file",
            Self::Secrets(_) => "too-many-secrets",
            Self::Envelope(err) => err.code(),
            Self::Document(err) => err.code(),
            Self::Lost => "host-lost",
        }
    }
}

/// How a host runs steps.
#[derive(Debug, Clone, Default)]
pub struct StepOptions {
    /// The session's directory, which belongs to this user alone: ledger, records, bundles.
    pub root: PathBuf,
    /// One past the highest child that is known from elsewhere.
    pub floor: u64,
    /// The bounds of captures.
    pub capture: CaptureLimits,
    /// The bounds of launches; the plan's own come before their deadline and concurrency.
    pub limits: Limits,
    /// Whether inputs are copied as they are checked, so that the step sees the same bytes.
    pub stage_inputs: bool,
    /// Whether the journal of the last attempt answers the calls that it knows.
    pub resume: bool,
    /// The container's user, where it is not this process's.
    pub owner: Option<(u32, u32)>,
    /// Whether what the step worked with stays.
    pub keep_work: bool,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEnd {
    /// It was refused before its command was handed on. It can be tried again.
    Refused,
    /// Its end is known.
    Settled,
    /// It was handed on and its end cannot be told. It is held.
    Unknown,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRun {
    /// How it ended.
    pub end: StepEnd,
    /// What is handed back.
    pub envelope: Envelope,
    /// Where its record is, below the session's directory; none where nothing was written.
    pub record: Option<PathBuf>,
}

/// Runs steps of one session.
pub struct HandoffHost {
    options: StepOptions,
    allocator: Allocator,
    store: Store,
    make: Arc<dyn MakeSandbox>,
    /// The records of the attempts under way.
    under_way: Mutex<Vec<PathBuf>>,
}

/// Takes an attempt's record off the list again.
struct UnderWay<'a>(&'a HandoffHost, PathBuf);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.list().retain(|record| *record != self.1);
    }
}

/// A plan, and where it is.
#[derive(Debug, Clone)]
struct Placed {
    plan: Arc<Plan>,
    path: PathBuf,
    base: PathBuf,
}

/// Reads a plan and finds its directory.
fn place(path: &Path) -> Result<Placed, StepError> {
    let plan = Arc::new(read_plan(path)?);
    let path = trust::path::walk("the plan", path)?.as_path().to_owned();
    let base = path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Placed { plan, path, base })
}

impl Placed {
    /// Looks at what the plan needs. It blocks.
    fn look(&self, standing: &Standing, seen: Option<&Sha256Hex>) -> Report {
        diagnose(&Look {
            base: &self.base,
            plan: &self.plan,
            standing,
            seen,
            current: &|| Some(read_plan(&self.path).ok()?.digest),
        })
    }
}

/// Reads a plan's file.
///
/// # Errors
/// [`StepError`].
pub fn read_plan(path: &Path) -> Result<Plan, StepError> {
    let bytes = files::read_bounded(path, strict::MAX_BYTES as u64)?;
    Ok(Plan::parse(&bytes)?)
}

/// Looks at what a step needs, as its plan and the session's record have it. Nothing is written.
///
/// # Errors
/// [`StepError`] where there is nothing to look at.
pub fn check(root: &Path, plan: &Path, seen: Option<&Sha256Hex>) -> Result<Report, StepError> {
    let placed = place(plan)?;
    let standing = state::standing(root, &placed.plan)?;
    Ok(placed.look(&standing, seen))
}

impl HandoffHost {
    /// A host of one session. No other may be open: it holds the ledger.
    ///
    /// # Errors
    /// [`StepError`].
    pub fn open(options: StepOptions, make: Arc<dyn MakeSandbox>) -> Result<Self, StepError> {
        let allocator = Allocator::open(&options.root, options.floor.max(1))?;
        let store = Store::open(&options.root.join("artifacts"))?;
        store.sweep();
        Ok(Self {
            options,
            allocator,
            store,
            make,
            under_way: Mutex::default(),
        })
    }

    /// The allocator, from which the host's own children draw too.
    #[must_use]
    pub fn allocator(&self) -> &Allocator {
        &self.allocator
    }

    /// Where bundles are kept.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where the records of the attempts under way are.
    #[must_use]
    pub fn under_way(&self) -> Vec<PathBuf> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, record: &Path) -> UnderWay<'_> {
        self.list().push(record.to_owned());
        UnderWay(self, record.to_owned())
    }

    /// Runs a step to its end. Dropped, the step and its children are taken down, and its end is
    /// unknown where it was handed on.
    ///
    /// # Errors
    /// [`StepError`] where there is not even an envelope.
    pub async fn run_step(
        &self,
        plan: &Path,
        seen: Option<&Sha256Hex>,
        cancel: CancellationToken,
    ) -> Result<StepRun, StepError> {
        dispatch::run(self, place(plan)?, seen, cancel).await
    }
}

/// The document that a plan's next attempt would be given; none where it may launch nothing.
/// Nothing is set aside.
///
/// # Errors
/// [`StepError`].
pub fn preview(root: &Path, plan: &Path) -> Result<Option<String>, StepError> {
    let placed = place(plan)?;
    let Some(launch) = &placed.plan.launch else {
        return Ok(None);
    };
    let first = match root.join("subagents.jsonl").try_exists() {
        Ok(false) => 1,
        _ => Allocator::open(root, 1)?.next_first(),
    };
    let block = Block::new(first, launch.count).ok_or(LedgerError::NoSuchBlock(launch.count))?;
    let deadline = launch.deadline.unwrap_or(Limits::default().deadline);
    let writer = sandbox::writer(&placed.plan.run_id, block, deadline);
    Ok(Some(writer.write()?.0))
}

/// Where the children of a run's last attempt are (`wp-codebox/run-plan-progress/v1`); none where
/// there is no such run. The record is only read.
///
/// # Errors
/// [`StepError`].
pub fn progress(root: &Path, run: &str, step: Option<&str>) -> Result<Option<Value>, StepError> {
    let Some(record) = state::latest(root, run, step)? else {
        return Ok(None);
    };
    let read = |name: &str| match files::read_bounded(&record.join(name), MAX_JOURNAL) {
        Ok(bytes) => Ok(bytes),
        Err(err) if err.is_not_found() => Ok(Vec::new()),
        Err(err) => Err(err),
    };
    let events: Vec<_> = read("fanout/events.jsonl")?
        .split(|byte| *byte == b'\n')
        .filter_map(|line| strict::read(line).ok())
        .collect();
    let result = strict::read(&read("fanout/result.json")?).ok();
    let mut refs = Map::new();
    refs.insert("runId".into(), run.into());
    let below = record.strip_prefix(root).unwrap_or(Path::new(""));
    for (name, file) in [
        ("eventsRef", "fanout/events.jsonl"),
        ("resultRef", "fanout/result.json"),
    ] {
        if record.join(file).exists() {
            let path = below.join(file).to_string_lossy().into_owned();
            refs.insert(name.into(), path.into());
        }
    }
    Ok(Some(super::envelope::progress(
        &events,
        result.as_ref(),
        &time::now(),
        refs,
    )))
}

/// The records of a step's launches, in its attempt's directory.
fn records(dir: &Path) -> Result<Records, StepError> {
    use super::events::{LineLog, Sidecar};
    use super::journal::Journal;
    files::make_dirs(&dir.join("fanout/workers"))?;
    Ok(Records {
        journal: Some(Journal::open(&dir.join("journal.jsonl"))?.0),
        sidecar: Sidecar::open(&dir.join("events.jsonl"))?,
        fanout: LineLog::open(&dir.join("fanout/events.jsonl"))?,
        delegation: LineLog::open(&dir.join("delegation.jsonl"))?,
        ..Records::default()
    })
}

#[cfg(test)]
mod tests;
