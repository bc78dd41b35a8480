use std::fs;

use serde_json::{Map, Value, json};

use super::*;
use crate::handoff::artifacts::manifest::digest_value;
use crate::handoff::artifacts::{CaptureLimits, Declared, PayloadPath, capture, seal};
use crate::handoff::redact::Redactor;

/// A bundle of ours with two outputs.
fn bundle() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (out, into) = (dir.path().join("out"), dir.path().join("bundle"));
    fs::create_dir(&out).unwrap();
    fs::create_dir(&into).unwrap();
    put(&out.join("a.json"), b"{\"a\":1}");
    put(&out.join("b.txt"), "b\u{fc}".as_bytes());
    let declared = Declared {
        paths: ["a.json", "b.txt"]
            .map(|path| PayloadPath::new(Path::new(path)).unwrap())
            .to_vec(),
        allow_others: false,
        labelled: false,
    };
    let capture = capture(
        &out,
        &declared,
        &into,
        &Redactor::default(),
        &CaptureLimits::default(),
    );
    let sealed = seal(
        &into,
        &capture.unwrap(),
        None,
        Map::new(),
        "2026-01-31T12:00:00.000Z",
    )
    .unwrap();
    assert!(sealed.verification.valid);
    dir
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    io::Write::write_all(&mut fs::File::create(path).unwrap(), bytes).unwrap();
}

/// What is changed of a bundle: its directory and its manifest.
type Change = Box<dyn Fn(&Path, &mut Value)>;

/// The codes after a change, the manifest's own digests brought up to date where it lists files.
fn codes(change: &Change, refresh: bool) -> Vec<String> {
    let dir = bundle();
    let at = dir.path().join("bundle");
    let mut manifest: Value =
        serde_json::from_slice(&fs::read(at.join(MANIFEST)).unwrap()).unwrap();
    change(&at, &mut manifest);
    if refresh && manifest["files"].is_array() {
        let own = self_digest(&manifest).unwrap();
        let files = manifest["files"].as_array_mut().unwrap();
        for file in files.iter_mut().filter(|file| file["path"] == MANIFEST) {
            file["sha256"] = digest_value(&own);
        }
    }
    if at.join(MANIFEST).exists() && refresh {
        put(&at.join(MANIFEST), manifest.to_string().as_bytes());
    }
    let verification = verify(&at);
    assert_eq!(verification.valid, verification.violations.is_empty());
    let mut codes: Vec<_> = verification
        .violations
        .iter()
        .map(|violation| {
            serde_json::to_value(violation.code)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    codes.dedup();
    codes
}

/// Adds a file to a bundle, listed with its digest.
fn add(at: &Path, manifest: &mut Value, path: &str, kind: &str, content: &Value) {
    let bytes = content.to_string();
    put(&at.join(path), bytes.as_bytes());
    manifest["files"].as_array_mut().unwrap().push(json!({
        "path": path, "kind": kind, "contentType": "application/json",
        "sha256": digest_value(&Sha256Hex::of(bytes.as_bytes())),
    }));
}

#[test]
fn each_thing_that_is_wrong_has_its_code() {
    let rows: Vec<(&str, bool, Change, &[&str])> = vec![
        ("nothing", true, Box::new(|_, _| {}), &[]),
        (
            "no manifest",
            false,
            Box::new(|at, _| fs::remove_file(at.join(MANIFEST)).unwrap()),
            &["missing-manifest"],
        ),
        (
            "no json",
            false,
            Box::new(|at, _| put(&at.join(MANIFEST), b"{")),
            &["malformed-manifest"],
        ),
        (
            "a key twice",
            false,
            Box::new(|at, _| put(&at.join(MANIFEST), b"{\"id\":1,\"id\":1}")),
            &["malformed-manifest"],
        ),
        (
            "no id",
            true,
            Box::new(|_, m| m["id"] = json!(1)),
            &["invalid-manifest-shape"],
        ),
        (
            "no files",
            true,
            Box::new(|_, m| m["files"] = json!({})),
            &["invalid-manifest-shape"],
        ),
        (
            "a case without id",
            true,
            Box::new(|_, m| m["cases"] = json!([{"id": " ", "artifacts": []}])),
            &["invalid-manifest-shape"],
        ),
        (
            "a path that leaves",
            true,
            Box::new(|_, m| m["files"][0]["path"] = json!("../a")),
            &["invalid-path", "orphaned-file", "malformed-reference"],
        ),
        (
            "an absolute path",
            true,
            Box::new(|_, m| m["files"][0]["path"] = json!("/etc/passwd")),
            &["invalid-path", "orphaned-file", "malformed-reference"],
        ),
        (
            "a file that went",
            true,
            Box::new(|at, _| fs::remove_file(at.join("outputs/a.json")).unwrap()),
            &["missing-file", "file-hash-mismatch", "digest-mismatch"],
        ),
        (
            "a file that came",
            true,
            Box::new(|at, _| put(&at.join("x"), b"")),
            &["orphaned-file"],
        ),
        (
            "a link that came",
            true,
            Box::new(|at, _| std::os::unix::fs::symlink("/etc", at.join("x")).unwrap()),
            &["orphaned-file"],
        ),
        (
            "another byte",
            true,
            Box::new(|at, _| put(&at.join("outputs/a.json"), b"{\"a\":2}")),
            &["file-hash-mismatch", "digest-mismatch"],
        ),
        (
            "another digest",
            true,
            Box::new(|_, m| {
                m["contentDigest"]["value"] = json!("0".repeat(64));
            }),
            &["digest-mismatch", "bundle-id-mismatch"],
        ),
        (
            "no digest",
            true,
            Box::new(|_, m| m["contentDigest"]["value"] = json!("x")),
            &["invalid-manifest-shape", "bundle-id-mismatch"],
        ),
        (
            "another id",
            true,
            Box::new(|_, m| m["id"] = json!(format!("{BUNDLE_ID_PREFIX}0"))),
            &["bundle-id-mismatch"],
        ),
        (
            "an id of its own",
            true,
            Box::new(|_, m| m["id"] = json!("bundle-123")),
            &[],
        ),
        (
            "no file digest",
            true,
            Box::new(|_, m| m["files"][0]["sha256"] = json!("x")),
            &["missing-file-hash"],
        ),
        (
            "another manifest",
            true,
            Box::new(|at, m| {
                m["createdAt"] = json!("2026");
                put(&at.join(MANIFEST), m.to_string().as_bytes());
            }),
            &[],
        ),
        (
            "itself not listed",
            true,
            Box::new(|_, m| {
                m["files"].as_array_mut().unwrap().pop();
            }),
            &["invalid-manifest-shape", "orphaned-file"],
        ),
        (
            "a file twice",
            true,
            Box::new(|_, m| {
                let file = m["files"][0].clone();
                m["files"].as_array_mut().unwrap().push(file);
            }),
            &["invalid-manifest-shape"],
        ),
        (
            "an input that is not listed",
            true,
            Box::new(|_, m| m["contentDigest"]["inputs"] = json!(["x"])),
            &["malformed-reference"],
        ),
        (
            "a hard link",
            true,
            Box::new(|at, _| fs::hard_link(at.join("outputs/a.json"), at.join("../x")).unwrap()),
            &["hardlink", "file-hash-mismatch", "digest-mismatch"],
        ),
        (
            "a link",
            true,
            Box::new(|at, _| {
                fs::rename(at.join("outputs/a.json"), at.join("../x")).unwrap();
                std::os::unix::fs::symlink("../../x", at.join("outputs/a.json")).unwrap();
            }),
            &[
                "unsafe-file",
                "missing-file",
                "file-hash-mismatch",
                "digest-mismatch",
            ],
        ),
        (
            "a local viewer",
            true,
            Box::new(|_, m| m["files"][0]["viewer"] = json!({"base": "http://localhost/"})),
            &["unsafe-file"],
        ),
        (
            "a reference to nothing",
            true,
            Box::new(|at, m| {
                m["files"]
                    .as_array_mut()
                    .unwrap()
                    .retain(|file| file["path"] != "metadata.json");
                add(
                    at,
                    m,
                    "metadata.json",
                    "metadata",
                    &json!({"artifacts": {"x": ["none"], "y": "outputs/a.json"}}),
                );
            }),
            &["malformed-reference"],
        ),
    ];
    for (name, refresh, change, expected) in rows {
        assert_eq!(codes(&change, refresh), expected, "{name}");
    }
}

#[test]
fn the_files_of_a_bundle_agree_with_each_other() {
    let with = |path: &'static str, kind: &'static str, content: Value| -> Change {
        Box::new(move |at, manifest| add(at, manifest, path, kind, &content))
    };
    let index = |artifact: Value| json!({"schema": "wp-codebox/typed-artifacts-index/v1", "artifacts": [artifact]});
    let typed = |payload: Value| {
        index(json!({
            "artifact": {"path": "outputs/a.json"},
            "payload_schema": {"type": "object", "required": ["n"]},
            "payload": payload
        }))
    };
    let call = json!({
        "call_id": "1", "tool_name": "t", "tool_type": "t", "phase": "p", "status": "s",
        "redaction": {"policy": "none"}, "input_artifacts": [{"path": "outputs/a.json"}]
    });
    let transcript = |call: Value| {
        json!({
            "schema": "wp-codebox/tool-call-transcript/v1", "tool_calls": [call],
            "redaction": {"policy": "none"}
        })
    };
    let mut bad_call = call.clone();
    bad_call["input_artifacts"] = json!([{"path": "none"}]);
    let kind = "typed-artifacts-index";
    let tools = "tool-call-transcript";
    let review = "files/review.json";
    let rows: Vec<(Change, &[&str])> = vec![
        (with("t.json", kind, typed(json!({"n": 1}))), &[]),
        (
            with("t.json", kind, typed(json!({}))),
            &["payload-schema-violation"],
        ),
        (
            with(
                "t.json",
                kind,
                index(
                    json!({"artifact": {"path": "outputs/a.json"}, "payload_schema": {"type": 1}, "payload": 1}),
                ),
            ),
            &["payload-schema-violation"],
        ),
        (
            with(
                "t.json",
                kind,
                index(json!({"artifact": {"path": "outputs/a.json", "sha256": "0"}})),
            ),
            &["file-hash-mismatch"],
        ),
        (with("t.json", kind, json!({})), &["malformed-reference"]),
        (with("t.json", tools, transcript(call)), &[]),
        (
            with("t.json", tools, transcript(bad_call)),
            &["malformed-reference"],
        ),
        (with("t.json", tools, json!([])), &["malformed-reference"]),
        (with(review, "review", json!({})), &["malformed-reference"]),
        (
            with(
                review,
                "review",
                json!({"evidence": {"artifactContentDigest": "0"}}),
            ),
            &["review-evidence-mismatch"],
        ),
        (
            with(
                review,
                "review",
                json!({"evidence": {"patch": "outputs/b.txt", "patchSha256": Sha256Hex::of("b\u{fc}".as_bytes())}}),
            ),
            &[],
        ),
        (
            with(
                review,
                "review",
                json!({"evidence": {"patch": "outputs/b.txt", "patchSha256": "0"}}),
            ),
            &["review-evidence-mismatch"],
        ),
        (
            with(
                review,
                "review",
                json!({"evidence": {"changedFiles": "none"}}),
            ),
            &["malformed-reference", "review-evidence-mismatch"],
        ),
        (
            Box::new(
                |_, m| m["cases"] = json!([{"id": "c", "artifacts": [{"path": "outputs/a.json", "kind": "k", "publicUrl": "https://example.com/"}]}]),
            ),
            &[],
        ),
        (
            Box::new(|_, m| {
                m["cases"] = json!([{"id": "c", "artifacts": [{"path": "none", "kind": "k"}]}])
            }),
            &["malformed-reference"],
        ),
        (
            Box::new(|_, m| {
                m["cases"] = json!([{"id": "c", "artifacts": []}, {"id": "c", "artifacts": []}])
            }),
            &["invalid-manifest-shape"],
        ),
        (
            Box::new(
                |_, m| m["cases"] = json!([{"id": "c", "artifacts": [{"path": "outputs/a.json", "kind": "k", "publicUrl": "http://127.0.0.1/"}]}]),
            ),
            &["unsafe-file"],
        ),
    ];
    for (at, (change, expected)) in rows.iter().enumerate() {
        assert_eq!(codes(change, true), *expected, "row {at}");
    }
}

#[test]
fn a_list_digest_is_of_the_list() {
    let change: Change = Box::new(|at, manifest| {
        manifest["contentDigest"]["inputs"] = json!([FILE_LIST]);
        let list = list_digest(&Manifest::new(manifest.clone()).unwrap()).unwrap();
        manifest["contentDigest"]["value"] = json!(list);
        manifest["id"] = json!(format!("{BUNDLE_ID_PREFIX}{list}"));
        let _ = at;
    });
    assert_eq!(codes(&change, true), [] as [&str; 0]);
}

#[test]
fn what_is_no_directory_has_no_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let verification = verify(&dir.path().join("none"));
    assert_eq!(
        verification.violations[0].code,
        ViolationCode::MissingManifest
    );
    let value = serde_json::to_value(&verification).unwrap();
    assert_eq!(
        value["schema"],
        "wp-codebox/artifact-bundle-verification/v1"
    );
    assert_eq!(value["valid"], false);
    assert!(value.get("manifest").is_none());
}
