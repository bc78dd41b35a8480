//! What is known of a step across hosts that die: whether an attempt was dispatched, and how it
//! settled.
//!
//! An attempt that was dispatched and never settled has an unknown end. It is held, and never
//! taken for one that is safe to repeat: another revision of the plan is another step.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::StepError;
use crate::cfc::json as strict;
use crate::handoff::diagnosis::{CheckStatus, HeldOutput, Standing};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::files::{self, FileError};
use crate::handoff::plan::Plan;

const SCHEMA: &str = "runsc-driver/handoff-state/v1";
const FILE: &str = "state.json";

/// What of an attempt is not to outlive it.
pub(super) const SCRATCH: [&str; 6] = ["work", "out", "seen", "claims", "staged", "children"];

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// It has a directory and is not dispatched: its claim can be let go of.
    Prepared,
    /// Its command may run.
    Dispatched,
    /// Its end is known.
    Settled,
    /// Its end cannot be told any more.
    Unknown,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    schema: String,
    pub attempt: u64,
    pub phase: Phase,
    plan: Sha256Hex,
    held: Vec<Held>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Held {
    path: String,
    missing: bool,
}

impl State {
    fn standing(&self) -> Standing {
        let held = self.held.iter().map(|held| HeldOutput {
            path: held.path.clone(),
            status: match held.missing {
                true => CheckStatus::Missing,
                false => CheckStatus::Incompatible,
            },
        });
        Standing {
            unknown: matches!(self.phase, Phase::Dispatched | Phase::Unknown),
            held: held.collect(),
        }
    }
}

/// Where everything of one step, at one revision, is kept.
pub(super) fn step_dir(root: &Path, plan: &Plan) -> PathBuf {
    root.join("runs")
        .join(&plan.run_id)
        .join(&plan.consumer)
        .join(format!("r{}", plan.revision))
}

/// What is known of a step. Nothing is made.
pub(super) fn standing(root: &Path, plan: &Plan) -> Result<Standing, StepError> {
    Ok(read(&step_dir(root, plan))?
        .map(|state| state.standing())
        .unwrap_or_default())
}

fn read(dir: &Path) -> Result<Option<State>, StepError> {
    let path = dir.join(FILE);
    let bytes = match files::read_bounded(&path, strict::MAX_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(err) if err.is_not_found() => return Ok(None),
        Err(err) => return Err(err.into()),
    };
    let state: Option<State> = strict::read(&bytes)
        .ok()
        .and_then(|value| serde_json::from_value(value).ok());
    match state {
        Some(state) if state.schema == SCHEMA => Ok(Some(state)),
        _ => Err(StepError::State(path)),
    }
}

/// The record of a run's last attempt, of one step or of the one that was last attempted.
pub(super) fn latest(
    root: &Path,
    run: &str,
    step: Option<&str>,
) -> Result<Option<PathBuf>, StepError> {
    let is_name = crate::handoff::host::is_plain_name;
    if !is_name(run) || !step.is_none_or(is_name) {
        return Ok(None);
    }
    let run = root.join("runs").join(run);
    let steps = match step {
        Some(step) => vec![run.join(step)],
        None => below(&run),
    };
    let mut last: Option<(std::time::SystemTime, PathBuf)> = None;
    for dir in steps.iter().flat_map(|step| below(step)) {
        let Some(state) = read(&dir)? else { continue };
        let path = dir.join(FILE);
        let found = std::fs::metadata(&path).and_then(|found| found.modified());
        let moment = found.map_err(FileError::of("examine", &path))?;
        if last.as_ref().is_none_or(|(latest, _)| *latest <= moment) {
            last = Some((moment, dir.join(format!("attempt-{}", state.attempt))));
        }
    }
    Ok(last.map(|(_, record)| record))
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A step that this process alone attempts, as long as it holds this.
#[derive(Debug)]
pub(super) struct Claim {
    dir: PathBuf,
    state: Option<State>,
    /// Held, never read: the kernel lets go of it however this process ends.
    _lock: Flock<File>,
}

impl Claim {
    /// Claims a step.
    pub(super) fn take(root: &Path, plan: &Plan) -> Result<Self, StepError> {
        let dir = step_dir(root, plan);
        files::make_dirs(&dir)?;
        let path = dir.join("claim.lock");
        let lock = files::open_append(&path)?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    nix::Error::EWOULDBLOCK => StepError::Claimed,
                    errno => FileError::of("lock", &path)(errno.into()).into(),
                },
            )?;
        let state = read(&dir)?;
        Ok(Self {
            dir,
            state,
            _lock: lock,
        })
    }

    pub(super) fn standing(&self) -> Standing {
        self.state.as_ref().map(State::standing).unwrap_or_default()
    }

    /// The last attempt's directory, where there was one.
    pub(super) fn last(&self) -> Option<PathBuf> {
        Some(
            self.dir
                .join(format!("attempt-{}", self.state.as_ref()?.attempt)),
        )
    }

    /// The directory of an attempt that is prepared from now on. What a killed host left of the
    /// one before goes.
    pub(super) fn prepare(&mut self, plan: &Plan) -> Result<PathBuf, StepError> {
        if let Some(last) = self.last() {
            clear(&last);
        }
        let attempt = self.state.as_ref().map_or(1, |state| state.attempt + 1);
        let dir = self.dir.join(format!("attempt-{attempt}"));
        self.put(State {
            schema: SCHEMA.to_owned(),
            attempt,
            phase: Phase::Prepared,
            plan: plan.digest.clone(),
            held: Vec::new(),
        })?;
        files::make_dir(&dir)?;
        Ok(dir)
    }

    /// Says where the attempt is. It is on disk before this returns.
    pub(super) fn is(&mut self, phase: Phase, held: &[HeldOutput]) -> Result<(), StepError> {
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        let held = held.iter().map(|held| Held {
            path: held.path.clone(),
            missing: held.status == CheckStatus::Missing,
        });
        self.put(State {
            phase,
            held: held.collect(),
            ..state
        })
    }

    fn put(&mut self, state: State) -> Result<(), StepError> {
        let text = serde_json::to_vec(&state).map_err(|_| StepError::State(self.dir.clone()))?;
        files::replace(&self.dir.join(FILE), &text)?;
        self.state = Some(state);
        Ok(())
    }
}

/// Removes what an attempt worked with.
pub(super) fn clear(attempt: &Path) {
    for name in SCRATCH {
        let path = attempt.join(name);
        match std::fs::remove_dir_all(&path) {
            Ok(()) => {}
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => tracing::warn!(?path, %err, "a step's directory was left"),
        }
    }
}
