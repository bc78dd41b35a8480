//! A container's network, from what was found out once to what is brought up for each.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio::sync::OnceCell;

use super::Shared;
use crate::driver::Error;
use crate::launch::network::{Behind, Gate, Network, find_reach};
use crate::launch::spawn::{Child, Pipes};
use crate::launch::sys::Enter;
use crate::launch::teardown::Token;
use crate::launch::{LaunchError, spawn};
use crate::plan::Plan;
use crate::plan::network::{NetworkPlan, Reach};

/// What was found out of the network, once it was.
#[derive(Debug, Default)]
pub(super) struct Found {
    reach: OnceCell<Reach>,
    /// Whether datagrams leave a container, once one was started.
    datagrams: OnceLock<bool>,
}

impl Shared {
    /// Finds out what has to be known before a container is started on the network.
    pub(super) async fn network_ready(&self) -> Result<(), Error> {
        let Some(pasta) = self.config.pasta() else {
            return Ok(());
        };
        let find = || async {
            let pasta = pasta.clone();
            spawn::on_thread(move || find_reach(&pasta)).await?
        };
        self.network.reach.get_or_try_init(find).await?;
        Ok(())
    }

    fn reach(&self) -> Reach {
        self.network.reach.get().cloned().unwrap_or_default()
    }

    /// The files that a container on this network gets.
    pub(super) fn network_files(&self, plan: &Plan) -> Vec<(PathBuf, Vec<u8>)> {
        let files = |network: &NetworkPlan| network.files(&self.reach()).to_vec();
        plan.network.as_ref().map(files).unwrap_or_default()
    }

    /// Whether datagrams leave a container; none where that is not known, or not ours to say.
    pub(super) fn datagrams_leave(&self) -> Option<bool> {
        self.network.datagrams.get().copied()
    }

    fn learn_datagrams(&self, leave: Option<bool>) {
        if let Some(leave) = leave {
            let _ = self.network.datagrams.set(leave);
        }
    }
}

/// Brings a container's network up, where the driver makes it. Blocks.
pub(super) fn up(shared: &Arc<Shared>, plan: &Plan) -> Result<Option<Network>, LaunchError> {
    let counted = shared.calls.count();
    bring_up(shared, plan, counted)
}

fn bring_up(
    shared: &Arc<Shared>,
    plan: &Plan,
    counted: Token,
) -> Result<Option<Network>, LaunchError> {
    let Some(network) = &plan.network else {
        return Ok(None);
    };
    let token = Box::new((counted, Arc::clone(shared)));
    let up = Network::up(network, &shared.reach(), token)?;
    shared.learn_datagrams(up.as_ref().and_then(Network::datagrams));
    Ok(up)
}

/// The same on a thread, counted from the first moment on: it goes on where nobody waits.
pub(super) async fn up_on_thread(
    shared: &Arc<Shared>,
    plan: Plan,
) -> Result<(Plan, Option<Network>), LaunchError> {
    if plan.network.is_none() {
        return Ok((plan, None));
    }
    let (shared, counted) = (Arc::clone(shared), shared.calls.count());
    let up = move || bring_up(&shared, &plan, counted).map(|network| (plan, network));
    spawn::on_thread(up).await?
}

/// The gate between pasta and the runsc that is in it, where pasta is around it.
pub(super) fn gate(plan: &Plan) -> Result<Option<Gate>, LaunchError> {
    let meeting = plan.meeting.as_ref().zip(plan.network.as_ref());
    meeting
        .map(|(meeting, network)| Gate::make(meeting, network, &plan.command))
        .transpose()
}

/// Opens it once pasta was started. The command's standard error is then not pasta's.
pub(super) async fn through(
    shared: &Arc<Shared>,
    gate: Option<Gate>,
    (pasta, end): (u32, &OwnedFd),
    mut pipes: Pipes,
) -> Result<(Pipes, Option<Behind>), LaunchError> {
    let Some(gate) = gate else {
        return Ok((pipes, None));
    };
    let (reach, words) = (shared.reach(), pipes.stderr.take());
    let end = end.try_clone().map_err(LaunchError::Pipe)?;
    let open = move || gate.open(pasta, &end, words, &reach);
    let (stderr, behind) = spawn::on_thread(open).await??;
    shared.learn_datagrams(behind.datagrams);
    pipes.stderr = Some(stderr);
    Ok((pipes, Some(behind)))
}

/// The namespaces of a network, for its runsc to enter.
pub(super) fn entry(network: &Option<Network>) -> Result<Option<Enter>, LaunchError> {
    let entry = network.as_ref().map(Network::entry).transpose();
    entry.map_err(LaunchError::Pipe)
}

/// The network, tied to the runsc that is on it.
pub(super) fn tied(
    mut network: Option<Network>,
    runsc: &Child,
) -> Result<Option<Network>, LaunchError> {
    if let Some(network) = &mut network {
        let end = runsc.end().map_err(LaunchError::Pipe)?;
        network.tie(end).map_err(LaunchError::Pipe)?;
    }
    Ok(network)
}
