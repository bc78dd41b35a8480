//! Where mounts are in the sandbox.

use super::*;

#[test]
fn a_place_in_the_sandbox_is_absolute_text_and_clear_of_the_sandboxs_own() {
    use std::os::unix::ffi::OsStringExt;
    let (tree, options, host) = laid_out();
    let cases = [
        (
            "w",
            "sandbox-path-not-absolute",
            "w in the sandbox, which is relative: give an absolute path",
        ),
        (
            "",
            "sandbox-path-not-absolute",
            "\"\" in the sandbox, which is relative: give an absolute path",
        ),
        (
            "/",
            "sandbox-path-is-root",
            "/ in the sandbox, which is the root: mount it below",
        ),
        (
            "/a/..",
            "sandbox-path-is-root",
            "/a/.. in the sandbox, which is the root: mount it below",
        ),
        (
            "/../x",
            "sandbox-path-above-root",
            "/../x in the sandbox, which leads above the root",
        ),
        (
            "/a/../../x",
            "sandbox-path-above-root",
            "/a/../../x in the sandbox, which leads above the root",
        ),
        (
            "/a\0b",
            "sandbox-path-nul",
            "/a\\u{0}b in the sandbox, which has a NUL byte",
        ),
        (
            "/proc",
            "sandbox-path-reserved",
            "/proc in the sandbox, where the sandbox mounts its own /proc: mount it elsewhere",
        ),
        (
            "/x/../proc/",
            "sandbox-path-reserved",
            "/x/../proc/ in the sandbox, where the sandbox mounts its own /proc: mount it elsewhere",
        ),
        (
            "/proc/1",
            "sandbox-path-reserved",
            "/proc/1 in the sandbox, where the sandbox mounts its own /proc: mount it elsewhere",
        ),
        (
            "/dev/shm",
            "sandbox-path-reserved",
            "/dev/shm in the sandbox, where the sandbox mounts its own /dev: mount it elsewhere",
        ),
        (
            "/sys",
            "sandbox-path-reserved",
            "/sys in the sandbox, where the sandbox mounts its own /sys: mount it elsewhere",
        ),
        (
            "/tmp",
            "sandbox-path-reserved",
            "/tmp in the sandbox, where the sandbox mounts its own /tmp: mount it elsewhere, or below",
        ),
    ];
    for (place, code, end) in cases {
        let workspace = SandboxOptions {
            workspace_mount_path: place.into(),
            ..options.clone()
        };
        assert_eq!(
            refusal(&workspace, &host),
            refused(code, format!("the workspace is at {end}"))
        );
        let mount = SandboxOptions {
            mounts: vec![bind("da\nta", tree.at("data"), place)],
            ..options.clone()
        };
        assert_eq!(
            refusal(&mount, &host),
            refused(code, format!("the mount \"da\\nta\" is at {end}"))
        );
    }
    let not_text = SandboxOptions {
        workspace_mount_path: OsString::from_vec(b"/w\xff".to_vec()).into(),
        ..options.clone()
    };
    assert_eq!(
        refusal(&not_text, &host),
        refused(
            "sandbox-path-not-utf8",
            "the workspace is at /w\u{fffd} in the sandbox, which is not UTF-8"
        )
    );
    for place in ["/processes", "/tmp/x", "/srv", "/développement"] {
        let workspace = SandboxOptions {
            workspace_mount_path: place.into(),
            ..options.clone()
        };
        let config = SandboxConfig::resolve(workspace, &host).unwrap();
        assert_eq!(config.workspace().sandbox_path(), Path::new(place));
    }
}

#[test]
fn mounts_are_named_absolute_and_apart() {
    let (tree, options, host) = laid_out();
    let t = tree.root.display();
    let data = || tree.at("data");
    let overlap = |first: &str, first_at: &str, second: &str, second_at: &str| {
        format!(
            "{first} and {second} overlap in the sandbox, at {first_at} and {second_at}: mount \
             them at places apart"
        )
    };
    let workspace = format!("the workspace {t}/ws");
    let one = format!("the mount \"one\" {t}/data");
    let two = format!("the mount \"two\" {t}/data");
    let cases = [
        (
            vec![bind(" \t", data(), "/data")],
            "mount-name-blank",
            format!("the mount of {t}/data has a blank name: name it"),
        ),
        (
            vec![MountRequest {
                sandbox_path: None,
                ..bind("one", data(), "")
            }],
            "sandbox-path-missing",
            format!("{one} has no place in the sandbox: give an absolute path for it there"),
        ),
        (
            vec![MountRequest {
                kind: MountKind::Workspace,
                ..bind("", data(), "/data")
            }],
            "second-workspace",
            format!(
                "the mount of {t}/data is asked for as a second workspace: mount it under a name"
            ),
        ),
        (
            vec![bind("one", "data", "/data")],
            "path-not-absolute",
            "the mount \"one\" data is relative: give an absolute path on the host".to_owned(),
        ),
        (
            vec![bind("one", "~/data", "/data")],
            "path-opens-with-tilde",
            "the mount \"one\" ~/data opens with '~', which only a shell expands: write the \
             directory out"
                .to_owned(),
        ),
        (
            vec![bind("one", data(), "/workspace")],
            "mounts-overlap",
            overlap(&workspace, "/workspace", &one, "/workspace"),
        ),
        (
            vec![bind("one", data(), "/workspace/x/../sub")],
            "mounts-overlap",
            overlap(&workspace, "/workspace", &one, "/workspace/sub"),
        ),
        (
            vec![bind("one", data(), "/data"), bind("two", data(), "/data")],
            "mounts-overlap",
            overlap(&one, "/data", &two, "/data"),
        ),
        (
            vec![bind("one", data(), "/data/x"), bind("two", data(), "/data")],
            "mounts-overlap",
            overlap(&one, "/data/x", &two, "/data"),
        ),
    ];
    for (mounts, code, sentence) in cases {
        let options = SandboxOptions {
            mounts,
            ..options.clone()
        };
        assert_eq!(refusal(&options, &host), refused(code, sentence));
    }
}
