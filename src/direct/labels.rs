//! A call's part of the CFC contract: what runsc is told, and what its answer lets out.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::cfc::context::{InvocationContext, MinimalContext};
use crate::cfc::mode::EnforcementMode;
use crate::cfc::result::{self, Details, Diagnostic, Unreadable, Verdict};
use crate::cfc::summary::TextSummary;
use crate::config::SandboxConfig;
use crate::driver::{
    Call, End, Error, Evidence, Observation, Outcome, Raw, Released, StartFailure, Stdin,
};
use crate::launch::donation::ResultFile;
use crate::plan::path::SandboxPath;

/// Counts the contexts of a runtime, from 1.
#[derive(Debug, Default)]
pub(super) struct Sequence(AtomicU64);

impl Sequence {
    fn next(&self) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The mode that holds for a call: the stricter one of the runtime's and the context's.
pub(super) fn mode(config: &SandboxConfig, call: &Call) -> EnforcementMode {
    let asked = call.context.as_ref().map(InvocationContext::mode);
    asked.map_or(config.mode, |asked| asked.max(config.mode))
}

/// What runsc is told of a call, where the runtime has a policy.
///
/// # Errors
/// [`Error::NoPolicy`] where the mode enforces and there is none.
pub(super) fn context(
    config: &SandboxConfig,
    sequence: &Sequence,
    call: &Call,
) -> Result<Option<Vec<u8>>, Error> {
    let mode = mode(config, call);
    if config.policy.is_none() {
        return if mode.enforces() {
            Err(Error::NoPolicy { mode })
        } else {
            Ok(None)
        };
    }
    let mut context = match &call.context {
        Some(context) => context.clone(),
        None => minimal(config, sequence, call, mode)?,
    };
    context.set_mode(mode);
    context.merge_labels(&call.labels);
    Ok(Some(context.to_bytes()))
}

fn minimal(
    config: &SandboxConfig,
    sequence: &Sequence,
    call: &Call,
    mode: EnforcementMode,
) -> Result<InvocationContext, Error> {
    let cwd = SandboxPath::resolve(config, call.cwd.as_deref())?;
    let stdin = match &call.stdin {
        Stdin::Null => None,
        Stdin::Bytes(bytes) => Some(TextSummary::of(bytes)),
        // What it will yield is not known yet.
        Stdin::Reader(_) => None,
    };
    Ok(InvocationContext::minimal(&MinimalContext {
        run_id: &config.run_tag,
        sequence: sequence.next(),
        created_at: SystemTime::now(),
        tool_id: "command",
        mode,
        cwd: cwd.as_path(),
        argv: &call.argv,
        env: &call.env,
        stdin,
        labels: call.labels.clone(),
    })?)
}

/// The verdict of a call whose runsc ended by itself; of any other, nothing was told.
pub(super) fn verdict(file: &ResultFile, container_id: &str, ended: bool) -> Verdict {
    match file.read() {
        Ok(bytes) if ended => result::parse(Ok(&bytes), container_id),
        Ok(_) => result::parse(Err(Unreadable::Missing), container_id),
        Err(err) => result::parse(Err(err.into()), container_id),
    }
}

/// A call's end and output, as far as its verdict lets them out.
pub(super) struct Seen {
    pub end: End,
    pub observation: Observation,
    pub evidence: Evidence,
    pub raw: Option<Raw>,
}

impl Seen {
    /// The outcome of the call.
    pub(super) fn outcome(self, container_id: &str, elapsed: Duration) -> Outcome {
        let Self {
            end,
            observation,
            evidence,
            raw,
        } = self;
        tracing::debug!(id = container_id, ?end, ?elapsed, "a call ended");
        let container_id = container_id.to_owned();
        Outcome {
            container_id,
            end,
            observation,
            elapsed,
            evidence,
            raw,
        }
    }

    /// What was not tracked, or is observed.
    pub(super) fn whole(
        verdict: Option<Verdict>,
        end: End,
        released: Released,
        evidence: Evidence,
    ) -> Self {
        let observation = match verdict {
            Some(Verdict::Observed { label, diagnostics }) => Observation::Observed {
                label,
                diagnostics,
                released,
            },
            _ => Observation::Untracked(released),
        };
        Self {
            end,
            observation,
            evidence,
            raw: None,
        }
    }

    /// What is withheld.
    pub(super) fn withheld(
        verdict: Verdict,
        end: End,
        released: Released,
        evidence: Evidence,
        keep_raw: bool,
    ) -> Self {
        let (stdout_bytes, stderr_bytes) = (released.stdout.bytes, released.stderr.bytes);
        let observation = match verdict {
            Verdict::Opaque { label, diagnostics } => Observation::Opaque {
                label,
                diagnostics: diagnostics.into_iter().map(without_status).collect(),
                stdout_bytes,
                stderr_bytes,
            },
            Verdict::Observed { diagnostics, .. } | Verdict::Denied { diagnostics, .. } => {
                Observation::Denied {
                    diagnostics: diagnostics.into_iter().map(without_status).collect(),
                }
            }
        };
        // Why a command did not start tells of what it would have read.
        let end = match end {
            End::NotStarted(_) => End::NotStarted(StartFailure::Withheld),
            other => other,
        };
        let raw = keep_raw.then_some(Raw { released, evidence });
        Self {
            end,
            observation,
            evidence: Evidence::default(),
            raw,
        }
    }
}

/// The wait status is the exit value in another spelling.
fn without_status(mut diagnostic: Diagnostic) -> Diagnostic {
    if let Details::Taint { wait_status, .. } = &mut diagnostic.details {
        *wait_status = None;
    }
    diagnostic
}
