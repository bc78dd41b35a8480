//! Children that are let go of, run late, say too much, or outlive their step.

use super::*;

fn words(stage: &Stage) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lines = stage.lines("events.jsonl");
    lines
        .iter()
        .map(|line| (text(&line["event"]), text(&line["status"])))
        .collect()
}

fn bracket(status: &str) -> Vec<(String, String)> {
    vec![
        ("agent_started".into(), String::new()),
        ("agent_finished".into(), status.into()),
    ]
}

/// A child that says that it is up and waits for the end of its input, then says more.
fn patient(last: &'static str) -> impl Fn(Inside) -> crate::driver::BoxFuture<'static, u8> {
    move |mut inside| {
        Box::pin(async move {
            inside.line().await;
            inside.say("up\n").await;
            assert_eq!(inside.line().await, "", "the end");
            inside.say(last).await;
            if last.is_empty() {
                std::future::pending::<()>().await;
            }
            0
        })
    }
}

async fn asked(stage: &Stage) -> UnixStream {
    let mut stream = UnixStream::connect(stage.socket()).await.unwrap();
    let said = hello("s-c-11", "scout") + &request("s-c-11", "scout", &json!(1));
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut up = [0; 8];
    stream.read_exact(&mut up).await.unwrap();
    assert_eq!(&up, b"o\0\0\0\x03up\n");
    stream
}

#[tokio::test]
async fn a_script_that_goes_cancels_its_child() {
    let stage = Stage::new(1, Limits::default(), patient(""));
    drop(asked(&stage).await);
    // The broker sees to it by itself; closing only waits for that.
    while stage.driver.running.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    while words(&stage).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(words(&stage), bracket("cancelled"));
    assert_eq!(stage.lines("journal.jsonl"), [] as [Value; 0]);
    let finished = &stage.lines("events.jsonl")[1];
    assert_eq!(
        (&finished["steps"], &finished["tokens"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(stage.broker.close().await.workers[0].status, "cancelled");
}

#[tokio::test]
async fn the_end_of_input_is_a_wish_and_a_report_in_the_grace_counts() {
    let stage = Stage::new(1, Limits::default(), patient("{\"subrun_report\":1}\n"));
    let mut stream = asked(&stage).await;
    stream.shutdown().await.unwrap();
    assert_eq!(frames(&mut stream).await.0, "{\"subrun_report\":1}\n");
    let launches = stage.broker.close().await;
    assert_eq!(launches.workers[0].status, "succeeded");
}

#[tokio::test]
async fn a_late_child_has_its_grace_and_then_none() {
    let limits = Limits {
        deadline: Duration::from_millis(100),
        grace: Duration::from_millis(100),
        ..Limits::default()
    };
    for (last, status, journalled) in [
        ("", "timed_out", "TimedOut"),
        ("{\"subrun_report\":1}\n", "captured", "Finished"),
        (
            "{\"event\":\"turn_failed\",\"error\":\"late\"}\n",
            "failed",
            "Failed",
        ),
    ] {
        let stage = Stage::new(1, limits.clone(), patient(last));
        let mut stream = asked(&stage).await;
        assert_eq!(frames(&mut stream).await.1, Some(0));
        assert_eq!(words(&stage), bracket(status));
        let journal = stage.lines("journal.jsonl")[0].to_string();
        assert!(journal.contains(journalled), "{journal}");
        assert_eq!(stage.broker.close().await.workers.len(), 1);
    }
}

#[tokio::test]
async fn when_the_step_ends_its_children_end_and_every_bracket_closes() {
    let limits = Limits {
        max_concurrent: 1,
        ..Limits::default()
    };
    let stage = Stage::new(2, limits, patient(""));
    let _running = asked(&stage).await;
    let mut waiting = UnixStream::connect(stage.socket()).await.unwrap();
    let said = hello("s-c-12", "scout") + &request("s-c-12", "scout", &json!(1));
    waiting.write_all(said.as_bytes()).await.unwrap();
    let (socket, dir) = (stage.socket(), stage.dir);
    while stage.broker.shared.admission.lock().unwrap().spent() < 2 {
        tokio::task::yield_now().await;
    }
    let launches = stage.broker.close().await;
    let statuses: Vec<_> = launches
        .workers
        .iter()
        .map(|worker| worker.status)
        .collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
    assert_eq!(stage.driver.running.load(Ordering::SeqCst), 0);
    let lines = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2, "only one was launched");
    assert!(UnixStream::connect(socket).await.is_err());
}

#[tokio::test]
async fn a_child_that_prints_without_end_is_ended() {
    let limits = Limits {
        max_output: 1024 * 1024,
        ..Limits::default()
    };
    let stage = Stage::new(1, limits, |mut inside| {
        Box::pin(async move {
            loop {
                inside.say(&"y".repeat(1000)).await;
            }
        })
    });
    let (text, code) = launch(stage.socket(), "s-c-11".into(), "scout").await;
    assert!(text.len() < 2 * 1024 * 1024);
    assert!(text.ends_with("\"the child printed more than it may\"}\n"));
    assert_eq!(code, Some(0));
    assert_eq!(words(&stage), bracket("failed"));
}

#[tokio::test]
async fn a_script_that_reads_nothing_holds_no_deadline_up() {
    let limits = Limits {
        deadline: Duration::from_millis(200),
        grace: Duration::from_millis(100),
        ..Limits::default()
    };
    let stage = Stage::new(1, limits, |mut inside| {
        Box::pin(async move {
            loop {
                inside.say(&"y\n".repeat(1000)).await;
            }
        })
    });
    let mut stream = UnixStream::connect(stage.socket()).await.unwrap();
    let said = hello("s-c-11", "scout") + &request("s-c-11", "scout", &json!(1));
    stream.write_all(said.as_bytes()).await.unwrap();
    while words(&stage).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(words(&stage), bracket("timed_out"));
}
