//! The library on this machine's gVisor, where each call boots its own sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{BoxFuture, End};
use runsc_driver::{
    Call, Driver, Error, Host, NetworkMode, Outcome, SandboxConfig, SandboxOptions,
};

use crate::common::{Place, is_root, store, wait_for, walk};

#[path = "calls.rs"]
mod calls;

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made(place))
}

/// No process of a call is left, at the latest after a while.
fn assert_call_gone(place: &Place, limit: Duration) {
    place.assert_no_process_within(limit);
}

/// A driver of this machine's gVisor, over the place's workspace.
pub fn made(place: &Place) -> DirectDriver {
    made_with(place, |_| {})
}

/// The same, with options changed.
pub fn made_with(place: &Place, change: impl FnOnce(&mut SandboxOptions)) -> DirectDriver {
    made_on(place.host(), &place.workspace, change)
}

/// The same on a machine as it is told.
pub fn made_on(
    host: Host,
    workspace: &Path,
    change: impl FnOnce(&mut SandboxOptions),
) -> DirectDriver {
    let store = store();
    let mut options = SandboxOptions::new(
        store.join("bin/runsc"),
        store.join("images/kitchensink"),
        workspace,
    );
    options.network = NetworkMode::None;
    options.mode = EnforcementMode::Disabled;
    options.rootless = !is_root();
    options.native_store = Some(store);
    change(&mut options);
    DirectDriver::new(SandboxConfig::resolve(options, &host).unwrap(), host)
}

pub fn sh(script: &str) -> Call {
    Call::new(["sh", "-c", script])
}

pub fn out(outcome: &Outcome) -> String {
    String::from_utf8(outcome.released().unwrap().stdout.head.clone()).unwrap()
}

#[tokio::test]
async fn a_call_cancelled_before_it_starts_starts_nothing() {
    let place = Place::new();
    let driver = driver(&place);
    let call = sh("touch ran");
    call.cancel.cancel();
    assert_eq!(driver.run(call).await.unwrap().end, End::Cancelled);
    assert!(!place.workspace.join("ran").exists());
    assert_eq!(walk(&place.tmp), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn scratch_of_the_callers_choice_is_used_and_kept() {
    let place = Place::new();
    let named = place.dir.path().join("named");
    std::fs::create_dir(&named).unwrap();
    let driver = made_with(&place, |options| options.scratch = Some(named.clone()));
    assert_eq!(out(&driver.run(sh("echo hi")).await.unwrap()), "hi\n");
    driver.close().await;
    assert_eq!(walk(&named), Vec::<std::path::PathBuf>::new());
    assert_eq!(walk(&place.tmp), Vec::<std::path::PathBuf>::new());
}

/// Waits, beside what else runs here, until the command says that it is up.
pub async fn up(place: &Place) {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let workspace = place.workspace.clone();
    std::thread::spawn(move || {
        wait_for(&workspace, "up");
        let _ = sender.send(());
    });
    receiver.await.unwrap();
}

/// Starts a call and goes on with it until its command is up; the rest of it.
pub async fn started<'a>(
    driver: &'a DirectDriver,
    call: Call,
    place: &Place,
) -> BoxFuture<'a, Result<Outcome, Error>> {
    let mut running = driver.run(call);
    tokio::select! {
        _ = &mut running => panic!("it ended"),
        () = up(place) => {}
    }
    running
}
