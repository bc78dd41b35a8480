//! How a step that was handed on ends.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_missing_is_held_and_a_late_one_satisfies_nothing() {
    let (host, plan, dir) = Stage::new(|view, _| {
        Box::pin(async move {
            std::os::unix::fs::symlink("/etc/passwd", at(&view, OUTPUTS).join("other")).unwrap();
            0
        })
    })
    .host();
    let run = || host.run_step(&plan, None, CancellationToken::new());
    let ran = checked(run().await.unwrap());
    assert_eq!((ran.end, code(&ran)), (StepEnd::Settled, "output-missing"));
    assert_eq!(
        fs::read_dir(dir.path().join("session/artifacts"))
            .unwrap()
            .count(),
        0
    );
    let report = check(&dir.path().join("session"), &plan, None).unwrap();
    assert!(!report.is_ready());
    let again = checked(run().await.unwrap());
    assert_eq!(
        (again.end, code(&again)),
        (StepEnd::Refused, "handoff-blocked")
    );
    assert_eq!(
        again.envelope.value()["diagnostics"][0]["path"],
        "report.json"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_hands_nothing_on_and_can_be_tried_again() {
    let (host, plan, _dir) = Stage::new(|view, inside| {
        let work = plain(view, inside);
        Box::pin(async move {
            work.await;
            3
        })
    })
    .host();
    for _ in 0..2 {
        let ran = host
            .run_step(&plan, None, CancellationToken::new())
            .await
            .unwrap();
        assert_eq!((ran.end, code(&ran)), (StepEnd::Settled, "step-failed"));
        assert_eq!(ran.envelope.value()["result"]["exitCode"], 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_must_be_preserved_are_looked_at_again() {
    for (must, expected) in [(true, "input-changed"), (false, "-")] {
        let mut stage = Stage::new(|view, inside| {
            put(&at(&view, "/inputs/in").join("a"), b"two");
            plain(view, inside)
        });
        stage.plan["outputs"]["mustPreserveInput"] = json!(must);
        let (ran, _dir) = stage.run().await;
        assert_eq!(code(&ran), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_staged_step_sees_a_copy_as_labelled_as_the_original() {
    const LABEL: &str = "user.commonfabric.cfc.contentLabel";
    let mut stage = Stage::new(|view, inside| {
        let input = at(&view, INPUTS);
        assert!(input.ends_with("staged"));
        assert_eq!(fs::read(input.join("in/a")).unwrap(), b"one");
        for labelled in ["in", "in/a"] {
            let mut value = [0; 64];
            let length = rustix::fs::getxattr(input.join(labelled), LABEL, &mut value[..]);
            assert_eq!(&value[..length.unwrap()], b"finance", "{labelled}");
        }
        plain(view, inside)
    });
    stage.options.stage_inputs = true;
    stage.put("plan/in/undeclared", b"x");
    let (host, plan, dir) = stage.host();
    for labelled in ["plan/in", "plan/in/a"] {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(dir.path().join(labelled), LABEL, b"finance", flags).unwrap();
    }
    let ran = checked(
        host.run_step(&plan, None, CancellationToken::new())
            .await
            .unwrap(),
    );
    assert_eq!(code(&ran), "-");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_step_takes_its_children_with_it() {
    let started = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&started);
    let stage = Stage::new(move |view, inside| {
        let tell = Arc::clone(&tell);
        Box::pin(async move {
            if inside.argv == ["scout"] {
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            launch(&at(&view, BROKER), "run-7-c-1", "scout").await;
            0
        })
    });
    let (host, plan, dir) = stage.host();
    let cancel = CancellationToken::new();
    let stop = async {
        started.notified().await;
        cancel.cancel();
    };
    let (ran, ()) = tokio::join!(host.run_step(&plan, None, cancel.clone()), stop);
    let ran = checked(ran.unwrap());
    assert_eq!(code(&ran), "step-cancelled");
    let record = dir.path().join("session").join(ran.record.unwrap());
    let events = fs::read_to_string(record.join("events.jsonl")).unwrap();
    let words: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].clone())
        .collect();
    assert_eq!(words, [Value::Null, json!("cancelled")]);
    assert_eq!(fs::read(record.join("journal.jsonl")).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_handed_on_and_never_settled_is_unknown_and_held() {
    let started = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&started);
    let (host, plan, _dir) = Stage::new(move |_, _| {
        tell.notify_one();
        Box::pin(std::future::pending())
    })
    .host();
    let run = || host.run_step(&plan, None, CancellationToken::new());
    tokio::select! {
        _ = run() => panic!("it ended"),
        () = started.notified() => {}
    }
    let ran = checked(run().await.unwrap());
    assert_eq!((ran.end, code(&ran)), (StepEnd::Refused, "handoff-blocked"));
    let told = ran.envelope.value()["diagnostics"][0]["message"]
        .as_str()
        .unwrap();
    assert!(told.contains("not safe to repeat"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_outputs_are_the_same_bundle() {
    let (host, plan, _dir) = Stage::new(plain).host();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let ran = host
            .run_step(&plan, None, CancellationToken::new())
            .await
            .unwrap();
        seen.push((
            ran.envelope.value()["status"].clone(),
            ran.envelope.value()["artifactBundle"].clone(),
        ));
    }
    assert_eq!(
        (&seen[0].0, &seen[1].0),
        (&json!("created"), &json!("existing"))
    );
    assert_eq!(seen[0].1, seen[1].1);
}
