use serde_json::json;

use super::*;
use crate::selection::ChosenBy;

fn mount(kind: MountKind, host: &str, sandbox: &str, read_only: bool) -> Mount {
    Mount {
        kind,
        host_path: PathBuf::from(host),
        sandbox_path: PathBuf::from(sandbox),
        read_only,
    }
}

#[test]
fn a_description_is_written_field_by_field() {
    let bind = |name: &str| MountKind::HostBind {
        name: name.to_owned(),
    };
    let mounts = [
        mount(MountKind::Workspace, "/home/u/work", "/workspace", false),
        mount(MountKind::FabricFuse, "/fabric", "/fabric", false),
        mount(bind("docs"), "/docs", "/docs", true),
        mount(bind("out"), "/out", "/mnt/out", false),
    ];
    let description = Description::of(
        Path::new("/store/images/kitchensink"),
        true,
        NetworkMode::Sandbox,
        &mounts,
        false,
        Some(Choice::new(ChosenBy::Flag)),
    );
    let written = json!({
        "kind": "runsc-cfc",
        "defaultWorkingDirectory": "/workspace",
        "sessions": false,
        "cfc": {
            "runtimeRequested": true,
            "image": "/store/images/kitchensink",
            "workspaceMountPath": "/workspace",
            "mounts": [
                {
                    "kind": "workspace",
                    "hostPath": "/home/u/work",
                    "sandboxPath": "/workspace",
                    "readOnly": false,
                },
                {
                    "kind": "fabric-fuse",
                    "hostPath": "/fabric",
                    "sandboxPath": "/fabric",
                    "readOnly": false,
                },
                {
                    "kind": "host-bind",
                    "name": "docs",
                    "hostPath": "/docs",
                    "sandboxPath": "/docs",
                    "readOnly": true,
                    "mode": "readonly",
                },
                {
                    "kind": "host-bind",
                    "name": "out",
                    "hostPath": "/out",
                    "sandboxPath": "/mnt/out",
                    "readOnly": false,
                    "mode": "writable",
                },
            ],
            "networkMode": "sandbox",
            "invocationContextTransport": "fd",
            "invocationContextTransportReadiness": "intrinsic",
        },
        "selection": {"runtime": "runsc", "source": "flag"},
    });
    assert_eq!(serde_json::to_value(&description).unwrap(), written);
    let recorded: RecordedDescription = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(recorded.kind.as_deref(), Some(KIND));
    assert_eq!(serde_json::to_value(recorded).unwrap(), written);
}

#[test]
fn what_varies_in_a_description() {
    for (has_policy, sessions, network, word) in [
        (true, false, NetworkMode::Sandbox, "sandbox"),
        (false, true, NetworkMode::None, "none"),
        (true, true, NetworkMode::Host, "host"),
    ] {
        let mounts = [mount(MountKind::Workspace, "/w", "/src", false)];
        let described = Description::of(
            Path::new("/r"),
            has_policy,
            network,
            &mounts,
            sessions,
            None,
        );
        let written = serde_json::to_value(described).unwrap();
        assert_eq!(
            written,
            json!({
                "kind": "runsc-cfc",
                "defaultWorkingDirectory": "/src",
                "sessions": sessions,
                "cfc": {
                    "runtimeRequested": has_policy,
                    "image": "/r",
                    "workspaceMountPath": "/src",
                    "mounts": [{
                        "kind": "workspace",
                        "hostPath": "/w",
                        "sandboxPath": "/src",
                        "readOnly": false,
                    }],
                    "networkMode": word,
                    "invocationContextTransport": "fd",
                    "invocationContextTransportReadiness": "intrinsic",
                },
            })
        );
    }
}
