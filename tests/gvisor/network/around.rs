//! pasta around runsc.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use nix::sys::signal::Signal;
use runsc_driver::config::{ConfigError, NetworkLayout, Pool};
use runsc_driver::{Driver, SandboxConfig};

use super::{in_session, kill_pid, on_network};
use crate::common::{NOT_HUNG, Place, Ran, command_line, is_root};
use crate::library::{made_with, out, sh, up};

#[allow(clippy::duplicate_mod, reason = "one suite runs over both layouts")]
#[path = "guarantees.rs"]
mod guarantees;

const LAYOUT: NetworkLayout = NetworkLayout::Wrap;

#[tokio::test]
async fn there_are_no_sessions_and_no_pool() {
    let place = Place::new();
    let driver = made_with(&place, |options| {
        on_network(options, LAYOUT);
        options.session_egress = true;
        options.pool = Some(Pool {
            size: 2,
            idle_timeout: NOT_HUNG,
        });
    });
    assert!(!driver.describe().sessions);
    let refused = driver.run(in_session("a", "true")).await.unwrap_err();
    assert_eq!(refused.code(), "start-failed");
    assert_eq!(driver.prepare().await.unwrap(), 0);
    let outcome = driver.run(sh("echo cold")).await.unwrap();
    assert_eq!(out(&outcome), "cold\n");
    driver.close().await;
    place.assert_gone();

    let shell = ["shell", "--no-cfc", "--network-layout", LAYOUT.as_str()];
    let ran = Ran::of(place.command(shell).stdin(Stdio::null()).output().unwrap());
    ran.assert_says(125, &["no sessions", "[no-sessions]"]);
}

/// The processes of this place whose command line has this word first.
fn called(place: &Place, name: &str) -> Vec<u32> {
    let is_called = |pid: &u32| {
        let line = command_line(*pid);
        let program = line.split(' ').next().unwrap_or_default();
        program
            .rsplit('/')
            .next()
            .is_some_and(|found| found == name)
    };
    place.processes().into_iter().filter(is_called).collect()
}

#[tokio::test]
async fn the_end_of_anything_between_is_the_end_of_the_call() {
    for name in ["sh", "runsc", "runsc-sandbox", "runsc-gofer"] {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let place = Place::new();
            let driver = Arc::new(made_with(&place, |options| on_network(options, LAYOUT)));
            let running = tokio::spawn({
                let driver = Arc::clone(&driver);
                async move { driver.run(sh("touch up; sleep 100 & sleep 100")).await }
            });
            up(&place).await;
            let found = called(&place, name);
            assert!(!found.is_empty(), "no {name} in {:?}", place.processes());
            kill_pid(found[0], signal);
            if name == "sh" && signal == Signal::SIGTERM {
                // The first process of a PID namespace is spared what it has no handler for.
                driver.close().await;
            }
            let outcome = tokio::time::timeout(NOT_HUNG, running).await;
            let outcome = outcome.unwrap().unwrap().unwrap();
            let exit = outcome.released().and_then(|released| released.exit);
            assert!(
                exit.is_none_or(|exit| exit.code != 0),
                "{name} {signal}: {outcome:?}"
            );
            driver.close().await;
            place.assert_gone();
        }
    }
}

#[test]
fn the_programs_around_have_to_be_there_and_out_of_the_sandboxs_reach() {
    let place = Place::new();
    let refused = |change: &dyn Fn(&mut runsc_driver::SandboxOptions)| {
        let store = crate::common::store();
        let mut options = runsc_driver::SandboxOptions::new(
            store.join("bin/runsc"),
            store.join("images/kitchensink"),
            &place.workspace,
        );
        options.rootless = !is_root();
        on_network(&mut options, LAYOUT);
        change(&mut options);
        SandboxConfig::resolve(options, &place.host()).map(drop)
    };
    assert!(refused(&|_| {}).is_ok());
    if is_root() {
        let without = refused(&|options| {
            options.network_helper.as_mut().unwrap().unshare = None;
        });
        let err = without.unwrap_err();
        assert_eq!(err.code(), "network-layout-unavailable");
        assert!(matches!(
            err,
            ConfigError::LayoutProgram {
                program: "unshare",
                ..
            }
        ));
    }
    let setpriv = place.workspace.join("setpriv");
    fs::copy("/usr/bin/setpriv", &setpriv).unwrap();
    let writable = refused(&|options| {
        options
            .network_helper
            .as_mut()
            .unwrap()
            .setpriv
            .clone_from(&setpriv);
    });
    assert!(writable.unwrap_err().to_string().contains("setpriv"));
}
