//! What is made of a selection.

use std::path::Path;

use crate::config::{NetworkMode, SandboxOptions};
use crate::selection::tests::support::Machine;
use crate::selection::{Refusal, enforcement_floor, find_program, select};
use crate::settings::{Entrypoint, Settings};

#[test]
fn a_mode_that_enforces_needs_a_policy() {
    let policy = Path::new("/policy");
    for (enforces, policy, expected) in [
        (true, Some(policy), true),
        (false, Some(policy), true),
        (false, None, true),
        (true, None, false),
    ] {
        for entrypoint in [Entrypoint::BATCH, Entrypoint::ENVIRONMENT] {
            let takes_flags = entrypoint.takes_flags;
            assert_eq!(
                enforcement_floor(enforces, policy, &entrypoint),
                match expected {
                    true => Ok(()),
                    false => Err(Refusal::EnforcementFloor { takes_flags }),
                }
            );
        }
    }
}

#[test]
fn a_selection_is_poured_into_options() {
    let machine = Machine::linux(1000);
    let selection = machine.select(&Entrypoint::BATCH).unwrap();
    let store = machine.store();
    assert_eq!(
        selection.options(Path::new("/work")),
        SandboxOptions {
            policy: Some(machine.home_policy()),
            network: NetworkMode::Sandbox,
            network_helper: machine.default_selection().helper,
            rootless: true,
            native_store: Some(store.clone()),
            defaulted: true,
            ..SandboxOptions::new(
                store.join("bin/runsc"),
                store.join("images/kitchensink"),
                "/work"
            )
        }
    );
}

#[test]
fn the_real_disk_decides_the_same() {
    let machine = Machine::linux(1000);
    let settings = Settings::new(&machine.flags, &machine.host);
    assert_eq!(
        select(&settings, &machine.host, &Entrypoint::BATCH),
        Ok(machine.default_selection())
    );
    assert_eq!(
        find_program("pasta", &machine.host),
        Some(machine.root().join("bin/pasta"))
    );
    assert_eq!(find_program("podman", &machine.host), None);
}
