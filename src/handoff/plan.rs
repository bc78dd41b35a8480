//! The plan of one step: what it needs, what it may launch, what it is to make.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifacts::{OddPath, PayloadPath};
use super::broker::KindSpec;
use super::contract::{Contract, NotOfContract};
use super::correlation::Correlation;
use super::digest::Sha256Hex;
use super::host::Kind;
use crate::cfc::json::{self as strict, JsonError};

/// Why a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is not JSON.
    #[error("the plan cannot be read, since {0}")]
    Json(#[from] JsonError),
    /// It is not what a plan looks like.
    #[error("the plan is none: {0}")]
    Contract(#[from] NotOfContract),
    /// A path of it leaves the plan's directory, or is odd.
    #[error("the plan's path {path:?} cannot be used: {reason}")]
    Path {
        /// As it is written.
        path: String,
        /// What is wrong with it.
        reason: OddPath,
    },
    /// A member has a value that the contract takes and we do not.
    #[error("the plan has no usable `{0}`")]
    Member(&'static str),
}

impl PlanError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(err) => err.code(),
            Self::Contract(_) => "plan-invalid",
            Self::Path { .. } => "plan-path",
            Self::Member(_) => "plan-member",
        }
    }
}

/// A plan that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The digest of the plan, however it is spelled.
    pub digest: Sha256Hex,
    /// The run that the step is part of.
    pub run_id: String,
    /// Which revision of the run the plan is of.
    pub revision: u64,
    /// The step.
    pub consumer: String,
    /// The caller's keys.
    pub correlation: Correlation,
    /// What runs.
    pub command: Vec<String>,
    /// Its variables.
    pub env: BTreeMap<String, String>,
    /// How long it may take.
    pub deadline: Option<Duration>,
    /// The confidentiality of what it is given, as CFC atoms.
    pub labels: Vec<Value>,
    /// Whether it runs without labels unless whoever runs it names a policy or a mode.
    pub no_cfc: bool,
    /// What it needs.
    pub inputs: Vec<Input>,
    /// What it is to make.
    pub outputs: Outputs,
    /// Where what it needs comes from, as the caller knows it.
    pub provenance: Provenance,
    /// The definition that the plan is bound to.
    pub definition: Option<Pinned>,
    /// What it may launch; none for nothing.
    pub launch: Option<Launch>,
}

/// A file and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// Below the plan's directory.
    pub path: PayloadPath,
    /// Of its bytes.
    pub sha256: Sha256Hex,
}

/// Something that a step needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A plan artifact, by its digest.
    PlanJson(Pinned),
    /// The files that another task handed off.
    FileManifest {
        /// Whether they come from a preparation.
        preparation: bool,
        /// Where the files are, below the plan's directory.
        root: PayloadPath,
        /// Where their manifest is.
        manifest: PayloadPath,
    },
}

/// What a step is to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    /// The files that have to be there.
    pub paths: Vec<PayloadPath>,
    /// What they are judged by.
    pub criteria_ref: Option<String>,
    /// Whether the step may not change what it was given.
    pub must_preserve_input: bool,
    /// Whether other files are kept too.
    pub allow_undeclared: bool,
    /// What becomes of them where the step is not observed to have read nothing labelled.
    pub unobserved: Unobserved,
}

/// What becomes of the outputs of a step that may have read what is labelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unobserved {
    /// There is no bundle.
    #[default]
    Withhold,
    /// The bundle and each of its files has the label; where that cannot be told there is none.
    Label,
}

/// Where what a step needs comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provenance {
    /// The digest of the reviewed plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_digest: Option<Sha256Hex>,
    /// The definition's revision, where the run is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition_revision: Option<String>,
    /// Who made what is handed off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_task: Option<String>,
    /// In which attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_attempt: Option<String>,
    /// The digest of the manifest of what is handed off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<Sha256Hex>,
    /// The validation that this step is, or corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_attempt_ref: Option<String>,
}

/// What a step may launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// How many children in all.
    pub count: u64,
    /// How many at once.
    pub max_concurrent: usize,
    /// How long each may take.
    pub deadline: Option<Duration>,
    /// What is launched for each kind.
    pub kinds: BTreeMap<Kind, KindSpec>,
}

#[derive(Deserialize)]
struct Raw {
    run: RawRun,
    consumer: String,
    correlation: RawCorrelation,
    step: RawStep,
    inputs: Vec<RawInput>,
    outputs: RawOutputs,
    #[serde(default)]
    provenance: Provenance,
    definition: Option<RawPinned>,
    launch: Option<RawLaunch>,
}

#[derive(Deserialize)]
struct RawRun {
    id: String,
    revision: u64,
}

#[derive(Deserialize)]
struct RawCorrelation {
    sandbox_session_id: String,
    session_id: Option<String>,
    request_id: Option<String>,
    source_digest: Option<Sha256Hex>,
}

#[derive(Deserialize)]
struct RawStep {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    deadline_ms: Option<u64>,
    #[serde(default)]
    labels: Vec<Value>,
    #[serde(default, rename = "noCfc")]
    no_cfc: bool,
}

#[derive(Deserialize)]
#[serde(tag = "format", rename_all = "SCREAMING_SNAKE_CASE")]
enum RawInput {
    PlanJson(RawPinned),
    FileManifest {
        source: String,
        root: String,
        manifest: String,
    },
}

#[derive(Deserialize)]
struct RawPinned {
    path: String,
    sha256: Sha256Hex,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOutputs {
    paths: Vec<String>,
    criteria_ref: Option<String>,
    #[serde(default)]
    must_preserve_input: bool,
    #[serde(default)]
    allow_undeclared: bool,
    #[serde(default)]
    unobserved: Unobserved,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLaunch {
    count: u64,
    max_concurrent: Option<usize>,
    #[serde(rename = "deadline_ms")]
    deadline_ms: Option<u64>,
    kinds: BTreeMap<String, RawKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawKind {
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    max_steps: Option<u64>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanError> {
        let value = strict::read(bytes)?;
        Contract::Plan.check(&value)?;
        let digest = Sha256Hex::of_value("runsc-driver/handoff-plan/v1", &value)
            .map_err(|_| PlanError::Member("number"))?;
        let raw: Raw = serde_json::from_value(value).map_err(|_| PlanError::Member("value"))?;
        let inputs = raw
            .inputs
            .into_iter()
            .map(input)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            digest,
            correlation: Correlation {
                sandbox_session_id: raw.correlation.sandbox_session_id,
                fanout_id: raw.consumer.clone(),
                session_id: raw.correlation.session_id,
                request_id: raw.correlation.request_id,
                source_digest: raw.correlation.source_digest,
            },
            run_id: raw.run.id,
            revision: raw.run.revision,
            consumer: raw.consumer,
            command: raw.step.command,
            env: own_variables(raw.step.env)?,
            deadline: raw.step.deadline_ms.map(Duration::from_millis),
            no_cfc: raw.step.no_cfc && raw.step.labels.is_empty(),
            labels: raw.step.labels,
            inputs,
            outputs: Outputs {
                paths: raw
                    .outputs
                    .paths
                    .into_iter()
                    .map(path)
                    .collect::<Result<_, _>>()?,
                criteria_ref: raw.outputs.criteria_ref,
                must_preserve_input: raw.outputs.must_preserve_input,
                allow_undeclared: raw.outputs.allow_undeclared,
                unobserved: raw.outputs.unobserved,
            },
            provenance: raw.provenance,
            definition: raw.definition.map(pinned).transpose()?,
            launch: raw.launch.map(launch).transpose()?,
        })
    }

    /// The values that the plan itself calls secret, by the names of their variables.
    #[must_use]
    pub fn secrets(&self) -> Vec<(&str, &str)> {
        let kinds = self.launch.iter().flat_map(|launch| launch.kinds.values());
        let kinds = kinds.flat_map(|kind| kind.env.iter().map(|(name, value)| (name, value)));
        self.env
            .iter()
            .chain(kinds)
            .filter(|(name, _)| names_a_secret(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    /// The outputs as reports spell them.
    #[must_use]
    pub fn outputs_value(&self) -> Value {
        serde_json::json!({
            "paths": self.outputs.paths,
            "criteriaRef": self.outputs.criteria_ref,
            "mustPreserveInput": self.outputs.must_preserve_input,
        })
    }
}

/// Variables of the plan's. The handoff itself is the host's to give.
fn own_variables(env: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, PlanError> {
    match env.contains_key(super::host::VARIABLE) {
        true => Err(PlanError::Member("env")),
        false => Ok(env),
    }
}

fn path(text: String) -> Result<PayloadPath, PlanError> {
    PayloadPath::new(Path::new(&text)).map_err(|reason| PlanError::Path { path: text, reason })
}

/// Whether a variable's name says that its value is a secret.
fn names_a_secret(name: &str) -> bool {
    const WORDS: [&str; 9] = [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "CREDENTIAL",
        "API_KEY",
        "PRIVATE_KEY",
        "AUTHORIZATION",
        "COOKIE",
        "BEARER",
    ];
    let name = name.to_ascii_uppercase();
    WORDS.iter().any(|word| name.contains(word))
}

fn pinned(raw: RawPinned) -> Result<Pinned, PlanError> {
    Ok(Pinned {
        path: path(raw.path)?,
        sha256: raw.sha256,
    })
}

fn input(raw: RawInput) -> Result<Input, PlanError> {
    Ok(match raw {
        RawInput::PlanJson(raw) => Input::PlanJson(pinned(raw)?),
        RawInput::FileManifest {
            source,
            root,
            manifest,
        } => Input::FileManifest {
            preparation: source == "PREPARATION",
            root: path(root)?,
            manifest: path(manifest)?,
        },
    })
}

fn launch(raw: RawLaunch) -> Result<Launch, PlanError> {
    let kinds = raw.kinds.into_iter().map(|(name, raw)| {
        let kind = Kind::new(&name).ok_or(PlanError::Member("launch.kinds"))?;
        let spec = KindSpec {
            command: raw.command,
            env: own_variables(raw.env)?.into_iter().collect(),
            max_steps: raw.max_steps,
        };
        Ok((kind, spec))
    });
    Ok(Launch {
        count: raw.count,
        max_concurrent: raw.max_concurrent.unwrap_or(4),
        deadline: raw.deadline_ms.map(Duration::from_millis),
        kinds: kinds.collect::<Result<_, PlanError>>()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> Value {
        json!({
            "schema": "runsc-driver/handoff-plan/v1",
            "run": {"id": "run-7", "revision": 3},
            "consumer": "collect",
            "correlation": {"sandbox_session_id": "job-1", "source_digest": "a".repeat(64)},
            "step": {"command": ["true"], "deadline_ms": 1000},
            "inputs": [
                {"format": "PLAN_JSON", "path": "work.json", "sha256": "b".repeat(64)},
                {"format": "FILE_MANIFEST", "source": "INPUT", "root": "in", "manifest": "in.json"}
            ],
            "outputs": {"paths": ["report.json"], "mustPreserveInput": true},
            "launch": {"count": 3, "kinds": {"scout": {"command": ["true"], "maxSteps": 2}}}
        })
    }

    fn parse(value: &Value) -> Result<Plan, PlanError> {
        Plan::parse(value.to_string().as_bytes())
    }

    #[test]
    fn a_plan_says_what_a_step_needs_and_may() {
        let plan = parse(&plan()).unwrap();
        assert_eq!((plan.run_id.as_str(), plan.revision), ("run-7", 3));
        assert_eq!(plan.correlation.fanout_id, "collect");
        assert_eq!(plan.inputs.len(), 2);
        let launch = plan.launch.unwrap();
        assert_eq!((launch.count, launch.max_concurrent), (3, 4));
        assert_eq!(
            launch.kinds[&Kind::new("scout").unwrap()].max_steps,
            Some(2)
        );
    }

    #[test]
    fn what_a_plan_does_not_know_is_refused() {
        let rows: Vec<(&str, Value, &str)> = vec![
            ("/schema", json!("other"), "plan-invalid"),
            ("/run/id", json!("../x"), "plan-invalid"),
            ("/run/revision", json!(-1), "plan-invalid"),
            ("/consumer", json!("a b"), "plan-invalid"),
            ("/step/command", json!([]), "plan-invalid"),
            ("/launch/count", json!(0), "plan-invalid"),
            (
                "/launch/kinds",
                json!({"{child}": {"command": ["x"]}}),
                "plan-invalid",
            ),
            ("/inputs/0/format", json!("TEXT"), "plan-invalid"),
            ("/inputs/1/root", json!("../in"), "plan-path"),
            ("/inputs/1/manifest", json!("/etc/passwd"), "plan-path"),
            ("/outputs/paths", json!(["a/../b"]), "plan-path"),
        ];
        for (pointer, value, code) in rows {
            let mut changed = plan();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_eq!(parse(&changed).unwrap_err().code(), code, "{pointer}");
        }
        let mut more = plan();
        more["extra"] = json!(1);
        assert_eq!(parse(&more).unwrap_err().code(), "plan-invalid");
    }
}
