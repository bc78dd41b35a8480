use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::selection::{ChosenBy, Native};

fn store_choice() -> Choice {
    Choice::new(ChosenBy::Default {
        platform: Native::Linux,
        native_store: PathBuf::from("/home/u/.local/share/runsc-cfc"),
    })
}

#[test]
fn a_choice_is_written_as_the_selection_of_a_description() {
    let cases = [
        (
            Choice::new(ChosenBy::Flag),
            json!({"runtime": "runsc", "source": "flag"}),
        ),
        (
            Choice::new(ChosenBy::Environment),
            json!({"runtime": "runsc", "source": "environment"}),
        ),
        (
            store_choice(),
            json!({
                "runtime": "runsc",
                "source": "default",
                "platform": "linux",
                "nativeStore": "/home/u/.local/share/runsc-cfc",
            }),
        ),
        (
            Choice::new(ChosenBy::Default {
                platform: Native::MacOs,
                native_store: PathBuf::from("/vm"),
            }),
            json!({
                "runtime": "runsc",
                "source": "default",
                "platform": "darwin",
                "nativeStore": "/vm",
            }),
        ),
    ];
    for (choice, written) in cases {
        assert_eq!(serde_json::to_value(&choice).unwrap(), written);
        assert_eq!(serde_json::from_value::<Choice>(written).unwrap(), choice);
    }
}

/// What a run's state says before it is resumed, and after.
#[test]
fn a_run_is_resumed_on_the_runtime_that_it_started_on() {
    let bound = |mut record: Value| {
        record["sandboxRuntime"] = json!("runsc");
        Ok(record)
    };
    // The same with the choice of the engine that resumes it.
    let chosen = |record: Value| {
        let mut record = bound(record)?;
        record["sandboxRuntimeChoice"] = serde_json::to_value(store_choice()).unwrap();
        Ok(record)
    };
    let docker = || Err(RecordRefusal::Docker { of: RecordOf::Run });
    let unknown_runtime = |runtime: &str| {
        Err(RecordRefusal::UnknownRuntime {
            of: RecordOf::Run,
            runtime: runtime.to_owned(),
        })
    };
    let unknown_kind = |kind: &str| {
        Err(RecordRefusal::UnknownKind {
            of: RecordOf::Run,
            kind: kind.to_owned(),
        })
    };
    let snapshot = |kind: Value| json!({"cfc": {"sandbox": {"kind": kind}}, "tools": ["bash"]});
    let flag = json!({"runtime": "runsc", "source": "flag"});
    let cases: Vec<(Value, Result<Value, RecordRefusal>)> = vec![
        // Bound.
        (
            json!({"sandboxRuntime": "runsc", "sandboxRuntimeChoice": flag}),
            bound(json!({"sandboxRuntimeChoice": flag})),
        ),
        (
            json!({"sandboxRuntime": "runsc"}),
            chosen(json!({"sandboxRuntime": "runsc"})),
        ),
        // A choice that this build would not make stays as it is.
        (
            json!({"sandboxRuntime": "runsc", "sandboxRuntimeChoice": {"source": "wizard"}}),
            bound(json!({"sandboxRuntimeChoice": {"source": "wizard"}})),
        ),
        (
            json!({"sandboxRuntimeChoice": {"runtime": "runsc", "source": "flag", "new": 1}}),
            bound(
                json!({"sandboxRuntimeChoice": {"runtime": "runsc", "source": "flag", "new": 1}}),
            ),
        ),
        (
            json!({"sandboxRuntime": "runsc", "sandboxRuntimeChoice": null}),
            chosen(json!({})),
        ),
        // The runtime decides where it is recorded.
        (
            json!({
                "sandboxRuntime": "runsc",
                "capabilitySnapshot": snapshot(json!("runsc-cfc")),
                "turns": 3,
            }),
            chosen(json!({"capabilitySnapshot": snapshot(json!("runsc-cfc")), "turns": 3})),
        ),
        (json!({"sandboxRuntime": "docker"}), docker()),
        (
            json!({"sandboxRuntime": "docker", "capabilitySnapshot": snapshot(json!("runsc-cfc"))}),
            docker(),
        ),
        (
            json!({
                "sandboxRuntime": "docker",
                "sandboxRuntimeChoice": {"runtime": "docker", "source": "environment"},
                "capabilitySnapshot": snapshot(json!("docker-runsc-cfc")),
            }),
            docker(),
        ),
        (
            json!({"sandboxRuntime": "firecracker"}),
            unknown_runtime("firecracker"),
        ),
        (json!({"sandboxRuntime": "RUNSC"}), unknown_runtime("RUNSC")),
        (json!({"sandboxRuntime": ""}), unknown_runtime("")),
        // The kind decides where it is not.
        (
            json!({"capabilitySnapshot": snapshot(json!("runsc-cfc"))}),
            chosen(json!({"capabilitySnapshot": snapshot(json!("runsc-cfc"))})),
        ),
        (
            json!({"sandboxRuntime": null, "capabilitySnapshot": snapshot(json!("runsc-cfc"))}),
            chosen(json!({"capabilitySnapshot": snapshot(json!("runsc-cfc"))})),
        ),
        (
            json!({"capabilitySnapshot": snapshot(json!("docker-runsc-cfc"))}),
            docker(),
        ),
        (
            json!({"capabilitySnapshot": snapshot(json!("podman-cfc"))}),
            unknown_kind("podman-cfc"),
        ),
        (
            json!({"capabilitySnapshot": snapshot(json!(7))}),
            unknown_kind("7"),
        ),
        // Neither: bound from here on.
        (json!({}), chosen(json!({}))),
        (
            json!({"turns": 3, "capabilitySnapshot": null}),
            chosen(json!({"turns": 3})),
        ),
        (
            json!({"capabilitySnapshot": {"cfc": {}}}),
            chosen(json!({"capabilitySnapshot": {"cfc": {}}})),
        ),
        (
            json!({"capabilitySnapshot": snapshot(Value::Null)}),
            chosen(json!({"capabilitySnapshot": snapshot(Value::Null)})),
        ),
    ];
    for (before, expected) in cases {
        let record: RunRecord = serde_json::from_value(before.clone()).unwrap();
        let after = resume(&record, Some(&store_choice()));
        if let Err(refusal) = &after {
            assert_eq!(refusal.code(), "provider-mismatch", "{before}");
        }
        let after = after.map(|record| serde_json::to_value(record).unwrap());
        assert_eq!(after, expected, "{before}");
    }
}

#[test]
fn an_engine_without_a_selection_binds_a_run_without_a_choice() {
    let bound = RunRecord {
        sandbox_runtime: Some("runsc".to_owned()),
        ..RunRecord::default()
    };
    assert_eq!(resume(&RunRecord::default(), None), Ok(bound.clone()));
    assert_eq!(RunRecord::starting(None), bound);
}

#[test]
fn a_run_is_bound_as_it_starts_and_resumes_the_same() {
    let record = RunRecord::starting(Some(&store_choice()));
    let other = Choice::new(ChosenBy::Flag);
    assert_eq!(resume(&record, Some(&other)), Ok(record.clone()));
    assert_eq!(
        record.sandbox_runtime_choice,
        Some(RecordedChoice::Known(store_choice()))
    );
}

#[test]
fn a_turn_stays_on_the_runtime_of_its_session() {
    let of = RecordOf::Session;
    let cases = [
        (
            json!({"sandboxRuntime": "runsc", "id": 1}),
            Ok(json!({"sandboxRuntime": "runsc", "id": 1})),
        ),
        (json!({}), Ok(json!({"sandboxRuntime": "runsc"}))),
        (
            json!({"sandboxRuntime": null, "id": 1}),
            Ok(json!({"sandboxRuntime": "runsc", "id": 1})),
        ),
        (
            json!({"sandboxRuntime": "docker"}),
            Err(RecordRefusal::Docker { of }),
        ),
        (
            json!({"sandboxRuntime": "lima"}),
            Err(RecordRefusal::UnknownRuntime {
                of,
                runtime: "lima".to_owned(),
            }),
        ),
    ];
    for (before, expected) in cases {
        let record: SessionRecord = serde_json::from_value(before.clone()).unwrap();
        let after = turn(&record).map(|record| serde_json::to_value(record).unwrap());
        assert_eq!(after, expected, "{before}");
    }
}

#[test]
fn a_runtime_of_another_kind_is_refused_as_it_is_handed_in() {
    assert_eq!(check_handed_in("runsc-cfc"), Ok(()));
    for kind in ["docker-runsc-cfc", "runsc", "", "RUNSC-CFC"] {
        let refusal = RecordRefusal::HandedIn {
            kind: kind.to_owned(),
        };
        assert_eq!(refusal.code(), "provider-mismatch");
        assert_eq!(check_handed_in(kind), Err(refusal));
    }
}

#[test]
fn a_refusal_says_what_started_where_and_what_to_do() {
    let cases = [
        (
            RecordRefusal::Docker { of: RecordOf::Run },
            "this run started on the Docker driver, which is gone; start a new run",
        ),
        (
            RecordRefusal::Docker {
                of: RecordOf::Session,
            },
            "this session started on the Docker driver, which is gone; start a new session",
        ),
        (
            RecordRefusal::UnknownRuntime {
                of: RecordOf::Session,
                runtime: "lima".to_owned(),
            },
            "this session started on the runtime \"lima\", which this build does not know, so it \
             cannot be told to go on with the same one; start a new session",
        ),
        (
            RecordRefusal::UnknownKind {
                of: RecordOf::Run,
                kind: "podman\u{1b}".to_owned(),
            },
            "the runtime of this run described itself as \"podman\\u{1b}\", a kind that this build \
             does not know, so it cannot be told to go on with the same one; start a new run",
        ),
        (
            RecordRefusal::HandedIn {
                kind: "docker-runsc-cfc".to_owned(),
            },
            "the runtime that was handed in describes itself as \"docker-runsc-cfc\", and only \
             runsc-cfc is run here; hand in one of that kind",
        ),
    ];
    for (refusal, text) in cases {
        assert_eq!(refusal.to_string(), text);
    }
}

#[test]
fn dockers_description_still_reads_and_loses_nothing() {
    let written = json!({
        "kind": "docker-runsc-cfc",
        "defaultWorkingDirectory": "/workspace",
        "cfc": {
            "runtimeRequested": true,
            "runtimeName": "runsc-cfc",
            "image": "registry/kitchensink:1",
            "networkMode": "bridge",
        },
    });
    let record: RunRecord =
        serde_json::from_value(json!({"capabilitySnapshot": {"cfc": {"sandbox": written}}}))
            .unwrap();
    let description = record.description().unwrap();
    assert_eq!(description.kind.as_deref(), Some("docker-runsc-cfc"));
    assert_eq!(description.sessions, None);
    let sandbox = description.cfc.clone().unwrap();
    assert_eq!(sandbox.runtime_name.as_deref(), Some("runsc-cfc"));
    assert_eq!(sandbox.image.as_deref(), Some("registry/kitchensink:1"));
    assert_eq!(sandbox.network_mode.as_deref(), Some("bridge"));
    assert_eq!(serde_json::to_value(description).unwrap(), written);
}
