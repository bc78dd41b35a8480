//! The vocabulary: what a harness asks for and what it is told.

mod error;
mod outcome;
mod session;

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
pub use tokio_util::sync::CancellationToken;

use crate::cfc::context::InvocationContext;
use crate::cfc::label::LabelView;
pub use crate::launch::teardown::NotTakenDown;
pub use crate::selection::description::Description;
pub use error::Error;
pub use outcome::{
    Captured, Cause, End, Evidence, Exit, Observation, Outcome, Raw, Released, StartFailure,
};
pub use session::{
    ExecVia, LostReason, OnOverrun, SESSION_NAME_PATTERN, SessionInfo, SessionRefusal,
    SessionState, is_session_name,
};

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

    /// What the driver says of itself.
    fn describe(&self) -> Description;

    /// The sessions that it holds, by name.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// A driver of its own with the same configuration: its own sessions, its own cap, its own
    /// scratch directory and its own close. It is what a run's child gets.
    ///
    /// # Errors
    /// [`Error::NoRandomness`].
    fn child(&self, run_id: &str) -> Result<Arc<dyn Driver>, Error>;

    /// Refuses later calls, takes the calls and sessions in flight down, and removes the scratch tree where
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
    /// The session to run in; none for a container of the call's own. The first call that names one
    /// starts it.
    pub session: Option<String>,
    /// What becomes of a session whose command overruns its deadline.
    pub on_overrun: OnOverrun,
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
            session: None,
            on_overrun: OnOverrun::default(),
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

    pub(crate) fn wants_stdin(&self) -> bool {
        !matches!(self.stdin, Stdin::Null)
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
