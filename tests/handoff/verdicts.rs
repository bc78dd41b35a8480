//! Two verifiers, one verdict. `verdicts.json` has what WP Codebox's own said of bundles of ours,
//! as they are and changed, when it was run on them by hand; each is made again here and verified
//! by ours. It also has what both said of bundles that it made.
//!
//! To run the other one again, name a directory in HANDOFF_VERDICTS: the bundles stay there.

use std::fs;
use std::path::{Path, PathBuf};

use runsc_driver::handoff::artifacts::{
    CaptureLimits, Declared, PayloadPath, capture, seal, self_digest, verify,
};
use runsc_driver::handoff::digest::Sha256Hex;
use runsc_driver::handoff::redact::Redactor;
use serde_json::{Map, Value, json};

fn table() -> Value {
    serde_json::from_str(include_str!("verdicts.json")).unwrap()
}

/// A bundle of ours with two outputs.
fn bundle(at: &Path) {
    let (out, into) = (at.with_extension("out"), at.to_owned());
    fs::create_dir_all(&into).unwrap();
    put(&out.join("a.json"), b"{\"a\":1}\n");
    put(&out.join("d/b.bin"), b"b\0");
    let declared = Declared {
        paths: ["a.json", "d/b.bin"]
            .map(|path| PayloadPath::new(Path::new(path)).unwrap())
            .to_vec(),
        allow_others: false,
        labelled: false,
    };
    let limits = CaptureLimits::default();
    let captured = capture(&out, &declared, &into, &Redactor::default(), &limits).unwrap();
    seal(
        &into,
        &captured,
        None,
        Map::new(),
        "2026-01-31T12:00:00.000Z",
    )
    .unwrap();
    fs::remove_dir_all(out).unwrap();
}

fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

/// Changes a bundle as a row of the table says.
fn change(at: &Path, edits: &[Value]) {
    for edit in edits {
        let text = |name: &str| edit[name].as_str().unwrap();
        let path = || at.join(text("path"));
        match text("do") {
            "write" => put(&path(), text("text").as_bytes()),
            "remove" => fs::remove_file(path()).unwrap(),
            "symlink" => {
                let _ = fs::remove_file(path());
                std::os::unix::fs::symlink(text("to"), path()).unwrap();
            }
            "hardlink" => fs::hard_link(at.join(text("to")), path()).unwrap(),
            "fifo" => nix::unistd::mkfifo(&path(), nix::sys::stat::Mode::S_IRWXU).unwrap(),
            "manifest" => edit_manifest(at, |manifest| {
                let place = manifest.pointer_mut(text("at")).unwrap();
                *place = edit["value"].clone();
            }),
            "unlist" => edit_manifest(at, |manifest| {
                let files = manifest["files"].as_array_mut().unwrap();
                files.retain(|file| file["path"] != text("path"));
            }),
            "list" => {
                let bytes = fs::read(path()).unwrap_or_default();
                edit_manifest(at, |manifest| {
                    manifest["files"].as_array_mut().unwrap().push(json!({
                        "path": text("path"), "kind": text("kind"), "contentType": "application/json",
                        "sha256": {"algorithm": "sha256", "value": Sha256Hex::of(&bytes)},
                    }));
                });
            }
            other => panic!("{other} is no edit"),
        }
    }
}

/// Changes the manifest and has it agree with itself again.
fn edit_manifest(at: &Path, edit: impl FnOnce(&mut Value)) {
    let path = at.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    if let Ok(own) = self_digest(&manifest)
        && let Some(files) = manifest["files"].as_array_mut()
    {
        for file in files
            .iter_mut()
            .filter(|file| file["path"] == "manifest.json")
        {
            file["sha256"] = json!({"algorithm": "sha256", "value": own});
        }
    }
    put(&path, manifest.to_string().as_bytes());
}

fn codes(at: &Path) -> Vec<String> {
    let verification = verify(at);
    assert_eq!(verification.valid, verification.violations.is_empty());
    let mut codes: Vec<_> = verification
        .violations
        .iter()
        .map(|violation| json!(violation.code).as_str().unwrap().to_owned())
        .collect();
    codes.sort();
    codes.dedup();
    codes
}

fn words(of: &Value) -> Vec<&str> {
    of.as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

#[test]
fn each_bundle_of_ours_has_the_recorded_verdict() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("HANDOFF_VERDICTS").map(PathBuf::from);
    let dir = kept.as_deref().unwrap_or(temporary.path());
    let table = table();
    let mut differ = Vec::new();
    for row in table["ours"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let at = dir.join(name);
        bundle(&at);
        change(&at, row["edits"].as_array().unwrap());
        let found = codes(&at);
        if found != words(&row["ours"]) {
            differ.push((name, found));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn where_the_two_differ_there_is_a_reason() {
    let table = table();
    assert_eq!(table["verifier"]["commit"].as_str().unwrap().len(), 40);
    let rows = ["ours", "theirs"].map(|of| table[of].as_array().unwrap());
    assert!(rows.iter().all(|rows| rows.len() > 15));
    for row in rows.into_iter().flatten() {
        let (ours, theirs) = (words(&row["ours"]), words(&row["theirs"]));
        let same = ours == theirs;
        assert_eq!(same, row.get("reason").is_none(), "{row}");
        // A bundle that one takes and the other does not is the worse difference.
        if ours.is_empty() != theirs.is_empty() {
            assert!(row["reason"].as_str().unwrap().len() > 20, "{row}");
        }
    }
}
