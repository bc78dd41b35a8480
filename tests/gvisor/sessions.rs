//! Sessions on real gVisor: state between calls, ends of every kind, and what is left.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{
    End, ExecVia, LostReason, OnOverrun, SessionInfo, SessionRefusal, SessionState, StartFailure,
    Stdin,
};
use runsc_driver::{Call, Driver, Error, Outcome};

use super::{VIA, driver};
use crate::common::{NOT_HUNG, Place};
use crate::library::{out, sh, started, up};

fn within(session: &str, script: &str) -> Call {
    let mut call = sh(script);
    call.session = Some(session.to_owned());
    call
}

async fn run(driver: &DirectDriver, session: &str, script: &str) -> Result<Outcome, Error> {
    tokio::time::timeout(NOT_HUNG, driver.run(within(session, script)))
        .await
        .unwrap()
}

/// A call that is cancelled once it says that it is up.
async fn cancelled(driver: &DirectDriver, place: &Place, script: &str) -> Outcome {
    let call = within("s", script);
    let cancel = call.cancel.clone();
    let (outcome, ()) = tokio::join!(driver.run(call), async {
        up(place).await;
        cancel.cancel();
    });
    outcome.unwrap()
}

/// The output of a call that exits 0.
async fn text(driver: &DirectDriver, session: &str, script: &str) -> String {
    let outcome = run(driver, session, script).await.unwrap();
    assert_eq!(outcome.exit().map(|exit| exit.code), Some(0), "{outcome:?}");
    out(&outcome)
}

fn refusal(result: Result<Outcome, Error>) -> SessionRefusal {
    match result {
        Err(Error::Session(refusal)) => refusal,
        other => panic!("not a session's refusal: {other:?}"),
    }
}

fn lost(name: &str, why: LostReason) -> SessionRefusal {
    SessionRefusal::Lost {
        name: name.into(),
        why,
    }
}

#[tokio::test]
async fn state_stays_between_calls_and_between_no_two_sessions() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "a", "echo kept > /tmp/f; mkdir /opt/made").await;
    assert_eq!(
        text(&driver, "a", "cat /tmp/f; ls -d /opt/made").await,
        "kept\n/opt/made\n"
    );
    assert_eq!(text(&driver, "b", "ls /tmp | wc -l").await, "0\n");
    let fresh = driver.run(sh("ls /tmp | wc -l")).await.unwrap();
    assert_eq!(out(&fresh), "0\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn what_calls_leave_behind_is_reaped() {
    let place = Place::new();
    let driver = driver(&place);
    // Each outlives its parent, and tells its pid first.
    let leave = "for i in $(seq 20); do \
                 (sh -c 'echo $$ >> /tmp/pids; exec sleep 0.3' &); done; \
                 for i in $(seq 300); do \
                 [ $(wc -l < /tmp/pids) = 20 ] && exit 0; sleep 0.1; done; exit 1";
    text(&driver, "s", leave).await;
    let gone = "for i in $(seq 300); do there=; \
                for pid in $(cat /tmp/pids); do [ -e /proc/$pid ] && there=$there.; done; \
                [ \"$there\" ] || exit 0; sleep 0.1; done; exit 1";
    text(&driver, "s", gone).await;
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_server_in_the_background_serves_later_calls_and_delays_none() {
    let place = Place::new();
    let driver = driver(&place);
    // It logs each request to the standard error of the call that started it.
    let server = "mkdir /tmp/www; echo served > /tmp/www/f; cd /tmp/www; \
                  python3 -u -m http.server 8000 --bind 127.0.0.1 & echo started";
    let started = run(&driver, "s", server).await.unwrap();
    assert!(out(&started).starts_with("started\n"), "{started:?}");
    assert!(started.released().unwrap().stdout.open);
    let fetch = "curl -sf --retry 50 --retry-delay 0 --retry-max-time 20 --retry-connrefused \
                 http://127.0.0.1:8000/f";
    for _ in 0..3 {
        assert_eq!(text(&driver, "s", fetch).await, "served\n");
    }
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn a_package_that_a_call_installed_is_there_for_later_ones() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", WHEEL).await;
    text(
        &driver,
        "s",
        "pip install --quiet --no-index --break-system-packages ./greeting-1.0-py3-none-any.whl",
    )
    .await;
    let greet = "python3 -c 'import greeting; print(greeting.WORD)'";
    assert_eq!(text(&driver, "s", greet).await, "hello\n");
    // It is the session's, and the image is as it was.
    assert_eq!(code(&run(&driver, "other", greet).await.unwrap()), 1);
    assert_eq!(code(&driver.run(sh(greet)).await.unwrap()), 1);
    driver.close().await;
    place.assert_gone();
}

/// Makes the smallest wheel in the workspace.
const WHEEL: &str = r#"python3 - <<'END'
import zipfile
info = "greeting-1.0.dist-info/"
with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("greeting.py", "WORD = 'hello'\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "".join(name + ",,\n" for name in wheel.namelist()) + info + "RECORD,,\n")
END"#;

fn code(outcome: &Outcome) -> u8 {
    outcome.exit().unwrap().code
}

#[tokio::test]
async fn a_call_starts_no_more_than_its_runsc_exec() {
    let place = Place::new();
    let (wrapper, starts) = recording(&place);
    let driver = super::over(&place, &wrapper);
    for number in 0..5 {
        let script = format!("echo {number}");
        assert_eq!(text(&driver, "s", &script).await, format!("{number}\n"));
    }
    driver.close().await;
    let mut expected = vec!["version", "run"];
    if VIA == ExecVia::CommandLine {
        expected.extend(["exec"; 5]);
    }
    assert_eq!(starts(), expected);
    place.assert_gone();
}

/// A program that notes each start and becomes the store's runsc; and the verbs so far. What runsc
/// itself starts again is not it.
fn recording(place: &Place) -> (PathBuf, impl Fn() -> Vec<String>) {
    let log = place.dir.path().join("starts");
    let script = format!(
        "#!/bin/sh\nfor word; do case $word in --version) echo version;; \
         run|exec|kill|delete|state|ps) echo \"$word\"; break;; esac; done >>{log}\n\
         exec {runsc} \"$@\"\n",
        log = log.display(),
        runsc = crate::common::store().join("bin/runsc").display()
    );
    let wrapper = place.dir.path().join("runsc");
    crate::common::install(&wrapper, &script);
    let verbs = move || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    (wrapper, verbs)
}

#[tokio::test]
async fn each_call_has_its_own_directory_variables_input_and_streams() {
    let place = Place::new();
    std::fs::create_dir(place.workspace.join("sub")).unwrap();
    let driver = driver(&place);
    let mut call = within("s", "pwd; echo $A-$HOME; cat; echo err >&2; exit 3");
    call.cwd = Some("sub".into());
    call.env.push(("A".into(), "x y".into()));
    call.stdin = Stdin::Bytes(b"in\n".to_vec());
    let outcome = driver.run(call).await.unwrap();
    assert_eq!(out(&outcome), "/workspace/sub\nx y-/root\nin\n");
    assert_eq!(outcome.released().unwrap().stderr.head, b"err\n");
    assert_eq!(outcome.exit().unwrap().code, 3);
    assert_eq!(text(&driver, "s", "pwd; echo $A.").await, "/workspace\n.\n");

    let mut call = within("s", "true");
    call.cwd = Some("/etc".into());
    assert_eq!(
        driver.run(call).await.unwrap_err().code(),
        "cwd-outside-mounts"
    );
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn what_cannot_start_leaves_the_session_alone() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", "echo here > /tmp/f").await;
    for (argv, failure) in [
        (["nosuch"], StartFailure::NoSuchCommand),
        (["/bin/nosuch"], StartFailure::NoSuchCommand),
        (["/etc/passwd"], StartFailure::NotExecutable),
    ] {
        let mut call = Call::new(argv);
        call.session = Some("s".into());
        assert_eq!(
            driver.run(call).await.unwrap().end,
            End::NotStarted(failure)
        );
    }
    assert_eq!(text(&driver, "s", "cat /tmp/f").await, "here\n");
    assert_eq!(
        run(&driver, "s", "exit 128")
            .await
            .unwrap()
            .exit()
            .unwrap()
            .code,
        128
    );
    assert_eq!(
        run(&driver, "s", "kill -9 $$")
            .await
            .unwrap()
            .exit()
            .unwrap()
            .code,
        137
    );
    assert_eq!(text(&driver, "s", "cat /tmp/f").await, "here\n");
    driver.close().await;
}

#[tokio::test]
async fn long_arguments_and_variables_pass_whole() {
    let place = Place::new();
    let driver = driver(&place);
    let long = "x".repeat(300 * 1024);
    let mut call = Call::new(["sh", "-c", "echo ${#1} ${#LONG} $HOME; pwd", "sh", &long]);
    call.session = Some("s".into());
    call.env.push(("LONG".into(), long.clone().into()));
    let outcome = driver.run(call).await.unwrap();
    assert_eq!(
        out(&outcome),
        format!("{0} {0} /root\n/workspace\n", long.len()),
        "{outcome:?}"
    );
    driver.close().await;
    place.assert_gone();
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_sessions_with_twenty_calls_each_and_no_ninth() {
    let place = Place::new();
    let driver = driver(&place);
    let calls: Vec<_> = (0..160)
        .map(|number| {
            let driver = Arc::clone(&driver);
            tokio::spawn(async move {
                let name = format!("s{}", number % 8);
                let script = format!("echo {number} >> /tmp/calls; echo {number}");
                assert_eq!(text(&driver, &name, &script).await, format!("{number}\n"));
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(
        refusal(run(&driver, "ninth", "true").await),
        SessionRefusal::Limit { held: 8 }
    );
    for name in 0..8 {
        assert_eq!(
            text(&driver, &format!("s{name}"), "wc -l < /tmp/calls").await,
            "20\n"
        );
    }
    let listed = driver.sessions();
    assert_eq!(listed.len(), 8);
    let ids: Vec<_> = listed
        .iter()
        .map(|session| session.container_id.clone())
        .collect();
    for id in &ids {
        assert!(
            ids.iter()
                .all(|other| other == id || !other.starts_with(id.as_str()))
        );
    }
    tokio::time::timeout(NOT_HUNG, driver.close())
        .await
        .unwrap();
    place.assert_gone();
}

#[tokio::test]
async fn the_list_tells_what_is_held() {
    let place = Place::new();
    let driver = driver(&place);
    assert_eq!(driver.sessions(), []);
    text(&driver, "b", "true").await;
    text(&driver, "a", "true").await;
    text(&driver, "a", "true").await;
    let told: Vec<_> = driver
        .sessions()
        .into_iter()
        .map(
            |SessionInfo {
                 name,
                 calls,
                 running,
                 state,
                 last_call,
                 ..
             }| { (name, calls, running, state, last_call.is_some()) },
        )
        .collect();
    let running = SessionState::Running;
    assert_eq!(
        told,
        [
            ("a".into(), 2, 0, running, true),
            ("b".into(), 1, 0, running, true)
        ]
    );
    assert!(
        driver
            .sessions()
            .iter()
            .all(|session| session.via == Some(VIA))
    );
    assert!(driver.describe().sessions);
    driver.close().await;
    assert_eq!(driver.sessions(), []);
}

#[tokio::test]
async fn a_killed_container_is_told_once_and_is_then_a_new_one() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", "echo old > /tmp/f").await;
    // The first process is all that keeps the container.
    let killer = run(&driver, "s", "kill -9 1; read x < /dev/zero").await;
    match killer {
        // It may have gone with the container before it could say anything.
        Err(Error::Session(SessionRefusal::EndedDuringCall { .. })) => {}
        Ok(outcome) => {
            assert_eq!(outcome.exit().unwrap().code, 137, "{outcome:?}");
            // The next call may come before runsc knows.
            let told = refusal(run(&driver, "s", "true").await);
            let during = SessionRefusal::EndedDuringCall { name: "s".into() };
            assert!(
                told == lost("s", LostReason::Exited) || told == during,
                "{told:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(text(&driver, "s", "ls /tmp | wc -l").await, "0\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn an_overrun_takes_the_session_down_and_is_told_once() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", "echo old > /tmp/f").await;
    let mut call = within("s", "sleep 777");
    call.deadline = Some(Duration::from_secs(1));
    assert_eq!(driver.run(call).await.unwrap().end, End::TimedOut);
    place.assert_no_process_within(Duration::ZERO);
    assert_eq!(
        refusal(run(&driver, "s", "true").await),
        lost("s", LostReason::TimedOut)
    );
    assert_eq!(
        text(
            &driver,
            "s",
            "ls /tmp | wc -l; ps -e | grep -c 'sleep 777'; true"
        )
        .await,
        "0\n0\n"
    );
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn an_overrun_can_stop_the_command_alone() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", "echo old > /tmp/f; sleep 555 & true").await;
    let mut call = within("s", "echo so far; sleep 777; true");
    call.deadline = Some(Duration::from_secs(1));
    call.on_overrun = OnOverrun::StopCommand;
    let outcome = driver.run(call).await.unwrap();
    assert_eq!(
        (outcome.end, out(&outcome).as_str()),
        (End::TimedOut, "so far\n")
    );
    let left = "cat /tmp/f; ps -eo args | grep -E '^sleep' | sort";
    assert_eq!(text(&driver, "s", left).await, "old\nsleep 555\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn cancelling_stops_the_command_and_keeps_the_session() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "s", "echo old > /tmp/f").await;
    let outcome = cancelled(&driver, &place, "touch up; sleep 777; true").await;
    assert_eq!(outcome.end, End::Cancelled);
    let left = "cat /tmp/f; ps -eo args | grep -E '^sleep' | sort";
    assert_eq!(text(&driver, "s", left).await, "old\n");

    // Dropped, it is stopped too; the session is there before and after.
    std::fs::remove_file(place.workspace.join("up")).unwrap();
    drop(started(&driver, within("s", "touch up; sleep 778; true"), &place).await);
    let gone = "for i in $(seq 200); do ps -eo args | grep -qE '^sleep' || exit 0; done; exit 1";
    text(&driver, "s", gone).await;
    assert_eq!(text(&driver, "s", "cat /tmp/f").await, "old\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn what_is_started_while_a_command_is_stopped_goes_with_it() {
    let place = Place::new();
    let driver = driver(&place);
    for _ in 0..5 {
        let script = "for i in $(seq 300); do sleep 777 & touch up; done; wait";
        let outcome = cancelled(&driver, &place, script).await;
        assert_eq!(outcome.end, End::Cancelled);
        let gone = "for i in $(seq 100); do ps -eo args | grep -q '^sleep' || exit 0; done; exit 1";
        text(&driver, "s", gone).await;
        std::fs::remove_file(place.workspace.join("up")).unwrap();
    }
    driver.close().await;
    place.assert_gone();
}

#[tokio::test]
async fn names_and_modes_are_refused_before_anything_runs() {
    let place = Place::new();
    let driver = driver(&place);
    for name in ["", "-a", "a/b", "a b", "a\n", "../x"] {
        let refused = refusal(run(&driver, name, "true").await);
        assert_eq!(refused, SessionRefusal::InvalidName { name: name.into() });
    }
    let mut call = within("s", "true");
    let context = r#"{"type":"cf-harness.cfc-invocation-context","version":1,"sequence":1,
        "runId":"r","createdAt":"2026-01-02T03:04:05.000Z","toolId":"bash","operation":"shell",
        "cfcEnforcementMode":"enforce-explicit","cwd":"/workspace","runManifest":{"present":false},
        "inputs":{}}"#;
    call.context =
        Some(runsc_driver::cfc::context::InvocationContext::parse(context.as_bytes()).unwrap());
    let mode = EnforcementMode::EnforceExplicit;
    let refused = refusal(driver.run(call).await);
    assert_eq!(refused, SessionRefusal::EnforcingMode { mode });
    assert_eq!(driver.sessions(), []);
    assert_eq!(
        crate::common::walk(&place.tmp),
        Vec::<std::path::PathBuf>::new()
    );
}

#[tokio::test]
async fn close_takes_sessions_down_also_those_that_start() {
    let place = Place::new();
    let driver = driver(&place);
    text(&driver, "up", "sleep 777 & true").await;
    let mut starting = driver.run(within("starting", "true"));
    let first = tokio::time::timeout(Duration::from_millis(20), &mut starting).await;
    assert!(first.is_err());
    tokio::time::timeout(NOT_HUNG, driver.close())
        .await
        .unwrap();
    place.assert_gone();
    let after = starting.await;
    let told = matches!(
        &after,
        Ok(Outcome {
            end: End::Cancelled,
            ..
        }) | Err(Error::Closed | Error::Session(_))
    );
    assert!(told, "{after:?}");
    assert!(matches!(
        run(&driver, "new", "true").await,
        Err(Error::Closed)
    ));
}

#[tokio::test]
async fn a_child_has_sessions_and_scratch_of_its_own() {
    let place = Place::new();
    let parent = driver(&place);
    text(&parent, "s", "echo parent > /tmp/f").await;
    let child = parent.child("child").unwrap();
    let listed = child.run(within("s", "ls /tmp | wc -l")).await.unwrap();
    assert_eq!(out(&listed), "0\n");
    child.close().await;
    assert_eq!(text(&parent, "s", "cat /tmp/f").await, "parent\n");
    parent.close().await;
    place.assert_gone();
}
