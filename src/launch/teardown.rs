//! Taking a container down, and confirming it.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::bundle::BundleDir;
use super::network::Network;
use super::spawn::{self, Child, SpawnRequest};
use super::{state, sys};
use crate::config::SandboxConfig;
use crate::plan::id::ContainerId;
use crate::plan::runsc;

/// How long the processes of a killed runsc may take to be gone: they die in about 10 ms.
const GONE: Duration = Duration::from_secs(2);
/// How long a runsc that keeps labels may take to put them on what its container changed, once it
/// was asked to end. What it did not finish by then, the next start over the same mounts does.
const LABELLED: Duration = Duration::from_secs(10);
/// How long one of runsc's control commands may take.
const CONTROL: Duration = Duration::from_secs(15);
/// How often kill, delete and state are tried.
const ROUNDS: usize = 2;

/// Keeps its owner's count for as long as it lives.
pub(crate) type Token = Box<dyn std::any::Any + Send>;

/// What a started container leaves to be undone. Dropped, it is taken down on a thread of its own,
/// so that nothing depends on a runtime which may be going away.
pub(crate) struct Remains(Option<Parts>);

struct Parts {
    child: Child,
    /// The container's network, which goes after it.
    network: Option<Network>,
    bundle: BundleDir,
    id: ContainerId,
    state_dir: PathBuf,
    config: Arc<SandboxConfig>,
    /// Dropped last: whoever waits for it finds everything gone.
    _token: Token,
}

/// A container that could not be confirmed to be gone. Its files were left in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the container {id} could not be confirmed to be gone after runsc was killed and asked to \
     delete it: look for its processes, and at {state_dir:?}"
)]
pub struct NotTakenDown {
    /// The container's id.
    pub id: String,
    /// Where its state was left.
    pub state_dir: PathBuf,
}

impl Remains {
    pub(crate) fn new(
        child: Child,
        bundle: BundleDir,
        id: ContainerId,
        state_dir: PathBuf,
        config: Arc<SandboxConfig>,
        token: Token,
    ) -> Self {
        Self(Some(Parts {
            child,
            network: None,
            bundle,
            id,
            state_dir,
            config,
            _token: token,
        }))
    }

    /// The same, on a network that is taken down with it.
    pub(crate) fn on(mut self, network: Option<Network>) -> Self {
        if let Some(parts) = &mut self.0 {
            parts.network = network;
        }
        self
    }

    /// Whether the container's network ended by itself.
    pub(crate) fn network_ended(&mut self) -> bool {
        let network = self.0.as_mut().and_then(|parts| parts.network.as_mut());
        network.is_some_and(Network::has_ended)
    }

    /// The child's status, where it has ended.
    pub(crate) fn status(&mut self) -> std::io::Result<Option<std::process::ExitStatus>> {
        self.0
            .as_mut()
            .map_or(Ok(None), |parts| parts.child.status())
    }

    /// Whether the child has ended and runsc has removed its state: then nothing is left to do but
    /// to remove the bundle.
    pub(crate) fn ended_cleanly(&mut self) -> bool {
        self.0.as_mut().is_none_or(|parts| {
            matches!(parts.child.status(), Ok(Some(_)))
                && state::files(&parts.state_dir, parts.id.as_str()).is_empty()
        })
    }

    /// Removes the bundle of a container that ended cleanly.
    pub(crate) fn clear(mut self) {
        self.0 = None;
    }

    /// Ends everything in the container and removes what is left of it. Blocks, for about 10 ms
    /// where all goes well and for a bounded while where it does not.
    pub(crate) fn take_down(mut self) -> Result<(), NotTakenDown> {
        self.0.take().map_or(Ok(()), Parts::take_down)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        let Some(parts) = self.0.take() else { return };
        // At once, whatever becomes of the thread.
        parts.end();
        let take_down = move || {
            if let Err(err) = parts.take_down() {
                tracing::error!(%err, "a container was not taken down");
            }
        };
        let _ = std::thread::Builder::new()
            .name("runsc-teardown".to_owned())
            .spawn(take_down);
    }
}

impl Parts {
    /// Ends the child. One that keeps labels is asked to: it ends the sandbox at once, as it would
    /// if it were killed, and has its labels to put on files then.
    fn end(&self) {
        if self.config.policy.is_some() {
            self.child.terminate();
        } else {
            self.child.kill();
        }
    }

    fn take_down(mut self) -> Result<(), NotTakenDown> {
        // Held before the kill, a descriptor stands for the process it was opened for: a pid that
        // is used again is never mistaken for it.
        let mut pids = BTreeSet::new();
        let was_up = state::is_running(&self.state_dir, self.id.as_str());
        let mut watched = self.watch(&mut pids);
        self.end();
        if self.config.policy.is_some() {
            let _ = self.child.wait(LABELLED);
            watched.extend(self.watch(&mut pids));
            self.child.kill();
        }
        let child_ended = matches!(self.child.wait(GONE), Ok(Some(_)));
        // What was started while we looked is in the state file by now, or was never started.
        watched.extend(self.watch(&mut pids));
        if !was_up {
            // Or it had no time to be written, and nothing but its name leads to it.
            pids.extend(state::naming(self.id.as_str()));
            watched.extend(pids.iter().filter_map(|pid| sys::pidfd_open(*pid).ok()));
        }
        if child_ended && spawn::all_ended(&watched, GONE) {
            self.remove_state();
            return Ok(());
        }
        if self.ask_runsc(&watched) {
            // What its delete left: the processes are gone, whatever runsc says of the files.
            self.remove_state();
            return Ok(());
        }
        let left = NotTakenDown {
            id: self.id.to_string(),
            state_dir: self.state_dir.clone(),
        };
        std::mem::forget(self.bundle);
        Err(left)
    }

    /// Descriptors for the container's processes that are not in `known` yet.
    fn watch(&self, known: &mut BTreeSet<u32>) -> Vec<OwnedFd> {
        let mut pids = state::descendants(self.child.pid());
        pids.extend(state::pids(&self.state_dir, self.id.as_str()));
        pids.into_iter()
            .filter(|pid| known.insert(*pid))
            .filter_map(|pid| sys::pidfd_open(pid).ok())
            .collect()
    }

    /// runsc keeps no other files than these, and the directory is ours alone.
    fn remove_state(&self) {
        for file in state::files(&self.state_dir, self.id.as_str()) {
            if let Err(err) = std::fs::remove_file(&file) {
                tracing::warn!(file = %file.display(), %err, "could not remove a state file");
            }
        }
    }

    /// Whether runsc's own commands took the container down.
    fn ask_runsc(&self, watched: &[OwnedFd]) -> bool {
        let control = |command| {
            let ran = spawn::run_bounded(SpawnRequest::plain(command, false), CONTROL);
            ran.ok()
                .and_then(|(status, _)| status)
                .is_some_and(|status| status.success())
        };
        let (config, state_dir, id) = (&self.config, &self.state_dir, &self.id);
        (0..ROUNDS).any(|round| {
            tracing::warn!(%id, round, "asking runsc to take a container down");
            control(runsc::kill(config, state_dir, id));
            control(runsc::delete(config, state_dir, id));
            !control(runsc::state(config, state_dir, id)) && spawn::all_ended(watched, GONE)
        })
    }
}
