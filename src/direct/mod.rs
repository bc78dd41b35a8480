//! The driver that runs `runsc` itself.

mod attached;
mod calls;
mod control;
mod held;
mod labels;
mod network;
mod oneshot;
mod pool;
mod probe;
mod proof;
mod remote;
mod session;
mod sweep;

use std::sync::{Arc, OnceLock};

use crate::config::SandboxConfig;
use crate::driver::{BoxFuture, Call, Description, Driver, Error, ExecVia, Outcome, SessionInfo};
use crate::host::Host;
use crate::plan::bundle::Process;
use crate::plan::id::ContainerId;
use crate::plan::{self, Layout, Plan, Request, path};
use crate::selection::Choice;
use crate::trust::scratch::{self, ScratchError, ScratchTree};
use calls::Calls;
pub(crate) use probe::{OLDEST, release_date};

/// Runs each call in a container of its own, by an attached `runsc run`.
///
/// Futures want a tokio runtime with I/O and time. Dropped without [`Driver::close`], it still
/// takes down what runs, on threads of its own.
#[derive(Debug)]
pub struct DirectDriver {
    shared: Arc<Shared>,
    selection: Option<Choice>,
}

/// What calls share with their driver.
#[derive(Debug)]
struct Shared {
    config: Arc<SandboxConfig>,
    host: Host,
    calls: Calls,
    /// Made and verified before the first write; a failure is kept, and nothing runs after it.
    scratch: OnceLock<Result<ScratchTree, ScratchError>>,
    supported: probe::Supported,
    network: network::Found,
    sequence: labels::Sequence,
    sessions: session::Sessions,
    pool: pool::Pool,
    /// How calls in sessions are started, where the control socket can be proven.
    exec_via: ExecVia,
}

impl DirectDriver {
    /// A driver of this configuration. Nothing is written or started yet.
    #[must_use]
    pub fn new(config: SandboxConfig, host: Host) -> Self {
        Self {
            shared: Arc::new(Shared {
                config: Arc::new(config),
                host,
                calls: Calls::default(),
                scratch: OnceLock::new(),
                supported: probe::Supported::default(),
                network: network::Found::default(),
                sequence: labels::Sequence::default(),
                sessions: session::Sessions::default(),
                pool: pool::Pool::default(),
                exec_via: ExecVia::ControlSocket,
            }),
            selection: None,
        }
    }

    /// The same, with calls in sessions started this way. Over the control socket, they are where
    /// it was proven on the runsc at hand, and by the command line elsewhere.
    #[must_use]
    pub fn exec_via(mut self, via: ExecVia) -> Self {
        // Nobody shares it yet: no call was made.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.exec_via = via;
        }
        self
    }

    /// The same, described with how an entrypoint selected the runtime.
    #[must_use]
    pub fn selected_by(mut self, choice: Choice) -> Self {
        self.selection = Some(choice);
        self
    }

    /// Boots the pool's sandboxes now; how many are ready. The first one-shot call does so too,
    /// after itself. There are none without [`SandboxOptions::pool`](crate::SandboxOptions::pool),
    /// with a policy, and where the control socket is not used.
    ///
    /// # Errors
    /// What [`Driver::run`] refuses every call for.
    pub async fn prepare(&self) -> Result<usize, Error> {
        if !pool::is_on(&self.shared) {
            return Ok(0);
        }
        self.shared.ready().await?;
        Ok(self.shared.pool.fill(&self.shared).await)
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &SandboxConfig {
        &self.shared.config
    }

    /// Lays a call out without running it.
    ///
    /// # Errors
    /// What [`Driver::run`] would refuse before it writes anything.
    pub fn plan(&self, call: &Call) -> Result<Plan, Error> {
        self.shared.plan(call)
    }
}

impl Shared {
    fn plan(&self, call: &Call) -> Result<Plan, Error> {
        let id = ContainerId::one_shot(&self.config.run_tag).map_err(Error::NoRandomness)?;
        let context = labels::context(&self.config, &self.sequence, call)?;
        let request = Request {
            argv: &call.argv,
            cwd: call.cwd.as_deref(),
            env: &call.env,
            context: context.as_deref(),
            host_uds: call.host_uds,
        };
        let layout = self.layout();
        Ok(plan::plan(&self.config, &self.host, &layout, id, request)?)
    }

    /// Checks what a call starts in a container that runs.
    fn process(&self, call: &Call) -> Result<Process, Error> {
        let request = Request {
            argv: &call.argv,
            cwd: call.cwd.as_deref(),
            env: &call.env,
            context: None,
            host_uds: false,
        };
        let process = Process::check(&self.config, request)?;
        path::check_cwd(&self.config, process.cwd())?;
        Ok(process)
    }

    /// Where the scratch tree will be, whether or not it is there yet.
    fn layout(&self) -> Layout {
        let dir = &self.config.scratch.dir;
        Layout {
            state_dir: dir.join(scratch::STATE),
            bundles_dir: dir.join(scratch::BUNDLES),
        }
    }

    /// Whether commands may be started over a control socket. With a policy, the context and the
    /// result have to be named on a command line.
    fn may_use_socket(&self) -> bool {
        self.config.policy.is_none() && self.exec_via == ExecVia::ControlSocket
    }

    /// What has to hold before anything is written.
    async fn ready(&self) -> Result<(), Error> {
        self.look_at_scratch()?;
        tokio::try_join!(self.supported.check(&self.config), self.network_ready())?;
        self.scratch()?;
        Ok(())
    }

    /// Refuses a scratch directory that is not to be trusted before anything is started. The
    /// refusal is kept.
    fn look_at_scratch(&self) -> Result<(), Error> {
        if self.scratch.get().is_none()
            && let Err(err) = ScratchTree::look_before(&self.config.scratch, self.host.uid)
        {
            self.scratch.get_or_init(|| Err(err));
        }
        match self.scratch.get() {
            Some(Err(err)) => Err(err.clone().into()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn scratch(&self) -> Result<&ScratchTree, Error> {
        let made = self.scratch.get_or_init(|| {
            let made = ScratchTree::create(&self.config.scratch)?;
            sweep::begin(self);
            Ok(made)
        });
        made.as_ref().map_err(|err| err.clone().into())
    }
}

impl Driver for DirectDriver {
    fn run(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        let shared = Arc::clone(&self.shared);
        match call.session.clone() {
            Some(name) => Box::pin(async move { session::run(shared, call, &name).await }),
            None => Box::pin(oneshot::run(shared, call)),
        }
    }

    fn describe(&self) -> Description {
        let shared = &self.shared;
        let sessions = shared.config.has_sessions();
        let selection = self.selection.clone();
        Description {
            exec_via: proof::known(shared),
            ..Description::new(&shared.config, sessions, selection)
        }
        .with_udp(shared.datagrams_leave())
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        self.shared.sessions.list()
    }

    fn child(&self, run_id: &str) -> Result<Arc<dyn Driver>, Error> {
        let config = self
            .shared
            .config
            .for_child(run_id)
            .map_err(Error::NoRandomness)?;
        let mut child = Self::new(config, self.shared.host.clone());
        child.selection.clone_from(&self.selection);
        let child = child.exec_via(self.shared.exec_via);
        Ok(Arc::new(child))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.end_all();
            self.shared.calls.gone().await;
            if let Some(Ok(scratch)) = self.shared.scratch.get() {
                scratch.remove();
            }
        })
    }
}

impl DirectDriver {
    fn end_all(&self) {
        // Sessions first: what runs in one ends with it.
        self.shared.sessions.end_all();
        self.shared.pool.end_all();
        self.shared.calls.end_all();
    }
}

impl Drop for DirectDriver {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl Drop for Shared {
    /// The last owner is a container's teardown, or the driver where nothing was running.
    fn drop(&mut self) {
        if let Some(Ok(scratch)) = self.scratch.get() {
            scratch.remove();
        }
    }
}
