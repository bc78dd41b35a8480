//! The flags that say what a sandbox is, as every verb that starts one takes them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cfc::mode::EnforcementMode;
use crate::config::{
    ConfigError, Egress, MountKind, MountRequest, NetworkLayout, NetworkMode, SandboxConfig,
};
use crate::host::Host;
use crate::selection::{self, Refusal, Selection};
use crate::settings::{Entrypoint, Flags, Settings};

// A doc comment here would become the help of the verbs.
#[derive(Debug, clap::Args)]
pub(super) struct SandboxArgs {
    /// The runtime; leave it unnamed for this platform's default
    #[arg(long, value_name = "RUNTIME")]
    sandbox_runtime: Option<OsString>,
    /// The unpacked image that the sandbox starts from
    #[arg(long, value_name = "DIR")]
    sandbox_rootfs: Option<OsString>,
    /// The CFC policy that labels are tracked by; an empty one is none
    #[arg(long, value_name = "FILE")]
    sandbox_cfc_policy: Option<OsString>,
    /// How strictly to hold to labels: disabled, observe, enforce-explicit or enforce-strict
    #[arg(long, value_name = "MODE", default_value_t)]
    cfc_enforcement_mode: EnforcementMode,
    /// No labels: the same as an empty policy and the mode disabled
    #[arg(long, conflicts_with_all = ["sandbox_cfc_policy", "cfc_enforcement_mode"])]
    no_cfc: bool,
    /// Run over mounts that hold labels all the same: nothing then keeps what is labelled from
    /// leaving, and what the command writes carries no label
    #[arg(long, requires = "no_cfc")]
    ignore_labels: bool,
    /// The sandbox's network: none is loopback alone; sandbox, the default, is egress and the
    /// host's loopback at host.docker.internal; host is the host's own
    #[arg(long, value_name = "none|sandbox|host", value_parser = network)]
    network: Option<NetworkMode>,
    /// Where the sandbox may connect to: all, none, loopback (the host's), or HOST:PORT with
    /// commas between; a HOST is an address, a network (192.0.2.0/24) or a name
    #[arg(long, value_name = "POLICY", default_value_t)]
    egress: Egress,
    /// How the network sandbox is made: holder, pasta beside the sandbox; wrap, pasta around it,
    /// without sessions
    #[arg(long, value_name = "holder|wrap", default_value_t)]
    network_layout: NetworkLayout,
    /// The directory that the command works in, at /workspace in the sandbox; writable
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Show a file or directory of the host in the sandbox, read-only
    #[arg(long, value_names = ["SRC", "DST"], num_args = 2, action = clap::ArgAction::Append)]
    ro_bind: Vec<PathBuf>,
    /// Show a file or directory of the host in the sandbox, writable
    #[arg(long, value_names = ["SRC", "DST"], num_args = 2, action = clap::ArgAction::Append)]
    bind: Vec<PathBuf>,
    /// The user in the sandbox, as numbers; as root only
    #[arg(long, value_name = "UID[:GID]")]
    user: Option<String>,
}

/// Why there is no sandbox of these flags.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the working directory is gone, so no relative path can be told: change to another")]
    NoCwd,
}

impl SetupError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Refused(err) => err.code(),
            Self::Config(err) => err.code(),
            Self::NoCwd => "no-working-directory",
        }
    }
}

impl SandboxArgs {
    /// How strictly labels are held to.
    pub(super) fn mode(&self) -> EnforcementMode {
        if self.no_cfc {
            EnforcementMode::Disabled
        } else {
            self.cfc_enforcement_mode
        }
    }

    /// Selects the runtime and checks the configuration.
    pub(super) fn configure(&self, host: &Host) -> Result<(Selection, SandboxConfig), SetupError> {
        let cwd = host.cwd.as_deref().ok_or(SetupError::NoCwd)?;
        let flags = Flags {
            sandbox_runtime: self.sandbox_runtime.clone(),
            sandbox_rootfs: self.sandbox_rootfs.clone(),
            sandbox_cfc_policy: match self.no_cfc {
                true => Some(OsString::new()),
                false => self.sandbox_cfc_policy.clone(),
            },
            network: self.network,
        };
        let mode = self.mode();
        let selection = select(&flags, mode, host)?;
        let mut options = selection.options(&cwd.join(&self.workspace));
        options.mode = mode;
        options.ignore_labels = self.ignore_labels;
        options.user.clone_from(&self.user);
        options.egress.clone_from(&self.egress);
        options.network_layout = self.network_layout;
        // A person's shell is a session.
        options.session_egress = true;
        for (pairs, read_only) in [(&self.ro_bind, true), (&self.bind, false)] {
            options.mounts.extend(
                pairs
                    .chunks_exact(2)
                    .map(|pair| mount(cwd, pair, read_only)),
            );
        }
        let config = SandboxConfig::resolve(options, host)?;
        Ok((selection, config))
    }
}

/// Selects the runtime for flags, and refuses a mode that enforces labels where it has no policy.
pub(super) fn select(
    flags: &Flags,
    mode: EnforcementMode,
    host: &Host,
) -> Result<Selection, Refusal> {
    let entrypoint = &Entrypoint::BATCH;
    let selection = selection::select(&Settings::new(flags, host), host, entrypoint)?;
    selection::enforcement_floor(mode.enforces(), selection.policy.as_deref(), entrypoint)?;
    Ok(selection)
}

pub(super) fn network(word: &str) -> Result<NetworkMode, String> {
    [NetworkMode::None, NetworkMode::Sandbox, NetworkMode::Host]
        .into_iter()
        .find(|mode| mode.as_str() == word)
        .ok_or_else(|| "it is none, sandbox or host".to_owned())
}

fn mount(cwd: &Path, pair: &[PathBuf], read_only: bool) -> MountRequest {
    let (source, destination) = (&pair[0], &pair[1]);
    MountRequest {
        kind: MountKind::HostBind {
            name: destination.to_string_lossy().into_owned(),
        },
        host_path: cwd.join(source),
        sandbox_path: Some(destination.clone()),
        read_only: Some(read_only),
    }
}
