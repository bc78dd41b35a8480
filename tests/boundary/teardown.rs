//! Taking down: with no help of runsc's where none is needed, and with its own commands where the
//! end of our child was not the end of everything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use runsc_driver::driver::{End, NotTakenDown};
use runsc_driver::{Call, Driver, Error};

use crate::common::walk;
use crate::fake::{Fake, ZERO, bounded, run, started};

/// A sandbox that does not go with its runsc.
const OUTLIVES: &str = "survivor; leave_state \"$(cat \"$here/survivor\")\"; up; hold";

fn names(list: &[PathBuf]) -> Vec<&str> {
    list.iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect()
}

#[tokio::test]
async fn files_that_runsc_left_are_removed_without_asking_it() {
    for script in [
        "leave_state 0",
        "leave_state 1",
        "leave_state null; exit 7",
        "leave_state nonsense",
        "leave_state 0; kill -KILL $$",
    ] {
        let fake = Fake::doing("run", script);
        let driver = fake.driver();
        let outcome = run(&driver).await.unwrap();
        assert!(matches!(outcome.end, End::Exited | End::Lost), "{script}");
        let state = driver.config().scratch().dir().join("state");
        assert_eq!(walk(&state), Vec::<PathBuf>::new(), "{script}");
        bounded(driver.close()).await;
        assert_eq!(fake.verb_names(), ["--version", "run"], "{script}");
        fake.place.assert_gone();
    }
}

#[tokio::test]
async fn the_files_of_another_container_are_left() {
    let fake = Fake::doing(
        "run",
        ": >\"$root/${id}0.state\"; : >\"$root/other.state\"; exit 0",
    );
    let driver = fake.driver();
    assert_eq!(run(&driver).await.unwrap().exit(), ZERO);
    let state = driver.config().scratch().dir().join("state");
    assert!(walk(&state).contains(&state.join("other.state")));
    bounded(driver.close()).await;
}

#[tokio::test]
async fn a_call_that_is_stopped_is_gone_without_asking_runsc() {
    for stop in ["cancelled", "timed out"] {
        let fake = Fake::doing("run", "leave_state $$; up; hold");
        let driver = fake.driver();
        let mut call = Call::new(["true"]);
        let cancel = call.cancel.clone();
        if stop == "timed out" {
            call.deadline = Some(Duration::from_secs(2));
        }
        let running = started(&fake, &driver, call).await;
        let expected = if stop == "cancelled" {
            cancel.cancel();
            End::Cancelled
        } else {
            End::TimedOut
        };
        let outcome = bounded(running).await.unwrap();
        assert_eq!((outcome.end, outcome.exit()), (expected, None));
        fake.place.assert_no_process_within(Duration::ZERO);
        bounded(driver.close()).await;
        assert_eq!(fake.verb_names(), ["--version", "run"]);
        fake.place.assert_gone();
    }
}

#[tokio::test]
async fn what_runsc_started_in_its_own_group_goes_with_it() {
    let fake = Fake::doing("run", "up; \"$here/idle\" 1000");
    let driver = fake.driver();
    let call = Call::new(["true"]);
    let cancel = call.cancel.clone();
    let running = started(&fake, &driver, call).await;
    cancel.cancel();
    assert_eq!(bounded(running).await.unwrap().end, End::Cancelled);
    fake.place.assert_no_process_within(Duration::ZERO);
    bounded(driver.close()).await;
    assert_eq!(fake.verb_names(), ["--version", "run"]);
    fake.place.assert_gone();
}

#[tokio::test]
async fn close_takes_a_call_in_flight_down_and_refuses_later_ones() {
    let fake = Fake::doing("run", "leave_state $$; up; hold");
    let driver = fake.driver();
    let running = started(&fake, &driver, Call::new(["true"])).await;
    bounded(driver.close()).await;
    fake.place.assert_gone();
    assert_eq!(bounded(running).await.unwrap().end, End::Cancelled);
    assert!(matches!(run(&driver).await, Err(Error::Closed)));
    bounded(driver.close()).await;
    assert_eq!(fake.verb_names(), ["--version", "run"]);
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_dropped_future_takes_its_call_down() {
    let fake = Fake::doing("run", "leave_state $$; up; hold");
    let driver = fake.driver();
    drop(started(&fake, &driver, Call::new(["true"])).await);
    bounded(driver.close()).await;
    assert_eq!(fake.verb_names(), ["--version", "run"]);
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_driver_that_nothing_was_asked_of_writes_nothing() {
    let fake = Fake::new();
    let driver = fake.driver();
    bounded(driver.close()).await;
    bounded(driver.close()).await;
    drop(driver);
    drop(fake.driver());
    assert_eq!(walk(&fake.place.tmp), Vec::<PathBuf>::new());
    assert_eq!(fake.verb_names(), Vec::<String>::new());
}

/// Each control command as it was given, whole.
fn control(driver_scratch: &Path, id: &str, rounds: usize) -> Vec<Vec<String>> {
    let globals = [
        "--root",
        driver_scratch.join("state").to_str().unwrap(),
        "--ignore-cgroups",
        "--network=none",
        "--overlay2=root:memory",
    ]
    .map(str::to_owned);
    let round: [&[&str]; 3] = [
        &["kill", "--all", id, "KILL"],
        &["delete", "--force", id],
        &["state", id],
    ];
    let line = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        globals.iter().cloned().chain(words).collect()
    };
    (0..rounds).flat_map(|_| round.map(line)).collect()
}

/// Starts a call whose sandbox outlives it, stops it, and says what came of it and under which id.
async fn stopped(fake: &Fake) -> (Result<End, NotTakenDown>, Vec<Vec<String>>) {
    let driver = fake.driver();
    let call = Call::new(["true"]);
    let cancel = call.cancel.clone();
    let running = started(fake, &driver, call).await;
    cancel.cancel();
    let came_to = match bounded(running).await {
        Ok(outcome) => Ok(outcome.end),
        Err(Error::NotTakenDown(left)) => Err(left),
        Err(other) => panic!("{other:?}"),
    };
    let asked = fake.seen();
    assert_eq!(
        fake.verb_names()[..2],
        ["--version".to_owned(), "run".to_owned()]
    );
    let id = asked[1].argv.last().unwrap();
    let scratch = driver.config().scratch().dir();
    let rounds = (asked.len() - 2) / 3;
    let argvs: Vec<_> = asked.iter().skip(2).map(|seen| seen.argv.clone()).collect();
    assert_eq!(argvs, control(scratch, id, rounds));
    for seen in &asked[2..] {
        let targets: Vec<_> = seen.descriptors.values().collect();
        assert_eq!(targets, ["/dev/null"; 3]);
    }
    bounded(driver.close()).await;
    (came_to, argvs)
}

#[tokio::test]
async fn where_killing_our_child_is_not_enough_runsc_is_asked() {
    let fake = Fake::doing("run", OUTLIVES);
    fake.does("kill", "end_survivor");
    let (came_to, asked) = stopped(&fake).await;
    assert!(fake.survivor_ended());
    assert_eq!(came_to, Ok(End::Cancelled));
    assert_eq!(asked.len(), 3);
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_second_round_is_the_last() {
    let fake = Fake::doing("run", OUTLIVES);
    // The first kill fails.
    fake.does(
        "kill",
        "[ -e \"$here/again\" ] && end_survivor; : >\"$here/again\"",
    );
    fake.does(
        "state",
        "[ -e \"$here/asked\" ] && exit 128; : >\"$here/asked\"; exit 0",
    );
    let (came_to, asked) = stopped(&fake).await;
    assert!(fake.survivor_ended());
    assert_eq!(came_to, Ok(End::Cancelled));
    assert_eq!(asked.len(), 6);
    fake.place.assert_gone();
}

#[tokio::test]
async fn what_could_not_be_taken_down_is_said_and_its_files_are_left() {
    for (what, script) in [
        ("runsc still knows it", "exit 0"),
        ("runsc knows it no more, and it lives", "exit 128"),
    ] {
        let fake = Fake::doing("run", OUTLIVES);
        fake.does("state", script);
        let (came_to, asked) = stopped(&fake).await;
        assert!(!fake.survivor_ended(), "{what}");
        assert_eq!(asked.len(), 6, "{what}");
        let left = came_to.unwrap_err();
        let scratch = left.state_dir.parent().unwrap().to_owned();
        assert_eq!(left.state_dir, scratch.join("state"));
        assert_eq!(
            left.to_string(),
            format!(
                "the container {} could not be confirmed to be gone after runsc was killed and \
                 asked to delete it: look for its processes, and at {:?}",
                left.id, left.state_dir
            )
        );
        let id = &left.id;
        assert_eq!(
            names(&walk(&scratch)),
            [
                "bundles",
                id,
                "config.json",
                "runsc.log",
                "owner",
                "state",
                &format!("{id}_sandbox:{id}.lock"),
                &format!("{id}_sandbox:{id}.state"),
                &format!("runsc-{id}.sock"),
            ],
            "{what}"
        );
    }
}

#[tokio::test]
async fn the_sandbox_of_a_runsc_that_was_lost_is_taken_down() {
    let fake = Fake::doing(
        "run",
        "survivor; leave_state \"$(cat \"$here/survivor\")\"; kill -KILL $$",
    );
    fake.does("kill", "end_survivor");
    let driver = fake.driver();
    assert_eq!(run(&driver).await.unwrap().end, End::Lost);
    assert!(fake.survivor_ended());
    bounded(driver.close()).await;
    assert_eq!(
        fake.verb_names(),
        ["--version", "run", "kill", "delete", "state"]
    );
    fake.place.assert_gone();
}

#[tokio::test]
async fn close_waits_for_the_takedown_of_a_dropped_future() {
    let fake = Fake::doing("run", OUTLIVES);
    fake.does("kill", "end_survivor");
    let driver = fake.driver();
    drop(started(&fake, &driver, Call::new(["true"])).await);
    bounded(driver.close()).await;
    assert!(fake.survivor_ended());
    assert_eq!(
        fake.verb_names(),
        ["--version", "run", "kill", "delete", "state"]
    );
    fake.place.assert_gone();
}
