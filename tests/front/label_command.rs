//! `runsc-cfc label`, for people.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::wait_for;
use crate::lab::{Call, Lab, SECRET, atoms, label, label_of, put};

fn ask(lab: &Lab, words: &[&str]) -> (Option<i32>, Value) {
    let words = [words, &["--json"]].concat();
    let output = lab.label_command(&words);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["schema"], "runsc-cfc/label/v1", "{value:#}");
    (output.status.code(), value)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn labels_are_set_got_and_cleared() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let plain = work.join("plain");
    put(&plain, SECRET);
    let none = (Some(0), json!([]));
    let (code, told) = ask(&lab, &["get", text(&plain)]);
    assert_eq!((code, told["entries"].clone()), none);

    let (code, _) = ask(&lab, &["set", text(&plain), "finance", r#"{"user":"zed"}"#]);
    assert_eq!(code, Some(0));
    let (_, told) = ask(&lab, &["get", text(&plain)]);
    let entry = json!({
        "path": text(&plain), "label": {"confidentiality": ["finance", {"user": "zed"}]},
    });
    assert_eq!(told["entries"], json!([entry]));
    let (_, told) = ask(&lab, &["tree", text(&work)]);
    assert_eq!(told["entries"], json!([entry]));
    let output = lab.label_command(&["tree", text(&work)]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("[\"finance\",{{\"user\":\"zed\"}}]\t{}\n", text(&plain))
    );
    let ran = lab.sh(&work, "cat /work/plain");
    ran.assert_opaque();
    assert_eq!(ran.label(), [json!("finance"), json!({"user": "zed"})]);

    // Instead of the one it has.
    ask(&lab, &["set", text(&plain), "other"]);
    lab.sh(&work, "cat /work/plain").assert_labelled(&["other"]);
    assert_eq!(ask(&lab, &["clear", text(&plain)]).0, Some(0));
    assert_eq!(label_of(&plain), None);
    lab.sh(&work, "cat /work/plain").assert_observed();
}

#[test]
fn a_tree_is_labelled_with_all_that_is_in_it() {
    let lab = Lab::new();
    let work = lab.mount("work");
    std::fs::create_dir_all(work.join("a/b")).unwrap();
    put(&work.join("a/b/c"), SECRET);
    ask(&lab, &["set", "--recursive", text(&work.join("a")), "t"]);
    for name in ["a", "a/b", "a/b/c"] {
        assert_eq!(atoms(&work.join(name)), ["t"], "{name}");
    }
    assert_eq!(label_of(&work), None);
    let (_, told) = ask(&lab, &["tree", text(&work)]);
    assert_eq!(told["entries"].as_array().unwrap().len(), 3);
    ask(&lab, &["clear", "-r", text(&work)]);
    let (_, told) = ask(&lab, &["tree", text(&work)]);
    assert_eq!(told["entries"], json!([]));
}

#[test]
fn an_image_that_is_labelled_later_is_seen() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&lab.image.join("etc/secret"), SECRET);
    lab.sh(&work, "cat /etc/secret").assert_observed();
    ask(&lab, &["set", text(&lab.image.join("etc/secret")), "i"]);
    let mut call = Call::new("cat /etc/secret", &[(&work, "/work")]);
    call.network = "host";
    // Before it starts, not only at its end.
    lab.run(&call).assert_refused("cfc-egress-refused");
}

#[test]
fn one_that_runs_gets_what_is_set_and_keeps_what_is_cleared() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("file"), SECRET);
    let script = "echo >/work/up; while ! [ -e /work/go ]; do sleep 0.02; done; cat /work/file";
    let started = lab.start(&Call::new(script, &[(&work, "/work")]));
    wait_for(&work, "up");
    ask(&lab, &["set", text(&work.join("file")), "now"]);
    let (code, told) = ask(&lab, &["clear", text(&work.join("file"))]);
    assert_eq!(
        (code, &told["error"]["code"]),
        (Some(1), &json!("cfc-in-use"))
    );
    put(&work.join("go"), "");
    let ran = started.finish();
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["now"]);
}

#[test]
fn what_cannot_be_done_is_told_with_a_code() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("bad"), "");
    let (code, told) = ask(&lab, &["get", text(&work.join("nonesuch"))]);
    assert_eq!(code, Some(1));
    assert!(told["error"]["code"].is_string(), "{told:#}");
    crate::lab::set(&work.join("bad"), crate::lab::USER, b"?").unwrap();
    let (code, told) = ask(&lab, &["get", text(&work.join("bad"))]);
    assert_eq!(
        (code, &told["error"]["code"]),
        (Some(1), &json!("cfc-label-unreadable"))
    );
    // A tree tells it and goes on.
    label(&work, "w");
    let (_, told) = ask(&lab, &["tree", text(&work)]);
    assert_eq!(told["entries"].as_array().unwrap().len(), 2, "{told:#}");
    assert_eq!(
        lab.label_command(&["set", text(&work)]).status.code(),
        Some(2)
    );
}
