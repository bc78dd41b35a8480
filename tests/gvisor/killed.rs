//! A driver that is killed takes its sandboxes with it.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Place, pidfd, wait_readable};

/// How many drivers are killed, at moments that are spread over a call's start and its run.
const TRIES: u64 = 100;

#[test]
fn a_killed_driver_leaves_no_process() {
    kill_drivers(&["--network", "none"], Duration::from_millis(500));
}

#[test]
fn a_killed_driver_leaves_no_process_nor_any_of_its_network() {
    kill_drivers(&["--network", "sandbox"], Duration::from_millis(900));
}

#[test]
fn a_killed_driver_leaves_no_process_where_pasta_is_around_it() {
    kill_drivers(&["--network-layout", "wrap"], Duration::from_millis(700));
}

/// `spread` is the last of the moments after the start.
fn kill_drivers(network: &[&str], spread: Duration) {
    let place = Place::new();
    let mut seen = 0;
    for attempt in 0..TRIES {
        let mut child = place
            .command([&["run", "--no-cfc"], network, &["--", "sleep", "300"]].concat())
            .spawn()
            .unwrap();
        // A wait for an end that does not come: the moment is what is wanted.
        let moment = spread * u32::try_from(attempt * 37 % TRIES).unwrap() / TRIES as u32;
        let end = pidfd(child.id()).unwrap();
        assert!(!wait_readable(&end, moment), "it ended by itself");
        seen += usize::from(place.processes().len() > 2);
        kill(
            Pid::from_raw(child.id().try_into().unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
        child.wait().unwrap();
        place.assert_no_process_within(Duration::from_secs(2));
    }
    // The control: there were sandboxes to leave behind.
    assert!(
        seen > TRIES as usize / 4,
        "only {seen} of {TRIES} drivers had started a sandbox"
    );
}
