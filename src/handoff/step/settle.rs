//! From what a step came to, to its record and its envelope.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::dispatch::{Attempt, Ended, Step, blocking};
use super::payload::{self, Made, May};
use super::state::{Claim, Phase};
use super::{StepEnd, StepError, StepRun};
use crate::driver::{End, Outcome};
use crate::handoff::artifacts::Diagnostic;
use crate::handoff::broker::Worker;
use crate::handoff::diagnosis::{HeldOutput, Report, Source, Standing};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::envelope::{ArtifactRef, Builder, Delegation, Status, fanout_result};
use crate::handoff::{files, journal};

/// What is gathered for the envelope.
#[derive(Default)]
struct Told {
    made: Made,
    error: Option<(String, String)>,
    diagnostics: Vec<Diagnostic>,
}

struct Built {
    envelope: Builder,
    held: Vec<HeldOutput>,
}

impl Step<'_> {
    /// What the step made is taken, and all that is to be said of it written down.
    pub(super) async fn settle(
        &self,
        claim: &mut Claim,
        attempt: &Attempt,
        report: &Report,
        outcome: &Outcome,
        launches: Option<Ended>,
    ) -> Result<StepRun, StepError> {
        let mut told = Told::default();
        if let Some(ended) = &launches {
            told.diagnostics.extend(ended.claims.iter().cloned());
            self.write_launches(&attempt.dir, ended)?;
        }
        self.write_streams(&attempt.dir, outcome)?;
        files::write_new(&attempt.dir.join("report.json"), &line(&report.to_value()))?;
        let preserved = self.preserved(report).await?;
        let refused = ended_badly(outcome).or(preserved);
        match (
            refused,
            payload::may(&outcome.observation, self.plan().outputs.unobserved),
        ) {
            (Some(error), _) => told.error = Some(error),
            (None, May::Not(code, message)) => {
                told.error = Some((code.to_owned(), message.to_owned()));
            }
            (None, may) => told.made = self.payload(attempt, report, may).await?,
        }
        told.error = told.error.or(told.made.error.take());
        let builder = self.builder(report, outcome, launches.as_ref(), told, &attempt.dir)?;
        let envelope = builder.envelope.build(&self.places())?;
        files::write_new(&attempt.dir.join("envelope.json"), &line(envelope.value()))?;
        claim.is(Phase::Settled, &builder.held)?;
        Ok(StepRun {
            end: StepEnd::Settled,
            envelope,
            record: Some(self.below_root(&attempt.dir)),
        })
    }

    /// Whether the inputs are what they were, where the step has to preserve them.
    async fn preserved(&self, report: &Report) -> Result<Option<(String, String)>, StepError> {
        if !self.plan().outputs.must_preserve_input {
            return Ok(None);
        }
        let again = self
            .look(&Standing::default(), Some(&report.context_digest))
            .await?;
        Ok((!again.is_ready()).then(|| {
            let code = match again.blocker().map(|check| check.source) {
                Some(Source::Context) => "context-stale",
                _ => "input-changed",
            };
            let said = "what the step was given is not what it was when the step began";
            (code.to_owned(), said.to_owned())
        }))
    }

    async fn payload(
        &self,
        attempt: &Attempt,
        report: &Report,
        may: May,
    ) -> Result<Made, StepError> {
        let label = match may {
            May::Labelled(label) => Some(label),
            May::Go | May::Not(..) => None,
        };
        let out = attempt.dir.join("out");
        let (store, plan) = (self.host.store.clone(), Arc::clone(&self.placed.plan));
        let (redactor, limits) = (self.redactor.clone(), self.host.options.capture.clone());
        let metadata = self.metadata(Some(report));
        let made = blocking(move || {
            payload::make(
                &store,
                &out,
                &plan,
                label.as_ref(),
                &redactor,
                &limits,
                metadata,
            )
        });
        Ok(made.await??)
    }

    fn write_launches(&self, dir: &Path, ended: &Ended) -> Result<(), StepError> {
        for worker in &ended.launches.workers {
            let Some(place) = worker_place(worker) else {
                continue;
            };
            let result = Delegation::of_worker(worker, &self.correlation).of_launch(worker);
            let path = dir.join(place);
            if let Some(above) = path.parent() {
                files::make_dirs(above)?;
            }
            files::write_new(&path, &line(&result))?;
        }
        let concurrency = self
            .plan()
            .launch
            .as_ref()
            .map_or(1, |launch| launch.max_concurrent);
        let result = fanout_result(
            &ended.launches,
            &self.correlation,
            concurrency,
            worker_place,
        );
        Ok(files::write_new(
            &dir.join("fanout/result.json"),
            &line(&result),
        )?)
    }

    /// What the step printed, where it may be seen, without its secrets.
    fn write_streams(&self, dir: &Path, outcome: &Outcome) -> Result<(), StepError> {
        let Some(released) = outcome.released() else {
            return Ok(());
        };
        for (name, stream) in [
            ("stdout.log", &released.stdout),
            ("stderr.log", &released.stderr),
        ] {
            let mut clean = Vec::new();
            let whole = [stream.head.as_slice(), stream.tail.as_slice()].concat();
            let path = dir.join(name);
            match self.redactor.copy(&mut whole.as_slice(), &mut clean) {
                Ok(_) => files::write_new(&path, &clean)?,
                Err(_) => files::write_new(&path, b"")?,
            }
        }
        Ok(())
    }

    fn builder(
        &self,
        report: &Report,
        outcome: &Outcome,
        ended: Option<&Ended>,
        told: Told,
        dir: &Path,
    ) -> Result<Built, StepError> {
        let Told {
            made,
            error,
            mut diagnostics,
        } = told;
        diagnostics.extend(made.capture.diagnostics.iter().cloned());
        let end = match outcome.end {
            End::TimedOut => "timed-out",
            End::Cancelled => "cancelled",
            _ => "exited",
        };
        let files: Vec<_> = made
            .capture
            .files
            .iter()
            .map(|file| file.to_value())
            .collect();
        let mut result = json!({
            "dispatched": true,
            "end": end,
            "exitCode": outcome.exit().map(|exit| exit.code),
            "elapsedMs": u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX),
            "files": if error.is_none() { files } else { Vec::new() },
        });
        if let Some(Ended { launches, .. }) = ended {
            let skipped = launches
                .workers
                .iter()
                .filter(|worker| worker.started_at.is_none());
            result["launches"] = json!({
                "launched": launches.workers.len() - skipped.count(),
                "refused": launches.refusals,
            });
            diagnostics.extend(launches.notices.iter().map(|notice| Diagnostic {
                code: notice.code,
                message: "a part of the record of launches could not be written".to_owned(),
                severity: "warning",
                phase: "launch",
                path: None,
            }));
        }
        let verification = made
            .bundle
            .as_ref()
            .map(|bundle| bundle.verification.in_store(&bundle.id));
        Ok(Built {
            held: made.held,
            envelope: Builder {
                operation: "handoff-artifacts",
                status: match (&made.bundle, &error) {
                    (Some(bundle), None) if bundle.existing => Some(Status::Existing),
                    (Some(_), None) => Some(Status::Created),
                    _ => Some(Status::Failed),
                },
                bundle: made
                    .bundle
                    .as_ref()
                    .map(|bundle| ArtifactRef::bundle(&bundle.id, &bundle.digest)),
                evidence: self.evidence(dir)?,
                verification,
                result: Some(result),
                diagnostics,
                metadata: self.metadata(Some(report)),
                error,
                ..Builder::default()
            },
        })
    }

    /// The files of the record, as they are now.
    fn evidence(&self, dir: &Path) -> Result<Vec<ArtifactRef>, StepError> {
        const FILES: [(&str, &str); 8] = [
            ("handoff-report", "report.json"),
            ("launch-journal", "journal.jsonl"),
            ("launch-events", "events.jsonl"),
            ("delegation-events", "delegation.jsonl"),
            ("fanout-events", "fanout/events.jsonl"),
            ("fanout-result", "fanout/result.json"),
            ("stdout", "stdout.log"),
            ("stderr", "stderr.log"),
        ];
        let mut refs = Vec::new();
        for (kind, name) in FILES {
            let path = dir.join(name);
            let bytes = match files::read_bounded(&path, journal::MAX_JOURNAL) {
                Ok(bytes) => bytes,
                Err(err) if err.is_not_found() => continue,
                Err(err) => return Err(err.into()),
            };
            let below = self.below_root(&path).to_string_lossy().into_owned();
            refs.push(ArtifactRef::file(kind, &below, Some(Sha256Hex::of(&bytes))));
        }
        Ok(refs)
    }

    fn below_root(&self, path: &Path) -> PathBuf {
        let root = &self.host.options.root;
        path.strip_prefix(root).unwrap_or(Path::new("")).to_owned()
    }
}

/// A launched worker's own result, below the record; none for one that was never launched.
fn worker_place(worker: &Worker) -> Option<String> {
    worker.ordinal?;
    Some(format!("fanout/workers/{}/result.json", worker.child))
}

/// Why a step's end is not one to take outputs from.
fn ended_badly(outcome: &Outcome) -> Option<(String, String)> {
    let (code, message) = match (outcome.end, outcome.exit()) {
        (End::TimedOut, _) => (
            "step-timed-out",
            "the step's deadline came first".to_owned(),
        ),
        (End::Cancelled, _) => ("step-cancelled", "the step was cancelled".to_owned()),
        (_, Some(exit)) if exit.code != 0 => (
            "step-failed",
            format!("the step's command ended with {}", exit.code),
        ),
        _ => return None,
    };
    Some((code.to_owned(), message))
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}
