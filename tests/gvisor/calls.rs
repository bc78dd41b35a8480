//! One-shot calls: ends of every way, many at once, and what is left of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runsc_driver::driver::{Cause, End, Exit, Output, Stdin};
use runsc_driver::{Call, Driver, Error};

use super::{assert_call_gone, driver};
use crate::common::{NOT_HUNG, Place, wait_for};
use crate::library::{out, sh, started, up};

const ZERO: Option<Exit> = Some(Exit {
    code: 0,
    cause: Cause::Exit,
});

#[tokio::test]
async fn one_driver_serves_many_calls_and_leaves_nothing() {
    let place = Place::new();
    let driver = driver(&place);
    for number in 0..3 {
        let outcome = driver.run(sh(&format!("echo {number}"))).await.unwrap();
        assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
        assert_eq!(out(&outcome), format!("{number}\n"));
    }
    driver.close().await;
    place.assert_gone();
    assert!(matches!(driver.run(sh("true")).await, Err(Error::Closed)));
    driver.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_at_once_are_all_right() {
    let place = Place::new();
    let driver = driver(&place);
    let calls: Vec<_> = (0..64)
        .map(|number: u8| {
            let driver = Arc::clone(&driver);
            tokio::spawn(async move {
                let mut call = sh(&format!("cat; echo {number}; exit {number}"));
                call.stdin = Stdin::Bytes(format!("in {number}\n").into_bytes());
                (number, driver.run(call).await.unwrap())
            })
        })
        .collect();
    for call in calls {
        let (number, outcome) = call.await.unwrap();
        assert_eq!(out(&outcome), format!("in {number}\n{number}\n"));
        assert_eq!(outcome.exit().unwrap().code, number);
    }
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_cancelled_call_is_gone_when_it_returns() {
    let place = Place::new();
    let driver = driver(&place);
    let call = sh("touch up; sleep 100 & setsid sleep 100 & sleep 100");
    let cancel = call.cancel.clone();
    let running = tokio::spawn({
        let driver = Arc::clone(&driver);
        async move { driver.run(call).await }
    });
    up(&place).await;
    cancel.cancel();
    let outcome = running.await.unwrap().unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert_call_gone(&place, Duration::ZERO);
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_dropped_future_takes_its_container_down() {
    let place = Place::new();
    let driver = driver(&place);
    let running = started(&driver, sh("touch up; sleep 100"), &place).await;
    assert!(!place.processes().is_empty());
    drop(running);
    assert_call_gone(&place, Duration::from_secs(2));
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn dropping_a_future_at_any_moment_leaves_nothing() {
    let place = Place::new();
    let driver = driver(&place);
    for step in 0..40 {
        let running = driver.run(sh("sleep 100"));
        let moment = Duration::from_millis(step * 5);
        assert!(tokio::time::timeout(moment, running).await.is_err());
    }
    tokio::time::timeout(NOT_HUNG, driver.close())
        .await
        .unwrap();
    place.assert_gone();
}

#[tokio::test]
async fn close_takes_down_calls_whose_futures_nobody_polls() {
    let place = Place::new();
    let driver = driver(&place);
    let running = started(&driver, sh("touch up; sleep 100"), &place).await;
    tokio::time::timeout(NOT_HUNG, driver.close())
        .await
        .unwrap();
    place.assert_gone();
    assert_eq!(running.await.unwrap().end, End::Cancelled);
}

#[tokio::test]
async fn a_driver_dropped_without_close_leaves_nothing_running() {
    let place = Place::new();
    let driver = driver(&place);
    drop(started(&driver, sh("touch up; sleep 100"), &place).await);
    drop(driver);
    place.assert_no_process_within(Duration::from_secs(2));
}

#[test]
fn a_runtime_that_goes_away_in_mid_call_leaves_nothing_running() {
    let place = Place::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let driver = driver(&place);
    let running = Arc::clone(&driver);
    runtime.spawn(async move { running.run(sh("touch up; sleep 100")).await });
    wait_for(&place.workspace, "up");
    runtime.shutdown_background();
    assert_call_gone(&place, Duration::from_secs(2));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(driver.close());
    place.assert_gone();
}

#[tokio::test]
async fn a_long_argument_works_and_what_runsc_would_change_is_refused() {
    let place = Place::new();
    let driver = driver(&place);
    let long = "x".repeat(200 * 1024);
    let outcome = driver
        .run(Call::new([
            "sh",
            "-c",
            "printf %s \"$1\" | wc -c",
            "sh",
            &long,
        ]))
        .await;
    assert_eq!(out(&outcome.unwrap()), format!("{}\n", long.len()));

    let mut call = Call::new(["env"]);
    call.env.push(("LONG".into(), long.clone().into()));
    assert!(out(&driver.run(call).await.unwrap()).contains(&long));

    let refused = |argv: Vec<OsString>| {
        let driver = Arc::clone(&driver);
        async move { driver.run(Call::new(argv)).await.unwrap_err().code() }
    };
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    assert_eq!(
        refused(vec!["echo".into(), bytes(b"a\0b")]).await,
        "nul-byte"
    );
    assert_eq!(
        refused(vec!["echo".into(), bytes(b"a\xffb")]).await,
        "not-utf8"
    );
    assert_eq!(refused(vec![]).await, "empty-command");
    for (name, value, code) in [
        (bytes(b""), bytes(b"x"), "bad-variable-name"),
        (bytes(b"A=B"), bytes(b"x"), "bad-variable-name"),
        (bytes(b"A"), bytes(b"\xff"), "not-utf8"),
        (bytes(b"A"), bytes(b"x\0"), "nul-byte"),
    ] {
        let mut call = Call::new(["true"]);
        call.env.push((name, value));
        assert_eq!(driver.run(call).await.unwrap_err().code(), code);
    }
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_slow_reader_gets_all_and_delays_no_deadline() {
    let place = Place::new();
    let driver = driver(&place);
    let (ours, mut theirs) = tokio::io::duplex(64);
    let mut call = sh("seq 1 50000");
    call.stdout = Output::Stream(Box::new(ours));
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut all)
            .await
            .unwrap();
        all
    });
    let outcome = driver.run(call).await.unwrap();
    assert_eq!(outcome.exit(), ZERO);
    let all = reader.await.unwrap();
    assert_eq!(all.len() as u64, outcome.released().unwrap().stdout.bytes);
    assert!(all.ends_with(b"49999\n50000\n"));

    // A reader that never reads: the deadline comes all the same.
    let (ours, _theirs) = tokio::io::duplex(64);
    let mut call = sh("yes");
    call.stdout = Output::Stream(Box::new(ours));
    call.deadline = Some(Duration::from_secs(1));
    let started = Instant::now();
    assert_eq!(driver.run(call).await.unwrap().end, End::TimedOut);
    assert!(started.elapsed() < NOT_HUNG);
    driver.close().await;
    place.assert_gone();
}
