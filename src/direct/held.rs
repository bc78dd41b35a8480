//! A container that a standard input of ours keeps: that of a session, or a prebooted one.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::calls::{Slot, lock};
use super::{Shared, network};
use crate::classify::RawExit;
use crate::classify::log::RunscLog;
use crate::driver::Error;
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::spawn::{self, SpawnRequest};
use crate::launch::state::{self, First};
use crate::launch::teardown::{Remains, Token};
use crate::plan::id::ContainerId;
use crate::plan::{self, Plan};

/// How long a container may take to say that it is running.
const LIMIT: Duration = Duration::from_secs(30);

/// Why a container did not come up, for an operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Driver(#[from] Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("runsc ended ({status}){log}")]
    Ended { status: String, log: String },
    #[error("runsc did not say within {} seconds that it is running", LIMIT.as_secs())]
    TimedOut,
    #[error("the driver was closed meanwhile")]
    Closed,
}

/// A held container.
pub(super) struct Container {
    pub id: ContainerId,
    /// What keeps a close waiting, until the start takes it.
    counted: Mutex<Option<Token>>,
    slot: Slot<Held>,
    /// Readable once the held runsc has ended.
    end: OnceLock<OwnedFd>,
}

/// Its runsc, with the end of its standard input that keeps it alive.
pub(super) struct Held {
    pub remains: Remains,
    _stdin: Option<OwnedFd>,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Container");
        shown.field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Container {
    /// A container that was not started yet. The caller's lock keeps the driver from closing
    /// meanwhile: from now on a close waits for it.
    pub(super) fn new(id: ContainerId, shared: &Arc<Shared>) -> Self {
        Self {
            id,
            counted: Mutex::new(Some(shared.calls.count())),
            slot: Slot::new(),
            end: OnceLock::new(),
        }
    }

    /// Starts it and waits until it runs. Blocks, for a thread of the caller's: it depends on none
    /// of the calls that wait for it.
    pub(super) fn boot(&self, shared: &Arc<Shared>) -> Result<(), Fault> {
        let counted = lock(&self.counted).take();
        let (config, host) = (&shared.config, &shared.host);
        let plan = plan::session(config, host, &shared.layout(), self.id.clone());
        let plan = plan.map_err(Error::from)?;
        let state_dir = shared.scratch()?.state_dir();
        let log = plan.log.clone();
        let end = self.start(shared, plan, &state_dir, counted)?;
        match state::await_running(&state_dir, self.id.as_str(), &end, LIMIT) {
            First::Ready => Ok(()),
            First::Neither => Err(Fault::TimedOut),
            First::Ended => Err(self.fault(&log)),
        }
    }

    /// Starts runsc. From the moment that it exists, it is in the slot.
    fn start(
        &self,
        shared: &Arc<Shared>,
        plan: Plan,
        state_dir: &Path,
        counted: Option<Token>,
    ) -> Result<OwnedFd, LaunchError> {
        let bundle = BundleDir::create(&plan, &shared.network_files(&plan))?;
        let network = network::up(shared, &plan)?;
        let request = SpawnRequest {
            command: plan.command,
            enter: network::entry(&network)?,
            user_namespace: plan.user_namespace,
            overlay: plan.overlay,
            read_only: plan.read_only,
            pid_namespace: false,
            stdin: true,
            output: false,
            donations: Vec::new(),
        };
        let token = Box::new((counted, Arc::clone(shared)));
        let (child, pipes) = spawn::begin(request)?;
        let network = network::tied(network, &child)?;
        let end = child.end().map_err(LaunchError::Pipe)?;
        let (id, config) = (self.id.clone(), Arc::clone(&shared.config));
        let remains = Remains::new(child, bundle, id, state_dir.to_owned(), config, token);
        let remains = remains.on(network);
        let _ = self.end.set(end.try_clone().map_err(LaunchError::Pipe)?);
        self.slot.fill(Held {
            remains,
            _stdin: pipes.stdin,
        });
        Ok(end)
    }

    /// Says how runsc ended, from what it left.
    fn fault(&self, log: &Path) -> Fault {
        let Some(mut held) = self.slot.take() else {
            return Fault::Closed;
        };
        let status = match held.remains.status() {
            Ok(Some(status)) => match RawExit::from(status) {
                raw if raw.signal.is_some() => format!("signal {}", raw.signal.unwrap_or_default()),
                raw => format!("status {}", raw.status.unwrap_or_default()),
            },
            Ok(None) | Err(_) => "status unknown".to_owned(),
        };
        let log = match RunscLog::read(log) {
            RunscLog::Errors(messages) => format!(": {}", messages.join("; ")),
            RunscLog::Refused { message, .. } => format!(": {message}"),
            RunscLog::Absent | RunscLog::Clean => String::new(),
        };
        // Its bundle held the log.
        drop(held);
        Fault::Ended { status, log }
    }

    /// Whether it has ended, zombie or not.
    pub(super) fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    pub(super) fn ends_within(&self, limit: Duration) -> bool {
        self.end
            .get()
            .is_some_and(|end| spawn::all_ended(std::slice::from_ref(end), limit))
    }

    /// A descriptor that becomes readable when it ends, once it was started.
    pub(super) fn end(&self) -> Option<&OwnedFd> {
        self.end.get()
    }

    /// What is to be taken down, for the one who asks first. Dropped, it is taken down too.
    pub(super) fn take(&self) -> Option<Held> {
        self.slot.take()
    }

    /// Takes it down where nobody else did, and says so in the log where that fails. Blocks.
    pub(super) fn take_down(&self) {
        if let Some(held) = self.take()
            && let Err(err) = held.remains.take_down()
        {
            tracing::error!(%err, "a held container was not taken down");
        }
    }
}
