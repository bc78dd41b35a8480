//! A plan, a session and the command, in a place of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use runsc_driver::handoff::digest::Sha256Hex;
use serde_json::{Value, json};

use crate::common::{Place, Ran};

/// What every script of a test begins with.
const PRELUDE: &str = include_str!("prelude.py");

pub struct Session {
    pub place: Place,
    pub plan: Value,
}

impl Session {
    /// A step that is this script, and a child that is the other.
    pub fn new(count: u64, step: &str, child: &str) -> Self {
        let place = Place::new();
        let session = Self {
            plan: json!({
                "schema": "runsc-driver/handoff-plan/v1",
                "run": {"id": "run-7", "revision": 1},
                "consumer": "step",
                "correlation": {"sandbox_session_id": "job-1"},
                "step": {"command": ["python3", "/inputs/in/step.py"], "noCfc": true, "deadline_ms": 120_000},
                "inputs": [{"format": "FILE_MANIFEST", "source": "INPUT", "root": "in", "manifest": "in.json"}],
                "outputs": {"paths": ["report.json"]},
                "launch": {
                    "count": count, "deadline_ms": 60_000,
                    "kinds": {"k": {"command": ["python3", "/inputs/in/child.py"]}}
                }
            }),
            place,
        };
        session.put("in/step.py", format!("{PRELUDE}\n{step}").as_bytes());
        session.put("in/child.py", child.as_bytes());
        session.write_manifest();
        session
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.workspace.join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn write_manifest(&self) {
        let files: Vec<_> = ["child.py", "step.py"]
            .iter()
            .map(|name| {
                let bytes = fs::read(self.path("in").join(name)).unwrap();
                json!({"path": name, "bytes": bytes.len(), "sha256": Sha256Hex::of(&bytes)})
            })
            .collect();
        let manifest = json!({
            "format": "FILE_MANIFEST", "version": 1, "producer": "build", "attempt": "a-1",
            "files": files
        });
        self.put("in.json", manifest.to_string().as_bytes());
    }

    /// The verb with the plan and flags.
    pub fn handoff(&self, verb: &str, flags: &[&str]) -> std::process::Command {
        self.put("plan.json", self.plan.to_string().as_bytes());
        let args = ["handoff", verb, "plan.json", "--root", "session"];
        self.place.command(args.iter().chain(flags))
    }

    pub fn run(&self) -> Handed {
        self.run_with(&[])
    }

    pub fn run_with(&self, flags: &[&str]) -> Handed {
        let ran = Ran::of(self.handoff("run", flags).output().unwrap());
        self.place
            .assert_no_process_within(std::time::Duration::ZERO);
        Handed::of(&ran, self)
    }

    pub fn start(&self, flags: &[&str]) -> Child {
        self.handoff("run", flags).spawn().unwrap()
    }

    pub fn bundle(&self, args: &[&str]) -> Ran {
        let all = ["bundle"].iter().chain(args).chain(&["--root", "session"]);
        Ran::of(self.place.command(all).output().unwrap())
    }

    /// The record of an attempt.
    pub fn record(&self, attempt: u64) -> PathBuf {
        self.path(&format!("session/runs/run-7/step/r1/attempt-{attempt}"))
    }

    pub fn lines(&self, name: &str) -> Vec<Value> {
        lines(&self.record(1).join(name))
    }
}

pub fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// An envelope, and the command's exit status.
#[derive(Debug)]
pub struct Handed {
    pub code: Option<i32>,
    pub envelope: Value,
}

impl Handed {
    pub fn of(ran: &Ran, session: &Session) -> Self {
        let envelope = ran.json();
        runsc_driver::handoff::contract::Contract::ResultEnvelope
            .check(&envelope)
            .unwrap_or_else(|err| panic!("{err}: {ran:?}"));
        let text = envelope.to_string();
        let place = session.place.dir.path().to_str().unwrap();
        assert!(!text.contains(place), "a host path is in {text}");
        Self {
            code: ran.code,
            envelope,
        }
    }

    pub fn error(&self) -> &str {
        self.envelope["error"]["code"].as_str().unwrap_or("-")
    }

    pub fn diagnostics(&self) -> Vec<&str> {
        let told = self.envelope["diagnostics"].as_array().unwrap();
        let mut codes: Vec<_> = told
            .iter()
            .map(|told| told["code"].as_str().unwrap())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    #[track_caller]
    pub fn assert_success(&self) {
        assert_eq!((self.error(), self.code), ("-", Some(0)), "{self:?}");
    }

    /// The output of this name, as the bundle has it.
    pub fn output(&self, session: &Session, name: &str) -> Value {
        let bundle = self.envelope["artifactBundle"]["path"].as_str().unwrap();
        let path = session
            .path("session")
            .join(bundle)
            .join("outputs")
            .join(name);
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}
