//! The sandboxes of a step and its children, as the command line asks for them.

use std::ffi::OsString;
use std::sync::Arc;

use crate::cfc::mode::EnforcementMode;
use crate::cli::sandbox_args::{network, select};
use crate::config::{
    ConfigError, ContainerUser, Egress, MountKind, MountRequest, NetworkLayout, NetworkMode,
    SandboxConfig, SandboxOptions,
};
use crate::direct::DirectDriver;
use crate::driver::Driver;
use crate::handoff::step::{MakeSandbox, NotMade, View};
use crate::host::Host;
use crate::selection::Refusal;
use crate::settings::Flags;

#[derive(Debug, clap::Args)]
pub(super) struct SandboxArgs {
    /// The runtime; leave it unnamed for this platform's default
    #[arg(long, value_name = "RUNTIME")]
    sandbox_runtime: Option<OsString>,
    /// The unpacked image that each sandbox starts from
    #[arg(long, value_name = "DIR")]
    sandbox_rootfs: Option<OsString>,
    /// The CFC policy that labels are tracked by; an empty one is none
    #[arg(long, value_name = "FILE")]
    sandbox_cfc_policy: Option<OsString>,
    /// How strictly to hold to labels: disabled, observe, enforce-explicit or enforce-strict
    /// [default: enforce-explicit, or disabled where the plan has noCfc]
    #[arg(long, value_name = "MODE")]
    cfc_enforcement_mode: Option<EnforcementMode>,
    /// No labels: the same as an empty policy and the mode disabled
    #[arg(long, conflicts_with_all = ["sandbox_cfc_policy", "cfc_enforcement_mode"])]
    no_cfc: bool,
    /// The network of the step and its children: none is loopback alone; sandbox is egress and the
    /// host's loopback at host.docker.internal; host is the host's own
    #[arg(long, value_name = "none|sandbox|host", value_parser = network, default_value = "none")]
    network: NetworkMode,
    /// Where the step and its children may connect to on the network sandbox: all, none, loopback
    /// (the host's), or HOST:PORT with commas between
    #[arg(long, value_name = "POLICY", default_value_t)]
    egress: Egress,
    /// How the network sandbox is made: holder, pasta beside each sandbox; wrap, pasta around it
    #[arg(long, value_name = "holder|wrap", default_value_t)]
    network_layout: NetworkLayout,
    /// The user in the sandboxes, as numbers; as root only
    #[arg(long, value_name = "UID[:GID]")]
    user: Option<String>,
}

/// Why there are no sandboxes.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Refused {
    #[error(transparent)]
    Selection(#[from] Refusal),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--user {0:?} is not two numbers: write UID or UID:GID")]
    User(String),
}

impl Refused {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Selection(err) => err.code(),
            Self::Config(err) => err.code(),
            Self::User(_) => "bad-user",
        }
    }
}

/// Makes sandboxes of the selected runtime.
pub(super) struct Native {
    host: Host,
    options: SandboxOptions,
}

impl SandboxArgs {
    /// Selects the runtime. `plan_has_none` is a plan's wish to run without labels, which holds
    /// where nothing else is named.
    pub(super) fn select(&self, host: &Host, plan_has_none: bool) -> Result<Native, Refused> {
        let named = self.sandbox_cfc_policy.is_some() || self.cfc_enforcement_mode.is_some();
        let no_cfc = self.no_cfc || (plan_has_none && !named);
        let flags = Flags {
            sandbox_runtime: self.sandbox_runtime.clone(),
            sandbox_rootfs: self.sandbox_rootfs.clone(),
            sandbox_cfc_policy: match no_cfc {
                true => Some(OsString::new()),
                false => self.sandbox_cfc_policy.clone(),
            },
            network: Some(self.network),
        };
        let mode = match no_cfc {
            true => EnforcementMode::Disabled,
            false => self.cfc_enforcement_mode.unwrap_or_default(),
        };
        let selection = select(&flags, mode, host)?;
        // Each view names a workspace of its own.
        let mut options = selection.options(&host.temp_dir);
        options.mode = mode;
        options.egress.clone_from(&self.egress);
        options.network_layout = self.network_layout;
        options.user.clone_from(&self.user);
        Ok(Native {
            host: host.clone(),
            options,
        })
    }

    /// The container's user, where one was named and can be given anything: elsewhere the sandbox
    /// is refused.
    pub(super) fn owner(&self, host: &Host) -> Result<Option<(u32, u32)>, Refused> {
        let Some(named) = &self.user else {
            return Ok(None);
        };
        let user = ContainerUser::parse(named).ok_or_else(|| Refused::User(named.clone()))?;
        Ok((host.uid == Some(0)).then_some((user.uid, user.gid)))
    }
}

impl MakeSandbox for Native {
    fn make(&self, view: &View) -> Result<Arc<dyn Driver>, NotMade> {
        let mut options = self.options.clone();
        options.workspace.clone_from(&view.workspace);
        options.run_id.clone_from(&view.name);
        options.mounts = view
            .shown
            .iter()
            .map(|shown| MountRequest {
                kind: MountKind::HostBind {
                    name: shown.name.clone(),
                },
                host_path: shown.host.clone(),
                sandbox_path: Some(shown.sandbox.clone()),
                read_only: Some(shown.read_only),
            })
            .collect();
        let config = SandboxConfig::resolve(options, &self.host).map_err(|err| NotMade {
            code: err.code().to_owned(),
            message: err.to_string(),
        })?;
        Ok(Arc::new(DirectDriver::new(config, self.host.clone())))
    }

    fn enforces(&self) -> bool {
        self.options.mode.enforces()
    }
}
