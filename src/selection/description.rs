//! What the driver says of itself, as records hold it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Choice;
use crate::config::{Mount, MountKind, NetworkMode, SandboxConfig};
use crate::driver::ExecVia;

/// The kind that the direct driver describes itself as.
pub const KIND: &str = "runsc-cfc";
/// The kind that the driver that is gone described itself as.
pub const DOCKER_KIND: &str = "docker-runsc-cfc";

/// The driver's own account of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// [`KIND`].
    pub kind: &'static str,
    /// Where a command runs that names no directory, in the sandbox.
    pub default_working_directory: PathBuf,
    /// Whether a call can name a session.
    pub sessions: bool,
    /// How calls in sessions are started, once that is known; records do not hold it.
    #[serde(skip)]
    pub exec_via: Option<ExecVia>,
    /// The sandbox.
    pub cfc: Sandbox,
    /// How an entrypoint selected the runtime; none where a caller built it without a selection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Choice>,
}

/// The sandbox, in a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// Whether a CFC policy is configured.
    pub runtime_requested: bool,
    /// The rootfs.
    pub image: PathBuf,
    /// Where the workspace is in the sandbox.
    pub workspace_mount_path: PathBuf,
    /// The workspace first, then the others.
    pub mounts: Vec<DescribedMount>,
    /// The configured network, in the driver's words.
    pub network_mode: &'static str,
    /// Whether datagrams leave the sandbox: `open`, or `resolver-only` where those of two sandboxes
    /// cannot be kept apart; none where that was not found out yet, as before the
    /// first call, or is not the driver's to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp: Option<&'static str>,
    /// How a context goes in: over a descriptor.
    pub invocation_context_transport: &'static str,
    /// Nothing has to be set up for it.
    pub invocation_context_transport_readiness: &'static str,
}

/// A mount, in a description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedMount {
    /// `workspace`, `fabric-fuse` or `host-bind`.
    pub kind: &'static str,
    /// The name of a `host-bind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path on the host.
    pub host_path: PathBuf,
    /// The path in the sandbox.
    pub sandbox_path: PathBuf,
    /// Whether the sandbox cannot write it.
    pub read_only: bool,
    /// `readonly` or `writable`, of a `host-bind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
}

impl Description {
    /// Describes a driver with this configuration.
    #[must_use]
    pub fn new(config: &SandboxConfig, sessions: bool, selection: Option<Choice>) -> Self {
        Self::of(
            config.rootfs().as_path(),
            config.policy().is_some(),
            config.network(),
            config.mounts(),
            sessions,
            selection,
        )
    }

    /// The same, with whether datagrams leave the sandbox, where that is known.
    #[must_use]
    pub fn with_udp(mut self, leave: Option<bool>) -> Self {
        self.cfc.udp = leave.map(|leave| if leave { "open" } else { "resolver-only" });
        self
    }

    /// The description, from the parts of a configuration that it tells.
    fn of(
        rootfs: &Path,
        has_policy: bool,
        network: NetworkMode,
        mounts: &[Mount],
        sessions: bool,
        selection: Option<Choice>,
    ) -> Self {
        let workspace = mounts
            .iter()
            .find(|mount| *mount.kind() == MountKind::Workspace)
            .map_or_else(
                || PathBuf::from(crate::config::WORKSPACE_MOUNT_PATH),
                |mount| mount.sandbox_path().to_owned(),
            );
        Self {
            kind: KIND,
            default_working_directory: workspace.clone(),
            sessions,
            exec_via: None,
            cfc: Sandbox {
                runtime_requested: has_policy,
                image: rootfs.to_owned(),
                workspace_mount_path: workspace,
                mounts: mounts.iter().map(DescribedMount::of).collect(),
                network_mode: network.as_str(),
                udp: None,
                invocation_context_transport: "fd",
                invocation_context_transport_readiness: "intrinsic",
            },
            selection,
        }
    }
}

impl DescribedMount {
    fn of(mount: &Mount) -> Self {
        let (kind, name, mode) = match mount.kind() {
            MountKind::Workspace => ("workspace", None, None),
            MountKind::FabricFuse => ("fabric-fuse", None, None),
            MountKind::HostBind { name } => {
                let mode = match mount.read_only() {
                    true => "readonly",
                    false => "writable",
                };
                ("host-bind", Some(name.clone()), Some(mode))
            }
        };
        Self {
            kind,
            name,
            host_path: mount.host_path().to_owned(),
            sandbox_path: mount.sandbox_path().to_owned(),
            read_only: mount.read_only(),
            mode,
        }
    }
}

/// A description as a record holds it: of any driver, of any age. What is not known here is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedDescription {
    /// What the runtime described itself as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it had sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<bool>,
    /// Its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfc: Option<RecordedSandbox>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The sandbox of a [`RecordedDescription`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedSandbox {
    /// Docker's name for the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_name: Option<String>,
    /// A rootfs, or a Docker image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// In the words of the driver that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_mode: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[cfg(test)]
mod tests;
