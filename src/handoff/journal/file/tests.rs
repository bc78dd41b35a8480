use serde_json::json;

use super::*;
use crate::handoff::journal::{Attempt, Call, Failure, Outcome};

fn entry(input: u64) -> Entry {
    Entry {
        call: Call {
            kind: "lint".into(),
            input: json!({ "ü": input }),
            label: "a\nb".into(),
            scope: String::new(),
            max_steps: None,
            schema: None,
        },
        outcome: Outcome::DidNotFinish {
            failure: Failure::NoReport,
            attempt: Some(Attempt {
                attempt_id: format!("c-{input}"),
                ..Attempt::default()
            }),
        },
        phase: None,
        started_at: Some(1),
        finished_at: None,
    }
}

fn put(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn what_is_appended_is_read_and_only_one_process_appends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let (journal, before) = Journal::open(&path).unwrap();
    assert_eq!(before, []);
    assert!(matches!(Journal::open(&path), Err(JournalError::Held(_))));
    for input in 0..3 {
        journal.append(&entry(input)).unwrap();
    }
    assert_eq!(journal.entries(), [entry(0), entry(1), entry(2)]);
    assert_eq!(watch(&path).unwrap(), [entry(0), entry(1), entry(2)]);
    drop(journal);
    let (journal, before) = Journal::open(&path).unwrap();
    assert_eq!(before.len(), 3);
    journal.append(&entry(3)).unwrap();
    assert_eq!(watch(&path).unwrap().len(), 4);
    // One line each, whatever is in it.
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
}

#[test]
fn in_memory_it_holds_the_same() {
    let journal = Journal::in_memory();
    journal.append(&entry(1)).unwrap();
    assert_eq!(journal.entries(), [entry(1)]);
}

#[test]
fn a_torn_tail_is_cut_and_never_believed() {
    let good = format!("{}\n", entry(1).to_value());
    let last = entry(2).to_value().to_string();
    let metadata = metadata_line(json!({"note": "kept", "e": 1}));
    assert_eq!(metadata, "{\"note\":\"kept\",\"v\":1}\n");
    // A cut anywhere, inside a character too.
    for cut in 0..=last.len() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut bytes = format!("\r\n{metadata}{good}\n").into_bytes();
        let whole = bytes.len();
        bytes.extend_from_slice(&last.as_bytes()[..cut]);
        put(&path, &bytes);
        let expected = if cut == last.len() {
            vec![entry(1), entry(2)]
        } else {
            vec![entry(1)]
        };
        assert_eq!(watch(&path).unwrap(), expected);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "a watcher changed it");
        let (journal, entries) = Journal::open(&path).unwrap();
        assert_eq!(entries, expected);
        journal.append(&entry(3)).unwrap();
        assert_eq!(watch(&path).unwrap().len(), expected.len() + 1);
        // What was good is there byte for byte.
        assert_eq!(&std::fs::read(&path).unwrap()[..whole], &bytes[..whole]);
    }
}

#[test]
fn a_bad_line_elsewhere_is_corruption() {
    let good = format!("{}\n", entry(1).to_value());
    for (bad, code) in [
        ("{\"v\":2,\"e\":{}}\n", "v"),
        ("{\"v\":1,\"e\":{}}\n", "e"),
        ("{\"v\":1\n", "json"),
        ("{\"v\":1,\"v\":1}\n", "json"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        put(&path, format!("{good}{bad}{good}").as_bytes());
        let Err(JournalError::Corrupt { line: 2, .. }) = load(&path) else {
            panic!("{code}");
        };
    }
    // Bytes that are no text, in the middle too.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    put(
        &path,
        &[good.as_bytes(), b"\xff\n", good.as_bytes()].concat(),
    );
    assert!(matches!(
        load(&path),
        Err(JournalError::Corrupt { line: 2, .. })
    ));
}

#[test]
fn a_journal_that_is_missing_is_empty_and_a_link_is_none() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(load(&dir.path().join("none")).unwrap(), []);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    assert_eq!(load(&link).unwrap_err().code(), "journal-file");
    assert_eq!(Journal::open(&link).unwrap_err().code(), "journal-file");
}
