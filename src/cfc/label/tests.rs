use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn entry(path: &[&str], confidentiality: Value, observes: Option<Value>) -> Value {
    let mut entry = json!({"path": path, "label": {"confidentiality": confidentiality}});
    if let Some(observes) = observes {
        entry["observes"] = observes;
    }
    entry
}

fn view(entries: Value) -> LabelView {
    LabelView::from_value(&json!({"version": 1, "entries": entries})).unwrap()
}

#[test]
fn views_are_joined_deduplicated_and_sorted() {
    let explicit = view(json!([
        entry(&["stdin"], json!(["b", {"y": 1, "x": [2]}]), None),
        entry(&["env", "B"], json!(["e"]), None),
        entry(&["args"], json!([]), None),
    ]));
    let influence = view(json!([
        entry(&["stdin"], json!([{"x": [2.0], "y": 1}, "a", "b"]), None),
        entry(&["stdin"], json!(["c"]), Some(json!("length"))),
    ]));
    let context = view(json!([
        entry(
            &["env", "A/B"],
            json!([{"anyOf": ["p", "q"]}, {"anyOf": ["p", "q"]}]),
            None
        ),
        entry(&["command"], json!(["z"]), None),
    ]));
    let merged = LabelView::merge([&explicit, &influence, &context]);
    assert_eq!(
        merged.to_value(),
        json!({"version": 1, "entries": [
            entry(&["command"], json!(["z"]), None),
            entry(&["env", "A/B"], json!([{"anyOf": ["p", "q"]}]), None),
            entry(&["env", "B"], json!(["e"]), None),
            entry(&["stdin"], json!(["a", "b", {"x": [2.0], "y": 1}]), None),
            entry(&["stdin"], json!(["c"]), Some(json!("length"))),
        ]})
    );
    assert_eq!(serde_json::to_value(&merged).unwrap(), merged.to_value());
}

#[test]
fn a_view_that_says_nothing_is_empty() {
    for entries in [
        json!([]),
        json!([{"path": ["cwd"], "label": {}}]),
        json!([{"path": ["cwd"], "label": {"integrity": [], "confidentiality": []}}]),
    ] {
        assert!(view(entries).is_empty());
    }
    assert!(LabelView::merge([]).is_empty());
}

#[test]
fn one_text_for_all_spellings() {
    let rows = [
        (
            json!({"b": [1, 2.0, -3.0], "a": null}),
            r#"{"a":null,"b":[1,2,-3]}"#,
        ),
        (json!({"\"": true}), r#"{"\"":true}"#),
        (
            json!([1.5, 1e300, u64::MAX]),
            "[1.5,1e+300,18446744073709551615]",
        ),
        (json!(-0.0), "0"),
        (json!("é\u{1}"), "\"é\\u0001\""),
    ];
    for (value, text) in rows {
        assert_eq!(canonical(&value), text);
    }
}

#[test]
fn integrity_is_refused_wherever_it_is() {
    let rows = [
        (
            json!({"version": 1, "entries": [
                entry(&["cwd"], json!(["a"]), None),
                {"path": ["command"], "label": {"integrity": ["x"]}},
            ]}),
            "/entries/1/label/integrity",
        ),
        (
            json!({"version": 1, "entries": [{"path": ["cwd"], "label": {"Integrity": [1]}}]}),
            "/entries/0/label/Integrity",
        ),
        (
            json!({"version": 1, "entries": [
                entry(&["cwd"], json!([{"a/b": [{"integrity": [null]}]}]), None),
            ]}),
            "/entries/0/label/confidentiality/0/a~1b/0/integrity",
        ),
        (json!({"integrity": ["x"], "version": 2}), "/integrity"),
    ];
    for (value, path) in rows {
        let error = LabelView::from_value(&value).unwrap_err();
        assert_eq!(error, LabelError::Integrity { path: path.into() });
        assert_eq!(error.code(), "integrity-in-input-labels");
    }
    let entry = LabelEntry {
        path: LabelPath::whole(LabelRoot::Cwd),
        label: Label {
            confidentiality: vec![],
            integrity: vec![json!("x")],
        },
        observes: None,
    };
    assert_eq!(
        LabelView::new(vec![entry]),
        Err(LabelError::Integrity {
            path: "/entries/0/label/integrity".into()
        })
    );
}

#[test]
fn what_is_no_view_is_refused_with_its_place() {
    let bad_path = "strings, the first of them the name of an input";
    let entry_of = |entry: Value| json!({"version": 1, "entries": [entry]});
    let rows = [
        (json!(null), "", "an object"),
        (json!({"entries": []}), "/version", "the number 1"),
        (
            json!({"version": "1", "entries": []}),
            "/version",
            "the number 1",
        ),
        (json!({"version": 1}), "/entries", "an array"),
        (json!({"version": 1, "entries": {}}), "/entries", "an array"),
        (entry_of(json!(1)), "/entries/0", "an object"),
        (
            entry_of(json!({"path": ["cwd"]})),
            "/entries/0/label",
            "an object",
        ),
        (
            entry_of(json!({"path": ["cwd"], "label": []})),
            "/entries/0/label",
            "an object",
        ),
        (
            entry_of(json!({"label": {}})),
            "/entries/0/path",
            "an array",
        ),
        (
            entry_of(json!({"path": [], "label": {}})),
            "/entries/0/path",
            bad_path,
        ),
        (
            entry_of(json!({"path": ["files"], "label": {}})),
            "/entries/0/path",
            bad_path,
        ),
        (
            entry_of(json!({"path": ["Cwd"], "label": {}})),
            "/entries/0/path",
            bad_path,
        ),
        (
            entry_of(json!({"path": ["argv", 0], "label": {}})),
            "/entries/0/path",
            bad_path,
        ),
        (
            entry_of(json!({"path": ["cwd"], "label": {"confidentiality": null}})),
            "/entries/0/label/confidentiality",
            "an array",
        ),
        (
            entry_of(json!({"path": ["cwd"], "label": {"integrity": {}}})),
            "/entries/0/label/integrity",
            "an array",
        ),
    ];
    for (value, path, expected) in rows {
        assert_eq!(
            LabelView::from_value(&value),
            Err(LabelError::Malformed {
                path: path.into(),
                expected
            }),
            "{value}"
        );
    }
    for (value, path) in [
        (json!({"version": 1, "entries": [], "more": 1}), "/more"),
        (
            entry_of(json!({"path": ["cwd"], "label": {"x": 1}})),
            "/entries/0/label/x",
        ),
        (
            entry_of(json!({"path": ["cwd"], "label": {}, "Label": {}})),
            "/entries/0/Label",
        ),
    ] {
        assert_eq!(
            LabelView::from_value(&value),
            Err(LabelError::UnknownMember { path: path.into() })
        );
    }
}

#[test]
fn an_argument_is_an_atom() {
    assert_eq!(confidentiality_from_arg("finance"), Ok(json!("finance")));
    assert_eq!(confidentiality_from_arg("[1"), Ok(json!("[1")));
    assert_eq!(
        confidentiality_from_arg(r#" {"anyOf": ["a", "b"]}"#),
        Ok(json!({"anyOf": ["a", "b"]}))
    );
    assert_eq!(confidentiality_from_arg(" "), Err(LabelError::BlankAtom));
    assert_eq!(
        confidentiality_from_arg("{"),
        Err(LabelError::Atom(JsonError::Truncated))
    );
    assert_eq!(
        confidentiality_from_arg(r#"{"a":1,"a":2}"#),
        Err(LabelError::Atom(JsonError::DuplicateKey))
    );
    assert_eq!(
        confidentiality_from_arg(r#"{"integrity":["a"]}"#),
        Err(LabelError::Integrity {
            path: "/integrity".into()
        })
    );
}

fn atoms() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        (-3i8..3).prop_map(|half| Value::from(f64::from(half) / 2.0)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[ab]", inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn views() -> impl Strategy<Value = LabelView> {
    let entry = (
        prop::sample::select(LabelRoot::ALL.to_vec()),
        prop::collection::vec("[a/~]{0,2}", 0..2),
        prop::collection::vec(atoms(), 0..4),
        prop::option::of(atoms()),
    )
        .prop_map(|(root, rest, confidentiality, observes)| LabelEntry {
            path: LabelPath { root, rest },
            label: Label {
                confidentiality,
                integrity: vec![],
            },
            observes,
        });
    prop::collection::vec(entry, 0..5).prop_map(|entries| LabelView::new(entries).unwrap())
}

proptest! {
    #[test]
    fn merging_is_idempotent_and_in_any_order_and_grouping(
        a in views(), b in views(), c in views()
    ) {
        prop_assert_eq!(&LabelView::merge([&a]), &a);
        prop_assert_eq!(&LabelView::merge([&a, &a]), &a);
        let all = LabelView::merge([&a, &b, &c]);
        prop_assert_eq!(&LabelView::merge([&c, &a, &b]), &all);
        prop_assert_eq!(&LabelView::merge([&LabelView::merge([&c, &b]), &a]), &all);
        prop_assert_eq!(&LabelView::merge([&all, &b]), &all);
        // As JSON, key order and the spelling of numbers included.
        let other_way = LabelView::merge([&c, &b, &a]);
        prop_assert_eq!(other_way.to_value().to_string(), all.to_value().to_string());
    }

    #[test]
    fn a_view_is_read_as_it_was_written(view in views()) {
        prop_assert_eq!(LabelView::from_value(&view.to_value()), Ok(view));
    }

    #[test]
    fn no_atom_is_lost(a in views(), b in views()) {
        let merged = LabelView::merge([&a, &b]);
        for entry in a.entries().iter().chain(b.entries()) {
            let there = merged
                .entries()
                .iter()
                .find(|other| {
                    other.path == entry.path
                        && other.observes.as_ref().map(canonical)
                            == entry.observes.as_ref().map(canonical)
                })
                .unwrap();
            let texts: Vec<_> = there.label.confidentiality.iter().map(canonical).collect();
            for atom in &entry.label.confidentiality {
                prop_assert!(texts.contains(&canonical(atom)));
            }
        }
    }
}
