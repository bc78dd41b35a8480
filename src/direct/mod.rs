//! The driver that runs `runsc` itself.

mod calls;
mod labels;
mod oneshot;
mod probe;

use std::sync::{Arc, OnceLock};

use crate::config::SandboxConfig;
use crate::driver::{BoxFuture, Call, Driver, Error, Outcome};
use crate::host::Host;
use crate::plan::id::ContainerId;
use crate::plan::{self, Layout, Plan, Request};
use crate::trust::scratch::{ScratchError, ScratchTree};
use calls::Calls;

/// Runs each call in a container of its own, by an attached `runsc run`.
///
/// Futures want a tokio runtime with I/O and time. Dropped without [`Driver::close`], it still
/// takes down what runs, on threads of its own.
#[derive(Debug)]
pub struct DirectDriver {
    shared: Arc<Shared>,
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
    sequence: labels::Sequence,
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
                sequence: labels::Sequence::default(),
            }),
        }
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
        let dir = &self.config.scratch.dir;
        let layout = Layout {
            state_dir: dir.join("state"),
            bundles_dir: dir.join("bundles"),
        };
        Ok(plan::plan(&self.config, &self.host, &layout, id, request)?)
    }

    fn scratch(&self) -> Result<&ScratchTree, Error> {
        let made = self
            .scratch
            .get_or_init(|| ScratchTree::create(&self.config.scratch));
        made.as_ref().map_err(|err| err.clone().into())
    }
}

impl Driver for DirectDriver {
    fn run(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(oneshot::run(Arc::clone(&self.shared), call))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shared.calls.close().await;
            if let Some(Ok(scratch)) = self.shared.scratch.get() {
                scratch.remove();
            }
        })
    }
}

impl Drop for DirectDriver {
    fn drop(&mut self) {
        self.shared.calls.end_all();
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
