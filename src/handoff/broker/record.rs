//! What the host writes down of a step's children. Nothing of it is in a mount.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::admission::Refusal;
use crate::handoff::child::Request;
use crate::handoff::correlation::Correlation;
use crate::handoff::events::{Finished, LineLog, Sidecar};
use crate::handoff::journal::{Attempt, Call, Entry, Failure, Journal, Outcome, Replay};
use crate::handoff::redact::{Redactor, is_out_of_place};
use crate::handoff::text::flat;
use crate::handoff::time::{self, millis};

/// How many refusals are written down one by one; all of them are counted.
const MAX_REFUSALS: u64 = 1000;
/// The longest label.
const LABEL: usize = 72;
/// The longest reason.
const REASON: usize = 400;

/// Where a step's children are written down.
#[derive(Debug, Default)]
pub struct Records {
    /// The ledger of resolved calls; in memory where none is named.
    pub journal: Option<Journal>,
    /// The sidecar of launches.
    pub sidecar: Sidecar,
    /// The stream of `wp-codebox/agent-fanout-event/v1`.
    pub fanout: LineLog,
    /// The stream of `wp-codebox/host-delegation-event/v1`.
    pub delegation: LineLog,
    /// What an earlier run resolved.
    pub replay: Replay,
    /// What goes out of every text of a script's.
    pub redactor: Redactor,
    /// The caller's keys.
    pub correlation: Correlation,
    /// How many children may be launched.
    pub total: u64,
}

/// What became of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Its place in the block; none where it was past it.
    pub ordinal: Option<u64>,
    /// Its id.
    pub child: String,
    /// Its kind.
    pub kind: String,
    /// A name for people.
    pub label: String,
    /// The fanout's word: `succeeded`, `failed`, `timed_out`, `cancelled` or `skipped`.
    pub status: &'static str,
    /// A stable word and a sentence, where it did not succeed.
    pub error: Option<(String, String)>,
    /// When it was launched, in milliseconds since the epoch.
    pub started_at: Option<u64>,
    /// When it ended.
    pub completed_at: u64,
}

/// How a launched child ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ending {
    Resolved(Outcome),
    /// Torn down before it resolved; what it had used.
    Cancelled(Attempt),
}

/// Something that the caller is told of beside the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// A stable word.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
}

/// Writes a step's children down as they come and go.
#[derive(Debug)]
pub(super) struct Recorder {
    records: Records,
    journal: Journal,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    workers: Vec<Worker>,
    active: u64,
    counts: BTreeMap<&'static str, u64>,
    refusals: BTreeMap<&'static str, u64>,
    notices: Vec<Notice>,
    replay: Replay,
}

/// A child between its brackets.
#[derive(Debug)]
pub(super) struct Launched {
    pub ordinal: u64,
    pub request: Request,
    pub label: String,
    pub started_at: u64,
}

impl Recorder {
    pub(super) fn new(mut records: Records) -> Self {
        Self {
            journal: records.journal.take().unwrap_or_else(Journal::in_memory),
            state: Mutex::new(State {
                replay: std::mem::take(&mut records.replay),
                ..State::default()
            }),
            records,
        }
    }

    pub(super) fn label(&self, request: &Request) -> String {
        let label = request.label.as_deref().unwrap_or(&request.kind);
        in_place(flat(&self.records.redactor.text(label), LABEL), "unnamed")
    }

    fn reason(&self, reason: &str) -> String {
        let reason = flat(&self.records.redactor.text(reason), REASON);
        in_place(reason, "the child's reason is held back")
    }

    /// What an earlier run resolved this call to.
    pub(super) fn replayed(&self, request: &Request) -> Option<Outcome> {
        let call = call_of(request, String::new());
        self.state().replay.take(&call).map(|entry| entry.outcome)
    }

    /// A child is about to start.
    pub(super) fn started(&self, ordinal: u64, request: Request) -> Launched {
        let label = self.label(&request);
        self.records
            .sidecar
            .started(&request.id, &request.kind, &label);
        self.state().active += 1;
        self.delegation("host-delegation.requested", &request.id, None);
        self.delegation("host-delegation.accepted", &request.id, Some("accepted"));
        self.fanout("worker.started", Some((&request.id, "running", &label)));
        Launched {
            ordinal,
            label,
            request,
            started_at: millis(SystemTime::now()),
        }
    }

    /// A launched child is gone. Its bracket is closed whatever else fails.
    pub(super) fn finished(&self, launched: Launched, ending: Ending) {
        let Launched {
            ordinal,
            request,
            label,
            started_at,
        } = launched;
        let (word, attempt) = match &ending {
            Ending::Resolved(outcome) => (outcome.word(), attempt_of(outcome)),
            Ending::Cancelled(attempt) => ("cancelled", Some(attempt.clone())),
        };
        let attempt = attempt.unwrap_or_default();
        self.records.sidecar.finished(&Finished {
            child: &request.id,
            status: word,
            steps: attempt.steps_used,
            tokens: attempt
                .prompt_tokens
                .saturating_add(attempt.completion_tokens),
            unaccounted: attempt.unaccounted.as_deref(),
        });
        let completed_at = millis(SystemTime::now());
        let error = match &ending {
            Ending::Resolved(Outcome::Finished { .. }) => None,
            Ending::Resolved(Outcome::DidNotFinish { failure, .. }) => {
                let said = match failure {
                    Failure::Failed(reason) => self.reason(reason),
                    other => sentence(other).to_owned(),
                };
                Some((word.to_owned(), said))
            }
            Ending::Cancelled(_) => Some((
                "cancelled".to_owned(),
                "the child was cancelled before it resolved".to_owned(),
            )),
        };
        if let Ending::Resolved(outcome) = ending {
            self.append(&request, &label, outcome, Some(started_at), completed_at);
        }
        self.state().active -= 1;
        let status = match word {
            "captured" => "succeeded",
            "timed_out" => "timed_out",
            "cancelled" => "cancelled",
            _ => "failed",
        };
        let (delegated, event) = match word {
            "captured" => ("completed", "host-delegation.completed"),
            _ => ("failed", "host-delegation.failed"),
        };
        self.delegation(event, &request.id, Some(delegated));
        self.worker(Worker {
            ordinal: Some(ordinal),
            child: request.id,
            kind: request.kind,
            label,
            status,
            error,
            started_at: Some(started_at),
            completed_at,
        });
    }

    /// An admitted child was cancelled before it started: there was no launch to bracket.
    pub(super) fn never_started(&self, ordinal: u64, request: Request) {
        self.delegation("host-delegation.failed", &request.id, Some("failed"));
        self.worker(Worker {
            ordinal: Some(ordinal),
            label: self.label(&request),
            child: request.id,
            kind: request.kind,
            status: "cancelled",
            error: Some((
                "cancelled".to_owned(),
                "the child was cancelled before it started".to_owned(),
            )),
            started_at: None,
            completed_at: millis(SystemTime::now()),
        });
    }

    /// A launch was refused. What the contract has a word for is journalled as skipped, without
    /// an attempt and without a bracket; anything else is counted and told.
    pub(super) fn refused(&self, refusal: Refusal, request: Option<Request>) {
        let first = {
            let mut state = self.state();
            let count = state.refusals.entry(refusal.code()).or_default();
            *count += 1;
            *count <= MAX_REFUSALS
        };
        if !first {
            return;
        }
        let Some(request) = request.filter(|_| refusal.is_skip()) else {
            return;
        };
        let now = millis(SystemTime::now());
        let (event, status) = match refusal {
            Refusal::UnknownKind => ("host-delegation.unavailable", "unavailable"),
            _ => ("host-delegation.failed", "failed"),
        };
        let child = flat(&request.id, 128);
        self.delegation(event, &child, Some(status));
        let label = self.label(&request);
        let outcome = Outcome::DidNotFinish {
            failure: Failure::Skipped,
            attempt: None,
        };
        let mut recorded = request;
        recorded.kind = flat(&recorded.kind, 128);
        self.append(&recorded, &label, outcome, None, now);
        self.worker(Worker {
            ordinal: None,
            child,
            kind: recorded.kind,
            label,
            status: "skipped",
            error: Some((refusal.code().to_owned(), refusal.to_string())),
            started_at: None,
            completed_at: now,
        });
    }

    /// Something that the caller should know.
    pub(super) fn notice(&self, code: &'static str, message: String) {
        self.state().notices.push(Notice { code, message });
    }

    /// What became of all of them: those of the block by ordinal, then those past it as they came.
    pub(super) fn close(&self) -> (Vec<Worker>, BTreeMap<&'static str, u64>, Vec<Notice>) {
        let mut state = self.state();
        let mut workers = std::mem::take(&mut state.workers);
        workers.sort_by_key(|worker| worker.ordinal.unwrap_or(u64::MAX));
        (
            workers,
            state.refusals.clone(),
            std::mem::take(&mut state.notices),
        )
    }

    /// What the journal in memory holds.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.journal.entries()
    }

    fn append(
        &self,
        request: &Request,
        label: &str,
        outcome: Outcome,
        started_at: Option<u64>,
        finished_at: u64,
    ) {
        let entry = Entry {
            call: call_of(request, label.to_owned()),
            outcome,
            phase: None,
            started_at,
            finished_at: Some(finished_at),
        };
        if let Err(err) = self.journal.append(&entry) {
            self.notice(err.code(), err.to_string());
        }
    }

    fn worker(&self, worker: Worker) {
        let event = match worker.status {
            "succeeded" => "worker.completed",
            "skipped" => "worker.skipped",
            _ => "worker.failed",
        };
        let (child, status, label) = (worker.child.clone(), worker.status, worker.label.clone());
        {
            let mut state = self.state();
            *state.counts.entry(status).or_default() += 1;
            state.workers.push(worker);
        }
        self.fanout(event, Some((&child, status, &label)));
    }

    /// One event of the fanout stream, with the counts as they are.
    pub(super) fn fanout(&self, event: &str, worker: Option<(&str, &str, &str)>) {
        let mut line = json!({
            "schema": "wp-codebox/agent-fanout-event/v1",
            "event": event,
            "time": time::now(),
        });
        if let (Value::Object(members), Some((child, status, label))) = (&mut line, worker) {
            members.insert("worker_id".into(), child.into());
            members.insert("status".into(), status.into());
            members.insert("label".into(), label.into());
        }
        // Under the lock, so that the counts of later lines are never lower.
        let state = self.state();
        if let Value::Object(members) = &mut line {
            let count = |status| state.counts.get(status).copied().unwrap_or(0);
            members.insert("total".into(), self.records.total.into());
            members.insert("active".into(), state.active.into());
            for (name, status) in [
                ("completed", "succeeded"),
                ("failed", "failed"),
                ("skipped", "skipped"),
                ("cancelled", "cancelled"),
                ("timed_out", "timed_out"),
            ] {
                members.insert(name.into(), count(status).into());
            }
        }
        self.records.correlation.add_to(&mut line);
        self.records.fanout.line(&line);
    }

    fn delegation(&self, event: &str, child: &str, status: Option<&str>) {
        let mut line = json!({
            "schema": "wp-codebox/host-delegation-event/v1",
            "event": event,
            "time": time::now(),
            "request_id": child,
        });
        if let (Value::Object(members), Some(status)) = (&mut line, status) {
            members.insert("status".into(), status.into());
        }
        self.records.correlation.add_to(&mut line);
        self.records.delegation.line(&line);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A script's text, where it may be in an envelope.
fn in_place(text: String, otherwise: &str) -> String {
    match is_out_of_place(&text) {
        None => text,
        Some(_) => otherwise.to_owned(),
    }
}

fn call_of(request: &Request, label: String) -> Call {
    Call {
        kind: request.kind.clone(),
        input: request.input.clone(),
        label,
        scope: flat(request.scope.as_deref().unwrap_or_default(), 256),
        max_steps: request.max_steps,
        schema: request.schema.clone(),
    }
}

fn attempt_of(outcome: &Outcome) -> Option<Attempt> {
    match outcome {
        Outcome::Finished { attempt, .. } => Some(attempt.clone()),
        Outcome::DidNotFinish { attempt, .. } => attempt.clone(),
    }
}

fn sentence(failure: &Failure) -> &'static str {
    match failure {
        Failure::TimedOut => "the child's deadline came first",
        Failure::NoReport => "the child ended without a report",
        Failure::MaxSteps => "the child ran out of steps",
        Failure::ContextYield => "the child ran out of context",
        Failure::Skipped => "the child was not launched",
        Failure::Failed(_) => "the child failed",
    }
}
