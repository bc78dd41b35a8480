//! A call in a session over the sandbox's control socket: no process is started for it.

use std::sync::Arc;

use super::super::Shared;
use super::super::attached::{Attached, Ends, Stops};
use super::super::calls::lock;
use super::super::control::{Control, ControlError};
use super::super::remote;
use super::Session;
use super::exec::{Entered, HowEnded, Running, give_up};
use super::stop::Command;
use crate::classify::table;
use crate::driver::{Call, End, Error, ExecVia, LostReason, SessionRefusal, StartFailure};
use crate::plan::bundle::Process;

/// What came of asking for a start.
pub(super) enum Began {
    Running(Box<Running>),
    NotStarted(StartFailure),
    /// The call was to stop before the answer came. The session went with it.
    Stopped(End),
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

pub(super) async fn begin(
    entered: Entered,
    call: Call,
    process: &Process,
    stops: &Stops,
) -> Result<Began, Error> {
    let (shared, session) = (Arc::clone(&entered.shared), Arc::clone(&entered.session));
    let (slot, counted) = shared.calls.enter(&entered.key).ok_or(Error::Closed)?;
    let Ok(control) = Control::open(&shared.scratch()?.state_dir(), &session.container.id) else {
        return Ok(unasked(entered, call));
    };
    let mut doubt = InDoubt {
        shared: &shared,
        session: &session,
        settled: false,
    };
    let started = tokio::select! {
        biased;
        stop = stops.any() => {
            give_up(&shared, &session, Some(LostReason::NotStopped)).await?;
            return Ok(Began::Stopped(stop.end()));
        }
        started = remote::start(&control, &shared.config, process, call.wants_stdin()) => started,
    };
    let (pid, pipes) = match started {
        Ok(started) => started,
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
    let (end, answer) = remote::ending(control.clone(), pid);
    let token = Box::new((counted, Arc::clone(&shared)));
    let owners = (Arc::clone(&shared), Arc::clone(&session));
    slot.fill(Command::remote(
        control,
        pid,
        Arc::clone(&answer),
        owners,
        token,
    ));
    doubt.settled = true;

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
