use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::*;
use crate::host::{Platform, VARIABLES};

/// A Linux host with nothing set.
pub(crate) fn bare_host() -> Host {
    Host {
        platform: Platform::Linux,
        arch: "x86_64".to_owned(),
        uid: Some(1000),
        gid: Some(1000),
        home: None,
        path: None,
        temp_dir: PathBuf::from("/tmp"),
        cwd: None,
        variables: BTreeMap::new(),
        sysctls: BTreeMap::new(),
    }
}

fn flag(value: &str) -> Option<Named> {
    Some(Named {
        value: value.into(),
        source: Source::Flag,
    })
}

fn environment(value: &str) -> Option<Named> {
    Some(Named {
        value: value.into(),
        source: Source::Environment,
    })
}

#[test]
fn a_flag_wins_and_an_empty_variable_names_nothing() {
    // Flag, variable, what is named.
    let cases = [
        (None, None, None),
        (None, Some(""), None),
        (None, Some(" \t\n"), None),
        (None, Some("v"), environment("v")),
        (None, Some("  v w\n"), environment("v w")),
        (Some("f"), None, flag("f")),
        (Some("f"), Some("v"), flag("f")),
        (Some("\tf "), Some("v"), flag("f")),
        (Some(""), None, flag("")),
        (Some("  "), Some("v"), flag("")),
    ];
    for (flag, variable, expected) in cases {
        for setting in SETTINGS {
            let mut host = bare_host();
            if let Some(value) = variable {
                host.variables
                    .insert(setting.variable.to_owned(), value.into());
            }
            let given = flag.map(OsString::from);
            let mut flags = Flags::default();
            let mut wanted = Settings::default();
            match setting {
                RUNTIME => {
                    flags.sandbox_runtime = given;
                    wanted.runtime = expected.clone();
                }
                ROOTFS => {
                    flags.sandbox_rootfs = given;
                    wanted.rootfs = expected.clone();
                }
                POLICY => {
                    flags.sandbox_cfc_policy = given;
                    wanted.policy = expected.clone();
                }
                // The binary has no flag, and the network's is typed.
                BINARY if flag.is_none() => wanted.binary = expected.clone(),
                NETWORK if flag.is_none() => {
                    wanted.network = expected
                        .clone()
                        .map(|named| NamedNetwork::Variable(named.value));
                }
                _ => continue,
            }
            assert_eq!(
                Settings::new(&flags, &host),
                wanted,
                "{setting:?}: {flag:?}, {variable:?}"
            );
        }
    }
}

#[test]
fn the_network_flag_wins_over_its_variable() {
    let mut host = bare_host();
    host.variables
        .insert(NETWORK.variable.to_owned(), "bridge".into());
    let flags = Flags {
        network: Some(NetworkMode::Host),
        ..Flags::default()
    };
    assert_eq!(
        Settings::new(&flags, &host).network,
        Some(NamedNetwork::Flag(NetworkMode::Host))
    );
}

#[test]
fn bytes_that_are_not_text_stay() {
    let mut host = bare_host();
    host.variables.insert(
        BINARY.variable.to_owned(),
        OsString::from_vec(b" /\xff bin ".to_vec()),
    );
    assert_eq!(
        Settings::new(&Flags::default(), &host).binary,
        Some(Named {
            value: OsString::from_vec(b"/\xff bin".to_vec()),
            source: Source::Environment,
        })
    );
}

#[test]
fn the_host_reads_the_settings_and_the_store_and_nothing_of_docker() {
    let read: BTreeSet<_> = VARIABLES.into();
    let known: BTreeSet<_> = SETTINGS
        .iter()
        .map(|setting| setting.variable)
        .chain([VM_HOME])
        .collect();
    assert_eq!(read, known);
    for gone in [
        "CF_HARNESS_SANDBOX_IMAGE",
        "CF_HARNESS_SANDBOX_DOCKER_RUNTIME",
        "CF_HARNESS_RUNSC_CFC_RESULT_DIR",
        "CF_HARNESS_RUNSC_CFC_INVOCATION_CONTEXT_DIR",
    ] {
        assert!(!read.contains(gone), "{gone}");
    }
    let flags: Vec<_> = SETTINGS.iter().filter_map(|setting| setting.flag).collect();
    assert_eq!(
        flags,
        [
            "--sandbox-runtime",
            "--sandbox-rootfs",
            "--sandbox-cfc-policy",
            "--network"
        ]
    );
}

#[test]
fn a_setting_is_named_by_flag_and_variable_or_by_the_variable_alone() {
    let cases = [
        (
            POLICY,
            true,
            "--sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY",
        ),
        (POLICY, false, "CF_HARNESS_RUNSC_CFC_POLICY"),
        (BINARY, true, "CF_HARNESS_RUNSC_BINARY"),
        (BINARY, false, "CF_HARNESS_RUNSC_BINARY"),
    ];
    for (setting, takes_flags, expected) in cases {
        assert_eq!(setting.naming(takes_flags).to_string(), expected);
    }
    assert_eq!(RUNTIME.named_by(Source::Flag), "--sandbox-runtime");
    assert_eq!(
        RUNTIME.named_by(Source::Environment),
        "CF_HARNESS_SANDBOX_RUNTIME"
    );
    assert_eq!(BINARY.named_by(Source::Flag), "CF_HARNESS_RUNSC_BINARY");
}
