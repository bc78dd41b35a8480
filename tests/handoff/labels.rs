//! Labels through a step, with the store's `runsc-cfc` in its default, enforcing mode.

use std::fs;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;

use crate::session::Session;

const ATTRIBUTE: &str = "user.commonfabric.cfc.contentLabel";
const FINANCE: &[u8] = br#"{"confidentiality":["finance"]}"#;
const CHILD: &str =
    "import json,sys\nsys.stdin.readline()\nprint(json.dumps({'subrun_report': 1}))\n";

/// A step that tracks labels.
fn tracked(step: &str) -> Session {
    let mut session = Session::new(1, step, CHILD);
    session.plan["step"]
        .as_object_mut()
        .unwrap()
        .remove("noCfc");
    session
}

fn alone(step: &str) -> Session {
    let mut session = tracked(step);
    session.plan.as_object_mut().unwrap().remove("launch");
    session
}

fn label(path: &Path) {
    setxattr(path, ATTRIBUTE, FINANCE, XattrFlags::empty()).unwrap();
}

fn is_labelled(path: &Path) -> bool {
    let mut value = [0; 256];
    getxattr(path, ATTRIBUTE, &mut value[..])
        .is_ok_and(|length| value[..length].windows(7).any(|word| word == b"finance"))
}

#[test]
fn what_a_labelled_input_may_have_gone_into_is_withheld_or_labelled() {
    for flags in [&[][..], &["--stage-inputs"]] {
        let mut session = alone("report(open('/inputs/in/child.py').read())\n");
        // The control: nothing is labelled.
        session.run_with(flags).assert_success();
        label(&session.path("in/child.py"));
        session.plan["run"]["revision"] = json!(2);
        let handed = session.run_with(flags);
        assert_eq!(handed.error(), "outputs-withheld", "{flags:?} {handed:?}");
        assert_eq!(
            fs::read_dir(session.path("session/artifacts"))
                .unwrap()
                .count(),
            1
        );
        session.plan["run"]["revision"] = json!(3);
        session.plan["outputs"]["unobserved"] = json!("label");
        let handed = session.run_with(flags);
        handed.assert_success();
        let bundle = handed.envelope["artifactBundle"]["path"].as_str().unwrap();
        let bundle = session.path("session").join(bundle);
        for name in ["outputs/report.json", "label.json", "manifest.json"] {
            assert!(is_labelled(&bundle.join(name)), "{name}");
        }
    }
}

#[test]
fn a_step_that_may_launch_is_given_nothing_labelled() {
    let mut session = tracked("report(launch(child_id(HOST['ids'][0])).stdout.read().decode())\n");
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.output(&session, "report.json"),
        "{\"subrun_report\": 1}\n"
    );
    label(&session.path("in/child.py"));
    session.plan["run"]["revision"] = json!(2);
    let handed = session.run();
    assert_eq!((handed.error(), handed.code), ("label-rule", Some(1)));
    assert_eq!(handed.envelope["result"]["dispatched"], false);
}

#[test]
fn a_labelled_file_goes_into_no_bundle_without_its_label() {
    let session = alone("report(0)\n");
    session.put("out/report.json", b"1");
    let create = ["create", "out", "--path", "report.json"];
    assert_eq!(session.bundle(&create).json()["success"], true);
    label(&session.path("out/report.json"));
    let refused = session.bundle(&create).json();
    assert_eq!(refused["error"]["code"], "output-labelled");
}
