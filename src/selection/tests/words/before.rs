//! Refusals before the platforms part, and the floor.

use crate::selection::Refusal;
use crate::settings::Source;

use super::*;

#[test]
fn every_refusal_that_is_no_defaults() {
    check([
        (
            Refusal::Docker {
                by: Source::Flag,
                has_default: true,
                takes_flags: true,
            },
            "--sandbox-runtime names docker, the Docker driver, which is gone: runsc is the one \
             runtime; leave the runtime unnamed to take the platform's default, or name runsc \
             with --sandbox-runtime or CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::Docker {
                by: Source::Environment,
                has_default: true,
                takes_flags: true,
            },
            "CF_HARNESS_SANDBOX_RUNTIME names docker, the Docker driver, which is gone: runsc is \
             the one runtime; leave the runtime unnamed to take the platform's default, or name \
             runsc with --sandbox-runtime or CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::Docker {
                by: Source::Environment,
                has_default: true,
                takes_flags: false,
            },
            "CF_HARNESS_SANDBOX_RUNTIME names docker, the Docker driver, which is gone: runsc is \
             the one runtime; leave the runtime unnamed to take the platform's default, or name \
             runsc with CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::Docker {
                by: Source::Environment,
                has_default: false,
                takes_flags: false,
            },
            "CF_HARNESS_SANDBOX_RUNTIME names docker, the Docker driver, which is gone: runsc is \
             the one runtime; name runsc with CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::Docker {
                by: Source::Flag,
                has_default: false,
                takes_flags: true,
            },
            "--sandbox-runtime names docker, the Docker driver, which is gone: runsc is the one \
             runtime; name runsc with --sandbox-runtime or CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::UnknownRuntime {
                value: "pod\u{1b}man".into(),
                by: Source::Flag,
            },
            "--sandbox-runtime names \"pod\\u{1b}man\", which is no sandbox runtime; set \
             --sandbox-runtime to runsc",
        ),
        (
            Refusal::UnknownRuntime {
                value: "pod\u{1b}man".into(),
                by: Source::Environment,
            },
            "CF_HARNESS_SANDBOX_RUNTIME names \"pod\\u{1b}man\", which is no sandbox runtime; \
             set CF_HARNESS_SANDBOX_RUNTIME to runsc",
        ),
        (
            Refusal::MustBeNamed {
                who: "Loom",
                takes_flags: true,
            },
            "no sandbox runtime is named, and this entrypoint takes no default; Loom must name \
             runsc with --sandbox-runtime or CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::MustBeNamed {
                who: "Loom",
                takes_flags: false,
            },
            "no sandbox runtime is named, and this entrypoint takes no default; Loom must name \
             runsc with CF_HARNESS_SANDBOX_RUNTIME",
        ),
        (
            Refusal::NoNativeRuntime {
                platform: "freebsd".to_owned(),
            },
            "no sandbox runtime is named, and there is no default on freebsd: runsc runs on \
             macOS (Apple silicon) and Linux alone; run it on one of those",
        ),
        (
            Refusal::UnknownNetwork {
                value: "vmnet".into(),
            },
            "CF_HARNESS_DOCKER_NETWORK_MODE is \"vmnet\", which is no network mode; set \
             CF_HARNESS_DOCKER_NETWORK_MODE to none, bridge or host",
        ),
        (
            Refusal::EnforcementFloor { takes_flags: true },
            "this mode enforces CFC, and no CFC policy is configured; name a CFC policy with \
             --sandbox-cfc-policy or CF_HARNESS_RUNSC_CFC_POLICY, or take a mode that does not \
             enforce",
        ),
        (
            Refusal::EnforcementFloor { takes_flags: false },
            "this mode enforces CFC, and no CFC policy is configured; name a CFC policy with \
             CF_HARNESS_RUNSC_CFC_POLICY, or take a mode that does not enforce",
        ),
    ]);
}
