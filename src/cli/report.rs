//! What `run` says of a call's end on standard error, beside the command's own output.

use std::ffi::OsStr;
use std::time::Duration;

use super::clean::{clean, say};
use super::exit;
use crate::cfc::result::Diagnostic;
use crate::driver::{Captured, End, Observation, Outcome};

/// Says how a call ended, where that is not plain from its exit status.
pub(super) fn say_end(program: &OsStr, timeout: Option<Duration>, outcome: &Outcome) {
    match outcome.end {
        End::Exited => {}
        End::TimedOut => say(&format!(
            "timed out after {}: the command and all that it started are gone",
            humantime::format_duration(timeout.unwrap_or_default())
        )),
        End::Cancelled => say("cancelled: the command and all that it started are gone"),
        End::NotStarted(failure) => {
            say(&format!(
                "{} did not start: {}",
                program.display(),
                exit::describe(failure)
            ));
            for message in &outcome.evidence.log {
                tracing::info!(message = clean(message), "runsc said");
            }
        }
        End::Lost => say(
            "runsc was killed by a signal that the driver did not send: the command may have run \
             in part",
        ),
    }
    match &outcome.observation {
        Observation::Opaque { .. } | Observation::Denied { .. } if outcome.raw.is_some() => say(
            "the output may tell of labelled data; it is shown, since the mode does not enforce",
        ),
        observation => say_observation(observation),
    }
}

fn say_observation(observation: &Observation) {
    match observation {
        Observation::Untracked(released) | Observation::Observed { released, .. } => {
            say_lost("standard output", &released.stdout);
            say_lost("standard error", &released.stderr);
        }
        Observation::Opaque {
            stdout_bytes,
            stderr_bytes,
            ..
        } => {
            let why = "the command may have read labelled data";
            say(&format!(
                "standard output is withheld ({stdout_bytes} bytes): {why}"
            ));
            say(&format!(
                "standard error is withheld ({stderr_bytes} bytes): {why}"
            ));
            say(&format!("the exit value is withheld: {why}"));
        }
        Observation::Denied { diagnostics } => {
            let why = diagnostics.first().map_or("nothing is known", reason);
            for what in ["standard output", "standard error", "the exit value"] {
                say(&format!(
                    "{what} is withheld, since its label cannot be told: {why}"
                ));
            }
        }
    }
}

fn reason(diagnostic: &Diagnostic) -> &'static str {
    diagnostic.code.message()
}

/// A stream that was held back for its verdict may have been longer than what was kept of it. Of
/// one that is in the JSON, that says so.
fn say_lost(what: &str, captured: &Captured) {
    if captured.truncated && captured.head.is_empty() {
        say(&format!(
            "of {} bytes of {what} the middle is missing: see --output-limit",
            captured.bytes
        ));
    }
}
