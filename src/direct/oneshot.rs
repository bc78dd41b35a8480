//! One call in a container of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::Shared;
use super::attached::{Attached, Ending, Ends, Stop, Stops};
use super::calls::Slot;
use super::labels::{self, Seen};
use super::network;
use super::pool::{self, Asked};
use crate::classify::log::RunscLog;
use crate::classify::{self, Classified, RawExit};
use crate::driver::{Call, Error, Evidence, Outcome, Released};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::network::{Behind, Gate};
use crate::launch::spawn::{self, Child, Pipes, SpawnRequest};
use crate::launch::teardown::{NotTakenDown, Remains};
use crate::plan::Plan;
use crate::plan::id::ContainerId;

pub(super) async fn run(shared: Arc<Shared>, call: Call) -> Result<Outcome, Error> {
    let started = Instant::now();
    let stops = Stops::of(&call, shared.calls.closing());
    if shared.calls.is_closed() {
        return Err(Error::Closed);
    }
    let (id, seen) = match pool::run(&shared, call, &stops).await? {
        Asked::Ran(id, seen) => (id, seen),
        Asked::Cold(call) => cold(&shared, call, &stops).await?,
    };
    Ok(seen.outcome(id.as_str(), started.elapsed()))
}

/// Boots a container for the call alone.
async fn cold(
    shared: &Arc<Shared>,
    call: Call,
    stops: &Stops,
) -> Result<(ContainerId, Seen), Error> {
    let plan = shared.plan(&call)?;
    let id = plan.id.clone();
    let seen = tokio::select! {
        biased;
        stop = stops.any() => {
            Seen::whole(None, stop.end(), Released::default(), Evidence::default())
        }
        ready = shared.ready() => {
            ready?;
            start(shared, plan, call).await?.finish(stops).await?
        }
    };
    Ok((id, seen))
}

/// A call whose runsc was started. Dropped, its container is taken down.
struct Running {
    entered: Entered,
    slot: Arc<Slot<Remains>>,
    log: PathBuf,
    attached: Attached,
    /// What it needs where pasta is around it.
    _behind: Option<Behind>,
}

/// Leaves the driver's list whatever becomes of the call.
pub(super) struct Entered {
    shared: Arc<Shared>,
    id: ContainerId,
}

impl Entered {
    pub(super) fn new(shared: &Arc<Shared>, id: &ContainerId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id: id.clone(),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.shared.calls.leave(self.id.as_str());
    }
}

/// Writes the bundle and starts runsc on it. From the moment that the child exists it has an owner:
/// the launcher's thread puts it into the call's slot.
async fn start(shared: &Arc<Shared>, plan: Plan, call: Call) -> Result<Running, Error> {
    let (slot, counted) = shared.calls.enter(plan.id.as_str()).ok_or(Error::Closed)?;
    let entered = Entered::new(shared, &plan.id);
    let bundle = BundleDir::create(&plan, &shared.network_files(&plan))?;
    let (plan, network) = network::up_on_thread(shared, plan).await?;
    let enforces = labels::mode(&shared.config, &call).enforces();
    let context = plan.context.as_deref();
    let (ends, donations) = match &plan.meeting {
        None => Ends::of(call, context, enforces)?,
        Some(meeting) => (
            Ends::by_files(call, context, enforces, meeting)?,
            Vec::new(),
        ),
    };
    let gate = network::gate(&plan)?;
    let request = SpawnRequest {
        command: plan.command,
        enter: network::entry(&network)?,
        user_namespace: plan.user_namespace,
        overlay: plan.overlay,
        read_only: plan.read_only,
        pid_namespace: plan.meeting.is_some(),
        stdin: ends.wants_stdin(),
        output: true,
        donations,
    };

    let (sender, receiver) = oneshot::channel();
    let config = Arc::clone(&shared.config);
    let ports = gate.as_ref().and_then(Gate::ports);
    let token = Box::new((ports, counted, Arc::clone(shared)));
    let (state_dir, meeting) = (plan.state_dir, plan.meeting);
    let filled = Arc::clone(&slot);
    let reply = move |started: Result<(Child, Pipes), LaunchError>| {
        let started = started.and_then(|(child, pipes)| {
            let end = child.end().map_err(LaunchError::Pipe)?;
            let network = network::tied(network, &child)?;
            let pid = child.pid();
            let remains = Remains::new(child, bundle, plan.id, state_dir, config, token);
            filled.fill(remains.on(network).within(meeting));
            Ok((pipes, pid, end))
        });
        // Where nobody waits any more, the slot is closed and the container went with it.
        let _ = sender.send(started);
    };
    spawn::submit(request, Box::new(reply));
    let (pipes, pid, end) = receiver.await.map_err(|_| LaunchError::NoLauncher)??;
    let (pipes, behind) = network::through(shared, gate, (pid, &end), pipes).await?;
    Ok(Running {
        entered,
        slot,
        log: plan.log,
        attached: Attached::join(ends, pipes, Ending::child(end)?)?,
        _behind: behind,
    })
}

impl Running {
    /// Waits for the command's end or for what comes before it, sees that all is gone, and lets
    /// out what may be seen.
    async fn finish(mut self, stops: &Stops) -> Result<Seen, Error> {
        let (slot, log) = (&self.slot, &self.log);
        let (stop, settled) = self
            .attached
            .wait(stops, async |stop| settle(slot, log, stop).await)
            .await?;
        let came_to = match settled {
            // Somebody else took the container down: the driver, as it closed.
            None => (stop.end(), None, Evidence::default()),
            Some(left) => match left.log {
                RunscLog::Refused { rule, message } => {
                    return Err(Error::LabelRule { rule, message });
                }
                log => {
                    let Classified { end, exit } = classify::classify(left.raw, &log);
                    let mut evidence = classify::evidence(left.raw, &log);
                    if left.network_ended {
                        evidence.log.push(NETWORK_ENDED.to_owned());
                    }
                    (end, exit, evidence)
                }
            },
        };
        let id = self.entered.id.as_str();
        Ok(self
            .attached
            .see(id, stop == Stop::Ended, came_to, stops)
            .await)
    }
}

/// What an operator is told where a container went with its network.
const NETWORK_ENDED: &str = "pasta ended before its container, which went with it";

/// What a runsc that ended by itself left.
struct Left {
    raw: RawExit,
    log: RunscLog,
    network_ended: bool,
}

/// Sees that a container is gone, and tells how runsc ended where it did so by itself.
async fn settle(slot: &Slot<Remains>, log: &Path, stop: Stop) -> Result<Option<Left>, Error> {
    let Some(mut remains) = slot.take() else {
        return Ok(None);
    };
    let status = match stop {
        Stop::Ended => remains.status().ok().flatten(),
        Stop::TimedOut | Stop::Cancelled => None,
    };
    let came_to = status.map(|status| Left {
        raw: status.into(),
        log: RunscLog::read(log),
        network_ended: remains.network_ended(),
    });
    if came_to.is_some() && remains.ended_cleanly() {
        remains.clear();
    } else {
        take_down(remains).await?;
    }
    Ok(came_to)
}

/// Takes a container down on a thread of its own: it blocks, and goes on where nobody waits.
pub(super) async fn take_down(remains: Remains) -> Result<(), Error> {
    let down: Result<(), NotTakenDown> = spawn::on_thread(move || remains.take_down()).await?;
    Ok(down?)
}
