//! Prebooted sandboxes: the suite of one-shot calls over them, and what is theirs alone.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{Cause, End, StartFailure, Stdin};
use runsc_driver::{Call, Driver, Pool};

use crate::common::{NOT_HUNG, Place, command_line, pidfd, wait_readable};
use crate::library::{made_with, out, sh, up};

#[allow(
    clippy::duplicate_mod,
    reason = "one suite runs with and without a pool"
)]
#[path = "calls.rs"]
mod calls;

const SIZE: usize = 2;

/// A driver whose pool is full.
fn driver(place: &Place) -> Arc<DirectDriver> {
    let driver = Arc::new(pooled(place, Duration::from_secs(600)));
    let filled = Arc::clone(&driver);
    let fill = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(filled.prepare()).unwrap()
    };
    assert_eq!(std::thread::spawn(fill).join().unwrap(), SIZE);
    driver
}

fn pooled(place: &Place, idle_timeout: Duration) -> DirectDriver {
    made_with(place, |options| {
        options.pool = Some(Pool {
            size: SIZE,
            idle_timeout,
        });
    })
}

/// No more containers are there than the pool keeps, at the latest after a while.
fn assert_call_gone(place: &Place, limit: Duration) {
    let due = Instant::now() + limit;
    loop {
        let there = containers(place);
        if there.len() <= SIZE {
            return;
        }
        assert!(Instant::now() < due, "more than the pool's: {there:?}");
        std::thread::yield_now();
    }
}

/// The ids of the containers whose processes are there.
fn containers(place: &Place) -> BTreeSet<String> {
    let lines = place.processes().into_iter().map(command_line);
    let words: Vec<_> = lines
        .flat_map(|line| {
            line.split([' ', '/', '\0'])
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    words
        .into_iter()
        .filter(|word| word.starts_with("c-") && word.matches('-').count() == 3)
        .collect()
}

async fn filled(place: &Place, driver: &DirectDriver) -> BTreeSet<String> {
    let ready = tokio::time::timeout(NOT_HUNG, driver.prepare());
    assert_eq!(ready.await.unwrap().unwrap(), SIZE);
    containers(place)
}

#[tokio::test]
async fn a_call_takes_a_ready_sandbox_and_nobody_meets_it_again() {
    let place = Place::new();
    let driver = driver(&place);
    let mut used = BTreeSet::new();
    for round in 0..6 {
        let ready = filled(&place, &driver).await;
        let mut call = sh(
            "ls -A /tmp; ls /root/left 2>/dev/null; ls /proc | grep -c '^[0-9]'; echo ${SECRET-none}; \
             echo left > /tmp/left; touch /root/left; SECRET=x sleep 300 & echo here",
        );
        if round == 0 {
            call.env.push(("SECRET".into(), "mine".into()));
        }
        let outcome = driver.run(call).await.unwrap();
        assert!(ready.contains(&outcome.container_id), "it was not ready");
        assert!(
            used.insert(outcome.container_id.clone()),
            "it was used twice"
        );
        let text = out(&outcome);
        let lines: Vec<_> = text.lines().collect();
        // The loop, the shell, and those of the pipeline: as in any fresh sandbox.
        let expected = if round == 0 { "mine" } else { "none" };
        assert_eq!(lines[lines.len() - 2..], [expected, "here"], "{text}");
        assert_eq!(lines.len(), 3, "there was something: {text}");
        assert!(
            !containers(&place).contains(&outcome.container_id),
            "it is still there"
        );
    }
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_ready_sandbox_runs_a_call_as_a_fresh_one_would() {
    let place = Place::new();
    let driver = driver(&place);
    std::fs::create_dir(place.workspace.join("sub")).unwrap();
    let script = "cat; pwd; id -u; echo $A; grep ^CapEff /proc/self/status; echo err >&2; exit 7";
    let make = || {
        let mut call = sh(script);
        call.stdin = Stdin::Bytes(b"in\n".to_vec());
        call.cwd = Some("sub".into());
        call.env.push(("A".into(), "b c".into()));
        call
    };
    let ready = filled(&place, &driver).await;
    let warm = driver.run(make()).await.unwrap();
    assert!(ready.contains(&warm.container_id));
    let fresh = made_with(&place, |_| {});
    let cold = fresh.run(make()).await.unwrap();
    fresh.close().await;
    assert_eq!((warm.end, &warm.observation), (cold.end, &cold.observation));

    filled(&place, &driver).await;
    let killed = driver.run(sh("kill -9 $$")).await.unwrap();
    let exit = killed.exit().unwrap();
    assert_eq!((exit.code, exit.cause), (137, Cause::Signal));

    filled(&place, &driver).await;
    let missing = driver.run(Call::new(["no-such-command"])).await.unwrap();
    assert_eq!(missing.end, End::NotStarted(StartFailure::NoSuchCommand));

    filled(&place, &driver).await;
    let mut call = sh("sleep 300");
    call.deadline = Some(Duration::from_millis(300));
    assert_eq!(driver.run(call).await.unwrap().end, End::TimedOut);

    filled(&place, &driver).await;
    // With the first process, the whole container is killed.
    let ended = driver.run(sh("kill -9 1; sleep 300")).await.unwrap();
    let exit = ended.exit().unwrap();
    assert_eq!((exit.code, exit.cause), (137, Cause::Signal));
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_sandbox_that_dies_under_its_command_is_lost() {
    let place = Place::new();
    let driver = driver(&place);
    filled(&place, &driver).await;
    let running = driver.run(sh("touch up; sleep 300"));
    let (outcome, ()) = tokio::join!(running, async {
        up(&place).await;
        // Asked first, the others would let the sandbox kill its command in good order.
        let sandbox = |pid: &u32| command_line(*pid).starts_with("runsc-sandbox");
        for pid in place.processes().into_iter().filter(sandbox) {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.end, outcome.exit()), (End::Lost, None));
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn what_died_waiting_is_replaced() {
    let place = Place::new();
    let driver = driver(&place);
    let ready = filled(&place, &driver).await;
    let pids = place.processes();
    let ends: Vec<_> = pids.iter().filter_map(|pid| pidfd(*pid)).collect();
    for pid in &pids {
        let _ = kill(Pid::from_raw((*pid).cast_signed()), Signal::SIGKILL);
    }
    assert!(ends.iter().all(|end| wait_readable(end, NOT_HUNG)));
    let outcome = driver.run(sh("echo hi")).await.unwrap();
    assert_eq!(out(&outcome), "hi\n");
    assert!(!ready.contains(&outcome.container_id));
    assert!(filled(&place, &driver).await.is_disjoint(&ready));
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_call_over_what_was_exchanged_gets_no_old_sandbox() {
    let place = Place::new();
    let driver = driver(&place);
    let ready = filled(&place, &driver).await;
    let old = std::fs::metadata(&place.workspace).unwrap().ino();
    std::fs::rename(&place.workspace, place.dir.path().join("old")).unwrap();
    std::fs::create_dir(&place.workspace).unwrap();
    std::fs::write(place.workspace.join("new"), "").unwrap();
    assert_ne!(std::fs::metadata(&place.workspace).unwrap().ino(), old);
    let outcome = driver.run(sh("ls")).await.unwrap();
    assert_eq!(out(&outcome), "new\n");
    assert!(!ready.contains(&outcome.container_id));
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn sandboxes_that_nobody_calls_for_end() {
    let place = Place::new();
    let driver = pooled(&place, Duration::from_secs(2));
    assert_eq!(driver.prepare().await.unwrap(), SIZE);
    let there: Vec<_> = place.processes().into_iter().filter_map(pidfd).collect();
    assert!(!there.is_empty());
    assert!(there.iter().all(|end| wait_readable(end, NOT_HUNG)));
    // The next call boots its own, and the pool comes back after it.
    assert_eq!(out(&driver.run(sh("echo hi")).await.unwrap()), "hi\n");
    assert_eq!(driver.prepare().await.unwrap(), SIZE);
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn closing_while_sandboxes_boot_leaves_nothing() {
    for step in 0..12 {
        let place = Place::new();
        let driver = pooled(&place, Duration::from_secs(600));
        let moment = Duration::from_millis(step * 25);
        let _ = tokio::time::timeout(moment, driver.prepare()).await;
        tokio::time::timeout(NOT_HUNG, driver.close())
            .await
            .unwrap();
        place.assert_no_process_within(Duration::ZERO);
        assert_eq!(driver.prepare().await.unwrap_or_default(), 0);
        drop(driver);
    }
}
