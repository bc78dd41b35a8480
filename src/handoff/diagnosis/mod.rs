//! Does what a step needs still match? A report that only reads, and clears nothing.
//!
//! The contract that this follows names the fields and statuses; the keys of checks and manifests
//! are ours, and no compatibility beyond the contract's words is claimed.

mod files;
mod manifest;
mod report;

pub(crate) use files::MAX_FILE;
pub use manifest::{FileManifest, Listed, ManifestProblem};
pub use report::{Check, CheckStatus, Report, Source};

use std::path::Path;

use serde_json::{Value, json};

use super::beneath::Tree;
use super::digest::Sha256Hex;
use super::plan::{Input, Pinned, Plan};
use files::Looked;

/// An output that was not there, or was not what it had to be, when its step settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOutput {
    /// Which one.
    pub path: String,
    /// [`CheckStatus::Missing`] or [`CheckStatus::Incompatible`].
    pub status: CheckStatus,
}

/// What is known of a run beside its plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether an attempt was dispatched whose end is not known.
    pub unknown: bool,
    /// The outputs that were missing as the last attempt settled. What came later is no evidence.
    pub held: Vec<HeldOutput>,
}

/// What to look at.
pub struct Look<'a> {
    /// The plan's directory, below which everything is.
    pub base: &'a Path,
    /// The plan.
    pub plan: &'a Plan,
    /// What is known beside it.
    pub standing: &'a Standing,
    /// The context that the caller saw earlier.
    pub seen: Option<&'a Sha256Hex>,
    /// The digest of the plan as it is now; none where it is gone.
    pub current: &'a dyn Fn() -> Option<Sha256Hex>,
}

/// Looks at what a step needs. Nothing is written, whatever is found.
#[must_use]
pub fn diagnose(look: &Look<'_>) -> Report {
    let mut checks = Vec::new();
    let mut inputs = Vec::new();
    let mut binding_error = None;
    let tree = Tree::open(look.base).ok();
    if let Some(definition) = &look.plan.definition {
        let check = pinned(tree.as_ref(), definition, "definition");
        binding_error = match check.status {
            CheckStatus::Satisfied => None,
            CheckStatus::Changed => Some("definition-changed"),
            CheckStatus::Missing => Some("definition-missing"),
            _ => Some("definition-unavailable"),
        };
        checks.push(check);
    }
    for input in &look.plan.inputs {
        inputs.push(match input {
            Input::PlanJson(plan) => {
                checks.push(pinned(tree.as_ref(), plan, "plan"));
                json!({ "format": "PLAN_JSON", "path": plan.path, "sha256": plan.sha256 })
            }
            Input::FileManifest {
                preparation,
                root,
                manifest,
            } => {
                let source = if *preparation {
                    Source::Preparation
                } else {
                    Source::Input
                };
                let read = FileManifest::read(tree.as_ref(), manifest.as_path());
                checks.push(handoff(&read, manifest.as_str(), look.plan));
                let listed = read.as_ref().ok();
                if let Some(manifest) = listed {
                    checks.extend(manifest.files.iter().map(|file| {
                        let at = file.path.below(root.as_str());
                        let looked = files::look(
                            tree.as_ref(),
                            at.as_path(),
                            Some(file.bytes),
                            &file.sha256,
                        );
                        file_check(
                            source,
                            &at.to_string(),
                            looked,
                            Some(file.bytes),
                            &file.sha256,
                        )
                    }));
                }
                json!({
                    "format": "FILE_MANIFEST",
                    "source": source,
                    "root": root,
                    "manifest": manifest,
                    "producer": listed.map(|manifest| &manifest.producer),
                    "attempt": listed.map(|manifest| &manifest.attempt),
                    "files": listed.map(|manifest| &manifest.files),
                })
            }
        });
    }
    for held in &look.standing.held {
        checks.push(Check::plain(
            "output",
            Source::Output,
            Some(&held.path),
            held.status,
            "the step settled without this output; a file that came later is no evidence of it",
        ));
    }
    if look.standing.unknown {
        checks.push(Check::plain(
            "attempt",
            Source::Handoff,
            None,
            CheckStatus::Unavailable,
            "an attempt was dispatched whose end is not known; it is not safe to repeat",
        ));
    }
    let inputs = Value::Array(inputs);
    let context = context_digest(look.plan, &inputs);
    if look.seen.is_some_and(|seen| *seen != context) {
        checks.push(Check::plain(
            "context",
            Source::Context,
            None,
            CheckStatus::Stale,
            "the context that was seen is not the current one: ask again and review it",
        ));
    }
    if (look.current)().as_ref() != Some(&look.plan.digest) {
        checks.push(Check::plain(
            "context",
            Source::Context,
            None,
            CheckStatus::Stale,
            "the run changed during the look: ask again",
        ));
    }
    Report::new(look.plan, inputs, binding_error, context, checks)
}

/// Who looks, at which revision, for what: never what was found, when, or where on the host.
fn context_digest(plan: &Plan, inputs: &Value) -> Sha256Hex {
    let identity = json!({
        "run": plan.run_id,
        "runRevision": plan.revision,
        "consumer": plan.consumer,
        "inputs": inputs,
        "outputs": plan.outputs_value(),
        "provenance": plan.provenance,
    });
    // Sizes and revisions were checked to be numbers that every reader takes for the same.
    Sha256Hex::of_value("runsc-driver/handoff-context/v1", &identity)
        .unwrap_or_else(|_| Sha256Hex::of(identity.to_string().as_bytes()))
}

fn pinned(tree: Option<&Tree>, pinned: &Pinned, kind: &'static str) -> Check {
    let looked = files::look(tree, pinned.path.as_path(), None, &pinned.sha256);
    let mut check = file_check(
        Source::Plan,
        pinned.path.as_str(),
        looked,
        None,
        &pinned.sha256,
    );
    check.kind = kind;
    check
}

fn file_check(
    source: Source,
    path: &str,
    looked: Looked,
    bytes: Option<u64>,
    sha256: &Sha256Hex,
) -> Check {
    let mut check = Check::plain(
        "file",
        source,
        Some(path),
        looked.status,
        looked.status.sentence(),
    );
    check.expected = Some((Some(sha256.clone()), bytes));
    check.observed = looked.observed;
    check
}

fn handoff(read: &Result<FileManifest, ManifestProblem>, path: &str, plan: &Plan) -> Check {
    let (status, message) = match read {
        Ok(manifest) => match stale(manifest, plan) {
            Some(message) => (CheckStatus::Stale, message),
            None => (CheckStatus::Satisfied, "the producer's manifest is there"),
        },
        Err(ManifestProblem::Missing) => (
            CheckStatus::Missing,
            "the producer's manifest is not there, which is no empty handoff",
        ),
        Err(ManifestProblem::NotRegular) => (
            CheckStatus::Incompatible,
            "the producer's manifest is not a regular file",
        ),
        Err(ManifestProblem::Malformed) => {
            (CheckStatus::Incompatible, "the producer's manifest is none")
        }
        Err(ManifestProblem::TooMuch) => (
            CheckStatus::Incompatible,
            "the producer's manifest lists more than is taken",
        ),
        Err(ManifestProblem::Unavailable) => (
            CheckStatus::Unavailable,
            "the producer's manifest cannot be read",
        ),
    };
    Check::plain("manifest", Source::Handoff, Some(path), status, message)
}

/// Why a manifest is of another handoff than the plan's.
fn stale(manifest: &FileManifest, plan: &Plan) -> Option<&'static str> {
    let differs = |wanted: &Option<String>, found: &String| {
        wanted.as_ref().is_some_and(|wanted| wanted != found)
    };
    let provenance = &plan.provenance;
    if differs(&provenance.producer_task, &manifest.producer) {
        return Some("the manifest is of another producer than the plan's");
    }
    if differs(&provenance.settled_attempt, &manifest.attempt) {
        return Some("the manifest is of another attempt than the plan's");
    }
    let wanted = provenance.input_digest.as_ref();
    if wanted.is_some_and(|wanted| *wanted != manifest.digest) {
        return Some("the manifest is another one than the plan's");
    }
    None
}

#[cfg(test)]
mod tests;
