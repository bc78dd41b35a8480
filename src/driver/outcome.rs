//! What becomes of a call, and what of it may be seen.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cfc::label::Label;
use crate::cfc::result::Diagnostic;

/// What was kept of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes: all of them, unless the stream is truncated.
    pub head: Vec<u8>,
    /// The last bytes of a truncated stream.
    pub tail: Vec<u8>,
    /// How many bytes the command wrote to the stream.
    pub bytes: u64,
    /// Whether bytes between head and tail are missing.
    pub truncated: bool,
    /// Whether the stream was still open when the call ended, so that more may have come.
    pub open: bool,
    /// Why writing on to the caller's stream stopped, where it did.
    pub stream_error: Option<std::io::ErrorKind>,
}

/// How sure a command's exit value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The command exited with this value.
    Exit,
    /// The command was ended by the signal that this value is 128 more than.
    Signal,
    /// The command exited with this value, or was ended by the signal that it is 128 more than,
    /// or the sandbox was lost: nothing tells them apart.
    Ambiguous,
}

/// A command's exit value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// As runsc reports it: 0 to 255.
    pub code: u8,
    /// How sure it is.
    pub cause: Cause,
}

/// Why a command did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StartFailure {
    /// The image has no such program, or a script's interpreter is missing.
    NoSuchCommand,
    /// The program is there and cannot be executed.
    NotExecutable,
    /// The image cannot be mounted.
    BadRootfs,
    /// A mount's source or destination cannot be mounted.
    BadMount,
    /// The working directory cannot be entered.
    BadCwd,
    /// The bundle cannot be read.
    BadBundle,
    /// This runsc cannot give the network that was asked for.
    NetworkUnavailable,
    /// This runsc does not know a flag that the driver gives it.
    UnsupportedFlag,
    /// The labels let nothing out, not even why.
    Withheld,
    /// runsc failed in a way that the driver's table does not know.
    Unknown,
}

/// What is known of the runsc process behind an outcome, for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// runsc's exit status; none where it was ended by a signal or not awaited.
    pub status: Option<i32>,
    /// The signal that ended runsc.
    pub signal: Option<i32>,
    /// The messages of runsc's log, oldest first, bounded.
    pub log: Vec<String>,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The command ran to its end.
    Exited,
    /// The call's deadline came first. The command and all that it started are gone.
    TimedOut,
    /// The call was cancelled. The command and all that it started are gone.
    Cancelled,
    /// The command did not start.
    NotStarted(StartFailure),
    /// runsc itself was ended by a signal that the driver did not send: the command may have run
    /// in part.
    Lost,
}

impl End {
    /// The stable word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::TimedOut => "timed-out",
            Self::Cancelled => "cancelled",
            Self::NotStarted(_) => "not-started",
            Self::Lost => "lost",
        }
    }
}

/// What a command let out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// Its exit value; there for [`End::Exited`] alone.
    pub exit: Option<Exit>,
    /// What was kept of its standard output.
    pub stdout: Captured,
    /// What was kept of its standard error.
    pub stderr: Captured,
}

/// What may be seen of a call. Text and exit value are only where they may be.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// No policy: nothing was tracked, and nothing is withheld.
    Untracked(Released),
    /// The container read nothing that is labelled.
    Observed {
        /// The label: empty.
        label: Label,
        /// What there is to tell of the result.
        diagnostics: Vec<Diagnostic>,
        /// The output.
        released: Released,
    },
    /// The container may have read what is labelled: that there is output is all that may be seen.
    Opaque {
        /// The label.
        label: Label,
        /// What there is to tell of the result; not the command's status.
        diagnostics: Vec<Diagnostic>,
        /// How many bytes the command wrote to standard output.
        stdout_bytes: u64,
        /// How many bytes the command wrote to standard error.
        stderr_bytes: u64,
    },
    /// What the container read cannot be told.
    Denied {
        /// Why, and what there is to tell.
        diagnostics: Vec<Diagnostic>,
    },
}

/// What a verdict withholds, for an operator who asked for it by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw {
    /// What was withheld.
    pub released: Released,
    /// What is known of runsc.
    pub evidence: Evidence,
}

impl fmt::Debug for Raw {
    /// Nothing of it reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}

/// What became of a call. It claims no more than its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The container's id.
    pub container_id: String,
    /// How it ended.
    pub end: End,
    /// What may be seen of it.
    pub observation: Observation,
    /// From the call's start to the return, in wall-clock time.
    pub elapsed: Duration,
    /// What is known of runsc; nothing where the output is withheld.
    pub evidence: Evidence,
    /// What was withheld, where the call asked for it.
    pub raw: Option<Raw>,
}

impl Outcome {
    /// What was let out, where it may be seen.
    #[must_use]
    pub fn released(&self) -> Option<&Released> {
        match &self.observation {
            Observation::Untracked(released) | Observation::Observed { released, .. } => {
                Some(released)
            }
            Observation::Opaque { .. } | Observation::Denied { .. } => None,
        }
    }

    /// The exit value, where the command ran to its end and it may be seen.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.released()?.exit
    }
}
