//! A call in a session over the sandbox's control socket: no process is started for it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::super::Shared;
use super::super::attached::{Attached, Ending, Ends};
use super::super::calls::lock;
use super::super::control::{self, Control, ControlError};
use super::Session;
use super::exec::{Entered, HowEnded, Running, give_up};
use super::stop::Command;
use crate::classify::table;
use crate::driver::{Call, Error, ExecVia, LostReason, SessionRefusal, StartFailure};
use crate::launch::LaunchError;
use crate::launch::spawn::Pipes;
use crate::plan::bundle::Process;

/// What came of asking for a start.
pub(super) enum Began {
    Running(Box<Running>),
    NotStarted(StartFailure),
    /// The socket could not be asked: the call is as it was.
    Unasked(Entered, Box<Call>),
}

/// A session whose control socket was asked for a start and has not answered. Dropped so, the
/// session ends: whether the command runs is not known, and nobody has its pid.
struct InDoubt<'a> {
    shared: &'a Arc<Shared>,
    session: &'a Arc<Session>,
    settled: bool,
}

impl Drop for InDoubt<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.shared
                .sessions
                .forget(self.session, Some(LostReason::NotStopped));
            drop(self.session.container.take());
        }
    }
}

pub(super) async fn begin(entered: Entered, call: Call, process: &Process) -> Result<Began, Error> {
    let (shared, session) = (Arc::clone(&entered.shared), Arc::clone(&entered.session));
    let slot = shared.calls.enter(&entered.key).ok_or(Error::Closed)?;
    let Ok(control) = Control::open(&shared.scratch()?.state_dir(), &session.container.id) else {
        return Ok(unasked(entered, call));
    };
    let wants_stdin = !matches!(call.stdin, crate::driver::Stdin::Null);
    let (theirs, pipes) = streams(wants_stdin).map_err(LaunchError::Pipe)?;

    let env = process.whole_env();
    let start = control::Process {
        args: process.args(),
        env: &env,
        cwd: process.cwd().as_path(),
        user: shared.config.user,
        streams: [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()],
    };
    let mut doubt = InDoubt {
        shared: &shared,
        session: &session,
        settled: false,
    };
    let started = control.execute(&start).await;
    // The command has them now, or never will.
    drop(theirs);
    let pid = match started {
        Ok(pid) => pid,
        Err(ControlError::Refused(why)) => {
            doubt.settled = true;
            tracing::info!(
                session = session.name.0,
                why,
                "runsc refused to start a command"
            );
            return Ok(Began::NotStarted(table::refusal(&why)));
        }
        Err(ControlError::NotSent(_)) => {
            doubt.settled = true;
            return Ok(unasked(entered, call));
        }
        Err(ControlError::NoAnswer(err)) => {
            doubt.settled = true;
            tracing::warn!(session = session.name.0, %err, "a start was not answered");
            give_up(&shared, &session, None).await?;
            let name = session.name.0.clone();
            return Err(SessionRefusal::EndedDuringCall { name }.into());
        }
    };
    let answer = Arc::new(OnceLock::new());
    let token = Box::new((shared.calls.count(), Arc::clone(&shared)));
    let owners = (Arc::clone(&shared), Arc::clone(&session));
    slot.fill(Command::remote(
        control.clone(),
        pid,
        Arc::clone(&answer),
        owners,
        token,
    ));
    doubt.settled = true;

    let told = Arc::clone(&answer);
    let end = Ending::Answer(Box::pin(async move {
        let _ = told.set(control.wait(pid).await);
    }));
    let on_overrun = call.on_overrun;
    let (ends, _) = Ends::of(call, None, false)?;
    drop(doubt);
    Ok(Began::Running(Box::new(Running {
        entered,
        slot,
        attached: Attached::join(ends, pipes, end)?,
        on_overrun,
        ended: HowEnded::Answer(answer),
    })))
}

/// From now on the session's calls go by the command line.
fn unasked(entered: Entered, call: Call) -> Began {
    *lock(&entered.session.via) = Some(ExecVia::CommandLine);
    entered.shared.calls.leave(&entered.key);
    Began::Unasked(entered, Box::new(call))
}

/// A command's ends of its streams, and ours.
pub(super) fn streams(wants_stdin: bool) -> io::Result<([OwnedFd; 3], Pipes)> {
    let (stdin, to) = if wants_stdin {
        let (reader, writer) = io::pipe()?;
        (reader.into(), Some(writer.into()))
    } else {
        (File::open("/dev/null")?.into(), None)
    };
    let (from_stdout, stdout) = io::pipe()?;
    let (from_stderr, stderr) = io::pipe()?;
    let pipes = Pipes {
        stdin: to,
        stdout: Some(from_stdout.into()),
        stderr: Some(from_stderr.into()),
    };
    Ok(([stdin, stdout.into(), stderr.into()], pipes))
}
