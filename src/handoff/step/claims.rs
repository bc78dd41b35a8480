//! What a step says itself of its launches: claims, compared with what the host wrote down.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::cfc::json as strict;
use crate::handoff::artifacts::{Diagnostic, read_up_to};
use crate::handoff::beneath::{NotRead, Tree};
use crate::handoff::broker::Worker;
use crate::handoff::host::{Block, ChildTemplate};
use crate::handoff::journal::Entry;

/// The names of the claims, in their directory.
pub(super) const JOURNAL: &str = "journal.jsonl";
pub(super) const EVENTS: &str = "events.jsonl";
/// The most that is read of a claim.
const MAX: u64 = 8 * 1024 * 1024;
const PHASE: &str = "claims";

/// Compares a step's claims with the record. Nothing of them gets into the record.
pub(super) fn check(
    dir: &Path,
    block: Block,
    template: &ChildTemplate,
    workers: &[Worker],
) -> Vec<Diagnostic> {
    let Ok(tree) = Tree::open(dir) else {
        return vec![told(
            "claims-unreadable",
            "the step's claims cannot be read",
        )];
    };
    let known: BTreeMap<&str, &str> = workers
        .iter()
        .filter(|worker| worker.started_at.is_some())
        .map(|worker| (worker.child.as_str(), worker.status))
        .collect();
    let mut found = Vec::new();
    for (name, claims) in [
        (JOURNAL, journal_claim as fn(&Value) -> Claim),
        (EVENTS, event_claim),
    ] {
        let bytes = match read(&tree, name) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(problem) => {
                found.push(problem);
                continue;
            }
        };
        let mut problems = Problems::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let claim = strict::read(line).map_or(Claim::Malformed, |line| claims(&line));
            problems.weigh(&claim, block, template, &known);
        }
        problems.torn |= bytes.last().is_some_and(|last| *last != b'\n');
        found.extend(problems.tell());
    }
    found
}

fn told(code: &'static str, message: &str) -> Diagnostic {
    Diagnostic {
        code,
        message: message.to_owned(),
        severity: "warning",
        phase: PHASE,
        path: None,
    }
}

fn read(tree: &Tree, name: &str) -> Result<Option<Vec<u8>>, Diagnostic> {
    let unreadable = || {
        told(
            "claims-unreadable",
            "a claim of the step's is no plain file",
        )
    };
    let mut file = match tree.file(Path::new(name)) {
        Ok(file) => file,
        Err(NotRead::Missing) => return Ok(None),
        Err(_) => return Err(unreadable()),
    };
    match read_up_to(&mut file, MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(err) if err.kind() == std::io::ErrorKind::FileTooLarge => Err(told(
            "claims-too-large",
            "a claim of the step's is larger than is read",
        )),
        Err(_) => Err(unreadable()),
    }
}

/// What one line claims of a child.
enum Claim {
    /// It ended like this, or only began.
    Child(String, Option<&'static str>),
    /// Nothing of a child.
    Other,
    Malformed,
}

fn journal_claim(line: &Value) -> Claim {
    let Some(entry) = line.get("e") else {
        return Claim::Other;
    };
    match Entry::from_value(entry) {
        Ok(entry) => match entry.outcome.attempt_id() {
            Some(child) => Claim::Child(child.to_owned(), Some(status(entry.outcome.word()))),
            None => Claim::Other,
        },
        Err(_) => Claim::Malformed,
    }
}

fn event_claim(line: &Value) -> Claim {
    let child = line.get("child").and_then(Value::as_str);
    let word = line.get("status").and_then(Value::as_str);
    match (line.get("event").and_then(Value::as_str), child, word) {
        (Some("agent_started"), Some(child), _) => Claim::Child(child.to_owned(), None),
        (Some("agent_finished"), Some(child), Some(word)) => {
            Claim::Child(child.to_owned(), Some(status(word)))
        }
        (Some("agent_started" | "agent_finished"), ..) | (None, ..) => Claim::Malformed,
        _ => Claim::Other,
    }
}

/// A word of the sidecar's as the fanout has it.
fn status(word: &str) -> &'static str {
    match word {
        "captured" => "succeeded",
        "timed_out" => "timed_out",
        "cancelled" => "cancelled",
        "skipped" => "skipped",
        _ => "failed",
    }
}

#[derive(Default)]
struct Problems {
    foreign: bool,
    differs: bool,
    torn: bool,
}

impl Problems {
    fn weigh(
        &mut self,
        claim: &Claim,
        block: Block,
        template: &ChildTemplate,
        known: &BTreeMap<&str, &str>,
    ) {
        let (child, word) = match claim {
            Claim::Child(child, word) => (child.as_str(), word),
            Claim::Malformed => {
                self.torn = true;
                return;
            }
            Claim::Other => return,
        };
        if !template.ordinal(child).is_some_and(|at| block.contains(at)) {
            self.foreign = true;
            return;
        }
        let recorded = known.get(child);
        self.differs |= recorded.is_none() || word.is_some_and(|word| recorded != Some(&word));
    }

    fn tell(self) -> Vec<Diagnostic> {
        let rows = [
            (
                self.foreign,
                "claims-foreign-child",
                "the step claims a child that is not one of its own",
            ),
            (
                self.differs,
                "claims-differ",
                "the step claims another end of a child than the host recorded",
            ),
            (
                self.torn,
                "claims-torn",
                "a claim of the step's has lines that are none",
            ),
        ];
        let found = rows.into_iter().filter(|(found, ..)| *found);
        found.map(|(_, code, said)| told(code, said)).collect()
    }
}
