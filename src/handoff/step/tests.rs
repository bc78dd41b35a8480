//! The logic of a step, over a driver that runs nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use serde_json::json;
use tokio::io::AsyncReadExt;

use super::*;
use crate::cfc::label::Label;
use crate::driver::{BoxFuture, Driver, Observation};
use crate::handoff::contract::Contract;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::testing::{FakeDriver, Inside, nothing_shown};
use crate::selection::description::DescribedMount;

mod ends;
mod labels;
mod refused;

type Behave = dyn Fn(View, Inside) -> BoxFuture<'static, u8> + Send + Sync;
type Watching = dyn Fn(&View) + Send + Sync;
type Observe = dyn Fn(crate::driver::Released) -> Observation + Send + Sync;

/// Sandboxes in which a command is a function.
struct Fakes {
    image: PathBuf,
    behave: Arc<Behave>,
    /// Looks on as a sandbox is made.
    made: Box<Watching>,
    observe: Option<Arc<Observe>>,
    enforces: bool,
    tracked: bool,
    /// Shows every sandbox but the step's this too.
    wider: Option<Shown>,
}

impl MakeSandbox for Fakes {
    fn make(&self, view: &View) -> Result<Arc<dyn Driver>, NotMade> {
        (self.made)(view);
        let mut description = nothing_shown();
        description.cfc.image.clone_from(&self.image);
        description.cfc.runtime_requested = self.tracked;
        let is_child = !view.shown.iter().any(|shown| shown.name == "outputs");
        let workspace = Shown {
            name: "workspace".into(),
            host: view.workspace.clone(),
            sandbox: "/workspace".into(),
            read_only: false,
        };
        let wider = self.wider.iter().filter(|_| is_child);
        let shown = std::iter::once(&workspace).chain(&view.shown).chain(wider);
        description.cfc.mounts = shown
            .map(|shown| DescribedMount {
                kind: "host-bind",
                name: Some(shown.name.clone()),
                host_path: shown.host.clone(),
                sandbox_path: shown.sandbox.clone(),
                read_only: shown.read_only,
                mode: None,
            })
            .collect();
        let (behave, seen) = (Arc::clone(&self.behave), view.clone());
        let mut driver =
            FakeDriver::described(description, move |inside| behave(seen.clone(), inside));
        if let Some(observe) = self.observe.clone() {
            driver = driver.observing(move |released| observe(released));
        }
        Ok(Arc::new(driver))
    }

    fn enforces(&self) -> bool {
        self.enforces
    }
}

struct Stage {
    dir: tempfile::TempDir,
    plan: Value,
    fakes: Fakes,
    options: StepOptions,
}

impl Stage {
    /// A step that writes its output by a function.
    fn new(
        behave: impl Fn(View, Inside) -> BoxFuture<'static, u8> + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("session");
        fs::create_dir_all(dir.path().join("image/usr")).unwrap();
        let stage = Self {
            plan: json!({
                "schema": "runsc-driver/handoff-plan/v1",
                "run": {"id": "run-7", "revision": 1},
                "consumer": "collect",
                "correlation": {"sandbox_session_id": "job-1", "request_id": "r-1"},
                "step": {"command": ["step"], "env": {"API_TOKEN": "hush-hush"}},
                "inputs": [{"format": "FILE_MANIFEST", "source": "INPUT", "root": "in", "manifest": "in.json"}],
                "outputs": {"paths": ["report.json"]},
                "launch": {"count": 2, "kinds": {"scout": {"command": ["scout"]}}}
            }),
            fakes: Fakes {
                image: dir.path().join("image"),
                behave: Arc::new(behave),
                made: Box::new(|_| {}),
                observe: None,
                enforces: false,
                tracked: false,
                wider: None,
            },
            options: StepOptions {
                root,
                ..StepOptions::default()
            },
            dir,
        };
        stage.put("plan/in/a", b"one");
        let manifest = json!({
            "format": "FILE_MANIFEST", "version": 1, "producer": "build", "attempt": "a-1",
            "files": [{"path": "a", "bytes": 3, "sha256": Sha256Hex::of(b"one")}]
        });
        stage.put("plan/in.json", manifest.to_string().as_bytes());
        stage
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        put(&self.dir.path().join(name), bytes);
    }

    fn plan_path(&self) -> PathBuf {
        self.put("plan/plan.json", self.plan.to_string().as_bytes());
        self.dir.path().join("plan/plan.json")
    }

    fn host(self) -> (HandoffHost, PathBuf, tempfile::TempDir) {
        let plan = self.plan_path();
        let host = HandoffHost::open(self.options, Arc::new(self.fakes)).unwrap();
        (host, plan, self.dir)
    }

    /// Runs the step once.
    async fn run(self) -> (StepRun, tempfile::TempDir) {
        let (host, plan, dir) = self.host();
        let ran = host.run_step(&plan, None, CancellationToken::new()).await;
        (checked(ran.unwrap()), dir)
    }
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

/// Every envelope is of its contract and lets nothing out.
fn checked(ran: StepRun) -> StepRun {
    Contract::ResultEnvelope
        .check(ran.envelope.value())
        .unwrap();
    crate::handoff::envelope::check_leaks(ran.envelope.value(), &["/tmp"]).unwrap();
    let text = ran.envelope.value().to_string();
    assert!(!text.contains("hush-hush"), "{text}");
    ran
}

fn code(ran: &StepRun) -> &str {
    ran.envelope.value()["error"]["code"]
        .as_str()
        .unwrap_or("-")
}

fn diagnostics(ran: &StepRun) -> Vec<&str> {
    let told = ran.envelope.value()["diagnostics"].as_array().unwrap();
    told.iter()
        .map(|told| told["code"].as_str().unwrap())
        .collect()
}

/// Where the sandbox's path is on the host.
fn at(view: &View, sandbox: &str) -> PathBuf {
    let shown = view
        .shown
        .iter()
        .find(|shown| shown.sandbox == Path::new(sandbox));
    shown.map(|shown| shown.host.clone()).unwrap()
}

/// A step that writes a report, and a child that reports what it was asked.
fn plain(view: View, mut inside: Inside) -> BoxFuture<'static, u8> {
    Box::pin(async move {
        if inside.argv == ["scout"] {
            let request = inside.line().await;
            inside
                .say(&format!("{{\"subrun_report\":{}}}\n", request.trim()))
                .await;
            return 0;
        }
        put(
            &at(&view, OUTPUTS).join("report.json"),
            b"{\"token\":\"hush-hush\"}",
        );
        0
    })
}

/// Launches a child as a shim would, and returns what it printed.
async fn launch(broker: &Path, child: &str, kind: &str) -> String {
    use tokio::io::AsyncWriteExt;
    let Ok(mut stream) = tokio::net::UnixStream::connect(broker.join("broker.sock")).await else {
        return String::new();
    };
    let hello = json!({"v": 1, "child": child, "kind": kind});
    let request = json!({"workflow_contract": 1, "id": child, "kind": kind, "input": null});
    let said = format!("{hello}\n{request}\n");
    stream.write_all(said.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

fn document(inside: &Inside) -> Value {
    let found = inside.env.iter().find(|(name, _)| name == "WORKFLOW_HOST");
    serde_json::from_str(&found.unwrap().1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_made_is_handed_on() {
    let (ran, dir) = Stage::new(plain).run().await;
    assert_eq!((ran.end, code(&ran)), (StepEnd::Settled, "-"));
    let envelope = ran.envelope.value();
    assert_eq!(envelope["status"], "created");
    assert_eq!(envelope["metadata"]["sandbox_session_id"], "job-1");
    assert_eq!(envelope["metadata"]["request_id"], "r-1");
    assert_eq!(envelope["metadata"]["fanout_id"], "collect");
    assert!(envelope["metadata"]["source_digest"].is_string());
    let bundle = dir
        .path()
        .join("session")
        .join(envelope["artifactBundle"]["path"].as_str().unwrap());
    // The plan's own secret went before the digest was taken.
    assert_eq!(
        fs::read_to_string(bundle.join("outputs/report.json")).unwrap(),
        "{\"token\":\"[REDACTED:configured-secret-value]\"}"
    );
    let record = dir.path().join("session").join(ran.record.unwrap());
    let left: BTreeSet<_> = fs::read_dir(&record)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in state::SCRATCH {
        assert!(!left.contains(name), "{name} was left");
    }
    assert!(left.contains("envelope.json") && left.contains("report.json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_counts_whatever_the_step_says() {
    let stage = Stage::new(|view, inside| {
        if inside.argv == ["scout"] {
            assert!(!inside.env.iter().any(|(name, _)| name == "WORKFLOW_HOST"));
            assert!(!inside.host_uds);
            assert!(view.shown.iter().all(|shown| shown.read_only));
            return plain(view, inside);
        }
        Box::pin(async move {
            assert!(inside.host_uds);
            let told = document(&inside);
            assert_eq!(told["ids"], json!([1, 2]));
            let broker = at(&view, BROKER);
            for ordinal in 1..=7 {
                launch(&broker, &format!("run-7-c-{ordinal}"), "scout").await;
            }
            // Forged claims: somebody else's child, another end, a torn tail.
            let claims = at(&view, CLAIMS);
            put(
                &claims.join("events.jsonl"),
                b"{\"event\":\"agent_finished\",\"child\":\"other-1\",\"status\":\"captured\"}\n\
                  {\"event\":\"agent_finished\",\"child\":\"run-7-c-1\",\"status\":\"failed\"}\n{\"ev",
            );
            put(&at(&view, OUTPUTS).join("report.json"), b"{}");
            0
        })
    });
    let (ran, dir) = stage.run().await;
    let launches = &ran.envelope.value()["result"]["launches"];
    assert_eq!(
        launches,
        &json!({"launched": 2, "refused": {"launch-ceiling": 5}})
    );
    assert_eq!(
        diagnostics(&ran),
        ["claims-foreign-child", "claims-differ", "claims-torn"]
    );
    let record = dir.path().join("session").join(ran.record.unwrap());
    let text = fs::read_to_string(record.join("events.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(!text.contains("other-1"));
    let watch = fs::read_to_string(record.join("watch.jsonl")).unwrap();
    assert!(
        watch.starts_with("{\"event\":\"workflow_started\""),
        "{watch}"
    );
    assert!(
        watch.ends_with("{\"event\":\"workflow_finished\"}\n"),
        "{watch}"
    );
    let result: Value =
        serde_json::from_slice(&fs::read(record.join("fanout/result.json")).unwrap()).unwrap();
    Contract::FanoutResult.check(&result).unwrap();
    for line in fs::read_to_string(record.join("delegation.jsonl"))
        .unwrap()
        .lines()
    {
        Contract::DelegationEvent
            .check(&serde_json::from_str(line).unwrap())
            .unwrap();
    }
    for line in fs::read_to_string(record.join("fanout/events.jsonl"))
        .unwrap()
        .lines()
    {
        Contract::FanoutEvent
            .check(&serde_json::from_str(line).unwrap())
            .unwrap();
    }
    let snapshot = progress(&dir.path().join("session"), "run-7", None)
        .unwrap()
        .unwrap();
    Contract::Progress.check(&snapshot).unwrap();
    assert_eq!(snapshot["counts"]["completed"], 2);
    assert_eq!(
        progress(&dir.path().join("session"), "../run-7", None).unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_attempts_share_an_ordinal_and_a_resumed_one_spends_none_on_what_it_knows() {
    let mut stage = Stage::new(|view, inside| {
        if inside.argv == ["scout"] {
            return plain(view, inside);
        }
        Box::pin(async move {
            let first = document(&inside)["ids"][0].as_u64().unwrap();
            let said = launch(&at(&view, BROKER), &format!("run-7-c-{first}"), "scout").await;
            put(&at(&view, OUTPUTS).join("report.json"), said.as_bytes());
            0
        })
    });
    stage.options.resume = true;
    let (host, plan, _dir) = stage.host();
    let mut launched = Vec::new();
    for _ in 0..2 {
        let ran = host
            .run_step(&plan, None, CancellationToken::new())
            .await
            .unwrap();
        launched.push(ran.envelope.value()["result"]["launches"]["launched"].clone());
    }
    assert_eq!(launched, [json!(1), json!(0)]);
    assert_eq!(host.allocator().next_first(), 5);
}
