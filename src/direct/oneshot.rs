//! One call in a container of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::calls::Slot;
use super::labels::{self, Seen};
use crate::cfc::result::Verdict;
use crate::classify::log::RunscLog;
use crate::classify::{self, Classified, RawExit};
use crate::driver::{Call, End, Error, Evidence, Outcome, Output, Released, Stdin};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::deadline::Deadline;
use crate::launch::donation::{ResultFile, sealed};
use crate::launch::output::{self, Channel};
use crate::launch::spawn::{self, Child, Donation, Pipes, SpawnRequest};
use crate::launch::sys;
use crate::launch::teardown::{NotTakenDown, Remains};
use crate::plan::id::ContainerId;
use crate::plan::{Plan, runsc};

/// How long the streams of a command that was taken down may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a call stopped waiting for its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// runsc ended by itself.
    Ended,
    TimedOut,
    Cancelled,
}

pub(super) async fn run(shared: Arc<Shared>, call: Call) -> Result<Outcome, Error> {
    let started = Instant::now();
    let stops = Stops {
        deadline: Deadline::after(call.deadline),
        cancel: call.cancel.clone(),
        closing: shared.calls.closing().clone(),
    };
    if shared.calls.is_closed() {
        return Err(Error::Closed);
    }
    let plan = shared.plan(&call)?;
    let id = plan.id.clone();

    let seen = tokio::select! {
        biased;
        stop = stops.any() => {
            Seen::whole(None, end_of(stop), Released::default(), Evidence::default())
        }
        ready = ready(&shared) => {
            ready?;
            start(&shared, plan, call).await?.finish(&stops).await?
        }
    };
    let elapsed = started.elapsed();
    tracing::debug!(%id, end = ?seen.end, ?elapsed, "a call ended");
    let Seen {
        end,
        observation,
        evidence,
        raw,
    } = seen;
    Ok(Outcome {
        container_id: id.to_string(),
        end,
        observation,
        elapsed,
        evidence,
        raw,
    })
}

/// What has to hold before anything is written.
async fn ready(shared: &Shared) -> Result<(), Error> {
    shared.supported.check(&shared.config).await?;
    shared.scratch()?;
    Ok(())
}

/// What ends a call from outside.
struct Stops {
    deadline: Deadline,
    cancel: CancellationToken,
    closing: CancellationToken,
}

impl Stops {
    async fn any(&self) -> Stop {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = self.closing.cancelled() => Stop::Cancelled,
            () = self.deadline.passed() => Stop::TimedOut,
        }
    }
}

fn end_of(stop: Stop) -> End {
    match stop {
        Stop::TimedOut => End::TimedOut,
        Stop::Cancelled | Stop::Ended => End::Cancelled,
    }
}

/// A call whose runsc was started. Dropped, its container is taken down.
struct Running {
    entered: Entered,
    slot: Arc<Slot>,
    log: PathBuf,
    end: AsyncFd<OwnedFd>,
    stdin: (Stdin, Option<pipe::Sender>),
    stdout: Channel,
    stderr: Channel,
    result: Option<ResultFile>,
    keep_raw: bool,
}

/// Leaves the driver's list whatever becomes of the call.
struct Entered {
    shared: Arc<Shared>,
    id: ContainerId,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.shared.calls.leave(&self.id);
    }
}

/// Writes the bundle and starts runsc on it. From the moment that the child exists it has an owner:
/// the launcher's thread puts it into the call's slot.
async fn start(shared: &Arc<Shared>, plan: Plan, call: Call) -> Result<Running, Error> {
    let slot = shared.calls.enter(&plan.id).ok_or(Error::Closed)?;
    let entered = Entered {
        shared: Arc::clone(shared),
        id: plan.id.clone(),
    };

    let bundle = BundleDir::create(&plan)?;
    let (result, donations) = donations(plan.context.as_deref()).map_err(LaunchError::Donation)?;
    let hold = result.is_some() && labels::mode(&shared.config, &call).enforces();
    let request = SpawnRequest {
        command: plan.command,
        user_namespace: plan.user_namespace,
        overlay: plan.overlay,
        read_only: plan.read_only,
        stdin: !matches!(call.stdin, Stdin::Null),
        output: true,
        donations,
    };

    let (sender, receiver) = oneshot::channel();
    let config = Arc::clone(&shared.config);
    let state_dir = shared.scratch()?.state_dir();
    let token = Box::new((shared.calls.count(), Arc::clone(shared)));
    let filled = Arc::clone(&slot);
    let reply = move |started: Result<(Child, Pipes), LaunchError>| {
        let started = started.and_then(|(child, pipes)| {
            let end = child.end().map_err(LaunchError::Pipe)?;
            filled.fill(Remains::new(
                child, bundle, plan.id, state_dir, config, token,
            ));
            Ok((pipes, end))
        });
        // Where nobody waits any more, the slot is closed and the container went with it.
        let _ = sender.send(started);
    };
    spawn::submit(request, Box::new(reply));
    let (pipes, end) = receiver.await.map_err(|_| LaunchError::NoLauncher)??;

    let channel = |pipe: Option<OwnedFd>, to: Output| {
        let pipe = pipe.ok_or(io::ErrorKind::NotFound);
        pipe.map_err(io::Error::from)
            .and_then(|pipe| Channel::new(pipe, to, call.output_cap, hold))
            .map_err(LaunchError::Pipe)
    };
    let stdin = pipes.stdin.map(pipe::Sender::from_owned_fd).transpose();
    Ok(Running {
        entered,
        slot,
        log: plan.log,
        end: sys::awaitable(end).map_err(LaunchError::Pipe)?,
        stdin: (call.stdin, stdin.map_err(LaunchError::Pipe)?),
        stdout: channel(pipes.stdout, call.stdout)?,
        stderr: channel(pipes.stderr, call.stderr)?,
        result,
        keep_raw: call.keep_raw,
    })
}

/// The descriptors of a call that is tracked: the context in, the result out.
fn donations(context: Option<&[u8]>) -> io::Result<(Option<ResultFile>, Vec<Donation>)> {
    let Some(context) = context else {
        return Ok((None, Vec::new()));
    };
    let result = ResultFile::new()?;
    let donations = vec![
        Donation {
            file: sealed(c"cfc-invocation-context", context)?,
            number: runsc::CONTEXT_FD,
        },
        Donation {
            file: result.donate()?,
            number: runsc::RESULT_FD,
        },
    ];
    Ok((Some(result), donations))
}

impl Running {
    /// Waits for the command's end or for what comes before it, sees that all is gone, and lets
    /// out what may be seen.
    async fn finish(mut self, stops: &Stops) -> Result<Seen, Error> {
        let (stop, settled) = self.wait(stops).await?;
        let (end, exit, evidence) = match settled {
            // Somebody else took the container down: the driver, as it closed.
            None => (end_of(stop), None, Evidence::default()),
            Some((_, RunscLog::Refused { rule, message })) if self.result.is_some() => {
                return Err(Error::LabelRule { rule, message });
            }
            Some((raw, log)) => {
                let Classified { end, exit } = classify::classify(raw, &log);
                (end, exit, classify::evidence(raw, &log))
            }
        };
        let ended = stop == Stop::Ended;
        let verdict = self
            .result
            .as_ref()
            .map(|result| labels::verdict(result, self.entered.id.as_str(), ended));
        match verdict {
            None | Some(Verdict::Observed { .. }) => {
                self.release(stops).await;
                let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
                let released = Released {
                    exit,
                    stdout,
                    stderr,
                };
                Ok(Seen::whole(verdict, end, released, evidence))
            }
            Some(withheld) => {
                let (stdout, stderr) = (self.stdout.finish_raw(), self.stderr.finish_raw());
                let released = Released {
                    exit,
                    stdout,
                    stderr,
                };
                Ok(Seen::withheld(
                    withheld,
                    end,
                    released,
                    evidence,
                    self.keep_raw,
                ))
            }
        }
    }

    /// Waits, pumping the streams, until the container is gone.
    async fn wait(&mut self, stops: &Stops) -> Result<(Stop, Option<(RawExit, RunscLog)>), Error> {
        let ended = CancellationToken::new();
        let (stdin, to) = (std::mem::take(&mut self.stdin.0), self.stdin.1.take());
        let pumps = async { tokio::join!(self.stdout.pump(&ended), self.stderr.pump(&ended)) };
        let feed = output::feed(stdin, to);
        tokio::pin!(pumps, feed);
        let (mut pumped, mut fed) = (false, false);
        let stop = loop {
            tokio::select! {
                biased;
                stop = stops.any() => break stop,
                _ = self.end.readable() => break Stop::Ended,
                _ = &mut pumps, if !pumped => pumped = true,
                () = &mut feed, if !fed => fed = true,
            }
        };
        let settled = settle(&self.slot, &self.log, stop).await?;
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

/// Sees that a container is gone, and tells how runsc ended where it did so by itself.
async fn settle(slot: &Slot, log: &Path, stop: Stop) -> Result<Option<(RawExit, RunscLog)>, Error> {
    let Some(mut remains) = slot.take() else {
        return Ok(None);
    };
    let status = match stop {
        Stop::Ended => remains.status().ok().flatten(),
        Stop::TimedOut | Stop::Cancelled => None,
    };
    let came_to = status.map(|status| (raw_exit(status), RunscLog::read(log)));
    if came_to.is_some() && remains.ended_cleanly() {
        remains.clear();
    } else {
        take_down(remains).await?;
    }
    Ok(came_to)
}

fn raw_exit(status: ExitStatus) -> RawExit {
    RawExit {
        status: status.code(),
        signal: status.signal(),
    }
}

/// Takes a container down on a thread of its own: it blocks, and goes on where nobody waits.
async fn take_down(remains: Remains) -> Result<(), Error> {
    let (sender, receiver) = oneshot::channel();
    let down = move || {
        let _ = sender.send(remains.take_down());
    };
    // Where no thread is to be had, the closure is dropped, and the container killed with it.
    if std::thread::Builder::new()
        .name("runsc-teardown".to_owned())
        .spawn(down)
        .is_err()
    {
        return Err(LaunchError::NoLauncher.into());
    }
    let down: Result<(), NotTakenDown> = receiver.await.map_err(|_| LaunchError::NoLauncher)?;
    Ok(down?)
}
