use std::path::PathBuf;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::handoff::correlation::Correlation;
use crate::handoff::events::{LineLog, Sidecar};
use crate::handoff::journal::{Failure, Journal, Outcome, Replay};
use crate::handoff::redact::Redactor;
use crate::handoff::testing::{FakeDriver, Inside};

mod ends;
mod refused;

/// A broker in a directory of its own, and what it writes.
struct Stage {
    dir: tempfile::TempDir,
    broker: Broker,
    driver: Arc<FakeDriver>,
}

impl Stage {
    fn new(
        count: u64,
        limits: Limits,
        behave: impl Fn(Inside) -> crate::driver::BoxFuture<'static, u8> + Send + Sync + 'static,
    ) -> Self {
        Self::replaying(count, limits, Replay::default(), behave)
    }

    fn replaying(
        count: u64,
        limits: Limits,
        replay: Replay,
        behave: impl Fn(Inside) -> crate::driver::BoxFuture<'static, u8> + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let seen = dir.path().join("seen");
        std::fs::create_dir(&seen).unwrap();
        let driver = FakeDriver::new(behave);
        let children = Arc::clone(&driver);
        let scout = KindSpec {
            command: vec!["scout".into(), "--fast".into()],
            env: vec![("MODE".into(), "child".into())],
            max_steps: Some(5),
        };
        let grant = Grant {
            block: Block::new(11, count).unwrap(),
            template: ChildTemplate::new("s-c-{n}").unwrap(),
            kinds: [(Kind::new("scout").unwrap(), scout)].into_iter().collect(),
            limits,
            labels: Default::default(),
        };
        let records = Records {
            journal: Some(Journal::open(&dir.path().join("journal.jsonl")).unwrap().0),
            sidecar: Sidecar::open(&dir.path().join("events.jsonl")).unwrap(),
            fanout: LineLog::open(&dir.path().join("fanout.jsonl")).unwrap(),
            delegation: LineLog::open(&dir.path().join("delegation.jsonl")).unwrap(),
            replay,
            redactor: Redactor::default(),
            correlation: Correlation {
                sandbox_session_id: "job-1".into(),
                fanout_id: "step-1".into(),
                ..Correlation::default()
            },
            total: count,
        };
        let make_child: MakeChild = Arc::new(move |_| {
            Ok(ChildPlace {
                driver: Arc::clone(&children) as Arc<dyn Driver>,
                keep: Box::new(()),
            })
        });
        let broker = Broker::open(&seen, None, grant, records, make_child).unwrap();
        Self {
            dir,
            broker,
            driver,
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("seen").join(SOCKET_NAME)
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn hello(child: &str, kind: &str) -> String {
    format!("{}\n", json!({"v": 1, "child": child, "kind": kind}))
}

fn request(child: &str, kind: &str, input: &Value) -> String {
    let request =
        json!({"workflow_contract": 1, "id": child, "kind": kind, "max_steps": 9, "input": input});
    format!("{request}\n")
}

/// What a shim in the sandbox would do.
async fn launch(socket: PathBuf, child: String, kind: &str) -> (String, Option<u8>) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let said = hello(&child, kind) + &request(&child, kind, &json!({ "for": child }));
    stream.write_all(said.as_bytes()).await.unwrap();
    frames(&mut stream).await
}

/// Everything that comes, as text, and the exit value.
async fn frames(stream: &mut UnixStream) -> (String, Option<u8>) {
    let (mut text, mut code) = (Vec::new(), None);
    let mut head = [0; 5];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut content = vec![0; length as usize];
        stream.read_exact(&mut content).await.unwrap();
        match head[0] {
            b'o' => text.extend(content),
            b'x' => code = Some(content[0]),
            other => panic!("frame {other}"),
        }
    }
    (String::from_utf8(text).unwrap(), code)
}

/// A child that answers with what it was asked.
fn answer(mut inside: Inside) -> crate::driver::BoxFuture<'static, u8> {
    Box::pin(async move {
        let line = inside.line().await;
        let request: Value = serde_json::from_str(&line).unwrap();
        inside
            .say("noise\n{\"event\":\"agent_step\",\"step\":2}\n")
            .await;
        let report = json!({ "subrun_report": {
            "request": request, "argv": inside.argv, "env": inside.env, "uds": inside.host_uds,
        }});
        inside.say(&format!("{report}\n")).await;
        0
    })
}

#[tokio::test]
async fn a_child_gets_what_the_host_says_and_its_report_comes_back() {
    let stage = Stage::new(3, Limits::default(), answer);
    let (text, code) = launch(stage.socket(), "s-c-12".into(), "scout").await;
    assert_eq!(code, Some(0));
    let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        report["subrun_report"],
        json!({
            "request": {
                "workflow_contract": 1, "id": "s-c-12", "kind": "scout", "max_steps": 5,
                "input": {"for": "s-c-12"}
            },
            "argv": ["scout", "--fast"],
            // Nothing else: a child is handed nothing off.
            "env": [["MODE", "child"]],
            "uds": false
        })
    );
    assert_eq!(
        stage.lines("events.jsonl"),
        [
            json!({"event": "agent_started", "child": "s-c-12", "kind": "scout", "label": "scout"}),
            json!({"event": "agent_finished", "child": "s-c-12", "status": "captured", "steps": 2, "tokens": 0}),
        ]
    );
    let entries = stage.broker.entries();
    let Outcome::Finished { attempt, .. } = &entries[0].outcome else {
        panic!("{entries:?}");
    };
    assert_eq!(attempt.attempt_id, "s-c-12");
    assert_eq!(entries[0].call.max_steps, Some(9), "as it was asked for");
    let events: Vec<_> = stage
        .lines("fanout.jsonl")
        .iter()
        .map(|line| format!("{} {} {}", line["event"], line["active"], line["completed"]))
        .collect();
    assert_eq!(
        events,
        [
            "\"fanout.started\" 0 0",
            "\"worker.started\" 1 0",
            "\"worker.completed\" 0 1"
        ]
    );
    let delegated: Vec<_> = stage
        .lines("delegation.jsonl")
        .iter()
        .map(|line| {
            format!(
                "{} {} {}",
                line["event"], line["request_id"], line["sandbox_session_id"]
            )
        })
        .collect();
    assert_eq!(
        delegated,
        [
            "\"host-delegation.requested\" \"s-c-12\" \"job-1\"",
            "\"host-delegation.accepted\" \"s-c-12\" \"job-1\"",
            "\"host-delegation.completed\" \"s-c-12\" \"job-1\"",
        ]
    );
    let launches = stage.broker.close().await;
    assert_eq!(launches.workers.len(), 1);
    assert_eq!(launches.workers[0].status, "succeeded");
    assert_eq!(launches.notices, []);
}

/// The most memory that this process had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_children_keep_their_order_and_their_bounds() {
    let limits = Limits {
        max_concurrent: 8,
        ..Limits::default()
    };
    // Each prints much that is no event before it reports.
    let noisy = |mut inside: Inside| -> crate::driver::BoxFuture<'static, u8> {
        Box::pin(async move {
            let noise = format!("{}\n", "n".repeat(1023)).repeat(1024);
            inside.say(&noise).await;
            answer(inside).await
        })
    };
    let stage = Stage::new(200, limits, noisy);
    let launches: Vec<_> = (11..211)
        .rev()
        .map(|n| {
            let launched = launch(stage.socket(), format!("s-c-{n}"), "scout");
            tokio::spawn(async move { launched.await.1 })
        })
        .collect();
    for launch in launches {
        assert_eq!(launch.await.unwrap(), Some(0));
    }
    // Of 200 MiB no more is held than a few pipes' worth; the test is a process of its own.
    assert!(peak_memory() < 192 * 1024, "{} KiB", peak_memory());
    assert!(stage.driver.most.load(Ordering::SeqCst) <= 8);
    assert_eq!(stage.driver.calls.load(Ordering::SeqCst), 200);
    assert_eq!(stage.lines("events.jsonl").len(), 400);
    assert_eq!(stage.lines("journal.jsonl").len(), 200);
    let last = stage.lines("fanout.jsonl").pop().unwrap();
    assert_eq!(
        (&last["completed"], &last["active"]),
        (&json!(200), &json!(0))
    );
    let launches = stage.broker.close().await;
    let ordinals: Vec<_> = launches
        .workers
        .iter()
        .map(|worker| worker.ordinal)
        .collect();
    assert_eq!(ordinals, (11..211).map(Some).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replay_launches_nothing_and_spends_nothing() {
    let first = Stage::new(1, Limits::default(), answer);
    launch(first.socket(), "s-c-11".into(), "scout").await;
    let entries = first.broker.entries();
    let second = Stage::replaying(1, Limits::default(), Replay::new(entries), |_| {
        Box::pin(async { 9 })
    });
    let (text, code) = launch(second.socket(), "s-c-11".into(), "scout").await;
    assert!(text.contains("\"subrun_report\""), "{text}");
    assert_eq!(code, Some(0));
    assert_eq!(second.driver.calls.load(Ordering::SeqCst), 0);
    assert_eq!(second.lines("events.jsonl"), [] as [Value; 0]);
    assert_eq!(second.lines("journal.jsonl"), [] as [Value; 0]);
    // The ordinal is there for a call that is not in the journal any more.
    let (_, code) = launch(second.socket(), "s-c-11".into(), "scout").await;
    assert_eq!(code, Some(9));
}
