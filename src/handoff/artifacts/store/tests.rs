use std::fs;

use serde_json::Map;

use super::*;
use crate::handoff::artifacts::{CaptureLimits, Declared, capture, seal};
use crate::handoff::redact::Redactor;

/// A bundle with one output of this content.
fn bundle(dir: &Path, content: &[u8]) {
    let out = dir.with_extension("out");
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(dir).unwrap();
    io::Write::write_all(&mut File::create(out.join("a")).unwrap(), content).unwrap();
    let declared = Declared {
        paths: vec![PayloadPath::new(Path::new("a")).unwrap()],
        allow_others: false,
        labelled: false,
    };
    let capture = capture(
        &out,
        &declared,
        dir,
        &Redactor::default(),
        &CaptureLimits::default(),
    );
    seal(
        dir,
        &capture.unwrap(),
        None,
        Map::new(),
        &crate::handoff::time::now(),
    )
    .unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn an_import_is_idempotent_and_a_stored_copy_is_never_changed() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    bundle(&source, b"one");
    let store = Store::open(&dir.path().join("store")).unwrap();
    let first = store.import(&source, &Expected::default()).unwrap();
    assert!(!first.existing);
    let again = store.import(&source, &Expected::default()).unwrap();
    assert!(again.existing);
    assert_eq!((&again.id, &again.digest), (&first.id, &first.digest));
    assert_eq!(store.stored(&first.id).unwrap().digest, first.digest);
    assert_eq!(names(&store.dir), [first.id.as_str()]);

    // The same contents, made at another time: the stored copy stays as it is.
    let manifest = fs::read(store.dir.join(&first.id).join(MANIFEST)).unwrap();
    let later = dir.path().join("later");
    bundle(&later, b"one");
    assert!(store.import(&later, &Expected::default()).unwrap().existing);
    assert_eq!(
        fs::read(store.dir.join(&first.id).join(MANIFEST)).unwrap(),
        manifest
    );

    // One byte of the stored copy: it is neither existing nor repaired.
    let stored = store.dir.join(&first.id).join("outputs/a");
    io::Write::write_all(&mut File::create(&stored).unwrap(), b"two").unwrap();
    let err = store.import(&source, &Expected::default()).unwrap_err();
    assert_eq!(err.code(), "artifact-stored-damaged");
    assert_eq!(
        store.stored(&first.id).unwrap_err().code(),
        "artifact-stored-damaged"
    );
    assert_eq!(fs::read(&stored).unwrap(), b"two");
    assert_eq!(names(&store.dir), [first.id.as_str()]);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    bundle(&source, b"one");
    let store = Store::open(&dir.path().join("store")).unwrap();
    let refused = |expected: Expected<'_>| store.import(&source, &expected).unwrap_err().code();
    assert_eq!(
        refused(Expected {
            id: Some("x"),
            digest: None
        }),
        "wp_codebox_artifact_import_id_mismatch"
    );
    assert_eq!(
        refused(Expected {
            id: None,
            digest: Some("x")
        }),
        "wp_codebox_artifact_import_digest_mismatch"
    );
    io::Write::write_all(&mut File::create(source.join("outputs/a")).unwrap(), b"x").unwrap();
    assert_eq!(refused(Expected::default()), "artifact-unverified");
    assert_eq!(
        store.stored("none").unwrap_err().code(),
        "artifact-not-stored"
    );
    for odd in ["../source", "", ".incoming-1", "a/b"] {
        assert_eq!(store.stored(odd).unwrap_err().code(), "artifact-odd-id");
    }
    assert_eq!(names(&store.dir), [] as [String; 0]);
}

#[test]
fn two_bundles_of_one_id_are_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    for (content, code) in [(&b"one"[..], None), (b"two", Some("artifact-id-conflict"))] {
        let source = dir.path().join(String::from_utf8_lossy(content).as_ref());
        bundle(&source, content);
        let path = source.join(MANIFEST);
        let mut manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["id"] = "bundle-123".into();
        let own = super::super::self_digest(&manifest).unwrap();
        let last = manifest["files"]
            .as_array_mut()
            .unwrap()
            .last_mut()
            .unwrap();
        last["sha256"]["value"] = own.as_str().into();
        fs::remove_file(&path).unwrap();
        files::write_new(&path, manifest.to_string().as_bytes()).unwrap();
        let result = store.import(&source, &Expected::default());
        assert_eq!(result.err().map(|err| err.code()), code);
    }
}

#[test]
fn what_a_killed_host_left_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let ours = store.aside().unwrap();
    fs::create_dir_all(dir.path().join(".incoming-2147483646-0a/outputs")).unwrap();
    fs::create_dir(dir.path().join("bundle")).unwrap();
    store.sweep();
    let own = ours.dir().file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(names(dir.path()), [own, "bundle".into()]);
    drop(ours);
    assert_eq!(names(dir.path()), ["bundle"]);
}
