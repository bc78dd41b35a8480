//! The sandbox's configuration: what was asked for, checked once, with the paths that the
//! filesystem really leads to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cfc::mode::EnforcementMode;
use crate::trust::{TrustedPath, scratch};

mod error;
pub mod network;
mod resolve;
mod writable;

pub use error::{ConfigError, Found};
pub use network::{BadEgress, Egress, NetworkHelper, NetworkLayout};
pub(crate) use resolve::nft;
pub use writable::{NotWritable, Ownership, Remedy};

/// Where the workspace is inside the sandbox, unless another place is named.
pub const WORKSPACE_MOUNT_PATH: &str = "/workspace";
/// Where the fabric is inside the sandbox, unless another place is named.
pub const FABRIC_MOUNT_PATH: &str = "/fabric";

/// The network that a container sees, in the driver's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkMode {
    /// Loopback alone.
    None,
    /// The platform's sandboxed network; on Linux, for a named `runsc`, runsc's own stack.
    #[default]
    Sandbox,
    /// The host's own network.
    Host,
}

impl NetworkMode {
    /// The word for it, as descriptions and runsc's `--network` have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sandbox => "sandbox",
            Self::Host => "host",
        }
    }
}

/// What kind of thing a mount shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountKind {
    /// The directory that the commands work in. Always writable.
    Workspace,
    /// A FUSE view of the fabric; writable unless said otherwise.
    FabricFuse,
    /// Any other host path, by the name that descriptions give it; read-only unless said otherwise.
    HostBind {
        /// Not blank.
        name: String,
    },
}

/// A mount as it is asked for, beside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    /// What it shows.
    pub kind: MountKind,
    /// The absolute path on the host.
    pub host_path: PathBuf,
    /// The absolute path in the sandbox; `/fabric` for the fabric where none is given.
    pub sandbox_path: Option<PathBuf>,
    /// The kind's default where none is given.
    pub read_only: Option<bool>,
}

/// Sandboxes that are booted ahead, each for one one-shot call.
///
/// A call in one differs in one way from a call that boots its own: its command is not the
/// container's first process. Calls with a policy always boot their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How many are kept ready: 1 to [`Pool::LARGEST`].
    pub size: usize,
    /// How long they are kept without a call.
    pub idle_timeout: Duration,
}

impl Pool {
    /// The largest pool. Each sandbox in it holds memory.
    pub const LARGEST: usize = 64;
}

/// A configuration as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The `runsc` to run: a path, or a bare name to look for on `PATH`.
    pub runsc: OsString,
    /// The unpacked image that each container starts from, absolute.
    pub rootfs: PathBuf,
    /// The CFC policy, absolute; none where no labels are tracked.
    pub policy: Option<PathBuf>,
    /// Where there is no policy: whether to run over mounts that hold labels all the same. Nothing
    /// then keeps what is labelled from leaving, and what is written carries no label.
    pub ignore_labels: bool,
    /// How strictly calls hold to their labels, at the least; a call's context can be stricter.
    pub mode: EnforcementMode,
    /// The network of each container.
    pub network: NetworkMode,
    /// What gives a container the network `sandbox`; none where runsc itself does. The default
    /// selection sets it on Linux.
    pub network_helper: Option<NetworkHelper>,
    /// Where a container may connect to, on the network that the helper gives.
    pub egress: Egress,
    /// Whether sessions may have that network too, in the layout that can give it to them.
    pub session_egress: bool,
    /// How the helper's pasta and runsc stand to each other.
    pub network_layout: NetworkLayout,
    /// Whether runsc runs in a user namespace of its own. The default selection sets it.
    pub rootless: bool,
    /// The directory that the commands work in, absolute on the host.
    pub workspace: PathBuf,
    /// Where the workspace is in the sandbox.
    pub workspace_mount_path: PathBuf,
    /// Further mounts, in the order they are made.
    pub mounts: Vec<MountRequest>,
    /// `UID` or `UID:GID`, numeric; none for 0:0.
    pub user: Option<String>,
    /// A scratch directory of the caller's choice, absolute and not verified; none for the
    /// default one.
    pub scratch: Option<PathBuf>,
    /// Sandboxes that are booted ahead for one-shot calls; none where there is no pool.
    pub pool: Option<Pool>,
    /// The caller's name for the run; part of the names of containers and of the scratch tree.
    pub run_id: String,
    /// The native store that the platform's default was taken from or would be; held apart from
    /// every writable mount.
    pub native_store: Option<PathBuf>,
    /// Whether no runtime was named, so that a refusal says where the store is.
    pub defaulted: bool,
}

impl SandboxOptions {
    /// The options with nothing but what has no default.
    #[must_use]
    pub fn new(
        runsc: impl Into<OsString>,
        rootfs: impl Into<PathBuf>,
        workspace: impl Into<PathBuf>,
    ) -> Self {
        Self {
            runsc: runsc.into(),
            rootfs: rootfs.into(),
            policy: None,
            ignore_labels: false,
            mode: EnforcementMode::default(),
            network: NetworkMode::default(),
            network_helper: None,
            egress: Egress::default(),
            session_egress: false,
            network_layout: NetworkLayout::default(),
            rootless: false,
            workspace: workspace.into(),
            workspace_mount_path: PathBuf::from(WORKSPACE_MOUNT_PATH),
            mounts: Vec::new(),
            user: None,
            scratch: None,
            pool: None,
            run_id: "run".to_owned(),
            native_store: None,
            defaulted: false,
        }
    }
}

/// A container's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContainerUser {
    /// The user id in the container.
    pub uid: u32,
    /// The group id in the container.
    pub gid: u32,
}

/// A mount that was checked. The source exists and is the path that the filesystem led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub(crate) kind: MountKind,
    pub(crate) host_path: PathBuf,
    pub(crate) sandbox_path: PathBuf,
    pub(crate) read_only: bool,
}

impl Mount {
    /// What it shows.
    #[must_use]
    pub fn kind(&self) -> &MountKind {
        &self.kind
    }
    /// The canonical path on the host.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        &self.host_path
    }
    /// The normalized absolute path in the sandbox.
    #[must_use]
    pub fn sandbox_path(&self) -> &Path {
        &self.sandbox_path
    }
    /// Whether the sandbox cannot write it.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }
}

/// Where a runtime keeps its bundles and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    /// The directory of this runtime alone.
    pub(crate) dir: PathBuf,
    /// The parent that is verified before the first write; none for a directory of the caller's.
    pub(crate) verified_parent: Option<PathBuf>,
}

impl Scratch {
    /// The directory of this runtime alone.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// The parent that is verified before the first write; none for a directory of the caller's.
    #[must_use]
    pub fn verified_parent(&self) -> Option<&Path> {
        self.verified_parent.as_deref()
    }
}

/// A configuration that was checked. Nothing changes it; its paths are canonical and are what is
/// executed, mounted and written into bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    pub(crate) runsc: TrustedPath,
    pub(crate) rootfs: TrustedPath,
    pub(crate) policy: Option<TrustedPath>,
    pub(crate) ignore_labels: bool,
    pub(crate) mode: EnforcementMode,
    pub(crate) network: NetworkMode,
    /// What gives the network, where runsc does not.
    pub(crate) pasta: Option<network::Pasta>,
    pub(crate) rootless: bool,
    /// The workspace first, then the others as asked.
    pub(crate) mounts: Vec<Mount>,
    pub(crate) user: ContainerUser,
    pub(crate) scratch: Scratch,
    pub(crate) pool: Option<Pool>,
    /// At most 12 characters of the run id, a dash and 8 hex digits: the middle of every id.
    pub(crate) run_tag: String,
}

impl SandboxConfig {
    /// The `runsc` to run.
    #[must_use]
    pub fn runsc(&self) -> &TrustedPath {
        &self.runsc
    }
    /// The image that each container starts from.
    #[must_use]
    pub fn rootfs(&self) -> &TrustedPath {
        &self.rootfs
    }
    /// The CFC policy, where labels are tracked.
    #[must_use]
    pub fn policy(&self) -> Option<&TrustedPath> {
        self.policy.as_ref()
    }
    /// The same for a run of its own: another tag, and another scratch directory beside this one,
    /// or below it where the caller named it.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn for_child(&self, run_id: &str) -> Result<Self, getrandom::Error> {
        let name = scratch::dir_name(run_id)?;
        let mut child = self.clone();
        child.scratch.dir = match &self.scratch.verified_parent {
            Some(parent) => parent.join(name),
            None => self.scratch.dir.join(name),
        };
        child.run_tag = scratch::run_tag(run_id)?;
        Ok(child)
    }

    /// How strictly calls hold to their labels, at the least.
    #[must_use]
    pub fn mode(&self) -> EnforcementMode {
        self.mode
    }

    /// The network of each container.
    #[must_use]
    pub fn network(&self) -> NetworkMode {
        self.network
    }
    /// What gives the network, where runsc does not.
    #[must_use]
    pub fn pasta(&self) -> Option<&network::Pasta> {
        self.pasta.as_ref()
    }

    /// The network that runsc is told of: the namespace that pasta gives its network is runsc's
    /// host.
    pub(crate) fn network_of_runsc(&self) -> NetworkMode {
        match self.pasta {
            Some(_) => NetworkMode::Host,
            None => self.network,
        }
    }

    /// Whether a call can name a session.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        let on_pasta = |pasta: &network::Pasta| pasta.sessions && pasta.wrapping.is_none();
        self.pasta.as_ref().is_none_or(on_pasta)
    }

    /// Whether pasta is around runsc, so that runsc's control commands find no container.
    pub(crate) fn is_wrapped(&self) -> bool {
        let pasta = self.pasta.as_ref();
        pasta.is_some_and(|pasta| pasta.wrapping.is_some())
    }

    /// Whether runsc runs in a user namespace of its own.
    #[must_use]
    pub fn rootless(&self) -> bool {
        self.rootless
    }
    /// The workspace first, then the others as asked.
    #[must_use]
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }
    /// The mount that commands work in.
    #[must_use]
    pub fn workspace(&self) -> &Mount {
        // Every configuration is made with it.
        &self.mounts[0]
    }
    /// The user of each container.
    #[must_use]
    pub fn user(&self) -> ContainerUser {
        self.user
    }
    /// The sandboxes that are booted ahead.
    #[must_use]
    pub fn pool(&self) -> Option<Pool> {
        self.pool
    }
    /// Where bundles and state are kept.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }
    /// The middle of every container's id.
    #[must_use]
    pub fn run_tag(&self) -> &str {
        &self.run_tag
    }
}

#[cfg(test)]
mod tests;
