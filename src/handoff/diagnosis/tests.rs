use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::handoff::contract::Contract;

struct Stage {
    dir: tempfile::TempDir,
    plan: Value,
}

fn sha(bytes: &[u8]) -> Sha256Hex {
    Sha256Hex::of(bytes)
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stage = Self {
            plan: json!({
                "schema": "runsc-driver/handoff-plan/v1",
                "run": {"id": "run-7", "revision": 3},
                "consumer": "check",
                "correlation": {"sandbox_session_id": "job-1"},
                "step": {"command": ["true"]},
                "inputs": [
                    {"format": "PLAN_JSON", "path": "work.json", "sha256": sha(b"{}")},
                    {"format": "FILE_MANIFEST", "source": "INPUT", "root": "in", "manifest": "in.json"}
                ],
                "outputs": {"paths": ["report.json"], "criteriaRef": "c-1"},
                "provenance": {"producerTask": "build", "settledAttempt": "a-1"},
                "definition": {"path": "definition.json", "sha256": sha(b"def")}
            }),
            dir,
        };
        stage.put("work.json", b"{}");
        stage.put("definition.json", b"def");
        stage.put("in/a", b"one");
        stage.put("in/b", b"two");
        stage.put("in.json", stage.manifest().to_string().as_bytes());
        stage
    }

    fn manifest(&self) -> Value {
        json!({
            "format": "FILE_MANIFEST", "version": 1, "producer": "build", "attempt": "a-1",
            "files": [
                {"path": "a", "bytes": 3, "sha256": sha(b"one")},
                {"path": "b", "bytes": 3, "sha256": sha(b"two")}
            ]
        })
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().write_all(bytes).unwrap();
    }

    fn plan(&self) -> Plan {
        Plan::parse(self.plan.to_string().as_bytes()).unwrap()
    }

    fn report_of(&self, standing: &Standing, seen: Option<&Sha256Hex>) -> Report {
        let plan = self.plan();
        let report = diagnose(&Look {
            base: self.dir.path(),
            plan: &plan,
            standing,
            seen,
            current: &|| Some(plan.digest.clone()),
        });
        let value = report.to_value();
        Contract::Report.check(&value).unwrap();
        assert_eq!(value["authorized"], false);
        report
    }

    fn report(&self) -> Report {
        self.report_of(&Standing::default(), None)
    }

    /// The checks that block, as `SOURCE path STATUS`.
    fn blocks(&self) -> Vec<String> {
        blocks(&self.report())
    }
}

fn blocks(report: &Report) -> Vec<String> {
    let value = report.to_value();
    let checks = value["checks"].as_array().unwrap().iter();
    checks
        .filter(|check| check["status"] != "SATISFIED")
        .map(|check| {
            let text = |name: &str| check[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("source"), text("path"), text("status"))
        })
        .collect()
}

#[test]
fn every_status_comes_from_a_real_state_of_files() {
    assert_eq!(Stage::new().blocks(), [] as [String; 0]);
    assert!(Stage::new().report().is_ready());
    type Change = fn(&Stage);
    let rows: Vec<(Change, &[&str])> = vec![
        (
            |s| fs::remove_file(s.dir.path().join("in/a")).unwrap(),
            &["INPUT in/a MISSING"],
        ),
        (|s| s.put("in/a", b"two"), &["INPUT in/a CHANGED"]),
        (|s| s.put("in/a", b"longer"), &["INPUT in/a CHANGED"]),
        (
            |s| {
                fs::remove_file(s.dir.path().join("in/a")).unwrap();
                fs::create_dir(s.dir.path().join("in/a")).unwrap();
            },
            &["INPUT in/a INCOMPATIBLE"],
        ),
        (
            |s| {
                fs::remove_file(s.dir.path().join("in/a")).unwrap();
                symlink("b", s.dir.path().join("in/a")).unwrap();
            },
            &["INPUT in/a INCOMPATIBLE"],
        ),
        (
            |s| {
                fs::remove_file(s.dir.path().join("in/a")).unwrap();
                nix::unistd::mkfifo(&s.dir.path().join("in/a"), nix::sys::stat::Mode::S_IRWXU)
                    .unwrap();
            },
            &["INPUT in/a INCOMPATIBLE"],
        ),
        (
            |s| {
                fs::rename(s.dir.path().join("in"), s.dir.path().join("moved")).unwrap();
                symlink("moved", s.dir.path().join("in")).unwrap();
            },
            &["INPUT in/a INCOMPATIBLE", "INPUT in/b INCOMPATIBLE"],
        ),
        (
            |s| fs::remove_file(s.dir.path().join("in.json")).unwrap(),
            &["HANDOFF in.json MISSING"],
        ),
        (
            |s| s.put("in.json", b"[]"),
            &["HANDOFF in.json INCOMPATIBLE"],
        ),
        (
            |s| s.put("in.json", &vec![b' '; 2 << 20]),
            &["HANDOFF in.json INCOMPATIBLE"],
        ),
        (
            |s| {
                let mut manifest = s.manifest();
                manifest["files"].as_array_mut().unwrap().reverse();
                s.put("in.json", manifest.to_string().as_bytes());
            },
            &["HANDOFF in.json INCOMPATIBLE"],
        ),
        (
            |s| {
                let mut manifest = s.manifest();
                manifest["files"][0]["path"] = json!("../work.json");
                s.put("in.json", manifest.to_string().as_bytes());
            },
            &["HANDOFF in.json INCOMPATIBLE"],
        ),
        (
            |s| {
                let mut manifest = s.manifest();
                manifest["files"][0]["bytes"] = json!(2_u64 << 30);
                s.put("in.json", manifest.to_string().as_bytes());
            },
            &["HANDOFF in.json INCOMPATIBLE"],
        ),
        (
            |s| {
                let mut manifest = s.manifest();
                manifest["attempt"] = json!("a-2");
                s.put("in.json", manifest.to_string().as_bytes());
            },
            &["HANDOFF in.json STALE"],
        ),
        (
            |s| fs::remove_file(s.dir.path().join("work.json")).unwrap(),
            &["PLAN work.json MISSING"],
        ),
        (|s| s.put("work.json", b"{ }"), &["PLAN work.json CHANGED"]),
        (
            |s| s.put("definition.json", b"other"),
            &["PLAN definition.json CHANGED"],
        ),
    ];
    for (at, (change, expected)) in rows.iter().enumerate() {
        let stage = Stage::new();
        change(&stage);
        assert_eq!(stage.blocks(), *expected, "row {at}");
        assert!(!stage.report().is_ready());
    }
}

#[test]
fn a_bound_definition_that_is_another_is_a_binding_error() {
    let stage = Stage::new();
    assert_eq!(stage.report().binding_error, None);
    stage.put("definition.json", b"other");
    assert_eq!(stage.report().binding_error, Some("definition-changed"));
    fs::remove_file(stage.dir.path().join("definition.json")).unwrap();
    assert_eq!(stage.report().binding_error, Some("definition-missing"));
}

#[test]
fn the_context_is_of_revision_and_expectations_alone() {
    let stage = Stage::new();
    let first = stage.report().context_digest;
    stage.put("in/a", b"two");
    assert_eq!(stage.report().context_digest, first, "a file changed");
    let mut respelled = Stage::new();
    let members = respelled.plan.as_object().unwrap().clone();
    respelled.plan = Value::Object(members.into_iter().rev().collect());
    assert_eq!(respelled.report().context_digest, first, "the keys' order");
    let mut other = Stage::new();
    other.plan["run"]["revision"] = json!(4);
    let second = other.report().context_digest;
    assert_ne!(second, first);
    for (name, value) in [
        ("consumer", json!("other")),
        ("outputs", json!({"paths": []})),
    ] {
        let mut other = Stage::new();
        other.plan[name] = value;
        assert_ne!(other.report().context_digest, first, "{name}");
    }
    // An earlier context is stale once the revision moved.
    let standing = Standing::default();
    assert!(Stage::new().report_of(&standing, Some(&first)).is_ready());
    assert_eq!(
        blocks(&other.report_of(&standing, Some(&first))),
        ["CONTEXT - STALE"]
    );
}

#[test]
fn a_run_that_changes_during_the_look_asks_for_another() {
    let stage = Stage::new();
    let plan = stage.plan();
    for current in [None, Some(sha(b"other"))] {
        let report = diagnose(&Look {
            base: stage.dir.path(),
            plan: &plan,
            standing: &Standing::default(),
            seen: None,
            current: &|| current.clone(),
        });
        assert_eq!(blocks(&report), ["CONTEXT - STALE"]);
        assert!(report.blocker().unwrap().message.contains("ask again"));
    }
}

#[test]
fn a_late_file_satisfies_nothing() {
    let stage = Stage::new();
    let standing = Standing {
        unknown: true,
        held: vec![HeldOutput {
            path: "report.json".into(),
            status: CheckStatus::Missing,
        }],
    };
    stage.put("report.json", b"{}");
    assert_eq!(
        blocks(&stage.report_of(&standing, None)),
        ["HANDOFF - UNAVAILABLE", "OUTPUT report.json MISSING"]
    );
}

#[test]
fn a_report_writes_nothing_and_shows_no_content() {
    let stage = Stage::new();
    stage.put("in/a", b"two-sekret");
    let state = || {
        let mut state = Vec::new();
        for name in [
            "",
            "in",
            "in/a",
            "in/b",
            "in.json",
            "work.json",
            "definition.json",
        ] {
            let found = fs::metadata(stage.dir.path().join(name)).unwrap();
            state.push((
                name,
                found.mtime(),
                found.mtime_nsec(),
                found.ctime_nsec(),
                found.len(),
            ));
        }
        let names = fs::read_dir(stage.dir.path()).unwrap().count();
        (state, names)
    };
    let before = state();
    let text = stage.report().to_value().to_string();
    assert_eq!(state(), before);
    assert!(
        !text.contains("sekret") && !text.contains(stage.dir.path().to_str().unwrap()),
        "{text}"
    );
}
