//! Every refusal names what it is about and what to do, and has a stable code.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::config;
use crate::plan::bundle::Process;
use crate::plan::{PlanError, Request};

fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}

#[test]
fn the_texts_name_what_and_the_fix() {
    let cases = [
        (
            PlanError::EmptyCommand,
            "empty-command",
            "the command is empty: name a program to run",
        ),
        (
            PlanError::Nul {
                what: "argument 1 of the command".into(),
            },
            "nul-byte",
            "argument 1 of the command has a NUL byte, which no command line can carry: remove it",
        ),
        (
            PlanError::NotUtf8 {
                what: "argument 1 of the command".into(),
            },
            "not-utf8",
            "argument 1 of the command is not UTF-8, and runsc would change its bytes: pass such \
             bytes on standard input",
        ),
        (
            PlanError::BadVariableName { name: "A=B".into() },
            "bad-variable-name",
            "the environment variable name \"A=B\" is not one: it must be non-empty without '='",
        ),
        (
            PlanError::CwdOutsideMounts {
                path: path("/etc"),
                mounts: "/workspace, /data".into(),
            },
            "cwd-outside-mounts",
            "the working directory \"/etc\" lies in no mount of the sandbox: choose one below \
             /workspace, /data",
        ),
        (
            PlanError::BadCwd {
                path: path("/workspace/src"),
                host_path: path("/home/ada/project"),
                reason: "it does not exist".into(),
            },
            "bad-cwd",
            "the working directory \"/workspace/src\" cannot be used, since it does not exist: \
             create it in \"/home/ada/project\"",
        ),
        (
            PlanError::BadRootfs {
                path: path("/store/images/kitchensink"),
                reason: "it is not a directory".into(),
            },
            "bad-rootfs",
            "the rootfs \"/store/images/kitchensink\" cannot be used, since it is not a \
             directory: install the image again",
        ),
        (
            PlanError::ForeignRootfs {
                path: path("/store/images/kitchensink"),
                owner: 0,
                uid: 1000,
            },
            "foreign-rootfs",
            "the rootfs \"/store/images/kitchensink\" belongs to uid 0 and this process is uid \
             1000, so the container's root could neither enter /root nor write its files: unpack \
             an image of your own",
        ),
        (
            PlanError::BadMountSource {
                path: path("/srv/data"),
                sandbox_path: path("/data"),
                reason: "No such file or directory (os error 2)".into(),
            },
            "bad-mount-source",
            "the mount source \"/srv/data\" for \"/data\" cannot be used, since No such file or \
             directory (os error 2): bring it back, or leave the mount out",
        ),
        (
            PlanError::BadMountPoint {
                sandbox_path: path("/data"),
                rootfs: path("/store/images/kitchensink"),
                found: "a file where a directory is to be mounted".into(),
            },
            "bad-mount-point",
            "the mount point \"/data\" cannot be used, since the image \
             \"/store/images/kitchensink\" has a file where a directory is to be mounted there: \
             choose another path in the sandbox",
        ),
        (
            PlanError::PathNotUtf8 {
                setting: "the rootfs",
                path: PathBuf::from(OsStr::from_bytes(b"/st\xffre")),
            },
            "path-not-utf8",
            "the rootfs \"/st\\xFFre\" is not UTF-8, which an OCI bundle cannot name: use another \
             path",
        ),
        (
            PlanError::UnknownUser,
            "unknown-user",
            "the user id of this process cannot be told, so it cannot run runsc rootless: name a \
             runsc, which is run as it is",
        ),
    ];
    let mut codes: Vec<_> = cases.iter().map(|(_, code, _)| *code).collect();
    for (error, code, text) in &cases {
        assert_eq!((error.code(), error.to_string().as_str()), (*code, *text));
    }
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), cases.len(), "a code means one thing");
}

fn bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn refused(argv: &[OsString], cwd: Option<&Path>, env: &[(OsString, OsString)]) -> PlanError {
    Process::check(
        &config(),
        Request {
            argv,
            cwd,
            env,
            context: None,
            host_uds: false,
        },
    )
    .unwrap_err()
}

#[test]
fn an_argument_that_runsc_would_change_is_refused_by_its_place() {
    let nul = |what: &str| PlanError::Nul { what: what.into() };
    let not_utf8 = |what: &str| PlanError::NotUtf8 { what: what.into() };
    let cases: [(&[&[u8]], PlanError); 6] = [
        (&[], PlanError::EmptyCommand),
        (&[b"", b"a"], PlanError::EmptyCommand),
        (&[b"\xff"], not_utf8("argument 0 of the command")),
        (
            &[b"a", b"b", b"\xc3"],
            not_utf8("argument 2 of the command"),
        ),
        (&[b"a", b"b\0"], nul("argument 1 of the command")),
        // Both: what no command line can carry comes first.
        (&[b"a", b"\xff\0"], nul("argument 1 of the command")),
    ];
    for (argv, expected) in cases {
        let argv: Vec<_> = argv.iter().map(|arg| bytes(arg)).collect();
        assert_eq!(refused(&argv, None, &[]), expected, "{argv:?}");
    }
}

#[test]
fn a_variable_that_runsc_would_change_is_refused_by_its_name() {
    let argv = [OsString::from("true")];
    let cases: [(&[u8], &[u8], PlanError); 7] = [
        (b"", b"x", PlanError::BadVariableName { name: bytes(b"") }),
        (
            b"A=B",
            b"x",
            PlanError::BadVariableName {
                name: bytes(b"A=B"),
            },
        ),
        (b"=", b"x", PlanError::BadVariableName { name: bytes(b"=") }),
        (
            b"A\xff",
            b"x",
            PlanError::NotUtf8 {
                what: "the environment variable name \"A\\xFF\"".into(),
            },
        ),
        (
            b"A\0",
            b"x",
            PlanError::Nul {
                what: "the environment variable name \"A\\0\"".into(),
            },
        ),
        (
            b"A",
            b"secret\xff",
            PlanError::NotUtf8 {
                what: "the environment variable \"A\"".into(),
            },
        ),
        (
            b"A",
            b"secret\0",
            PlanError::Nul {
                what: "the environment variable \"A\"".into(),
            },
        ),
    ];
    for (name, value, expected) in cases {
        assert_eq!(
            refused(&argv, None, &[(bytes(name), bytes(value))]),
            expected,
            "{name:?} {value:?}"
        );
    }
}

#[test]
fn a_working_directory_that_is_not_text_is_refused() {
    let argv = [OsString::from("true")];
    let cwd = |bytes| Some(Path::new(OsStr::from_bytes(bytes)));
    assert_eq!(
        refused(&argv, cwd(b"a\xff"), &[]),
        PlanError::NotUtf8 {
            what: "the working directory \"a\\xFF\"".into(),
        }
    );
    assert_eq!(
        refused(&argv, cwd(b"a\0"), &[]),
        PlanError::Nul {
            what: "the working directory \"a\\0\"".into(),
        }
    );
}
