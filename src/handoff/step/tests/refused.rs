//! What is refused before a command is handed on, and what it leaves.

use super::*;

/// Runs a step that must not run.
async fn refused(
    mut stage: Stage,
    change: impl FnOnce(&mut Stage),
) -> (StepRun, tempfile::TempDir) {
    stage.fakes.behave = Arc::new(|_, _| panic!("it ran"));
    change(&mut stage);
    let (ran, dir) = stage.run().await;
    assert_eq!(ran.end, StepEnd::Refused);
    assert_eq!(ran.envelope.value()["result"]["dispatched"], false);
    (ran, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_not_there_blocks_before_anything_is_written() {
    let (ran, dir) = refused(Stage::new(plain), |stage| {
        fs::remove_file(stage.dir.path().join("plan/in/a")).unwrap();
    })
    .await;
    assert_eq!(code(&ran), "handoff-blocked");
    assert_eq!(
        ran.envelope.value()["result"]["report"]["status"],
        "BLOCKED"
    );
    assert!(!dir.path().join("session/runs").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_between_the_looks_lets_go_of_the_claim() {
    let stage = Stage::new(plain);
    let input = stage.dir.path().join("plan/in/a");
    let (ran, dir) = refused(stage, |stage| {
        // After the first look, as the sandbox is made.
        stage.fakes.made = Box::new(move |_| put(&input, b"two"));
    })
    .await;
    assert_eq!(
        (code(&ran), diagnostics(&ran)),
        ("handoff-blocked", vec!["handoff-blocked"])
    );
    assert_eq!(
        ran.envelope.value()["diagnostics"][0]["phase"],
        "preparation"
    );
    let dir = dir.path();
    put(&dir.join("plan/in/a"), b"one");
    let mut again = Stage::new(plain);
    again.options.root = dir.join("session");
    let (ran, _dir) = again.run().await;
    assert_eq!((ran.end, code(&ran)), (StepEnd::Settled, "-"));
    // The block that was set aside for the refused attempt stays spent.
    assert_eq!(
        Allocator::open(&dir.join("session"), 1)
            .unwrap()
            .next_first(),
        5
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_changes_meanwhile_asks_for_another_look() {
    let stage = Stage::new(plain);
    let plan = stage.dir.path().join("plan/plan.json");
    let (ran, _dir) = refused(stage, |stage| {
        let mut other = stage.plan.clone();
        other["run"]["revision"] = json!(2);
        stage.fakes.made = Box::new(move |_| put(&plan, other.to_string().as_bytes()));
    })
    .await;
    let told = &ran.envelope.value()["diagnostics"][0];
    assert!(
        told["message"].as_str().unwrap().contains("ask again"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_in_sight_refuses_the_permission_to_connect() {
    for place in ["image/usr/run.sock", "plan/in/s.sock"] {
        let stage = Stage::new(plain);
        let socket = stage.dir.path().join(place);
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let (ran, _dir) = refused(stage, |_| {}).await;
        assert_eq!(code(&ran), "socket-visible", "{place}");
    }
    // Without launches nothing may connect anyhow.
    let mut stage = Stage::new(|view, inside| {
        assert!(!inside.host_uds);
        plain(view, inside)
    });
    stage.plan.as_object_mut().unwrap().remove("launch");
    let socket = stage.dir.path().join("image/usr/run.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let (ran, _dir) = stage.run().await;
    assert_eq!((ran.end, code(&ran)), (StepEnd::Settled, "-"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_childs_sandbox_is_no_wider_than_its_steps() {
    let mut stage = Stage::new(|view, inside| {
        Box::pin(async move {
            assert_ne!(inside.argv, ["scout"], "it ran");
            let said = launch(&at(&view, BROKER), "run-7-c-1", "scout").await;
            assert!(said.contains("wider"), "{said}");
            put(&at(&view, OUTPUTS).join("report.json"), b"{}");
            0
        })
    });
    stage.fakes.wider = Some(Shown {
        name: "more".into(),
        host: "/etc".into(),
        sandbox: "/etc/host".into(),
        read_only: true,
    });
    let (ran, _dir) = stage.run().await;
    assert_eq!(code(&ran), "-");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_no_envelope_may_have_are_refused_at_once() {
    let mut stage = Stage::new(|_, _| panic!("it ran"));
    stage.plan["correlation"]["session_id"] = json!("/home/me");
    let (host, plan, dir) = stage.host();
    let err = host
        .run_step(&plan, None, CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(err.code(), "envelope-leak");
    assert!(!dir.path().join("session/runs").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_host_attempts_a_step_at_a_time() {
    let (host, plan, _dir) = Stage::new(plain).host();
    let placed = place(&plan).unwrap();
    let claim = state::Claim::take(&host.options.root, &placed.plan).unwrap();
    let err = host
        .run_step(&plan, None, CancellationToken::new())
        .await
        .unwrap_err();
    assert_eq!(err.code(), "step-claimed");
    drop(claim);
    assert!(
        host.run_step(&plan, None, CancellationToken::new())
            .await
            .is_ok()
    );
    assert_eq!(
        HandoffHost::open(host.options.clone(), Arc::clone(&host.make))
            .err()
            .unwrap()
            .code(),
        "ledger-held"
    );
}
