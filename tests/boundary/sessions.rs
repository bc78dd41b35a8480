//! Sessions at the process boundary: what runsc is started with, how often, and its faults.

use std::fs;
use std::sync::Arc;

use runsc_driver::cfc::context::InvocationContext;
use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::cfc::result::DiagnosticCode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{End, LostReason, Observation, SessionRefusal};
use runsc_driver::{Call, Driver, Error, Outcome};
use serde_json::{Value, json};

use crate::common::{is_root, walk};
use crate::fake::{Fake, Seen, bounded};

/// A fake whose runs are sessions.
pub fn sessions() -> Fake {
    Fake::doing("run", "session")
}

fn within(session: &str) -> Call {
    let mut call = Call::new(["make", "a b"]);
    call.session = Some(session.to_owned());
    call
}

async fn run(driver: &DirectDriver, session: &str) -> Result<Outcome, Error> {
    bounded(driver.run(within(session))).await
}

fn code(outcome: &Outcome) -> Option<u8> {
    outcome.exit().map(|exit| exit.code)
}

fn refusal(result: Result<Outcome, Error>) -> SessionRefusal {
    match result {
        Err(Error::Session(refusal)) => refusal,
        other => panic!("not a session's refusal: {other:?}"),
    }
}

fn lost(why: LostReason) -> SessionRefusal {
    SessionRefusal::Lost {
        name: "s".into(),
        why,
    }
}

fn during() -> SessionRefusal {
    SessionRefusal::EndedDuringCall { name: "s".into() }
}

/// The starts with this verb.
fn starts(fake: &Fake, verb: &str) -> Vec<Seen> {
    let mut seen = fake.seen();
    seen.retain(|seen| seen.argv.iter().any(|arg| arg == verb));
    seen
}

/// The words after a verb.
fn after<'a>(seen: &'a Seen, verb: &str) -> &'a [String] {
    let at = seen.argv.iter().position(|arg| arg == verb).unwrap();
    &seen.argv[at + 1..]
}

pub fn with_policy(fake: &Fake, mode: EnforcementMode) -> Arc<DirectDriver> {
    let policy = fake.place.dir.path().join("policy.json");
    fs::write(&policy, "{}").unwrap();
    let mut options = fake.options();
    options.policy = Some(policy);
    options.mode = mode;
    fake.driver_of(options)
}

#[tokio::test]
async fn a_call_in_a_session_costs_one_start() {
    let fake = sessions();
    let driver = fake.driver();
    for _ in 0..5 {
        assert_eq!(code(&run(&driver, "s").await.unwrap()), Some(0));
    }
    assert_eq!(
        fake.verb_names(),
        ["--version", "run", "exec", "exec", "exec", "exec", "exec"]
    );
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn the_command_lines_of_a_session_are_exactly_these() {
    let fake = sessions();
    fs::create_dir(fake.place.workspace.join("sub")).unwrap();
    let mut options = fake.options();
    options.run_id = "run-abc".to_owned();
    // Only root can be somebody else in the container.
    let user = is_root().then_some("1000:2000");
    options.user = user.map(str::to_owned);
    if user.is_some() {
        let (uid, gid) = (Some(1000.into()), Some(2000.into()));
        nix::unistd::chown(&fake.place.workspace, uid, gid).unwrap();
    }
    let driver = fake.driver_of(options);
    let mut call = within("s");
    call.cwd = Some("sub".into());
    call.env.push(("B".into(), "x y".into()));
    call.env.push(("A".into(), "1".into()));
    let outcome = bounded(driver.run(call)).await.unwrap();
    let id = outcome.container_id;
    assert!(
        id.starts_with("s-run-abc-") && id.ends_with("-0001") && id.len() == 23,
        "{id}"
    );

    let run = &starts(&fake, "run")[0];
    let scratch = driver.config().scratch().dir().to_str().unwrap();
    assert_eq!(
        after(run, "run"),
        ["--bundle", &format!("{scratch}/bundles/{id}"), &id]
    );
    assert!(run.descriptors[&0].starts_with("pipe:"), "{run:?}");
    let numbers: Vec<_> = run.descriptors.keys().copied().collect();
    assert_eq!(numbers, [0, 1, 2], "{run:?}");
    for output in [1, 2] {
        assert_eq!(run.descriptors[&output], "/dev/null", "{run:?}");
    }

    let exec = &starts(&fake, "exec")[0];
    let words = after(exec, "exec");
    assert_eq!(words[0], "--internal-pid-file");
    let call_dir = words[1].strip_suffix("/pid").unwrap();
    let name = call_dir.strip_prefix(&format!("{scratch}/bundles/x-run-abc-"));
    assert!(name.is_some(), "{call_dir}");
    let mut expected = vec!["--cwd", "/workspace/sub", "--env", "A=1", "--env", "B=x y"];
    expected.extend(user.iter().flat_map(|user| ["--user", *user]));
    expected.extend([id.as_str(), "make", "a b"]);
    assert_eq!(words[2..], expected);
    assert!(
        !fs::exists(call_dir).unwrap(),
        "a call's directory was left"
    );
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn two_names_are_two_containers_and_so_are_two_runs() {
    let fake = sessions();
    let (one, other) = (fake.driver(), fake.driver());
    let mut ids = Vec::new();
    for (driver, name) in [(&one, "a"), (&one, "b"), (&other, "a"), (&one, "a")] {
        ids.push(run(driver, name).await.unwrap().container_id);
    }
    assert_eq!(ids[0], ids[3]);
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    let ends: Vec<_> = ids.iter().map(|id| &id[id.len() - 5..]).collect();
    assert_eq!(ends, ["-0001", "-0002", "-0001", "-0001"]);
    bounded(one.close()).await;
    bounded(other.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn first_calls_at_once_share_one_start() {
    let fake = sessions();
    let driver = fake.driver();
    let calls = [(); 6].map(|()| {
        let driver = Arc::clone(&driver);
        tokio::spawn(async move { run(&driver, "s").await.unwrap().container_id })
    });
    let mut ids = Vec::new();
    for call in calls {
        ids.push(call.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(starts(&fake, "run").len(), 1);
    assert_eq!(starts(&fake, "exec").len(), 6);
    bounded(driver.close()).await;
}

fn context(mode: &str, sequence: u64) -> InvocationContext {
    let context = json!({
        "type": "cf-harness.cfc-invocation-context", "version": 1, "sequence": sequence,
        "runId": "r", "createdAt": "2026-01-02T03:04:05.000Z", "toolId": "bash",
        "operation": "shell", "cfcEnforcementMode": mode, "cwd": "/workspace",
        "runManifest": {"present": false}, "inputs": {},
    });
    InvocationContext::parse(context.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn in_observe_each_call_has_its_own_context_and_its_own_result() {
    let fake = sessions();
    fake.does(
        "exec",
        r#"cat <&3 >"$here/context.$(ls "$here" | grep -c '^context')"
           shift "$words"
           case $2 in tainted) result "$tainted" ;; public) result "$public" ;; esac >&4
           echo "out of $2""#,
    );
    let driver = with_policy(&fake, EnforcementMode::Observe);
    let mut outcomes = Vec::new();
    for (sequence, what) in [(7, "public"), (8, "tainted"), (9, "nothing")] {
        let mut call = Call::new(["say", what]);
        call.session = Some("s".into());
        call.context = Some(context("observe", sequence));
        let outcome = bounded(driver.run(call)).await.unwrap();
        let told: Value =
            serde_json::from_str(&fake.read(&format!("context.{}", sequence - 7))).unwrap();
        assert_eq!(told["sequence"], sequence);
        outcomes.push(outcome);
    }
    let Observation::Observed { released, .. } = &outcomes[0].observation else {
        panic!("{:?}", outcomes[0])
    };
    assert_eq!(released.stdout.head, b"out of public\n");
    let Observation::Opaque {
        label,
        stdout_bytes,
        ..
    } = &outcomes[1].observation
    else {
        panic!("{:?}", outcomes[1])
    };
    assert_eq!(
        (label.confidentiality.as_slice(), *stdout_bytes),
        (&[json!("finance")][..], 15)
    );
    let Observation::Denied { diagnostics } = &outcomes[2].observation else {
        panic!("{:?}", outcomes[2])
    };
    assert_eq!(diagnostics[0].code, DiagnosticCode::ResultFdUnreadable);

    // Nothing seeds the container's own labels.
    let run = &starts(&fake, "run")[0];
    assert!(run.argv.contains(&"--cfc".to_owned()));
    assert_eq!(after(run, "run")[0], "--bundle");
    for exec in starts(&fake, "exec") {
        assert_eq!(
            after(&exec, "exec")[..4],
            ["--cfc-invocation-context-fd", "3", "--cfc-result-fd", "4"]
        );
    }
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn without_a_policy_a_call_has_no_context_and_no_result() {
    let fake = sessions();
    let driver = fake.driver();
    let mut call = within("s");
    call.context = Some(context("observe", 1));
    let outcome = bounded(driver.run(call)).await.unwrap();
    assert!(matches!(outcome.observation, Observation::Untracked(_)));
    let exec = &starts(&fake, "exec")[0];
    assert!(
        !exec.argv.iter().any(|arg| arg.starts_with("--cfc")),
        "{exec:?}"
    );
    let numbers: Vec<_> = exec.descriptors.keys().copied().collect();
    assert_eq!(numbers, [0, 1, 2]);
    bounded(driver.close()).await;
}

#[tokio::test]
async fn an_enforcing_call_runs_in_no_session_and_runs_without_one() {
    for mode in [
        EnforcementMode::EnforceExplicit,
        EnforcementMode::EnforceStrict,
    ] {
        let fake = Fake::doing("run", r#"result "$public" >&4; echo ran"#);
        let driver = with_policy(&fake, mode);
        assert_eq!(
            refusal(run(&driver, "s").await),
            SessionRefusal::EnforcingMode { mode }
        );
        assert_eq!(fake.seen(), []);
        assert_eq!(walk(&fake.place.tmp), Vec::<std::path::PathBuf>::new());
        let outcome = bounded(driver.run(Call::new(["true"]))).await.unwrap();
        assert_eq!(code(&outcome), Some(0));
        bounded(driver.close()).await;
    }
}

#[tokio::test]
async fn a_container_that_exits_at_once_fails_the_start_and_is_tried_again() {
    let fake = Fake::doing("run", "exit 42");
    let driver = fake.driver();
    let SessionRefusal::StartFailed { why, .. } = refusal(run(&driver, "s").await) else {
        panic!("another refusal")
    };
    assert!(why.contains("status 42"), "{why}");
    assert_eq!(driver.sessions(), []);
    fake.does("run", "session");
    let id = run(&driver, "s").await.unwrap().container_id;
    assert!(id.ends_with("-0002"), "{id}");
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_container_that_never_runs_fails_the_start_and_is_taken_down() {
    let fake = Fake::doing("run", r#"leave_state "$$"; hold"#);
    let driver = fake.driver();
    let SessionRefusal::StartFailed { why, .. } = refusal(run(&driver, "s").await) else {
        panic!("another refusal")
    };
    assert!(why.contains("30 seconds"), "{why}");
    assert_eq!(driver.sessions(), []);
    fake.does("run", "session");
    assert!(
        run(&driver, "s")
            .await
            .unwrap()
            .container_id
            .ends_with("-0002")
    );
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_container_that_went_with_the_call_is_told_by_the_call() {
    let fake = sessions();
    // As runsc does it where the container died under the call: 128 and not a word.
    fake.does("exec", "end_session; exit 128");
    let driver = fake.driver();
    assert_eq!(refusal(run(&driver, "s").await), during());
    fake.does("exec", "");
    let outcome = run(&driver, "s").await.unwrap();
    assert!(outcome.container_id.ends_with("-0002"));
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_command_that_ended_its_container_keeps_its_result() {
    for (script, status) in [
        ("end_session; exit 137", 137),
        ("end_session; echo out; exit 128", 128),
        ("end_session; exit 1", 1),
    ] {
        let fake = sessions();
        fake.does("exec", script);
        let driver = fake.driver();
        assert_eq!(code(&run(&driver, "s").await.unwrap()), Some(status));
        assert_eq!(refusal(run(&driver, "s").await), lost(LostReason::Exited));
        fake.does("exec", "");
        let id = run(&driver, "s").await.unwrap().container_id;
        assert!(id.ends_with("-0002"), "{id}");
        bounded(driver.close()).await;
        fake.place.assert_gone();
    }
}

#[tokio::test]
async fn an_exit_status_of_the_commands_own_leaves_the_session_alone() {
    let fake = sessions();
    let driver = fake.driver();
    let mut ids = Vec::new();
    for status in [1, 126, 128, 137, 255] {
        fake.does("exec", &format!("exit {status}"));
        let outcome = run(&driver, "s").await.unwrap();
        assert_eq!(code(&outcome), Some(status));
        ids.push(outcome.container_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    bounded(driver.close()).await;
}

#[tokio::test]
async fn a_call_that_overran_ends_the_session_and_leaves_nothing_of_it() {
    let fake = sessions();
    fake.does("exec", "started 7; up; hold");
    let driver = fake.driver();
    let mut call = within("s");
    call.deadline = Some(std::time::Duration::from_secs(1));
    assert_eq!(bounded(driver.run(call)).await.unwrap().end, End::TimedOut);
    fake.place
        .assert_no_process_within(std::time::Duration::ZERO);
    assert_eq!(driver.sessions(), []);
    assert_eq!(refusal(run(&driver, "s").await), lost(LostReason::TimedOut));
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn what_cannot_be_confirmed_to_have_stopped_ends_the_session() {
    let fake = sessions();
    // Its pid is told, and runsc fails to kill it.
    fake.does("exec", "started 7; up; hold");
    fake.does("kill", "exit 128");
    let driver = fake.driver();
    let call = within("s");
    let cancel = call.cancel.clone();
    let (outcome, ()) = tokio::join!(driver.run(call), async {
        fake.up().await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap().end, End::Cancelled);
    let killed = starts(&fake, "kill");
    assert_eq!(after(&killed[0], "kill")[..2], ["--pid", "7"]);
    assert_eq!(
        refusal(run(&driver, "s").await),
        lost(LostReason::NotStopped)
    );
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_scratch_directory_that_is_not_to_be_trusted_starts_no_session() {
    let fake = sessions();
    let parent = fake.place.tmp.join("cf-harness-runsc");
    fs::create_dir(&parent).unwrap();
    fs::set_permissions(&parent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let driver = fake.driver();
    let refused = refusal(run(&driver, "s").await);
    assert_eq!(refused.reason(), "start-failed");
    assert!(!fake.verb_names().contains(&"run".to_owned()));
}
