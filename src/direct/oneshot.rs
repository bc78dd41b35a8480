//! One call in a container of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::calls::Slot;
use crate::classify::log::RunscLog;
use crate::classify::{self, RawExit};
use crate::driver::{Call, End, Error, Evidence, Observation, Outcome, Released, Stdin};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::deadline::Deadline;
use crate::launch::output::{self, Collector, Sink};
use crate::launch::spawn::{self, Child, Pipes, SpawnRequest};
use crate::launch::sys;
use crate::launch::teardown::{NotTakenDown, Remains};
use crate::plan::Plan;
use crate::plan::id::ContainerId;

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
    let deadline = Deadline::after(call.deadline);
    if shared.calls.is_closed() {
        return Err(Error::Closed);
    }
    let plan = shared.plan(&call)?;
    let id = plan.id.clone();
    let stops = Stops {
        deadline,
        cancel: call.cancel.clone(),
        closing: shared.calls.closing().clone(),
    };

    let (end, released, evidence) = tokio::select! {
        biased;
        stop = stops.any() => (end_of(stop), Released::default(), Evidence::default()),
        ready = ready(&shared) => {
            ready?;
            start(&shared, plan, call).await?.finish(&stops).await?
        }
    };
    let elapsed = started.elapsed();
    tracing::debug!(%id, ?end, ?elapsed, "a call ended");
    let observation = Observation::Untracked(released);
    Ok(Outcome {
        container_id: id.to_string(),
        end,
        observation,
        elapsed,
        evidence,
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
    shared: Arc<Shared>,
    id: ContainerId,
    log: std::path::PathBuf,
    slot: Arc<Slot>,
    end: AsyncFd<OwnedFd>,
    stdin: (Stdin, Option<pipe::Sender>),
    stdout: Stream,
    stderr: Stream,
}

/// An output stream: our end of its pipe, where it goes, and what was kept of it.
type Stream = (Option<pipe::Receiver>, Sink, Collector);

/// Leaves the driver's list whatever becomes of the call.
struct Entered<'a> {
    shared: &'a Shared,
    id: ContainerId,
    armed: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.calls.leave(&self.id);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.calls.leave(&self.id);
    }
}

/// Writes the bundle and starts runsc on it. From the moment that the child exists it has an owner:
/// the launcher's thread puts it into the call's slot.
async fn start(shared: &Arc<Shared>, plan: Plan, call: Call) -> Result<Running, Error> {
    let id = plan.id.clone();
    let slot = shared.calls.enter(&id).ok_or(Error::Closed)?;
    let mut entered = Entered {
        shared: shared.as_ref(),
        id: id.clone(),
        armed: true,
    };

    let bundle = BundleDir::create(&plan)?;
    let state_dir = shared.scratch()?.state_dir();
    let log = plan.log.clone();
    let wants_stdin = !matches!(call.stdin, Stdin::Null);
    let request = SpawnRequest {
        command: plan.command,
        user_namespace: plan.user_namespace,
        overlay: plan.overlay,
        read_only: plan.read_only,
        stdin: wants_stdin,
        output: true,
        donations: Vec::new(),
    };

    let (sender, receiver) = oneshot::channel();
    let config = Arc::clone(&shared.config);
    let token = Box::new((shared.calls.count(), Arc::clone(shared)));
    let filled = Arc::clone(&slot);
    let own_id = id.clone();
    let reply = move |result: Result<(Child, Pipes), LaunchError>| {
        let started = result.and_then(|(child, pipes)| {
            let end = child.end().map_err(LaunchError::Pipe)?;
            filled.fill(Remains::new(
                child, bundle, own_id, state_dir, config, token,
            ));
            Ok((pipes, end))
        });
        // Where nobody waits any more, the slot is closed and the container went with it.
        let _ = sender.send(started);
    };
    spawn::submit(request, Box::new(reply));
    let (pipes, end) = receiver.await.map_err(|_| LaunchError::NoLauncher)??;

    let stdin = pipes.stdin.map(pipe::Sender::from_owned_fd).transpose();
    let running = Running {
        end: sys::awaitable(end).map_err(LaunchError::Pipe)?,
        stdin: (call.stdin, stdin.map_err(LaunchError::Pipe)?),
        stdout: receiver_of(pipes.stdout, call.stdout)?,
        stderr: receiver_of(pipes.stderr, call.stderr)?,
        shared: Arc::clone(shared),
        id,
        log,
        slot,
    };
    entered.armed = false;
    Ok(running)
}

fn receiver_of(
    pipe: Option<OwnedFd>,
    output: crate::driver::Output,
) -> Result<Stream, LaunchError> {
    let pipe = pipe.ok_or_else(|| LaunchError::Pipe(io::ErrorKind::NotFound.into()))?;
    let receiver = pipe::Receiver::from_owned_fd(pipe).map_err(LaunchError::Pipe)?;
    let (sink, kept) = Sink::of(output);
    Ok((Some(receiver), sink, kept))
}

impl Running {
    /// Waits for the command's end or for what comes before it, and sees that all is gone.
    async fn finish(mut self, stops: &Stops) -> Result<(End, Released, Evidence), Error> {
        let ended = CancellationToken::new();
        let (stdin, to) = (std::mem::take(&mut self.stdin.0), self.stdin.1.take());
        let (out_streams, err_streams) = (self.stdout.1.streams(), self.stderr.1.streams());
        let stdout = &mut self.stdout;
        let stderr = &mut self.stderr;

        let (stop, came_to) = {
            let pumps = async {
                tokio::join!(
                    output::pump(&mut stdout.0, &mut stdout.1, &mut stdout.2, &ended),
                    output::pump(&mut stderr.0, &mut stderr.1, &mut stderr.2, &ended),
                );
            };
            let feed = output::feed(stdin, to);
            tokio::pin!(pumps, feed);
            let (mut pumped, mut fed) = (false, false);
            let stop = loop {
                tokio::select! {
                    biased;
                    stop = stops.any() => break stop,
                    _ = self.end.readable() => break Stop::Ended,
                    () = &mut pumps, if !pumped => pumped = true,
                    () = &mut feed, if !fed => fed = true,
                }
            };
            let came_to = settle(&self.slot, &self.log, stop).await;
            ended.cancel();
            // What a command that ended wrote is delivered, however slow its reader, unless the
            // call is to stop; after a takedown there is little to come and nobody waits for it.
            if !pumped {
                let patience = async {
                    match stop {
                        Stop::Ended => {
                            stops.any().await;
                        }
                        Stop::TimedOut | Stop::Cancelled => {
                            Deadline::after(Some(LAST_WORDS)).passed().await;
                        }
                    }
                };
                tokio::select! {
                    biased;
                    () = &mut pumps => {}
                    () = patience => {}
                }
            }
            (stop, came_to?)
        };

        let take = |kept: &mut Collector| std::mem::replace(kept, Collector::counting());
        let (exit, end, evidence) = match came_to {
            // Somebody else took the container down: the driver, as it closed.
            None => (None, end_of(stop), Evidence::default()),
            Some((raw, log)) => {
                let classified = classify::classify(raw, &log);
                (
                    classified.exit,
                    classified.end,
                    classify::evidence(raw, &log),
                )
            }
        };
        let released = Released {
            exit,
            stdout: take(&mut self.stdout.2).finish(out_streams),
            stderr: take(&mut self.stderr.2).finish(err_streams),
        };
        Ok((end, released, evidence))
    }
}

/// Sees that a container is gone, and tells how runsc ended where it did so by itself.
async fn settle(
    slot: &Slot,
    log: &std::path::Path,
    stop: Stop,
) -> Result<Option<(RawExit, RunscLog)>, Error> {
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
