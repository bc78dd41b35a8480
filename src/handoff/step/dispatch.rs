//! From a plan to an envelope.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::payload::in_our_words;
use super::sandbox::{self, Prepared, Refusal};
use super::state::{self, Claim, Phase};
use super::{HandoffHost, Placed, StepEnd, StepError, StepRun};
use crate::cfc::label::{LabelRoot, LabelView};
use crate::driver::{Call, End, Error};
use crate::handoff::artifacts::Diagnostic;
use crate::handoff::beneath::Tree;
use crate::handoff::broker::Launches;
use crate::handoff::correlation::Correlation;
use crate::handoff::diagnosis::{FileManifest, Report, Standing};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::envelope::{Builder, check_leaks};
use crate::handoff::files::FileError;
use crate::handoff::host::Owner;
use crate::handoff::journal::{self, Replay};
use crate::handoff::plan::{Input, Plan};
use crate::handoff::redact::Redactor;

/// How much of each stream of a step's is kept.
const STREAM: usize = 256 * 1024;

/// What is the same for all of a step's attempt.
pub(super) struct Step<'a> {
    pub host: &'a HandoffHost,
    pub placed: Placed,
    pub labels: LabelView,
    pub redactor: Redactor,
    pub correlation: Correlation,
}

pub(super) async fn run(
    host: &HandoffHost,
    placed: Placed,
    seen: Option<&Sha256Hex>,
    cancel: CancellationToken,
) -> Result<StepRun, StepError> {
    let plan = Arc::clone(&placed.plan);
    let step = Step {
        host,
        labels: labels(&plan)?,
        redactor: Redactor::new(plan.secrets())?,
        correlation: correlation(&placed),
        placed,
    };
    step.refuse_leaks()?;
    let standing = state::standing(&host.options.root, &plan)?;
    let report = step.look(&standing, seen).await?;
    if !report.is_ready() {
        return step.blocked(&report, "acceptance");
    }
    let mut claim = Claim::take(&host.options.root, &plan)?;
    if claim.standing() != standing {
        let report = step.look(&claim.standing(), seen).await?;
        return step.blocked(&report, "acceptance");
    }
    step.attempt(&mut claim, &report, cancel).await
}

/// Everything that a step is given has its labels: what it is told and what it reads.
fn labels(plan: &Plan) -> Result<LabelView, StepError> {
    if plan.labels.is_empty() {
        return Ok(LabelView::default());
    }
    let command = LabelView::of(LabelRoot::Command, plan.labels.clone())?;
    let stdin = LabelView::of(LabelRoot::Stdin, plan.labels.clone())?;
    Ok(LabelView::merge([&command, &stdin]))
}

/// The caller's keys; what the step is made from is what its first manifest lists, where the
/// caller does not say.
fn correlation(placed: &Placed) -> Correlation {
    let plan = &placed.plan;
    let mut correlation = plan.correlation.clone();
    if correlation.source_digest.is_none() {
        let manifests = plan.inputs.iter().filter_map(|input| match input {
            Input::FileManifest { manifest, .. } => Some(manifest),
            Input::PlanJson(_) => None,
        });
        let tree = Tree::open(&placed.base).ok();
        correlation.source_digest = plan.provenance.input_digest.clone().or_else(|| {
            let manifest = manifests.into_iter().next()?;
            Some(
                FileManifest::read(tree.as_ref(), manifest.as_path())
                    .ok()?
                    .digest,
            )
        });
    }
    correlation
}

impl Step<'_> {
    pub(super) fn plan(&self) -> &Plan {
        &self.placed.plan
    }

    pub(super) async fn look(
        &self,
        standing: &Standing,
        seen: Option<&Sha256Hex>,
    ) -> Result<Report, StepError> {
        let (placed, standing, seen) = (self.placed.clone(), standing.clone(), seen.cloned());
        blocking(move || placed.look(&standing, seen.as_ref())).await
    }

    /// The caller's own keys must be such that there can be an envelope.
    fn refuse_leaks(&self) -> Result<(), StepError> {
        let metadata = Value::Object(self.metadata(None));
        check_leaks(&metadata, &self.places()).map_err(|leak| StepError::Envelope(leak.into()))
    }

    pub(super) fn places(&self) -> Vec<&str> {
        let places = [&self.host.options.root, &self.placed.base];
        places
            .into_iter()
            .filter_map(|place| place.to_str())
            .collect()
    }

    pub(super) fn metadata(&self, report: Option<&Report>) -> Map<String, Value> {
        let plan = self.plan();
        let mut metadata = self.correlation.members();
        metadata.insert("runId".into(), plan.run_id.as_str().into());
        metadata.insert("revision".into(), plan.revision.into());
        metadata.insert("planDigest".into(), plan.digest.as_str().into());
        if let Some(report) = report {
            let digest = report.context_digest.as_str();
            metadata.insert("contextDigest".into(), digest.into());
        }
        metadata
    }

    /// The step is refused by what was found. Nothing was handed on.
    fn blocked(&self, report: &Report, phase: &'static str) -> Result<StepRun, StepError> {
        let checks = report.checks.iter().filter(|check| check.is_blocking());
        let diagnostics = checks
            .take(100)
            .map(|check| Diagnostic {
                code: "handoff-blocked",
                message: check.message.to_owned(),
                severity: "error",
                phase,
                path: check.path.clone(),
            })
            .collect();
        let builder = Builder {
            operation: "handoff-artifacts",
            error: Some((
                "handoff-blocked".to_owned(),
                "what the step needs is not as it has to be: see the diagnostics, and ask for a \
                 fresh report"
                    .to_owned(),
            )),
            diagnostics,
            metadata: self.metadata(Some(report)),
            result: Some(json!({ "dispatched": false, "report": report.to_value() })),
            ..Builder::default()
        };
        Ok(StepRun {
            end: StepEnd::Refused,
            envelope: builder.build(&self.places())?,
            record: None,
        })
    }

    fn refused(&self, report: &Report, refusal: Refusal) -> Result<StepRun, StepError> {
        let builder = Builder {
            operation: "handoff-artifacts",
            error: Some((refusal.code, refusal.message)),
            metadata: self.metadata(Some(report)),
            result: Some(json!({ "dispatched": false })),
            ..Builder::default()
        };
        Ok(StepRun {
            end: StepEnd::Refused,
            envelope: builder.build(&self.places())?,
            record: None,
        })
    }

    async fn attempt(
        &self,
        claim: &mut Claim,
        report: &Report,
        cancel: CancellationToken,
    ) -> Result<StepRun, StepError> {
        let plan = self.plan();
        let block = match &plan.launch {
            Some(launch) => Some(self.host.allocator.reserve(launch.count, Owner::Workflow)?),
            None => None,
        };
        let replay = match claim.last().filter(|_| self.host.options.resume) {
            Some(last) => Replay::new(journal::load(&last.join("journal.jsonl"))?),
            None => Replay::default(),
        };
        let dir = claim.prepare(plan)?;
        let _shown = self.host.show(&dir);
        let attempt = Attempt {
            keep: self.host.options.keep_work,
            dir,
        };
        let prepared = match sandbox::prepare(self, &attempt.dir, block, replay).await? {
            Ok(prepared) => prepared,
            Err(refusal) => return self.refused(report, refusal),
        };
        let context = Some(&report.context_digest);
        for phase in ["preparation", "dispatch"] {
            let again = self.look(&claim.standing(), context).await?;
            if !again.is_ready() {
                prepared.close().await;
                return self.blocked(&again, phase);
            }
        }
        self.dispatch(claim, &attempt, prepared, report, cancel)
            .await
    }

    async fn dispatch(
        &self,
        claim: &mut Claim,
        attempt: &Attempt,
        prepared: Prepared,
        report: &Report,
        cancel: CancellationToken,
    ) -> Result<StepRun, StepError> {
        let plan = self.plan();
        let mut call = Call::new(&plan.command);
        call.env = plan
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        call.env.extend(prepared.variable());
        call.deadline = plan.deadline;
        call.cancel = cancel;
        call.output_cap = STREAM;
        call.labels = self.labels.clone();
        call.host_uds = prepared.launches();
        // From the next line on, what becomes of it may never be known.
        claim.is(Phase::Dispatched, &[])?;
        let ran = prepared.driver.run(call).await;
        let ended = prepared.close().await;
        let (outcome, launches) = match ran {
            Ok(outcome) => (outcome, ended),
            Err(err) if nothing_started(&err) => {
                claim.is(Phase::Prepared, &[])?;
                let message = match &err {
                    Error::LabelRule { rule, .. } => format!(
                        "the step was not started, by the runtime's rule {rule} on what is labelled"
                    ),
                    err => in_our_words(err),
                };
                return self.refused(report, Refusal::new(err.code(), &message));
            }
            Err(err) => {
                tracing::error!(%err, "the step's end cannot be told");
                claim.is(Phase::Unknown, &[])?;
                return self.unknown(report, err.code());
            }
        };
        match outcome.end {
            End::Lost => {
                claim.is(Phase::Unknown, &[])?;
                self.unknown(report, "lost")
            }
            End::NotStarted(why) => {
                claim.is(Phase::Prepared, &[])?;
                let why = serde_json::to_value(why).ok();
                let why = why.as_ref().and_then(Value::as_str).unwrap_or("unknown");
                let said = format!("the step's command did not start ({why})");
                self.refused(report, Refusal::new("step-not-started", &said))
            }
            End::Exited | End::TimedOut | End::Cancelled => {
                self.settle(claim, attempt, report, &outcome, launches)
                    .await
            }
        }
    }

    fn unknown(&self, report: &Report, why: &str) -> Result<StepRun, StepError> {
        let builder = Builder {
            operation: "handoff-artifacts",
            error: Some((
                "attempt-unknown".to_owned(),
                "the step was handed on and its end cannot be told; it is held, and not safe to \
                 repeat"
                    .to_owned(),
            )),
            metadata: self.metadata(Some(report)),
            result: Some(json!({ "dispatched": true, "attempt": "UNKNOWN", "reason": why })),
            ..Builder::default()
        };
        Ok(StepRun {
            end: StepEnd::Unknown,
            envelope: builder.build(&self.places())?,
            record: None,
        })
    }
}

/// What became of a step's launches, and what it claims of them.
pub(super) struct Ended {
    pub launches: Launches,
    pub claims: Vec<Diagnostic>,
}

/// An attempt's directory. However the attempt ends, what it worked with goes.
pub(super) struct Attempt {
    pub dir: PathBuf,
    keep: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.keep {
            state::clear(&self.dir);
        }
    }
}

/// Whether an error of the driver's says that nothing was started, so that the step can be tried
/// again.
fn nothing_started(err: &Error) -> bool {
    matches!(
        err,
        Error::Closed
            | Error::NoRandomness(_)
            | Error::RunscTooOld { .. }
            | Error::RunscUnknown { .. }
            | Error::CfcUnsupported { .. }
            | Error::NoPolicy { .. }
            | Error::Context(_)
            | Error::LabelRule { .. }
            | Error::Plan(_)
            | Error::Scratch(_)
            | Error::Session(_)
    )
}

/// Does what blocks where it holds nobody up.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StepError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StepError::Lost)
}

impl From<FileError> for Refusal {
    fn from(err: FileError) -> Self {
        Self::new("handoff-file", &in_our_words(&err))
    }
}
