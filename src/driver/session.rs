//! Sessions: containers that outlive a call.

use std::fmt;
use std::time::SystemTime;

use serde::Serialize;

use crate::cfc::mode::EnforcementMode;

/// The names of sessions, as a regular expression of JSON Schema.
pub const SESSION_NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$";

/// Whether this is a session's name: what [`SESSION_NAME_PATTERN`] says.
#[must_use]
pub fn is_session_name(name: &str) -> bool {
    let first = name
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    first && rest && name.len() <= 32
}

/// What becomes of a session whose command overruns its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOverrun {
    /// The whole session ends with it, and everything in it.
    #[default]
    EndSession,
    /// The command is ended, with what it started that still descends from it. The session stays
    /// where runsc confirms that, and ends otherwise.
    StopCommand,
}

/// A session that a driver holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// The name that calls give it.
    pub name: String,
    /// Its container.
    pub container_id: String,
    /// When its start began.
    pub started: SystemTime,
    /// When a call last began in it.
    pub last_call: Option<SystemTime>,
    /// How many calls have begun in it.
    pub calls: u64,
    /// How many of them run now.
    pub running: u64,
    /// How far it is.
    pub state: SessionState,
    /// How its calls are started; none before the first one.
    pub via: Option<ExecVia>,
}

/// How calls in a session are started. What may be seen of them is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecVia {
    /// Over the sandbox's control socket, once that was proven on the runsc at hand: no process is
    /// started, and the command's exact end is known.
    ControlSocket,
    /// By a `runsc exec` each. Calls with a policy always are.
    CommandLine,
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// Its container is coming up.
    Starting,
    /// It takes calls.
    Running,
    /// Its container has ended. The next call that names it is told so.
    Ended,
}

/// Why a call cannot run in its session. A harness that shows refusals to a model branches on
/// [`SessionRefusal::reason`]; the text is an operator's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionRefusal {
    /// The name is not one. Nothing ran.
    #[error(
        "the session name {name:?} is not one: it has 1 to 32 letters, digits, '_', '.' or '-' and \
         starts with a letter or a digit"
    )]
    InvalidName {
        /// As given.
        name: String,
    },
    /// The mode enforces labels, for which a session's results are no basis. Nothing ran.
    #[error("no session runs in the mode {mode}, which enforces labels: run without a session")]
    EnforcingMode {
        /// The mode of the call.
        mode: EnforcementMode,
    },
    /// The session ended earlier; this is told once. Nothing ran.
    #[error("the session {name} ended ({why}) and its state is gone: naming it again starts anew")]
    Lost {
        /// The session.
        name: String,
        /// What ended it.
        why: LostReason,
    },
    /// The session ended while the call was in it: the command may have run in part.
    #[error(
        "the session {name} ended while a command ran in it, which may have run in part: check \
         what it changed before running it again"
    )]
    EndedDuringCall {
        /// The session.
        name: String,
    },
    /// The driver holds as many as it may, those that start included. Nothing ran.
    #[error("the driver holds {held} sessions, which is as many as it may: reuse one of them")]
    Limit {
        /// How many.
        held: usize,
    },
    /// The container did not come up. Nothing ran; the next call that names it tries again.
    #[error("the session {name} could not start: {why}")]
    StartFailed {
        /// The session.
        name: String,
        /// What was in the way.
        why: String,
    },
}

impl SessionRefusal {
    /// The stable word for the reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "invalid-name",
            Self::EnforcingMode { .. } => "enforcing-mode",
            Self::Lost { .. } => "session-lost",
            Self::EndedDuringCall { .. } => "session-ended-during-call",
            Self::Limit { .. } => "session-limit",
            Self::StartFailed { .. } => "start-failed",
        }
    }
}

/// What ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostReason {
    /// Its container exited.
    Exited,
    /// A command in it overran its deadline.
    TimedOut,
    /// A command in it could not be run, or could not be stopped for certain.
    NotStopped,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exited => "its container exited",
            Self::TimedOut => "a command overran its deadline",
            Self::NotStopped => "a command could not be run or stopped",
        })
    }
}
