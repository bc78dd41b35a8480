use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use super::*;

fn full() -> Value {
    json!({
        "v": 1,
        "exe": "/opt/engine",
        "child_args": ["subrun", "{kind}", "--session", "{child}", "--session-root", "/store"],
        "child_id": "run7-sr-{n}",
        "ids": [5, 32],
        "journal": "/store/run7-wf-5.jsonl",
        "events": "/store/run7-wf-5.events.jsonl",
        "cwd": "/store",
        "deadline_ms": 600000
    })
}

fn reading(value: &Value) -> Reading {
    read(Some(OsStr::new(&value.to_string())))
}

fn context(value: &Value) -> Context {
    match reading(value) {
        Reading::Context(context) => *context,
        other => panic!("{other:?}"),
    }
}

/// The document with one member changed, or taken out.
fn with(name: &str, value: Option<Value>) -> Value {
    let mut document = full();
    let members = document.as_object_mut().unwrap();
    match value {
        Some(value) => {
            members.insert(name.into(), value);
        }
        None => {
            members.remove(name);
        }
    }
    document
}

#[test]
fn a_complete_document_reads_and_is_the_same_again() {
    let context = context(&full());
    assert_eq!(context.to_value(), full());
    assert_eq!(context.journal_path(), Some("/store/run7-wf-5.jsonl"));
    assert_eq!(context.events_path(), Some("/store/run7-wf-5.events.jsonl"));
    assert_eq!(context.child_capacity(), 32);
    assert_eq!(context.cwd(), Some("/store"));
    assert_eq!(
        context.child_argv(&Kind::new("scout").unwrap(), 7),
        [
            "/opt/engine",
            "subrun",
            "scout",
            "--session",
            "run7-sr-7",
            "--session-root",
            "/store"
        ]
    );
}

#[test]
fn nothing_is_absent_and_what_is_wrong_is_unusable() {
    assert_eq!(read(None), Reading::Absent);
    assert_eq!(read(Some(OsStr::new(" \n"))), Reading::Absent);
    let rows: Vec<(Value, &str)> = vec![
        (json!([]), "not-object"),
        (json!("x"), "not-object"),
        (with("v", None), "unknown-version"),
        (with("v", Some(json!(2))), "unknown-version"),
        (with("v", Some(json!("1"))), "unknown-version"),
        (with("v", Some(json!(1.5))), "unknown-version"),
        (with("exe", None), "bad-field"),
        (with("exe", Some(json!(""))), "bad-field"),
        (with("exe", Some(json!(["a"]))), "bad-field"),
        (with("child_args", None), "bad-field"),
        (with("child_args", Some(json!([]))), "bad-field"),
        (with("child_args", Some(json!(["a", 1]))), "bad-field"),
        (with("child_args", Some(json!("a"))), "bad-field"),
        (with("child_id", None), "bad-field"),
        (with("child_id", Some(json!("fixed"))), "bad-field"),
        (with("ids", None), "bad-field"),
        (with("ids", Some(json!([1]))), "bad-field"),
        (with("ids", Some(json!([1, 0]))), "bad-field"),
        (with("ids", Some(json!([0, 4]))), "bad-field"),
        (with("ids", Some(json!([1, 2, 3]))), "bad-field"),
        (with("ids", Some(json!([1.5, 2]))), "bad-field"),
        (with("ids", Some(json!(["1", 2]))), "bad-field"),
        (with("ids", Some(json!([1, u64::MAX]))), "bad-field"),
        (with("deadline_ms", Some(json!(0))), "bad-field"),
        (with("deadline_ms", Some(json!(-5))), "bad-field"),
        (with("deadline_ms", Some(json!(1.5))), "bad-field"),
        (
            with("pad", Some(json!("x".repeat(MAX_DOCUMENT)))),
            "too-large",
        ),
    ];
    for (document, code) in rows {
        match reading(&document) {
            Reading::Unusable(reason) => assert_eq!(reason.code(), code, "{document}"),
            other => panic!("{document}: {other:?}"),
        }
    }
    for (bytes, code) in [
        (&b"{"[..], "truncated"),
        (b"{\"v\":1,\"v\":1}", "duplicate-key"),
        (b"\xff", "not-utf8"),
        (b"{} x", "trailing-bytes"),
    ] {
        match read(Some(OsStr::from_bytes(bytes))) {
            Reading::Unusable(reason) => assert_eq!(reason.code(), code),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_optional_field_that_is_wrong_is_unset() {
    for wrong in [json!(null), json!(""), json!(1), json!({}), json!(["a"])] {
        for name in ["journal", "events", "cwd"] {
            let context = context(&with(name, Some(wrong.clone())));
            assert_eq!(context.to_value(), with(name, None), "{name}: {wrong}");
        }
    }
    for wrong in [None, Some(json!(null)), Some(json!("9"))] {
        let context = context(&with("deadline_ms", wrong));
        assert_eq!(context.deadline_ms(), DEFAULT_DEADLINE_MS);
    }
    // An argument may be empty, and a whole number may be written with a fraction of nothing.
    assert_eq!(
        context(&with("child_args", Some(json!([""])))).child_args,
        [""]
    );
    assert_eq!(
        context(&with("ids", Some(json!([5.0, 32])))).ids().first(),
        5
    );
}

#[test]
fn extensions_are_kept_and_the_contracts_own_names_are_none() {
    let mut document = full();
    let members = document.as_object_mut().unwrap();
    members.insert(
        "openseek".into(),
        json!({"audit": {"goal": "ship the parser"}}),
    );
    members.insert("nothing".into(), json!(null));
    members.insert("transport".into(), json!("result_file"));
    let context = context(&document);
    assert_eq!(
        context.extension("openseek"),
        Some(&json!({"audit": {"goal": "ship the parser"}}))
    );
    assert_eq!(context.extension("nothing"), Some(&Value::Null));
    assert_eq!(context.extension("missing"), None);
    for name in RESERVED {
        assert_eq!(context.extension(name), None, "{name}");
    }
    assert_eq!(context.to_value(), document);
}

fn writer() -> Writer {
    Writer {
        exe: "/run/handoff/launch".into(),
        child_args: vec!["{kind}".into(), "{child}".into()],
        child_id: "r-{n}".into(),
        ids: (1, 3),
        ..Writer::default()
    }
}

#[test]
fn a_host_cannot_write_what_no_script_can_use() {
    let (text, context) = writer().write().unwrap();
    assert_eq!(
        read(Some(OsStr::new(&text))),
        Reading::Context(Box::new(context))
    );
    let refused = |change: fn(&mut Writer)| {
        let mut writer = writer();
        change(&mut writer);
        writer.write().unwrap_err().code()
    };
    assert_eq!(refused(|w| w.exe.clear()), "bad-field");
    assert_eq!(refused(|w| w.child_args.clear()), "bad-field");
    assert_eq!(refused(|w| w.child_id = "fixed".into()), "bad-field");
    assert_eq!(refused(|w| w.ids = (0, 1)), "bad-field");
    assert_eq!(refused(|w| w.ids = (1, 0)), "bad-field");
    assert_eq!(refused(|w| w.deadline_ms = Some(0)), "bad-field");
    assert_eq!(refused(|w| w.journal = Some(String::new())), "would-change");
    assert_eq!(
        refused(|w| {
            w.extensions.insert("ids".into(), json!([1, 99]));
        }),
        "reserved-name"
    );
    assert_eq!(
        refused(|w| {
            w.extensions
                .insert("big".into(), json!("x".repeat(MAX_DOCUMENT)));
        }),
        "too-large"
    );
}

proptest::proptest! {
    #[test]
    fn what_a_host_writes_a_reader_takes_for_the_same(
        exe in "\\PC{1,20}",
        args in proptest::collection::vec("\\PC{0,20}", 1..5),
        name in "[a-z]{0,8}",
        first in 1u64..1_000_000,
        count in 1u64..1000,
        journal in proptest::option::of("\\PC{1,20}"),
        deadline in proptest::option::of(1u64..10_000_000),
        extension in "\\PC{0,20}",
    ) {
        let writer = Writer {
            exe,
            child_args: args,
            child_id: format!("{name}-{{n}}"),
            ids: (first, count),
            journal,
            deadline_ms: deadline,
            extensions: [("host".to_owned(), json!({ "text": extension }))].into_iter().collect(),
            ..Writer::default()
        };
        let (text, context) = writer.write().unwrap();
        proptest::prop_assert_eq!(read(Some(OsStr::new(&text))), Reading::Context(Box::new(context)));
    }
}
