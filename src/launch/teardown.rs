//! Taking a container down, and confirming it.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::Signal;

use super::bundle::BundleDir;
use super::network::Network;
use super::spawn::{self, Child, SpawnRequest};
use super::{state, sys};
use crate::config::SandboxConfig;
use crate::plan::id::ContainerId;
use crate::plan::network::wrap::Meeting;
use crate::plan::runsc;

/// How long the processes of a killed runsc may take to be gone: they die in about 10 ms.
const GONE: Duration = Duration::from_secs(2);
/// How long a runsc that keeps labels may take to put them on what its container changed, once it
/// was asked to end. What it did not finish by then, the next start over the same mounts does.
const LABELLED: Duration = Duration::from_secs(10);
/// How long one of runsc's control commands may take.
const CONTROL: Duration = Duration::from_secs(15);
/// How far below the child runsc may be: itself, pasta, the shell.
const DEEP: usize = 8;
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
    /// Where pasta, which the child then is, is around runsc: what runsc came to is told there.
    meeting: Option<Meeting>,
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
            meeting: None,
            config,
            _token: token,
        }))
    }

    /// The same, with pasta around runsc.
    pub(crate) fn within(mut self, meeting: Option<Meeting>) -> Self {
        if let Some(parts) = &mut self.0 {
            parts.meeting = meeting;
        }
        self
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
        self.0.as_mut().is_some_and(|parts| match &parts.meeting {
            Some(meeting) => code_told(meeting).is_none(),
            None => parts.network.as_mut().is_some_and(Network::has_ended),
        })
    }

    /// runsc's status, where it has ended.
    pub(crate) fn status(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let Some(parts) = &mut self.0 else {
            return Ok(None);
        };
        let ended = parts.child.status()?;
        Ok(ended.map(|status| match &parts.meeting {
            Some(meeting) => parts.status_told(meeting),
            None => status,
        }))
    }

    /// Whether the child has ended and runsc has removed its state: then nothing is left to do but
    /// to remove the bundle.
    pub(crate) fn ended_cleanly(&mut self) -> bool {
        self.0.as_mut().is_none_or(|parts| {
            matches!(parts.child.status(), Ok(Some(_))) && parts.state_files().is_empty()
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
        if self.config.policy.is_none() {
            self.child.kill();
        } else if self.meeting.is_none() {
            self.child.terminate();
        } else {
            // pasta would end at once, and all in it with it.
            match self.runsc_within() {
                Some(runsc) => drop(sys::pidfd_kill(&runsc, Signal::SIGTERM)),
                None => self.child.kill(),
            }
        }
    }

    /// The runsc in pasta: the first by that name on the way down.
    fn runsc_within(&self) -> Option<OwnedFd> {
        let first = |pid: &u32| state::children(*pid).first().copied();
        let down = || std::iter::successors(Some(self.child.pid()), first).take(DEEP);
        let found = || down().find(|pid| state::runs(*pid, self.config.runsc.as_path()));
        let pid = found()?;
        // Held, it is looked for again: by then its pid may have been another's.
        let runsc = sys::pidfd_open(pid).ok()?;
        (found() == Some(pid)).then_some(runsc)
    }

    /// What the shell in pasta says that runsc came to. Where it says nothing, it was killed, and
    /// runsc was with it, whatever pasta's own status is.
    fn status_told(&self, meeting: &Meeting) -> ExitStatus {
        match code_told(meeting) {
            // The shell's way to tell a signal, unless it is the command's own status: of a runsc
            // that was killed its state is left.
            Some(code @ 129..) if !self.state_files().is_empty() => {
                ExitStatus::from_raw(i32::from(code) - 128)
            }
            Some(code) => ExitStatus::from_raw(i32::from(code) << 8),
            None => ExitStatus::from_raw(libc::SIGKILL),
        }
    }

    fn state_files(&self) -> Vec<PathBuf> {
        state::files(&self.state_dir, self.id.as_str())
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
        if self.meeting.is_some() {
            watched.extend(self.kill_strays(&mut pids));
        } else if !was_up {
            // Or it had no time to be written, and nothing but its name leads to it.
            pids.extend(state::naming(self.id.as_str()));
            watched.extend(pids.iter().filter_map(|pid| sys::pidfd_open(*pid).ok()));
        }
        if child_ended && spawn::all_ended(&watched, GONE) {
            self.remove_state();
            return Ok(());
        }
        // runsc's own commands find none of the pids of pasta's namespace.
        if self.meeting.is_none() && self.ask_runsc(&watched) {
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
        if self.meeting.is_none() {
            pids.extend(state::pids(&self.state_dir, self.id.as_str()));
        }
        pids.into_iter()
            .filter(|pid| known.insert(*pid))
            .filter_map(|pid| sys::pidfd_open(pid).ok())
            .collect()
    }

    /// Kills what is left where pasta is gone: what it was just starting had no death signal yet.
    fn kill_strays(&self, known: &mut BTreeSet<u32>) -> Vec<OwnedFd> {
        let hold = |pid: &u32| {
            let stray = sys::pidfd_open(*pid).ok()?;
            let still = state::on_root(&self.state_dir).contains(pid);
            still.then(|| drop(sys::pidfd_kill(&stray, Signal::SIGKILL)))?;
            Some(stray)
        };
        let strays = state::on_root(&self.state_dir);
        known.extend(&strays);
        strays.iter().filter_map(hold).collect()
    }

    /// runsc keeps no other files than these, and the directory is ours alone.
    fn remove_state(&self) {
        for file in self.state_files() {
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

/// The exit status that the shell in pasta left, once it is whole.
fn code_told(meeting: &Meeting) -> Option<u8> {
    let text = std::fs::read_to_string(meeting.status()).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}
