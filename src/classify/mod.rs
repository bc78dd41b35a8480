//! From what a runsc process left behind to what may be claimed of its command. Pure.

pub mod log;
pub mod table;

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::driver::{Cause, End, Evidence, Exit, StartFailure};
use log::RunscLog;

/// The exit status that runsc gives every failure of its own, and that a command may give too.
const RUNSC_FAILED: i32 = 128;
/// The exit status of a runsc that does not know a flag before its subcommand.
const BAD_USAGE: i32 = 2;
/// The exit values that may stand for a signal: 128 more than its number, of which there are 64.
const MAYBE_SIGNAL: std::ops::RangeInclusive<u8> = 129..=192;

/// How an attached runsc ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawExit {
    /// Its exit status, where it exited.
    pub status: Option<i32>,
    /// The signal that ended it, where one did.
    pub signal: Option<i32>,
}

impl From<ExitStatus> for RawExit {
    fn from(status: ExitStatus) -> Self {
        Self {
            status: status.code(),
            signal: status.signal(),
        }
    }
}

/// What may be claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// How the command ended.
    pub end: End,
    /// Its exit value, where it ran to its end.
    pub exit: Option<Exit>,
}

/// Tells the command's end from runsc's own.
///
/// runsc's log is empty whenever the command really started, whatever came of it; each failure of
/// runsc leaves a record; and a runsc that did not get as far as its log has started nothing.
#[must_use]
pub fn classify(raw: RawExit, log: &RunscLog) -> Classified {
    let not_started = |failure| Classified {
        end: End::NotStarted(failure),
        exit: None,
    };
    let Some(status) = raw.status else {
        return Classified {
            end: End::Lost,
            exit: None,
        };
    };
    match log {
        RunscLog::Absent if status == BAD_USAGE => not_started(StartFailure::UnsupportedFlag),
        RunscLog::Absent => not_started(StartFailure::Unknown),
        RunscLog::Errors(messages) if status == RUNSC_FAILED => {
            not_started(table::failure(messages))
        }
        RunscLog::Refused { .. } if status == RUNSC_FAILED => not_started(StartFailure::Withheld),
        RunscLog::Errors(_) | RunscLog::Refused { .. } | RunscLog::Clean => {
            let code = u8::try_from(status).unwrap_or(u8::MAX);
            let cause = if MAYBE_SIGNAL.contains(&code) {
                Cause::Ambiguous
            } else {
                Cause::Exit
            };
            Classified {
                end: End::Exited,
                exit: Some(Exit { code, cause }),
            }
        }
    }
}

/// What an operator is told of runsc.
#[must_use]
pub fn evidence(raw: RawExit, log: &RunscLog) -> Evidence {
    let log = match log {
        RunscLog::Errors(messages) => messages.clone(),
        RunscLog::Refused { message, .. } => vec![message.clone()],
        RunscLog::Absent | RunscLog::Clean => Vec::new(),
    };
    Evidence {
        status: raw.status,
        signal: raw.signal,
        log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_FOUND: &str = "running container: starting container: starting root container: \
                             starting sandbox: error finding executable \"x\" in PATH [/bin]: no \
                             such file or directory";

    fn exited(code: u8, cause: Cause) -> Classified {
        Classified {
            end: End::Exited,
            exit: Some(Exit { code, cause }),
        }
    }

    fn not_started(failure: StartFailure) -> Classified {
        Classified {
            end: End::NotStarted(failure),
            exit: None,
        }
    }

    #[test]
    fn an_outcome_claims_no_more_than_its_evidence() {
        let errors = |text: &str| RunscLog::Errors(vec![text.to_owned()]);
        let cases = [
            (Some(0), RunscLog::Clean, exited(0, Cause::Exit)),
            (Some(7), RunscLog::Clean, exited(7, Cause::Exit)),
            (Some(128), RunscLog::Clean, exited(128, Cause::Exit)),
            (Some(129), RunscLog::Clean, exited(129, Cause::Ambiguous)),
            (Some(137), RunscLog::Clean, exited(137, Cause::Ambiguous)),
            (Some(192), RunscLog::Clean, exited(192, Cause::Ambiguous)),
            (Some(193), RunscLog::Clean, exited(193, Cause::Exit)),
            (Some(255), RunscLog::Clean, exited(255, Cause::Exit)),
            (
                Some(128),
                errors(NOT_FOUND),
                not_started(StartFailure::NoSuchCommand),
            ),
            (
                Some(128),
                errors("something new"),
                not_started(StartFailure::Unknown),
            ),
            (Some(7), errors("something new"), exited(7, Cause::Exit)),
            (
                Some(2),
                RunscLog::Absent,
                not_started(StartFailure::UnsupportedFlag),
            ),
            (
                Some(0),
                RunscLog::Absent,
                not_started(StartFailure::Unknown),
            ),
            (
                Some(128),
                RunscLog::Absent,
                not_started(StartFailure::Unknown),
            ),
            (
                None,
                RunscLog::Clean,
                Classified {
                    end: End::Lost,
                    exit: None,
                },
            ),
            (
                None,
                errors(NOT_FOUND),
                Classified {
                    end: End::Lost,
                    exit: None,
                },
            ),
        ];
        for (status, log, expected) in cases {
            let signal = status.is_none().then_some(9);
            assert_eq!(
                classify(RawExit { status, signal }, &log),
                expected,
                "{status:?} {log:?}"
            );
        }
    }
}
