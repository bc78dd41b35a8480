//! The verdict table.

use serde_json::{Value, json};

use super::CONTAINER;
use crate::cfc::json::{JsonError, MAX_BYTES};
use crate::cfc::label::Label;
use crate::cfc::result::{Details, Diagnostic, DiagnosticCode, EMPTY_LABEL, Unreadable, Verdict};

/// A result with this taint and nothing optional.
pub(super) fn with_taint(taint: &str) -> Vec<u8> {
    format!(r#"{{"version":1,"containerId":"{CONTAINER}","cfcTaint":{taint}}}"#).into_bytes()
}

pub(super) fn unreadable(error: Unreadable) -> Verdict {
    let container_id = CONTAINER.to_owned();
    Verdict::denied(
        DiagnosticCode::ResultFdUnreadable,
        Details::Unreadable {
            container_id,
            error,
        },
    )
}

fn denied(code: DiagnosticCode) -> Verdict {
    let container_id = CONTAINER.to_owned();
    Verdict::denied(code, Details::Container { container_id })
}

pub(super) fn mismatch(actual: &str) -> Verdict {
    Verdict::denied(
        DiagnosticCode::SidecarContainerMismatch,
        Details::Mismatch {
            expected_container_id: CONTAINER.into(),
            actual_container_id: actual.into(),
        },
    )
}

fn told(string: Option<&str>, xattr: Option<Value>) -> Vec<Diagnostic> {
    vec![Diagnostic {
        code: DiagnosticCode::Result,
        details: Details::Taint {
            container_id: CONTAINER.into(),
            sandbox_id: None,
            wait_status: None,
            runsc_taint: string.map(str::to_owned),
            runsc_taint_xattr_json: xattr.map(|xattr| xattr.as_object().unwrap().clone()),
        },
    }]
}

pub(super) fn observed(string: Option<&str>, xattr: Value) -> Verdict {
    Verdict::Observed {
        label: Label::default(),
        diagnostics: told(string, Some(xattr)),
    }
}

fn opaque(
    string: Option<&str>,
    xattr: Option<Value>,
    confidentiality: Value,
    integrity: Value,
) -> Verdict {
    Verdict::Opaque {
        label: Label {
            confidentiality: confidentiality.as_array().unwrap().clone(),
            integrity: integrity.as_array().unwrap().clone(),
        },
        diagnostics: told(string, xattr),
    }
}

/// Every row of the verdict table: what it is, the bytes, the verdict.
pub(super) fn rows() -> Vec<(&'static str, Vec<u8>, Verdict)> {
    use DiagnosticCode::{SidecarMalformedTaint, SidecarMissingTaint, SidecarVersion};

    let raw = |name, bytes: &str, verdict| (name, bytes.as_bytes().to_vec(), verdict);
    let taint = |name, taint: &str, verdict| (name, with_taint(taint), verdict);
    let json = |error| unreadable(Unreadable::Json(error));
    let version = || denied(SidecarVersion);
    let missing = || denied(SidecarMissingTaint);
    let malformed = || denied(SidecarMalformedTaint);
    let none = || json!([]);
    let empty = EMPTY_LABEL;
    let tainted = r#"{conf: "finance", integ: ∅}"#;

    vec![
        // Not readable.
        raw("nothing", "", json(JsonError::Empty)),
        raw("white space", " \n", json(JsonError::Empty)),
        raw("null", "null", unreadable(Unreadable::Null)),
        raw(
            "no JSON",
            "ok",
            json(JsonError::Syntax { line: 1, column: 1 }),
        ),
        raw(
            "half",
            r#"{"version":1,"containerId":"c-r"#,
            json(JsonError::Truncated),
        ),
        (
            "not UTF-8",
            b"{\"version\":1,\"x\":\"\xc3\"}".to_vec(),
            json(JsonError::NotUtf8 { offset: 18 }),
        ),
        raw("NUL", "\0", json(JsonError::Syntax { line: 1, column: 1 })),
        (
            "twice",
            [
                with_taint(r#"{"xattrJSON":{}}"#),
                with_taint(r#"{"xattrJSON":{}}"#),
            ]
            .concat(),
            json(JsonError::Trailing {
                line: 1,
                column: 66,
            }),
        ),
        (
            "a word after it",
            [with_taint(r#"{"xattrJSON":{}}"#), b" x".to_vec()].concat(),
            json(JsonError::Trailing {
                line: 1,
                column: 67,
            }),
        ),
        (
            "1 MiB and a byte",
            [
                with_taint(r#"{"xattrJSON":{}}"#),
                vec![b' '; MAX_BYTES - 64],
            ]
            .concat(),
            json(JsonError::TooLarge),
        ),
        taint(
            "too deep",
            &format!(
                r#"{{"xattrJSON":{{"x":{}{}}}}}"#,
                "[".repeat(62),
                "]".repeat(62)
            ),
            json(JsonError::TooDeep),
        ),
        raw(
            "two versions",
            r#"{"version":2,"version":1,"containerId":"c-run-1","cfcTaint":{"xattrJSON":{}}}"#,
            json(JsonError::DuplicateKey),
        ),
        taint(
            "two taints",
            r#"{"xattrJSON":{"confidentiality":["a"]},"xattrJSON":{}}"#,
            json(JsonError::DuplicateKey),
        ),
        taint(
            "two confidentialities",
            r#"{"xattrJSON":{"confidentiality":["a"],"c\u006fnfidentiality":[]}}"#,
            json(JsonError::DuplicateKey),
        ),
        // The version.
        raw(
            "no version",
            r#"{"containerId":"c-run-1","cfcTaint":{"xattrJSON":{}}}"#,
            version(),
        ),
        raw(
            "version 2",
            r#"{"version":2,"containerId":"c-run-1","cfcTaint":{"xattrJSON":{}}}"#,
            version(),
        ),
        raw(
            "version as text",
            r#"{"version":"1","containerId":"c-run-1","cfcTaint":{"xattrJSON":{}}}"#,
            version(),
        ),
        raw(
            "version with a fraction",
            r#"{"version":1.0,"containerId":"c-run-1","cfcTaint":{"xattrJSON":{}}}"#,
            version(),
        ),
        raw(
            "version null",
            r#"{"version":null,"containerId":"c-run-1"}"#,
            version(),
        ),
        raw("an object without anything", "{}", version()),
        raw("an array", r#"[{"version":1}]"#, version()),
        raw("a number", "1", version()),
        raw("a text", r#""version""#, version()),
        raw("a truth", "true", version()),
        // The container.
        raw(
            "another container",
            r#"{"version":1,"containerId":"c-run-12","cfcTaint":{"xattrJSON":{}}}"#,
            mismatch("c-run-12"),
        ),
        raw(
            "a prefix of the container",
            r#"{"version":1,"containerId":"c-run-","cfcTaint":{"xattrJSON":{}}}"#,
            mismatch("c-run-"),
        ),
        raw(
            "no container",
            r#"{"version":1,"cfcTaint":{"xattrJSON":{}}}"#,
            mismatch(""),
        ),
        raw(
            "a container that is no text",
            r#"{"version":1,"containerId":["c-run-1"],"cfcTaint":{"xattrJSON":{}}}"#,
            mismatch(""),
        ),
        // The taint.
        raw(
            "no taint",
            r#"{"version":1,"containerId":"c-run-1"}"#,
            missing(),
        ),
        taint("taint null", "null", missing()),
        taint("taint an array", "[]", missing()),
        taint("taint a text", r#""{conf: ⊤, integ: ∅}""#, missing()),
        taint("taint of nothing", "{}", malformed()),
        taint("taint of something unknown", r#"{"xattr":{}}"#, malformed()),
        taint(
            "string null",
            r#"{"string":null,"xattrJSON":{}}"#,
            malformed(),
        ),
        taint(
            "string a number",
            r#"{"string":1,"xattrJSON":{}}"#,
            malformed(),
        ),
        taint(
            "structure null",
            r#"{"string":"{conf: ⊤, integ: ∅}","xattrJSON":null}"#,
            malformed(),
        ),
        taint("structure an array", r#"{"xattrJSON":[]}"#, malformed()),
        taint("structure a text", r#"{"xattrJSON":"{}"}"#, malformed()),
        taint(
            "confidentiality null",
            r#"{"xattrJSON":{"confidentiality":null}}"#,
            malformed(),
        ),
        taint(
            "confidentiality an object",
            r#"{"xattrJSON":{"confidentiality":{}}}"#,
            malformed(),
        ),
        taint(
            "confidentiality a text",
            r#"{"xattrJSON":{"confidentiality":""}}"#,
            malformed(),
        ),
        taint(
            "integrity null",
            r#"{"xattrJSON":{"integrity":null}}"#,
            malformed(),
        ),
        taint(
            "integrity an object",
            r#"{"xattrJSON":{"integrity":{}}}"#,
            malformed(),
        ),
        taint(
            "integrity false",
            r#"{"xattrJSON":{"integrity":false}}"#,
            malformed(),
        ),
        // Public.
        taint(
            "both empty",
            r#"{"string":"{conf: ⊤, integ: ∅}","xattrJSON":{}}"#,
            observed(Some(empty), json!({})),
        ),
        taint(
            "both empty, escaped",
            r#"{"string":"{conf: \u22a4, integ: \u2205}","xattrJSON":{}}"#,
            observed(Some(empty), json!({})),
        ),
        taint(
            "empty structure alone",
            r#"{"xattrJSON":{}}"#,
            observed(None, json!({})),
        ),
        taint(
            "empty arrays",
            r#"{"xattrJSON":{"confidentiality":[],"integrity":[]}}"#,
            observed(None, json!({"confidentiality": [], "integrity": []})),
        ),
        taint(
            "one empty array",
            r#"{"xattrJSON":{"integrity":[]}}"#,
            observed(None, json!({"integrity": []})),
        ),
        // Everything else.
        taint(
            "confidentiality",
            r#"{"string":"{conf: \"finance\", integ: ∅}","xattrJSON":{"confidentiality":["finance"]}}"#,
            opaque(
                Some(tainted),
                Some(json!({"confidentiality": ["finance"]})),
                json!(["finance"]),
                none(),
            ),
        ),
        taint(
            "atoms of any kind, twice and in their order",
            r#"{"xattrJSON":{"confidentiality":[null,{"anyOf":[1]},"b","a","b"]}}"#,
            opaque(
                None,
                Some(json!({"confidentiality": [null, {"anyOf": [1]}, "b", "a", "b"]})),
                json!([null, {"anyOf": [1]}, "b", "a", "b"]),
                none(),
            ),
        ),
        taint(
            "integrity alone",
            r#"{"xattrJSON":{"integrity":["did:key:bob"]}}"#,
            opaque(
                None,
                Some(json!({"integrity": ["did:key:bob"]})),
                none(),
                json!(["did:key:bob"]),
            ),
        ),
        taint(
            "an unknown member",
            r#"{"xattrJSON":{"purpose":["x"]}}"#,
            opaque(None, Some(json!({"purpose": ["x"]})), none(), none()),
        ),
        taint(
            "an unknown member that is empty",
            r#"{"xattrJSON":{"confidentiality":[],"purpose":[]}}"#,
            opaque(
                None,
                Some(json!({"confidentiality": [], "purpose": []})),
                none(),
                none(),
            ),
        ),
        taint(
            "an unknown member that is null",
            r#"{"xattrJSON":{"Confidentiality":null}}"#,
            opaque(None, Some(json!({"Confidentiality": null})), none(), none()),
        ),
        taint(
            "an unknown member beside a known one",
            r#"{"xattrJSON":{"confidentiality":["a"],"purpose":1}}"#,
            opaque(
                None,
                Some(json!({"confidentiality": ["a"], "purpose": 1})),
                json!(["a"]),
                none(),
            ),
        ),
        taint(
            "the empty rendering alone",
            r#"{"string":"{conf: ⊤, integ: ∅}"}"#,
            opaque(Some(empty), None, none(), none()),
        ),
        taint(
            "a rendering alone",
            r#"{"string":"{conf: \"finance\", integ: ∅}"}"#,
            opaque(Some(tainted), None, none(), none()),
        ),
        taint(
            "a blank rendering alone",
            r#"{"string":""}"#,
            opaque(Some(""), None, none(), none()),
        ),
        taint(
            "a rendering beside an empty structure",
            r#"{"string":"{conf: \"finance\", integ: ∅}","xattrJSON":{}}"#,
            opaque(Some(tainted), Some(json!({})), none(), none()),
        ),
        taint(
            "the empty rendering beside a structure",
            r#"{"string":"{conf: ⊤, integ: ∅}","xattrJSON":{"confidentiality":["a"]}}"#,
            opaque(
                Some(empty),
                Some(json!({"confidentiality": ["a"]})),
                json!(["a"]),
                none(),
            ),
        ),
        taint(
            "no rendering, as text, beside an empty structure",
            r#"{"string":"","xattrJSON":{}}"#,
            opaque(Some(""), Some(json!({})), none(), none()),
        ),
        taint(
            "a blank rendering beside an empty structure",
            r#"{"string":"  ","xattrJSON":{}}"#,
            opaque(Some("  "), Some(json!({})), none(), none()),
        ),
        taint(
            "the empty rendering, padded",
            r#"{"string":" {conf: ⊤, integ: ∅}\n","xattrJSON":{}}"#,
            opaque(
                Some(" {conf: ⊤, integ: ∅}\n"),
                Some(json!({})),
                none(),
                none(),
            ),
        ),
        taint(
            "the empty rendering, spaced otherwise",
            r#"{"string":"{conf:⊤,integ:∅}","xattrJSON":{}}"#,
            opaque(Some("{conf:⊤,integ:∅}"), Some(json!({})), none(), none()),
        ),
        taint(
            "the empty rendering, in other letters",
            r#"{"string":"{conf: T, integ: ∅}","xattrJSON":{}}"#,
            opaque(Some("{conf: T, integ: ∅}"), Some(json!({})), none(), none()),
        ),
    ]
}
