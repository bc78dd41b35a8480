//! What of a step's outputs leaves it, and whether it may.

use std::path::Path;

use serde_json::{Map, Value};

use crate::cfc::label::Label;
use crate::driver::Observation;
use crate::handoff::artifacts::{
    Capture, CaptureLimits, Declared, Expected, Import, OUTPUTS, Store, capture, seal,
};
use crate::handoff::diagnosis::{CheckStatus, HeldOutput};
use crate::handoff::files::FileError;
use crate::handoff::plan::{Plan, Unobserved};
use crate::handoff::redact::Redactor;
use crate::handoff::time;

/// Whether there may be a payload.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum May {
    Go,
    Labelled(Label),
    /// A stable word and a sentence.
    Not(&'static str, &'static str),
}

/// What the step's verdict lets out, by the plan's setting.
pub(super) fn may(observation: &Observation, setting: Unobserved) -> May {
    match (observation, setting) {
        (Observation::Untracked(_) | Observation::Observed { .. }, _) => May::Go,
        (Observation::Opaque { label, .. }, Unobserved::Label) => May::Labelled(label.clone()),
        (Observation::Opaque { .. }, Unobserved::Withhold) => May::Not(
            "outputs-withheld",
            "the step may have read what is labelled, so its outputs are withheld",
        ),
        (Observation::Denied { .. }, _) => May::Not(
            "outputs-denied",
            "what the step read cannot be told, so its outputs are withheld",
        ),
    }
}

/// What was made of a step's outputs.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub capture: Capture,
    pub bundle: Option<Import>,
    /// A stable word and a sentence, where there is no bundle.
    pub error: Option<(String, String)>,
    /// The declared outputs that were not there as they had to be.
    pub held: Vec<HeldOutput>,
}

/// Captures a step's outputs and puts them into the store as a bundle. It blocks.
pub(super) fn make(
    store: &Store,
    out: &Path,
    plan: &Plan,
    label: Option<&Label>,
    redactor: &Redactor,
    limits: &CaptureLimits,
    metadata: Map<String, Value>,
) -> Result<Made, FileError> {
    let declared = Declared {
        paths: plan.outputs.paths.clone(),
        allow_others: plan.outputs.allow_undeclared,
        labelled: label.is_some(),
    };
    let aside = store.aside()?;
    let capture = capture(out, &declared, aside.dir(), redactor, limits)?;
    let held = held(plan, &capture);
    if !capture.is_whole() {
        let first = capture
            .diagnostics
            .iter()
            .find(|told| told.severity == "error");
        let error = first.map(|told| (told.code.to_owned(), told.message.clone()));
        return Ok(Made {
            capture,
            error,
            held,
            bundle: None,
        });
    }
    let sealed = seal(aside.dir(), &capture, label, metadata, &time::now());
    let error = match sealed {
        Ok(sealed) => {
            let expected = Expected {
                id: Some(&sealed.id),
                digest: Some(sealed.digest.as_str()),
            };
            match store.admit(aside, &expected) {
                Ok(import) => {
                    return Ok(Made {
                        capture,
                        bundle: Some(import),
                        ..Made::default()
                    });
                }
                Err(err) => (err.code().to_owned(), in_our_words(&err)),
            }
        }
        Err(err) => (err.code().to_owned(), in_our_words(&err)),
    };
    Ok(Made {
        capture,
        error: Some(error),
        ..Made::default()
    })
}

/// What an error says, where it names no path of the host.
pub(super) fn in_our_words(err: &dyn std::error::Error) -> String {
    let said = err.to_string();
    if !said.contains('/') {
        return said;
    }
    tracing::error!("{said}");
    "a file of the host's could not be read or written".to_owned()
}

fn held(plan: &Plan, capture: &Capture) -> Vec<HeldOutput> {
    let captured = |path: &str| {
        let placed = format!("{OUTPUTS}/{path}");
        capture
            .files
            .iter()
            .any(|file| file.path.as_str() == placed)
    };
    let missing = |path: &str| {
        capture
            .diagnostics
            .iter()
            .any(|told| told.code == "output-missing" && told.path.as_deref() == Some(path))
    };
    let paths = plan.outputs.paths.iter().map(|path| path.as_str());
    paths
        .filter(|path| !captured(path))
        .map(|path| HeldOutput {
            path: path.to_owned(),
            status: match missing(path) {
                true => CheckStatus::Missing,
                false => CheckStatus::Incompatible,
            },
        })
        .collect()
}
