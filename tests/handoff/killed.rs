//! A host that is killed at any moment: no id is used twice, no torn record is believed, and no
//! half bundle is seen.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::handoff::artifacts::verify;
use runsc_driver::handoff::journal::{load, watch};
use serde_json::{Value, json};

use crate::common::{Place, Ran, pidfd, wait_readable, walk};
use crate::session::{Handed, Session};

const TRIES: u32 = 100;

/// Kills a process at a moment after its start; whether it had not ended by itself.
fn kill_after(mut child: Child, moment: Duration) -> bool {
    // A wait for an end that may not come: the moment is what is wanted.
    let ended = match pidfd(child.id()) {
        Some(end) => wait_readable(&end, moment),
        None => true,
    };
    let _ = kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGKILL,
    );
    child.wait().unwrap();
    !ended
}

/// Moments that are spread over a span, in no order.
fn moment(attempt: u32, span: Duration) -> Duration {
    span * (attempt * 37 % TRIES) / TRIES
}

/// The ids of every child that a host of this session wrote down as started.
fn started(session: &Session) -> Vec<String> {
    let mut ids = Vec::new();
    for path in walk(&session.path("session")) {
        if path.ends_with("events.jsonl") && !path.to_str().unwrap().contains("fanout") {
            // The last line may be torn.
            for line in fs::read_to_string(&path).unwrap().lines() {
                if let Ok(line) = serde_json::from_str::<Value>(line)
                    && line["event"] == "agent_started"
                {
                    ids.push(line["child"].as_str().unwrap().to_owned());
                }
            }
        }
    }
    ids
}

/// What is in the store is whole; what is not has no bundle's name.
fn bundles(store: &Path) -> usize {
    let mut whole = 0;
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_str()
            .unwrap()
            .starts_with(".incoming-")
        {
            continue;
        }
        let verification = verify(&entry.path());
        assert!(verification.valid, "{verification:?}");
        whole += 1;
    }
    whole
}

#[test]
fn a_killed_host_leaves_a_record_that_can_be_believed() {
    let step = "first = HOST['ids'][0]\n\
        said = [launch(child_id(first + at), value=at).stdout.read().decode() for at in range(1)]\n\
        report([first, said])\n";
    let child = "import sys\nprint('{\"subrun_report\":' + str(len(sys.stdin.readline())) + '}')\n";
    let mut session = Session::new(1, step, child);
    let timed = std::time::Instant::now();
    session.run().assert_success();
    let span = timed.elapsed();
    let (mut unknown, mut settled, mut early) = (0, 0, 0);
    for attempt in 0..TRIES {
        session.plan["run"]["revision"] = json!(attempt + 2);
        kill_after(session.start(&[]), moment(attempt, span));
        session
            .place
            .assert_no_process_within(Duration::from_secs(5));
        bundles(&session.path("session/artifacts"));
        let report = Ran::of(session.handoff("check", &[]).output().unwrap()).json();
        let state = session.path(&format!(
            "session/runs/run-7/step/r{}/state.json",
            attempt + 2
        ));
        let phase = fs::read(state)
            .map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap()["phase"].clone());
        match phase.as_ref().ok().and_then(Value::as_str) {
            // What was handed on and did not settle is held.
            Some("dispatched") => {
                assert_eq!(report["status"], "BLOCKED", "{report}");
                unknown += 1;
            }
            Some("settled") => {
                assert_eq!(report["status"], "READY", "{report}");
                settled += 1;
            }
            _ => {
                assert_eq!(report["status"], "READY", "{report}");
                early += 1;
            }
        }
    }
    // The control: hosts were killed at every part of their way.
    assert!(
        unknown > 10 && early > 3,
        "{unknown} unknown, {settled} settled, {early} early"
    );
    let ids = started(&session);
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "an id was used twice");
    for path in walk(&session.path("session")) {
        if path.ends_with("journal.jsonl") {
            let seen = watch(&path).unwrap();
            assert_eq!(load(&path).unwrap(), seen);
            for entry in seen {
                let id = entry.outcome.attempt_id().unwrap().to_owned();
                assert!(unique.contains(&id), "{id} was never started");
            }
        }
    }
    // The next host goes on behind everything, and sweeps what was half-done.
    session.plan["run"]["revision"] = json!(TRIES + 2);
    let handed = session.run();
    handed.assert_success();
    let first = handed.output(&session, "report.json")[0].as_u64().unwrap();
    for id in ids {
        let ordinal: u64 = id.rsplit('-').next().unwrap().parse().unwrap();
        assert!(
            ordinal < first,
            "{id} was started, and {first} is given out"
        );
    }
    let names = fs::read_dir(session.path("session/artifacts"))
        .unwrap()
        .flatten();
    let left = names
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with('.'))
        .count();
    assert_eq!(left, 0, "something half-done was left");
    assert!(bundles(&session.path("session/artifacts")) >= 2);
}

#[test]
fn no_ordinal_that_left_a_killed_process_is_given_out_again() {
    let place = Place::new();
    let command = || place.command(["handoff", "reserve", "--count", "3", "--root", "session"]);
    let timed = std::time::Instant::now();
    assert!(command().output().unwrap().status.success());
    let span = timed.elapsed();
    let mut told = BTreeSet::new();
    let mut cut = 0;
    for attempt in 0..TRIES {
        let mut child = command().spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        cut += usize::from(kill_after(child, moment(attempt, span)));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
        if let Ok(block) = serde_json::from_str::<Value>(&text) {
            let first = block["first"].as_u64().unwrap();
            assert!(
                (first..first + 3).all(|ordinal| told.insert(ordinal)),
                "{block}"
            );
        }
    }
    assert!(cut > 20, "only {cut} were killed before they ended");
    let last = Ran::of(command().output().unwrap()).json();
    assert!(
        told.last()
            .is_none_or(|highest| last["first"].as_u64().unwrap() > *highest)
    );
}

#[test]
fn a_bundle_is_there_whole_or_not_at_all() {
    let place = Place::new();
    for at in 0..40 {
        fs::create_dir_all(place.workspace.join("out")).unwrap();
        fs::write(place.workspace.join(format!("out/{at}")), [b'x'; 5000]).unwrap();
    }
    let command = |verb: &[&str]| {
        let args = ["bundle"].iter().chain(verb).chain(&["--root", "session"]);
        place.command(args)
    };
    let create = ["create", "out", "--all"];
    let timed = std::time::Instant::now();
    let whole = Ran::of(command(&create).output().unwrap()).json();
    let span = timed.elapsed();
    let store = place.workspace.join("session/artifacts");
    let kept = store.join(whole["artifactBundle"]["id"].as_str().unwrap());
    let copy = place.workspace.join("copy");
    fs::rename(&kept, &copy).unwrap();
    let (mut cut, mut there) = (0, 0);
    for attempt in 0..TRIES {
        let verb: &[&str] = if attempt % 2 == 0 {
            &create
        } else {
            &["import", "copy"]
        };
        cut += usize::from(kill_after(
            command(verb).spawn().unwrap(),
            moment(attempt, span),
        ));
        match bundles(&store) {
            0 => {}
            _ => {
                there += 1;
                fs::remove_dir_all(&kept).unwrap();
            }
        }
    }
    assert!(cut > 20, "only {cut} were killed before they ended");
    let first = Ran::of(command(&["import", "copy"]).output().unwrap()).json();
    assert_eq!(first["status"], "created", "{there} were whole before");
    let again = Ran::of(command(&["import", "copy"]).output().unwrap()).json();
    assert_eq!(again["status"], "existing");
    assert_eq!(
        fs::read_dir(&store).unwrap().count(),
        1,
        "something half-done was left"
    );
}

/// Two hosts cannot be told apart by what they print.
#[test]
fn a_second_host_of_a_session_is_refused() {
    let session = Session::new(1, "report(0)\n", "");
    let held = runsc_driver::handoff::host::Allocator::open(&session.path("session"), 1).unwrap();
    let refused = Ran::of(session.handoff("run", &[]).output().unwrap());
    assert_eq!(
        (refused.code, &refused.json()["error"]["code"]),
        (Some(1), &json!("ledger-held"))
    );
    drop(held);
    let handed = Handed::of(
        &Ran::of(session.handoff("run", &[]).output().unwrap()),
        &session,
    );
    handed.assert_success();
}
