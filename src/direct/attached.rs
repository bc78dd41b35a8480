//! An attached runsc process while it runs: its streams, its end, and what of them is let out.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::labels::{self, Seen};
use crate::cfc::result::Verdict;
use crate::driver::{BoxFuture, Call, End, Evidence, Exit, Output, Released, Stdin};
use crate::launch::bundle::write_new;
use crate::launch::deadline::Deadline;
use crate::launch::donation::{ResultFile, sealed};
use crate::launch::output::{self, Channel};
use crate::launch::spawn::{Donation, Pipes};
use crate::launch::{LaunchError, sys};
use crate::plan::network::wrap::Meeting;
use crate::plan::runsc;

/// How long the streams of a command that was taken down may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a call stopped waiting for its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// runsc ended by itself.
    Ended,
    TimedOut,
    Cancelled,
}

impl Stop {
    /// How a call ended whose command was taken down.
    pub(super) fn end(self) -> End {
        match self {
            Self::TimedOut => End::TimedOut,
            Self::Cancelled | Self::Ended => End::Cancelled,
        }
    }
}

/// What ends a call from outside.
pub(super) struct Stops {
    deadline: Deadline,
    cancel: CancellationToken,
    closing: CancellationToken,
}

impl Stops {
    /// The stops of a call that starts now.
    pub(super) fn of(call: &Call, closing: &CancellationToken) -> Self {
        Self {
            deadline: Deadline::after(call.deadline),
            cancel: call.cancel.clone(),
            closing: closing.clone(),
        }
    }

    pub(super) async fn any(&self) -> Stop {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = self.closing.cancelled() => Stop::Cancelled,
            () = self.deadline.passed() => Stop::TimedOut,
        }
    }
}

/// The part of a call that its process is joined to.
pub(super) struct Ends {
    stdin: Stdin,
    stdout: Output,
    stderr: Output,
    cap: usize,
    keep_raw: bool,
    /// Whether the output waits for a verdict.
    hold: bool,
    result: Option<ResultFile>,
}

impl Ends {
    /// Takes what a process is joined to out of a call, and makes the descriptors that it is
    /// given: the context in and the result out, where there is a context.
    pub(super) fn of(
        call: Call,
        context: Option<&[u8]>,
        enforces: bool,
    ) -> Result<(Self, Vec<Donation>), LaunchError> {
        let (result, donations) = donations(context).map_err(LaunchError::Donation)?;
        Ok((Self::with(call, result, enforces), donations))
    }

    /// The same where no descriptor gets through: both are files of the call's own, which what is
    /// before runsc opens.
    pub(super) fn by_files(
        call: Call,
        context: Option<&[u8]>,
        enforces: bool,
        meeting: &Meeting,
    ) -> Result<Self, LaunchError> {
        let Some(context) = context else {
            return Ok(Self::with(call, None, enforces));
        };
        write_new(&meeting.context(), context)?;
        write_new(&meeting.result(), b"")?;
        let result = ResultFile::open(&meeting.result()).map_err(LaunchError::Donation)?;
        Ok(Self::with(call, Some(result), enforces))
    }

    fn with(call: Call, result: Option<ResultFile>, enforces: bool) -> Self {
        Self {
            stdin: call.stdin,
            stdout: call.stdout,
            stderr: call.stderr,
            cap: call.output_cap,
            keep_raw: call.keep_raw,
            hold: result.is_some() && enforces,
            result,
        }
    }

    pub(super) fn wants_stdin(&self) -> bool {
        !matches!(self.stdin, Stdin::Null)
    }
}

fn donations(context: Option<&[u8]>) -> io::Result<(Option<ResultFile>, Vec<Donation>)> {
    let Some(context) = context else {
        return Ok((None, Vec::new()));
    };
    let result = ResultFile::new()?;
    let context = sealed(c"cfc-invocation-context", context)?;
    let donation = |file, number| Donation { file, number };
    let donations = vec![
        donation(context, runsc::CONTEXT_FD),
        donation(result.donate()?, runsc::RESULT_FD),
    ];
    Ok((Some(result), donations))
}

/// How a process's end is heard of.
pub(super) enum Ending {
    /// A child of ours, by its pidfd.
    Child(AsyncFd<OwnedFd>),
    /// A process in a container, by the answer to a question.
    Answer(BoxFuture<'static, ()>),
}

impl Ending {
    /// The end of a child.
    pub(super) fn child(pidfd: OwnedFd) -> Result<Self, LaunchError> {
        Ok(Self::Child(
            sys::awaitable(pidfd).map_err(LaunchError::Pipe)?,
        ))
    }

    async fn came(&mut self) {
        match self {
            // It does not fail for a descriptor that is open, and it is.
            Self::Child(pidfd) => drop(pidfd.readable().await),
            Self::Answer(answer) => answer.await,
        }
    }
}

/// A process that runs, joined to its call.
pub(super) struct Attached {
    end: Ending,
    stdin: Option<(Stdin, Option<pipe::Sender>)>,
    stdout: Channel,
    stderr: Channel,
    result: Option<ResultFile>,
    keep_raw: bool,
}

impl Attached {
    /// Joins a process that was started with both output streams as pipes.
    pub(super) fn join(ends: Ends, pipes: Pipes, end: Ending) -> Result<Self, LaunchError> {
        let channel = |pipe: Option<OwnedFd>, to: Output| {
            let pipe = pipe.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            Channel::new(pipe, to, ends.cap, ends.hold)
        };
        let stdin = pipes.stdin.map(pipe::Sender::from_owned_fd).transpose();
        Ok(Self {
            end,
            stdin: Some((ends.stdin, stdin.map_err(LaunchError::Pipe)?)),
            stdout: channel(pipes.stdout, ends.stdout).map_err(LaunchError::Pipe)?,
            stderr: channel(pipes.stderr, ends.stderr).map_err(LaunchError::Pipe)?,
            result: ends.result,
            keep_raw: ends.keep_raw,
        })
    }

    /// Pumps the streams until the process ends or is to be stopped; then `settle` sees to the
    /// process, and the streams get what is left.
    pub(super) async fn wait<T, E>(
        &mut self,
        stops: &Stops,
        settle: impl AsyncFnOnce(Stop) -> Result<T, E>,
    ) -> Result<(Stop, T), E> {
        let ended = CancellationToken::new();
        let (stdin, to) = self.stdin.take().unwrap_or_default();
        let pumps = async { tokio::join!(self.stdout.pump(&ended), self.stderr.pump(&ended)) };
        let feed = output::feed(stdin, to);
        tokio::pin!(pumps, feed);
        let (mut pumped, mut fed) = (false, false);
        let stop = loop {
            tokio::select! {
                biased;
                stop = stops.any() => break stop,
                () = self.end.came() => break Stop::Ended,
                _ = &mut pumps, if !pumped => pumped = true,
                () = &mut feed, if !fed => fed = true,
            }
        };
        let settled = settle(stop).await?;
        ended.cancel();
        if !pumped {
            tokio::select! {
                biased;
                _ = &mut pumps => {}
                () = patience(stop, stops) => {}
            }
        }
        Ok((stop, settled))
    }

    /// Lets what the command left behind go on writing.
    pub(super) fn keep_reading(&mut self) {
        self.stdout.keep_reading();
        self.stderr.keep_reading();
    }

    /// How many bytes came on standard output.
    pub(super) fn stdout_bytes(&self) -> u64 {
        self.stdout.bytes()
    }

    /// Lets out what may be seen. `ended` says that runsc ended by itself: of any other, nothing
    /// was told.
    pub(super) async fn see(
        mut self,
        container_id: &str,
        ended: bool,
        (end, exit, evidence): (End, Option<Exit>, Evidence),
        stops: &Stops,
    ) -> Seen {
        let verdict = self
            .result
            .as_ref()
            .map(|result| labels::verdict(result, container_id, ended));
        match verdict {
            None | Some(Verdict::Observed { .. }) => {
                self.release(stops).await;
                let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
                Seen::whole(
                    verdict,
                    end,
                    Released {
                        exit,
                        stdout,
                        stderr,
                    },
                    evidence,
                )
            }
            Some(withheld) => {
                let (stdout, stderr) = (self.stdout.finish_raw(), self.stderr.finish_raw());
                let released = Released {
                    exit,
                    stdout,
                    stderr,
                };
                Seen::withheld(withheld, end, released, evidence, self.keep_raw)
            }
        }
    }

    async fn release(&mut self, stops: &Stops) {
        tokio::select! {
            biased;
            _ = async { tokio::join!(self.stdout.release(), self.stderr.release()) } => {}
            _ = stops.any() => {}
        }
    }
}

/// What a command that ended wrote is delivered, however slow its reader, unless the call is to
/// stop; after a takedown there is little to come and nobody waits for it.
async fn patience(stop: Stop, stops: &Stops) {
    match stop {
        Stop::Ended => {
            stops.any().await;
        }
        Stop::TimedOut | Stop::Cancelled => Deadline::after(Some(LAST_WORDS)).passed().await,
    }
}
