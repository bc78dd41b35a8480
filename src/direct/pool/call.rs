//! A one-shot call in a prebooted sandbox.

use std::sync::Arc;

use super::super::Shared;
use super::super::attached::{Attached, Ending, Ends, Stop, Stops};
use super::super::calls::Slot;
use super::super::control::{Control, ControlError};
use super::super::held::{Container, Held};
use super::super::labels::{self, Seen};
use super::super::oneshot::{Entered, take_down};
use super::super::remote::{self, Answer};
use super::{is_on, usable};
use crate::classify::table;
use crate::driver::{Call, End, Error, Evidence, Released};
use crate::launch::spawn::Pipes;
use crate::plan::bundle::Process;
use crate::plan::id::ContainerId;

/// What came of asking the pool.
pub(in crate::direct) enum Asked {
    /// There was no sandbox to be had, and nothing was started: the call is as it was.
    Cold(Call),
    /// What became of the call, and in which container.
    Ran(ContainerId, Seen),
}

/// Runs a call in a ready sandbox, where there is one.
pub(in crate::direct) async fn run(
    shared: &Arc<Shared>,
    call: Call,
    stops: &Stops,
) -> Result<Asked, Error> {
    // A pool's sandboxes are booted without the host's sockets.
    if !is_on(shared) || call.host_uds {
        return Ok(Asked::Cold(call));
    }
    // Without a policy it only refuses.
    labels::context(&shared.config, &shared.sequence, &call)?;
    let process = shared.process(&call)?;
    tokio::select! {
        biased;
        _ = stops.any() => return Ok(Asked::Cold(call)),
        ready = shared.ready() => ready?,
    }
    let wants_stdin = call.wants_stdin();
    while let Some(container) = shared.pool.take(shared) {
        if !usable(shared, &container).await {
            drop(container.take());
            break;
        }
        // Each that ended between the look and the question goes, and the next one is asked.
        if let Some(begun) = begin(shared, &container, &process, wants_stdin, stops).await {
            let id = container.id.clone();
            let seen = finish(begun, &id, call, stops).await?;
            return Ok(Asked::Ran(id, seen));
        }
    }
    Ok(Asked::Cold(call))
}

/// A sandbox that is the call's. Dropped, it is taken down.
struct Owned {
    slot: Arc<Slot<Held>>,
    _entered: Entered,
}

/// What came of asking a sandbox for a start.
enum Begun {
    Running(Owned, Box<Attachable>),
    /// Nothing runs, or nobody knows.
    Over(Owned, End),
    Closed,
}

/// A command that was started.
struct Attachable {
    pipes: Pipes,
    end: Ending,
    answer: Answer,
}

/// Asks a sandbox for a start; none where it cannot be asked, so that nothing happened.
async fn begin(
    shared: &Arc<Shared>,
    container: &Container,
    process: &Process,
    wants_stdin: bool,
    stops: &Stops,
) -> Option<Begun> {
    let Some((slot, _)) = shared.calls.enter(container.id.as_str()) else {
        drop(container.take());
        return Some(Begun::Closed);
    };
    let owned = Owned {
        slot,
        _entered: Entered::new(shared, &container.id),
    };
    owned.slot.fill(container.take()?);
    let control = Control::open(&shared.layout().state_dir, &container.id).ok()?;
    let started = tokio::select! {
        biased;
        stop = stops.any() => return Some(Begun::Over(owned, stop.end())),
        started = remote::start(&control, &shared.config, process, wants_stdin) => started,
    };
    match started {
        Ok((pid, pipes)) => {
            let (end, answer) = remote::ending(control, pid);
            Some(Begun::Running(
                owned,
                Box::new(Attachable { pipes, end, answer }),
            ))
        }
        Err(ControlError::NotSent(_)) => None,
        Err(ControlError::Refused(why)) => {
            tracing::info!(id = %container.id, why, "runsc refused to start a command");
            Some(Begun::Over(owned, End::NotStarted(table::refusal(&why))))
        }
        Err(ControlError::NoAnswer(err)) => {
            tracing::warn!(id = %container.id, %err, "a start was not answered");
            Some(Begun::Over(owned, End::Lost))
        }
    }
}

/// Sees the command to its end and the sandbox to its own, before anything is told.
async fn finish(begun: Begun, id: &ContainerId, call: Call, stops: &Stops) -> Result<Seen, Error> {
    let (owned, started) = match begun {
        Begun::Closed => return Err(Error::Closed),
        Begun::Over(owned, end) => {
            gone(&owned.slot).await?;
            let released = Released::default();
            return Ok(Seen::whole(None, end, released, Evidence::default()));
        }
        Begun::Running(owned, started) => (owned, *started),
    };
    let (ends, _) = Ends::of(call, None, false)?;
    let mut attached = Attached::join(ends, started.pipes, started.end)?;
    let settle = async |_| gone(&owned.slot).await;
    let (stop, ours) = attached.wait(stops, settle).await?;
    let status = started.answer.get().and_then(|answer| answer.as_ref().ok());
    let came_to = match (stop, ours, status) {
        (Stop::Ended, true, Some(status)) => (End::Exited, Some(remote::exit_of(*status))),
        // The sandbox went away under its command.
        (Stop::Ended, true, None) => (End::Lost, None),
        // It was taken down: by us, or by the driver as it closed.
        _ => (stop.end(), None),
    };
    let (end, exit) = came_to;
    let told = (end, exit, Evidence::default());
    Ok(attached
        .see(id.as_str(), stop == Stop::Ended, told, stops)
        .await)
}

/// Takes the sandbox down and sees that it is gone; whether it was still ours to take.
async fn gone(slot: &Slot<Held>) -> Result<bool, Error> {
    let Some(held) = slot.take() else {
        return Ok(false);
    };
    take_down(held.remains).await?;
    Ok(true)
}
