//! Launches that the host refuses.

use super::*;

fn quick() -> Limits {
    Limits {
        hello: Duration::from_millis(300),
        ..Limits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_opens_more_connections_gets_no_more_children() {
    let stage = Stage::new(3, Limits::default(), answer);
    let launches: Vec<_> = (11..19)
        .map(|n| tokio::spawn(launch(stage.socket(), format!("s-c-{n}"), "scout")))
        .collect();
    let mut refused = 0;
    for launch in launches {
        let (text, code) = launch.await.unwrap();
        assert_eq!(code, Some(0));
        refused += usize::from(text.contains("\"command_error\""));
    }
    assert_eq!(refused, 5);
    assert_eq!(stage.driver.calls.load(Ordering::SeqCst), 3);
    // Those past the block are journalled as skipped, without an attempt and without a bracket.
    let skipped: Vec<_> = stage
        .broker
        .entries()
        .into_iter()
        .filter(|entry| {
            entry.outcome
                == Outcome::DidNotFinish {
                    failure: Failure::Skipped,
                    attempt: None,
                }
        })
        .collect();
    assert_eq!(skipped.len(), 5);
    assert_eq!(stage.lines("events.jsonl").len(), 6);
    let launches = stage.broker.close().await;
    assert_eq!(
        launches.refusals,
        [("launch-ceiling", 5)].into_iter().collect()
    );
    let statuses: Vec<_> = launches
        .workers
        .iter()
        .map(|worker| worker.status)
        .collect();
    assert_eq!(statuses[..3], ["succeeded"; 3]);
    assert_eq!(statuses[3..], ["skipped"; 5]);
}

#[tokio::test]
async fn every_way_to_ask_wrongly_is_refused_and_counted() {
    let stage = Stage::new(3, quick(), answer);
    launch(stage.socket(), "s-c-11".into(), "scout").await;
    let good = request("s-c-12", "scout", &json!(1));
    let huge = request("s-c-12", "scout", &json!("x".repeat(2 * 1024 * 1024)));
    let rows = [
        (
            hello("s-c-11", "scout") + &request("s-c-11", "scout", &json!(1)),
            "child-id-used",
        ),
        (
            hello("s-c-10", "scout") + &request("s-c-10", "scout", &json!(1)),
            "foreign-child-id",
        ),
        (
            hello("t-c-12", "scout") + &request("t-c-12", "scout", &json!(1)),
            "foreign-child-id",
        ),
        (
            hello("s-c-12", "{child}") + &request("s-c-12", "{child}", &json!(1)),
            "unknown-kind",
        ),
        (hello("s-c-12", "scout") + &huge, "request-too-large"),
        (hello("s-c-12", "scout") + "{}\n", "bad-request"),
        (hello("s-c-13", "scout") + &good, "bad-request"),
        ("x\n".to_owned(), "bad-hello"),
        (format!("{}\n", "x".repeat(1024 * 1024)), "bad-hello"),
        (String::new(), "hello-timeout"),
        (hello("s-c-12", "scout"), "hello-timeout"),
    ];
    let mut expected = BTreeMap::new();
    for (said, code) in rows {
        let mut stream = UnixStream::connect(stage.socket()).await.unwrap();
        // The broker may stop reading in the middle.
        let _ = stream.write_all(said.as_bytes()).await;
        let (text, exit) = frames(&mut stream).await;
        assert!(
            text.starts_with("{\"event\":\"command_error\""),
            "{code}: {text}"
        );
        assert_eq!(exit, Some(0), "{code}");
        *expected.entry(code).or_insert(0) += 1;
    }
    // What was refused was not spent.
    let (_, code) = launch(stage.socket(), "s-c-12".into(), "scout").await;
    assert_eq!(code, Some(0));
    assert_eq!(stage.driver.calls.load(Ordering::SeqCst), 2);
    assert_eq!(stage.broker.close().await.refusals, expected);
}

#[tokio::test]
async fn no_more_launches_wait_than_may() {
    let limits = Limits {
        max_connections: 2,
        ..Limits::default()
    };
    let stage = Stage::new(3, limits, answer);
    let _first = UnixStream::connect(stage.socket()).await.unwrap();
    let _second = UnixStream::connect(stage.socket()).await.unwrap();
    let mut third = UnixStream::connect(stage.socket()).await.unwrap();
    assert_eq!(frames(&mut third).await, (String::new(), None));
    let launches = stage.broker.close().await;
    assert_eq!(launches.refusals.get("too-many-connections"), Some(&1));
}

#[tokio::test]
async fn a_label_cannot_steer_a_terminal_or_tell_a_secret() {
    let stage = Stage::new(1, Limits::default(), answer);
    let mut stream = UnixStream::connect(stage.socket()).await.unwrap();
    let label = format!("a\u{1b}[2J\nghp_ABCDEFGHIJKLMNOPQRST{}", "y".repeat(4096));
    let asked = json!({
        "workflow_contract": 1, "id": "s-c-11", "kind": "scout", "input": 1, "label": label
    });
    let said = format!("{}{asked}\n", hello("s-c-11", "scout"));
    stream.write_all(said.as_bytes()).await.unwrap();
    frames(&mut stream).await;
    let label = stage.lines("events.jsonl")[0]["label"].clone();
    assert_eq!(label, "a[2J [REDACTED:github-token]");
    assert_eq!(
        stage.broker.entries()[0].call.label,
        "a[2J [REDACTED:github-token]"
    );
}
