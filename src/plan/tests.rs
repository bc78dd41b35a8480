//! Plans compared whole: golden bundles, command lines, refusals, and what is asked of a real tree.

mod argv;
mod errors;
mod golden;
mod image;
mod paths;

use std::path::{Path, PathBuf};

use crate::cfc::mode::EnforcementMode;
use crate::config::{
    ContainerUser, Mount, MountKind, NetworkMode, SandboxConfig, Scratch, WORKSPACE_MOUNT_PATH,
};
use crate::trust::TrustedPath;

/// A configuration of made-up paths: root's, without a network, with the workspace alone.
fn config() -> SandboxConfig {
    SandboxConfig {
        ignore_labels: false,
        mode: EnforcementMode::Disabled,
        runsc: TrustedPath::made_up("/opt/gvisor/runsc"),
        rootfs: TrustedPath::made_up("/store/images/kitchensink"),
        policy: None,
        network: NetworkMode::None,
        pasta: None,
        rootless: false,
        mounts: vec![mount("/home/ada/project", WORKSPACE_MOUNT_PATH, false)],
        user: ContainerUser::default(),
        scratch: Scratch {
            dir: PathBuf::from("/tmp/cf-harness-runsc/run-00000000"),
            verified_parent: Some(PathBuf::from("/tmp/cf-harness-runsc")),
        },
        pool: None,
        run_tag: "run-00000000".to_owned(),
    }
}

/// A mount; the kind makes no difference to a plan.
fn mount(host_path: impl AsRef<Path>, sandbox_path: impl AsRef<Path>, read_only: bool) -> Mount {
    let sandbox_path = sandbox_path.as_ref();
    Mount {
        kind: if sandbox_path == Path::new(WORKSPACE_MOUNT_PATH) {
            MountKind::Workspace
        } else {
            MountKind::HostBind {
                name: sandbox_path.display().to_string(),
            }
        },
        host_path: host_path.as_ref().to_owned(),
        sandbox_path: sandbox_path.to_owned(),
        read_only,
    }
}
