//! pasta beside runsc, the default: what sessions and prebooted sandboxes have of it too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::config::{NetworkLayout, Pool};
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{End, SessionRefusal};
use runsc_driver::{Driver, Error};

use super::{APART, connect, datagrams, echo, greeter, in_session, kill_pid, on_network, pastas};
use crate::common::{NOT_HUNG, Place, Ran, walk};
use crate::library::{made_with, out, sh};

#[allow(clippy::duplicate_mod, reason = "one suite runs over both layouts")]
#[path = "guarantees.rs"]
mod guarantees;

const LAYOUT: NetworkLayout = NetworkLayout::Holder;

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made_with(place, |options| on_network(options, LAYOUT)))
}

fn with_sessions(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made_with(place, |options| {
        on_network(options, LAYOUT);
        options.session_egress = true;
    }))
}

#[tokio::test]
async fn sessions_are_refused_unless_they_may_have_the_network() {
    let place = Place::new();
    let driver = driver(&place);
    assert!(!driver.describe().sessions);
    let refused = driver.run(in_session("a", "true")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Session(SessionRefusal::StartFailed { .. })),
        "{refused:?}"
    );
    assert_eq!(refused.code(), "start-failed");
    driver.close().await;

    let driver = with_sessions(&place);
    assert!(driver.describe().sessions);
    let outcome = driver.run(in_session("a", "echo in")).await.unwrap();
    assert_eq!(out(&outcome), "in\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_a_connection_open_across_calls() {
    let place = Place::new();
    let (port, lines) = line_server();
    let driver = with_sessions(&place);
    let first = format!(
        "setsid python3 -c '
import os, socket, time
s = socket.create_connection((\"host.docker.internal\", {port})); s.sendall(b\"first\\n\")
while not os.path.exists(\"/tmp/go\"): time.sleep(0.02)
s.sendall(b\"second\\n\"); time.sleep(100)' </dev/null >/dev/null 2>&1 &"
    );
    let outcome = driver.run(in_session("s", &first)).await.unwrap();
    assert_eq!(outcome.end, End::Exited, "{outcome:?}");
    let line = |lines: &Receiver<String>| lines.recv_timeout(NOT_HUNG).unwrap();
    assert_eq!(line(&lines), "first");
    driver.run(in_session("s", "touch /tmp/go")).await.unwrap();
    assert_eq!(line(&lines), "second");
    driver.close().await;
    place.assert_gone();
}

/// A server that takes one connection and tells its lines.
fn line_server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, lines) = channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (port, lines)
}

#[tokio::test]
async fn the_end_of_pasta_is_the_end_of_its_session() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let place = Place::new();
        let driver = with_sessions(&place);
        driver.run(in_session("s", "true")).await.unwrap();
        kill_pid(*pastas(&place).first().unwrap(), signal);
        place.assert_no_process_within(Duration::from_secs(2));
        let lost = driver.run(in_session("s", "true")).await.unwrap_err();
        assert_eq!(lost.code(), "session-lost", "{lost:?}");
        driver.close().await;
        place.assert_gone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_that_are_booted_ahead_have_the_network_too() {
    let place = Place::new();
    let pool = Pool {
        size: 2,
        idle_timeout: NOT_HUNG,
    };
    let driver = Arc::new(made_with(&place, |options| {
        on_network(options, LAYOUT);
        options.pool = Some(pool);
    }));
    assert_eq!(driver.prepare().await.unwrap(), 2);
    assert_eq!(pastas(&place).len(), 2);
    let script = connect("host.docker.internal", greeter("hello"));
    let outcome = driver.run(sh(&script)).await.unwrap();
    assert_eq!(out(&outcome), "hello at once\n");
    driver.close().await;
    place.assert_gone();
}

/// The children of a process that are copies of it: they have executed nothing.
fn copies(pid: u32) -> Vec<u32> {
    let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = line(pid);
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let children = threads.flatten().flatten().flat_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids: Vec<u32> = list.split(' ').filter_map(|pid| pid.parse().ok()).collect();
        pids
    });
    children.filter(|child| line(*child) == own).collect()
}

#[test]
fn the_end_of_a_holder_leaves_nothing() {
    const TRIES: usize = 12;
    let mut killed = 0;
    for attempt in 0..TRIES {
        let place = Place::new();
        let mut child = place
            .command(["run", "--no-cfc", "--", "true"])
            .spawn()
            .unwrap();
        let mut seen = 0;
        while let Ok(None) = child.try_wait() {
            // Those of the probe are the first ones, then the call's own.
            for copy in copies(child.id()) {
                seen += 1;
                if seen > attempt * 4 {
                    let pid = Pid::from_raw(copy.try_into().unwrap());
                    killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
                }
            }
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        // It failed and says so, or was done with what was killed.
        assert!(matches!(ran.code, Some(0 | 125)), "{ran:?}");
        place.assert_no_process_within(Duration::from_secs(2));
        let left = walk(&place.tmp);
        // At the most the parent of the scratch trees.
        assert!(left.len() <= 1, "{left:?}");
    }
    assert!(killed > 0, "no holder was met");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_datagram_of_one_session_comes_to_another() {
    const ROUNDS: usize = 10;
    let place = Place::new();
    let port = echo();
    let driver = with_sessions(&place);
    driver.run(sh("true")).await.unwrap();
    for round in 0..ROUNDS {
        let calls = ["a", "b"].map(|tag| {
            let (driver, call) = (Arc::clone(&driver), in_session(tag, &datagrams(tag, port)));
            tokio::spawn(async move { driver.run(call).await.unwrap() })
        });
        for call in calls {
            assert_eq!(out(&call.await.unwrap()), APART, "round {round}");
        }
    }
    driver.close().await;
    place.assert_gone();
}
