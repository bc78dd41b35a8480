use std::io;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cfc::json::{MAX_BYTES, MAX_DEPTH};

mod rows;

use rows::{mismatch, observed, rows, unreadable, with_taint};

#[path = "../../../fuzz/oracle.rs"]
mod oracle;

const CONTAINER: &str = "c-run-1";

#[test]
fn the_verdict_table() {
    let rows = rows();
    assert!(rows.len() >= 34);
    for (name, bytes, verdict) in rows {
        assert_eq!(parse(Ok(&bytes), CONTAINER), verdict, "{name}");
        agrees(&bytes);
    }
}

#[test]
fn what_could_not_be_read_is_denied() {
    let missing = Unreadable::from(io::Error::from(io::ErrorKind::NotFound));
    let refused = Unreadable::from(io::Error::from(io::ErrorKind::PermissionDenied));
    assert_eq!(missing, Unreadable::Missing);
    for (error, code) in [(missing, "missing"), (refused, "io")] {
        assert_eq!(parse(Err(error), CONTAINER), unreadable(error));
        assert_eq!(error.code(), code);
    }
}

#[test]
fn the_bounds_themselves_are_within() {
    let mut full = with_taint(r#"{"xattrJSON":{}}"#);
    full.resize(MAX_BYTES, b'\n');
    let deep = format!(
        r#"{{"xattrJSON":{{}},"x":{}{}}}"#,
        "[".repeat(MAX_DEPTH - 2),
        "]".repeat(MAX_DEPTH - 2)
    );
    for bytes in [full, with_taint(&deep)] {
        assert_eq!(parse(Ok(&bytes), CONTAINER), observed(None, json!({})));
        agrees(&bytes);
    }
}

#[test]
fn what_the_result_says_beside_the_taint_is_told_and_decides_nothing() {
    let result = json!({
        "version": 1, "containerId": CONTAINER, "sandboxId": "c-pause", "waitStatus": 35072,
        "cfcTaint": {"string": EMPTY_LABEL, "xattrJSON": {}, "more": 1}, "more": {"a": [null]},
    });
    let verdict = parse(Ok(result.to_string().as_bytes()), CONTAINER);
    assert_eq!(
        serde_json::to_value(&verdict).unwrap(),
        json!({"policy": "observed", "label": {}, "diagnostics": [{
            "level": "info",
            "code": "runsc_cfc_result",
            "message": "runsc's result was read",
            "details": {
                "containerId": CONTAINER,
                "sandboxId": "c-pause",
                "waitStatus": 35072,
                "runscTaint": EMPTY_LABEL,
                "runscTaintXattrJSON": {},
            },
        }]})
    );
    for (sandbox, status) in [(json!(1), json!("0")), (json!(null), json!(0.5))] {
        let mut result = result.clone();
        result["sandboxId"] = sandbox;
        result["waitStatus"] = status;
        assert_eq!(
            parse(Ok(result.to_string().as_bytes()), CONTAINER),
            observed(Some(EMPTY_LABEL), json!({}))
        );
    }
}

#[test]
fn as_json_a_verdict_has_its_label_and_its_reason() {
    let bytes = with_taint(r#"{"xattrJSON":{"confidentiality":["a"],"integrity":["b"]}}"#);
    let verdict = parse(Ok(&bytes), CONTAINER);
    assert_eq!(
        serde_json::to_value(&verdict).unwrap(),
        json!({
            "policy": "opaque",
            "label": {"confidentiality": ["a"], "integrity": ["b"]},
            "diagnostics": [{
                "level": "info",
                "code": "runsc_cfc_result",
                "message": "runsc's result was read",
                "details": {
                    "containerId": CONTAINER,
                    "runscTaintXattrJSON": {"confidentiality": ["a"], "integrity": ["b"]},
                },
            }],
        })
    );
    assert_eq!(
        serde_json::to_value(parse(Ok(b"{\"version\":"), CONTAINER)).unwrap(),
        json!({
            "policy": "denied",
            "label": {},
            "reason": "runsc left no result that can be read",
            "diagnostics": [{
                "level": "error",
                "code": "runsc_cfc_result_fd_unreadable",
                "message": "runsc left no result that can be read",
                "details": {"containerId": CONTAINER, "error": "it ends before its JSON does"},
            }],
        })
    );
    assert_eq!(
        serde_json::to_value(mismatch("c-other").diagnostics()).unwrap(),
        json!([{
            "level": "error",
            "code": "runsc_cfc_sidecar_container_mismatch",
            "message": "runsc's result is of another container",
            "details": {"expectedContainerId": CONTAINER, "actualContainerId": "c-other"},
        }])
    );
}

#[test]
fn codes_are_one_word_in_text_and_in_json() {
    use DiagnosticCode as Code;
    for code in [
        Code::ResultFdUnreadable,
        Code::SidecarVersion,
        Code::SidecarContainerMismatch,
        Code::SidecarMissingTaint,
        Code::SidecarMalformedTaint,
        Code::Result,
    ] {
        assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
    }
    for policy in [Policy::Observed, Policy::Opaque, Policy::Denied] {
        assert_eq!(
            serde_json::to_value(policy).unwrap(),
            json!(policy.as_str())
        );
    }
}

/// That the parser and the second reading of the rules say the same.
fn agrees(bytes: &[u8]) {
    let observed = parse(Ok(bytes), CONTAINER).policy() == Policy::Observed;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    match oracle::reading(bytes, CONTAINER) {
        oracle::Reading::Public => assert!(observed, "withheld what is public: {shown}"),
        oracle::Reading::NotPublic => assert!(!observed, "released what is not: {shown}"),
        oracle::Reading::PublicUnlessANumberIsTooLarge => {}
    }
}

#[test]
fn the_fuzzers_seeds_are_read_as_the_second_reading_has_them() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/cfc_result");
    let mut count = 0;
    for seed in std::fs::read_dir(seeds).unwrap() {
        agrees(&std::fs::read(seed.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 34, "{count} seeds");
}

proptest! {
    /// Pieces that results are made of, in any order, often enough a result.
    #[test]
    fn pieces_are_read_as_the_second_reading_has_them(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", " ", "1", "1.0", "null", "\"x\"", "\"confidentiality\":[]",
            "\"integrity\":[]", "\"xattrJSON\":{}", "\"string\":\"{conf: ⊤, integ: ∅}\"",
            "\"string\":\"\"", "\"more\":1", "\"integrity\":[1]", "\\u0061",
        ]), 0..8)
    ) {
        let text = pieces.concat();
        agrees(&with_taint(&format!("{{{text}}}")));
        agrees(&with_taint(&format!("{{\"xattrJSON\":{{{text}}}}}")));
        agrees(text.as_bytes());
    }
}
