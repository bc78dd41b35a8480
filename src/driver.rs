//! The vocabulary: what a harness asks for and what it is told.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
pub use tokio_util::sync::CancellationToken;

use crate::cfc::context::{ContextError, InvocationContext};
use crate::cfc::label::{Label, LabelView};
use crate::cfc::mode::EnforcementMode;
use crate::cfc::result::Diagnostic;
use crate::launch::LaunchError;
pub use crate::launch::teardown::NotTakenDown;
use crate::plan::PlanError;
use crate::trust::scratch::ScratchError;

/// A boxed future, as the trait's methods return it: one box a call is nothing beside a sandbox's
/// boot, and it keeps [`Driver`] dyn-compatible.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs commands in sandboxes.
pub trait Driver: Send + Sync {
    /// Runs one command to its end.
    ///
    /// Dropping the future takes the command and all that it started down; so do the call's
    /// deadline, its cancellation token, and [`Driver::close`].
    ///
    /// # Errors
    /// [`Error`] where nothing was started, or where it cannot be told what became of it.
    fn run(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>>;

    /// Refuses later calls, takes the calls in flight down, and removes the scratch tree where
    /// nothing foreign is left in it. Calling it again does nothing.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The bytes that a command reads from its standard input.
#[derive(Default)]
pub enum Stdin {
    /// Nothing: the end at once.
    #[default]
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// What this yields, to its end.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

/// How much of a stream is kept unless a call says otherwise, in bytes.
pub const DEFAULT_OUTPUT_CAP: usize = 16 * 1024 * 1024;

/// Where one of a command's output streams goes. Each goes through a pipe of ours: the command
/// never holds a descriptor of the caller's.
#[derive(Default)]
pub enum Output {
    /// Kept: the first and the last bytes up to the call's cap, and the true count.
    #[default]
    Keep,
    /// Written on as it comes. Where a write fails, the command's end of the pipe breaks, as if
    /// it had been joined to the reader that went away. In an enforcing mode it is kept up to the
    /// cap instead, and written on once the verdict lets it out.
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
}

/// One command.
pub struct Call {
    /// The program and its arguments, UTF-8 and without NUL; the program is looked for on the
    /// container's `PATH` where it is a bare name.
    pub argv: Vec<OsString>,
    /// The working directory in the sandbox, inside a mount; relative to the workspace where it
    /// is relative; the workspace where there is none.
    pub cwd: Option<PathBuf>,
    /// Variables beside the fixed ones, UTF-8; a later one of a name wins.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input.
    pub stdin: Stdin,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// The longest that the call may take, from its start; none for no bound.
    pub deadline: Option<Duration>,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// The most bytes of each output stream to hold in memory, head and tail together.
    pub output_cap: usize,
    /// What the caller says of the call. Where there is none and the runtime has a policy, the
    /// driver makes one, so that the mode always travels. The stricter of its mode and the
    /// runtime's holds.
    pub context: Option<InvocationContext>,
    /// Labels of the call's inputs, beside those of the context.
    pub labels: LabelView,
    /// Whether to hand out what a verdict withholds, as [`Outcome::raw`], to an operator who is
    /// cleared for it. No model may see it.
    pub keep_raw: bool,
    /// Lets the command connect to every Unix socket that its image and mounts show, which is the
    /// way to a host's own broker and to nothing else where nothing else has a socket. Whoever
    /// sets it sees to that.
    pub host_uds: bool,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            argv: Vec::new(),
            cwd: None,
            env: Vec::new(),
            stdin: Stdin::default(),
            stdout: Output::default(),
            stderr: Output::default(),
            deadline: None,
            cancel: CancellationToken::new(),
            output_cap: DEFAULT_OUTPUT_CAP,
            context: None,
            labels: LabelView::default(),
            keep_raw: false,
            host_uds: false,
        }
    }
}

impl Call {
    /// A call of this argv with nothing else set.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for Call {
    /// The values of variables and the bytes of standard input are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Call")
            .field("argv", &self.argv)
            .field("cwd", &self.cwd)
            .field("env", &names)
            .field("deadline", &self.deadline)
            .field("host_uds", &self.host_uds)
            .finish_non_exhaustive()
    }
}

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

/// Why a call gave no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver was closed.
    #[error("the driver is closed and takes no more calls")]
    Closed,
    /// The system gave no random bytes for an id.
    #[error("the system has no randomness to give ({0})")]
    NoRandomness(getrandom::Error),
    /// The runsc is older than the driver supports.
    #[error(
        "the runsc {path:?} of {date} is too old: the control socket of its sandboxes is open to \
         every user of the machine, and newer images fail on its statx; install release 20240729 \
         or newer (scripts/install-store.sh fetches one, in Debian 12 from bookworm-backports)"
    )]
    RunscTooOld {
        /// The binary.
        path: PathBuf,
        /// The date of its release, as a number: 20221219.
        date: u32,
    },
    /// The runsc does not tell its release.
    #[error(
        "the runsc {path:?} does not say which release it is, so it cannot be told to be new \
         enough: use one whose `--version` names its date, such as `release-20240729.0`"
    )]
    RunscUnknown {
        /// The binary.
        path: PathBuf,
    },
    /// The runsc does not track labels.
    #[error(
        "the runsc {path:?} does not know --cfc, so it cannot track the labels that a policy \
         asks for: use one that does (scripts/install-store.sh puts runsc-cfc in the store), or \
         run without a policy (--no-cfc)"
    )]
    CfcUnsupported {
        /// The binary.
        path: PathBuf,
    },
    /// The mode enforces labels and there is no policy to track them by. Nothing was run.
    #[error(
        "the mode {mode} enforces labels and no CFC policy is configured: name a policy, or a \
         mode that does not enforce (disabled, observe)"
    )]
    NoPolicy {
        /// The mode of the call.
        mode: EnforcementMode,
    },
    /// The caller's context cannot be used. Nothing was run.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The labelling runsc refused to start the container, by a rule of its own.
    #[error("{message}")]
    LabelRule {
        /// Its code for the rule.
        rule: String,
        /// Its sentence.
        message: String,
    },
    /// The call cannot be laid out. Nothing was written and nothing was started.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The scratch directory is not to be trusted or could not be made. Nothing is run.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A process could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A container may still be there.
    #[error(transparent)]
    NotTakenDown(#[from] NotTakenDown),
}

impl Error {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::NoRandomness(_) => "no-randomness",
            Self::RunscTooOld { .. } => "runsc-too-old",
            Self::RunscUnknown { .. } => "runsc-unknown",
            Self::CfcUnsupported { .. } => "cfc-unsupported",
            Self::NoPolicy { .. } => "policy-required",
            Self::Context(err) => err.code(),
            Self::LabelRule { .. } => "label-rule",
            Self::Plan(err) => err.code(),
            Self::Scratch(err) => err.code(),
            Self::Launch(err) => err.code(),
            Self::NotTakenDown(_) => "not-taken-down",
        }
    }
}
