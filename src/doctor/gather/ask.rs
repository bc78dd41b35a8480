//! Asking a program, within a bound.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::launch::spawn::{self, SpawnRequest};
use crate::plan::CommandLine;

/// How long a program may take to answer.
pub(in crate::doctor) const LIMIT: Duration = Duration::from_secs(3);

/// Something that may not have been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum Reading<T> {
    /// It was not to be looked at.
    Skipped,
    /// It could not be looked at; why not.
    Unknown(String),
    /// What was found.
    Known(T),
}

impl<T> Reading<T> {
    pub(in crate::doctor) fn known(&self) -> Option<&T> {
        match self {
            Self::Known(found) => Some(found),
            Self::Skipped | Self::Unknown(_) => None,
        }
    }

    /// What to say where it is not known.
    pub(in crate::doctor) fn why_not(&self) -> String {
        match self {
            Self::Unknown(why) => format!("not known: {why}"),
            Self::Skipped | Self::Known(_) => "not probed".to_owned(),
        }
    }
}

/// What came of asking a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum Answer {
    /// It succeeded and wrote this.
    Wrote(String),
    /// It failed.
    Failed(String),
    /// It was still running at the limit, and was ended.
    TimedOut,
    /// It could not be started.
    NotStarted(String),
}

/// Runs a program that needs nothing but its arguments, and reads what it writes.
pub(in crate::doctor) fn ask(program: &Path, args: &[&str]) -> Answer {
    let command = CommandLine {
        program: program.to_owned(),
        args: args.iter().map(OsString::from).collect(),
    };
    let ended = match spawn::run_to_end(SpawnRequest::plain(command, true), LIMIT) {
        Ok(ended) => ended,
        Err(err) => return Answer::NotStarted(err.to_string()),
    };
    match ended.status {
        None => Answer::TimedOut,
        Some(status) if status.success() => {
            // runsc lists its flags on standard error.
            let output = [ended.stdout, ended.stderr].concat();
            Answer::Wrote(String::from_utf8_lossy(&output).into_owned())
        }
        Some(status) => Answer::Failed(status.to_string()),
    }
}
