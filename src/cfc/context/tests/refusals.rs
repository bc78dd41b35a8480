//! What is no context, and why.

use serde_json::json;

use super::*;

/// The written context with one change.
fn with(change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::from_str(WRITTEN).unwrap();
    change(&mut value);
    value.to_string().into_bytes()
}

fn without(name: &str) -> Vec<u8> {
    with(|value| {
        value.as_object_mut().unwrap().shift_remove(name);
    })
}

#[test]
fn a_member_of_another_kind_is_refused_with_its_place() {
    let text = "a string";
    let object = "an object";
    let modes = "disabled or observe or enforce-explicit or enforce-strict";
    let count = "a whole number from 0 on";
    let at = |pointer: &'static str, value: Value| {
        with(move |root| *root.pointer_mut(pointer).unwrap() = value.clone())
    };
    let add = |parent: &'static str, name: &'static str, value: Value| {
        with(move |root| root.pointer_mut(parent).unwrap()[name] = value.clone())
    };
    let rows = [
        (without("type"), "/type", TYPE),
        (at("/type", json!("context")), "/type", TYPE),
        (without("version"), "/version", "the number 1"),
        (at("/version", json!(2)), "/version", "the number 1"),
        (without("sequence"), "/sequence", "a whole number from 1 on"),
        (
            at("/sequence", json!(0)),
            "/sequence",
            "a whole number from 1 on",
        ),
        (
            at("/sequence", json!(1.5)),
            "/sequence",
            "a whole number from 1 on",
        ),
        (without("runId"), "/runId", text),
        (at("/runId", json!(7)), "/runId", text),
        (at("/createdAt", json!(0)), "/createdAt", text),
        (without("toolId"), "/toolId", text),
        (at("/toolOutputId", json!(null)), "/toolOutputId", text),
        (
            at("/operation", json!("exec")),
            "/operation",
            "shell or command",
        ),
        (without("cfcEnforcementMode"), "/cfcEnforcementMode", modes),
        (
            at("/cfcEnforcementMode", json!("enforce")),
            "/cfcEnforcementMode",
            modes,
        ),
        (
            at("/cfcEnforcementMode", json!(null)),
            "/cfcEnforcementMode",
            modes,
        ),
        (without("cwd"), "/cwd", text),
        (add("", "promptSlot", json!("x")), "/promptSlot", object),
        (
            add("", "promptSlot", json!({})),
            "/promptSlot/type",
            "https://commonfabric.org/cfc/atom/PromptSlotBound",
        ),
        (without("runManifest"), "/runManifest", object),
        (
            at("/runManifest", json!({})),
            "/runManifest/present",
            "true or false",
        ),
        (
            add("/runManifest", "cfcEnforcementMode", json!("off")),
            "/runManifest/cfcEnforcementMode",
            modes,
        ),
        (without("inputs"), "/inputs", object),
        (
            at("/inputs/command", json!("rm -r")),
            "/inputs/command",
            object,
        ),
        (
            at("/inputs/command/bytes", json!(-1)),
            "/inputs/command/bytes",
            count,
        ),
        (
            at("/inputs/command/type", json!("text")),
            "/inputs/command/type",
            "cf-harness.redacted-text-summary",
        ),
        (
            add("/inputs", "argv", json!(["rm"])),
            "/inputs/argv",
            object,
        ),
        (
            add(
                "/inputs",
                "env",
                json!({"type": "cf-harness.env-summary", "count": 1, "names": {"A": "1"}}),
            ),
            "/inputs/env/names",
            "an array of strings",
        ),
    ];
    for (bytes, path, expected) in rows {
        let error = InvocationContext::parse(&bytes).unwrap_err();
        assert_eq!(
            error,
            ContextError::Member {
                path: path.into(),
                expected: expected.into()
            }
        );
        assert_eq!(error.code(), "malformed-context");
    }
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    for (parent, name) in [
        ("", "CfcEnforcementMode"),
        ("", "cfcInputLabel\u{17f}"),
        ("/inputs/command", "Digest"),
        ("/runManifest", "PRESENT"),
    ] {
        let bytes = with(|value| value.pointer_mut(parent).unwrap()[name] = json!(1));
        assert_eq!(
            InvocationContext::parse(&bytes),
            Err(ContextError::Lookalike {
                path: format!("{parent}/{name}")
            })
        );
    }
    let twice = WRITTEN.replacen(
        "\"version\": 1,",
        "\"version\": 1, \"cfcEnforcementMode\": \"disabled\",",
        1,
    );
    let rows: [(&[u8], _); 4] = [
        (
            twice.as_bytes(),
            ContextError::Json(JsonError::DuplicateKey),
        ),
        (b"", ContextError::Json(JsonError::Empty)),
        (
            b"{}{}",
            ContextError::Json(JsonError::Trailing { line: 1, column: 3 }),
        ),
        (b"[]", ContextError::NotObject),
    ];
    for (bytes, error) in rows {
        assert_eq!(InvocationContext::parse(bytes), Err(error));
    }
}

#[test]
fn integrity_in_a_callers_labels_is_refused() {
    let label = "/cfcInputLabels/entries/0/label";
    let bytes = |integrity: Value| {
        with(move |value| value.pointer_mut(label).unwrap()["integrity"] = integrity.clone())
    };
    let error = InvocationContext::parse(&bytes(json!(["did:key:a"]))).unwrap_err();
    assert_eq!(
        error,
        ContextError::Labels(LabelError::Integrity {
            path: "/entries/0/label/integrity".into()
        })
    );
    assert_eq!(error.code(), "integrity-in-input-labels");
    assert!(InvocationContext::parse(&bytes(json!([]))).is_ok());
}

#[test]
fn a_prompt_without_a_source_is_refused() {
    let fields = ContextFields {
        prompt_slot: Some(PromptSlotBinding {
            source: PromptSource::Name(String::new()),
            role: PromptRole::Quote,
            kernel_name: "k".into(),
            surface: "s".into(),
            subject: None,
            render_ref: None,
            event_id: None,
            value_digest: None,
            slot_digest: None,
            snapshot_digest: None,
            target_path: None,
        }),
        ..fields()
    };
    assert_eq!(
        InvocationContext::new(&fields),
        Err(ContextError::Member {
            path: "/promptSlot/source".into(),
            expected: "a string that is not empty, or an object".into()
        })
    );
}
