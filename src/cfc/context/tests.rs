use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use super::*;
use crate::cfc::label::LabelRoot;

mod refusals;

/// 2026-01-02T03:04:05Z.
fn made_at() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_767_323_045)
}

fn fields() -> ContextFields {
    ContextFields {
        sequence: NonZeroU64::new(4).unwrap(),
        run_id: "demo-7".into(),
        created_at: made_at(),
        tool_id: "bash".into(),
        tool_output_id: Some("demo-7:bash:4".into()),
        operation: Operation::Shell,
        mode: EnforcementMode::Observe,
        cwd: "/workspace/app".into(),
        prompt_slot: None,
        run_manifest: RunManifest::default(),
        inputs: Inputs {
            command: Some(TextSummary::of(b"hello")),
            ..Inputs::default()
        },
        labels: LabelView::of(
            LabelRoot::Command,
            vec![json!({"type": "example/Team", "subject": "did:key:zed"})],
        )
        .unwrap(),
    }
}

const WRITTEN: &str = r#"{
  "type": "cf-harness.cfc-invocation-context",
  "version": 1,
  "sequence": 4,
  "runId": "demo-7",
  "createdAt": "2026-01-02T03:04:05.000Z",
  "toolId": "bash",
  "toolOutputId": "demo-7:bash:4",
  "operation": "shell",
  "cfcEnforcementMode": "observe",
  "cwd": "/workspace/app",
  "runManifest": {
    "present": false
  },
  "inputs": {
    "command": {
      "type": "cf-harness.redacted-text-summary",
      "bytes": 5,
      "digest": "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    }
  },
  "cfcInputLabels": {
    "version": 1,
    "entries": [
      {
        "path": [
          "command"
        ],
        "label": {
          "confidentiality": [
            {
              "type": "example/Team",
              "subject": "did:key:zed"
            }
          ]
        }
      }
    ]
  }
}
"#;

#[test]
fn a_context_is_written_in_its_order() {
    let context = InvocationContext::new(&fields()).unwrap();
    assert_eq!(String::from_utf8(context.to_bytes()).unwrap(), WRITTEN);
}

#[test]
fn every_member_has_its_wire_name() {
    let summary = TextSummary {
        bytes: 1,
        digest: "sha256:x".into(),
    };
    let sequence = SequenceSummary {
        count: 1,
        total_bytes: 2,
        digest: "sha256:y".into(),
    };
    let full = ContextFields {
        prompt_slot: Some(PromptSlotBinding {
            source: PromptSource::Name("chat".into()),
            role: PromptRole::DirectCommand,
            kernel_name: "k".into(),
            surface: "s".into(),
            subject: Some(json!("did:key:a")),
            render_ref: Some(RenderRef {
                seq: 0,
                root_ref: json!("r"),
            }),
            event_id: Some("e".into()),
            value_digest: Some("v".into()),
            slot_digest: Some("l".into()),
            snapshot_digest: Some("n".into()),
            target_path: Some(json!(["t"])),
        }),
        run_manifest: RunManifest {
            present: true,
            path: Some("m.json".into()),
            source: Some("loom".into()),
            wish_id: Some("w".into()),
            dispatch_class: Some("d".into()),
            mode: Some(EnforcementMode::EnforceExplicit),
            prompt_slot_present: Some(true),
        },
        inputs: Inputs {
            command: Some(summary.clone()),
            argv: Some(sequence.clone()),
            args: Some(sequence),
            stdin: Some(summary),
            env: Some(EnvSummary::of(["B", "A"])),
        },
        labels: LabelView::default(),
        ..fields()
    };
    let context = InvocationContext::new(&full).unwrap();
    let text = json!({
        "type": "cf-harness.redacted-text-summary", "bytes": 1, "digest": "sha256:x",
    });
    let sequence = json!({
        "type": "cf-harness.redacted-sequence-summary",
        "count": 1, "totalBytes": 2, "digest": "sha256:y",
    });
    let expected = json!({
        "type": "cf-harness.cfc-invocation-context",
        "version": 1,
        "sequence": 4,
        "runId": "demo-7",
        "createdAt": "2026-01-02T03:04:05.000Z",
        "toolId": "bash",
        "toolOutputId": "demo-7:bash:4",
        "operation": "shell",
        "cfcEnforcementMode": "observe",
        "cwd": "/workspace/app",
        "promptSlot": {
            "type": "https://commonfabric.org/cfc/atom/PromptSlotBound",
            "source": "chat",
            "role": "direct-command",
            "kernelName": "k",
            "surface": "s",
            "subject": "did:key:a",
            "renderRef": {"seq": 0, "rootRef": "r"},
            "eventId": "e",
            "valueDigest": "v",
            "slotDigest": "l",
            "snapshotDigest": "n",
            "targetPath": ["t"],
        },
        "runManifest": {
            "present": true,
            "path": "m.json",
            "source": "loom",
            "wishId": "w",
            "dispatchClass": "d",
            "cfcEnforcementMode": "enforce-explicit",
            "promptSlotPresent": true,
        },
        "inputs": {
            "command": text,
            "argv": sequence,
            "args": sequence,
            "stdin": text,
            "env": {"type": "cf-harness.env-summary", "count": 2, "names": ["A", "B"]},
        },
    });
    assert_eq!(
        String::from_utf8(context.to_bytes()).unwrap(),
        format!("{expected:#}\n")
    );
    assert_eq!(
        InvocationContext::parse(&context.to_bytes()).map(|context| context.members),
        Ok(context.members)
    );
}

fn minimal() -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    (
        vec!["cat".into(), "secret-file".into()],
        vec![
            ("TOKEN".into(), OsString::from_vec(b"secret-\xff".to_vec())),
            ("A".into(), "1".into()),
            ("TOKEN".into(), "secret".into()),
        ],
    )
}

#[test]
fn a_minimal_context_tells_no_bytes() {
    let (argv, env) = minimal();
    let context = InvocationContext::minimal(&MinimalContext {
        run_id: "r",
        sequence: NonZeroU64::MIN,
        created_at: made_at(),
        tool_id: "run",
        mode: EnforcementMode::EnforceStrict,
        cwd: Path::new("/workspace"),
        argv: &argv,
        env: &env,
        stdin: Some(TextSummary::of(b"secret\xff")),
        labels: LabelView::default(),
    })
    .unwrap();
    let text = String::from_utf8(context.to_bytes()).unwrap();
    assert!(!text.contains("secret"));
    let expected = json!({
        "type": "cf-harness.cfc-invocation-context",
        "version": 1,
        "sequence": 1,
        "runId": "r",
        "createdAt": "2026-01-02T03:04:05.000Z",
        "toolId": "run",
        "operation": "command",
        "cfcEnforcementMode": "enforce-strict",
        "cwd": "/workspace",
        "runManifest": {"present": false},
        "inputs": {
            "argv": SequenceSummary::of(["cat", "secret-file"]),
            "stdin": TextSummary::of(b"secret\xff"),
            "env": {"type": "cf-harness.env-summary", "count": 2, "names": ["A", "TOKEN"]},
        },
    });
    assert_eq!(text, format!("{expected:#}\n"));
    assert_eq!(context.mode(), EnforcementMode::EnforceStrict);
}

#[test]
fn what_a_minimal_context_names_must_be_utf8() {
    let wrong = || OsString::from_vec(vec![b'a', 0xff]);
    let (argv, env, cwd) = (
        vec!["a".into(), wrong()],
        vec![(wrong(), "".into())],
        wrong(),
    );
    let good = MinimalContext {
        run_id: "r",
        sequence: NonZeroU64::MIN,
        created_at: made_at(),
        tool_id: "run",
        mode: EnforcementMode::Disabled,
        cwd: Path::new("/"),
        argv: &[],
        env: &[],
        stdin: None,
        labels: LabelView::default(),
    };
    let rows = [
        (
            MinimalContext {
                argv: &argv,
                ..good.clone()
            },
            "/argv/1",
        ),
        (
            MinimalContext {
                env: &env,
                ..good.clone()
            },
            "/env/0",
        ),
        (
            MinimalContext {
                cwd: Path::new(&cwd),
                ..good.clone()
            },
            "/cwd",
        ),
    ];
    for (call, path) in rows {
        let error = InvocationContext::minimal(&call).unwrap_err();
        assert_eq!(error, ContextError::NotUtf8 { path: path.into() });
    }
    assert!(InvocationContext::minimal(&good).is_ok());
}

#[test]
fn a_callers_context_is_handed_on_to_the_byte() {
    let compact = WRITTEN
        .replace("\n", "")
        .replace("\"version\": 1,  \"s", "\"x\":1e2,\"version\":1,\"s");
    assert!(compact.contains("1e2"));
    for text in [WRITTEN, &compact] {
        let mut context = InvocationContext::parse(text.as_bytes()).unwrap();
        context.set_mode(EnforcementMode::Observe);
        context.merge_labels(&LabelView::default());
        context.merge_labels(&context.labels().clone());
        assert_eq!(context.to_bytes(), text.as_bytes());
    }
}

#[test]
fn a_changed_context_keeps_its_other_members_and_their_order() {
    let mut value: Value = serde_json::from_str(WRITTEN).unwrap();
    value["harness"] = json!({"b": 1, "a": [{}]});
    value["inputs"]["more"] = json!(null);
    let mut context = InvocationContext::parse(value.to_string().as_bytes()).unwrap();
    context.set_mode(EnforcementMode::EnforceStrict);
    let view = LabelView::of(LabelRoot::Command, vec![json!("finance")]).unwrap();
    context.merge_labels(&view);

    value["cfcEnforcementMode"] = json!("enforce-strict");
    value["cfcInputLabels"]["entries"][0]["label"]["confidentiality"] =
        json!(["finance", {"type": "example/Team", "subject": "did:key:zed"}]);
    assert_eq!(
        String::from_utf8(context.to_bytes()).unwrap(),
        format!("{value:#}\n")
    );
    let again = InvocationContext::parse(&context.to_bytes()).unwrap();
    assert_eq!(again.mode(), EnforcementMode::EnforceStrict);
    assert_eq!(again.labels(), context.labels());
}

#[test]
fn labels_are_added_where_there_were_none() {
    let mut context = InvocationContext::new(&ContextFields {
        labels: LabelView::default(),
        ..fields()
    })
    .unwrap();
    assert!(!context.members.contains_key(LABELS));
    context.merge_labels(&fields().labels);
    assert_eq!(String::from_utf8(context.to_bytes()).unwrap(), WRITTEN);
}
