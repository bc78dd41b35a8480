//! Calls in a container that outlives them.

use std::path::Path;

use crate::common::wait_for;
use crate::lab::{Call, Lab, SECRET, Started, atoms, label, put};

const LOOP: &str = "echo >/work/up; while ! [ -e /work/end ]; do sleep 0.02; done";

fn session(lab: &Lab, work: &Path) -> Started {
    let started = lab.start(&Call::new(LOOP, &[(work, "/work")]));
    wait_for(work, "up");
    started
}

fn exec<'a>(script: &'a str, label: Option<&'a str>) -> Call<'a> {
    let mut call = Call::new(script, &[]);
    call.mode = Some("observe");
    call.labels = label.map(|label| ("command", label)).into_iter().collect();
    call
}

#[test]
fn a_calls_labels_are_the_containers_before_the_command_starts() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let container = session(&lab, &work);
    let ran = lab.exec(&exec("echo hello", None), &container.id);
    assert_eq!(ran.out, "hello\n");
    ran.assert_observed();

    let ran = lab.exec(
        &exec("echo x >/work/made; cat /work/made", Some("c")),
        &container.id,
    );
    assert_eq!(ran.out, "x\n");
    ran.assert_labelled(&["c"]);
    // Nothing is labelled yet, and whoever sees it takes the label of the one that runs.
    assert_eq!(atoms(&work.join("made")), Vec::<String>::new());
    let mut beside = Call::new("cat /work/made", &[(&work, "/work")]);
    beside.mounts[0].2 = "ro";
    lab.run(&beside).assert_labelled(&["c"]);

    // What one call brought, the next one may have read.
    lab.exec(&exec("cat /work/made", None), &container.id)
        .assert_labelled(&["c"]);
    put(&work.join("end"), "");
    container.finish().assert_labelled(&["c"]);
    assert_eq!(atoms(&work.join("made")), ["c"]);
    lab.assert_settled();
}

#[test]
fn a_file_that_arrives_labels_the_next_result() {
    let lab = Lab::new();
    let (work, away) = (lab.mount("work"), lab.mount("away"));
    let container = session(&lab, &work);
    lab.exec(&exec("exit 0", None), &container.id)
        .assert_observed();
    put(&away.join("secret"), SECRET);
    label(&away.join("secret"), "late");
    std::fs::rename(away.join("secret"), work.join("secret")).unwrap();
    let ran = lab.exec(&exec("cat /work/secret", None), &container.id);
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["late"]);
    put(&work.join("end"), "");
    container.finish().assert_labelled(&["late"]);
}

#[test]
fn a_label_waits_for_lower_ones_beside() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let container = session(&lab, &work);
    let script = "while ! [ -e /work/go ]; do sleep 0.02; done; cat /work/made";
    let mut call = Call::new(script, &[(&work, "/work")]);
    call.mounts[0].2 = "ro";
    let reader = lab.start(&call);
    while lab.registered("live").len() != 4 {
        std::thread::yield_now();
    }
    let mut labelled = exec("echo x >/work/made", Some("c"));
    labelled.flags = vec!["--cfc-wait=0"];
    // It looks, or runs already: either way it is told, or waited for.
    let ran = lab.exec(&labelled, &container.id);
    put(&work.join("go"), "");
    let read = reader.finish();
    if ran.code == Some(128) {
        ran.assert_refused("cfc-lower-beside");
        assert_eq!(read.out, "");
    } else {
        read.assert_labelled(&["c"]);
    }
    put(&work.join("end"), "");
    container.finish();
    lab.assert_settled();
}

#[test]
fn a_container_that_keeps_no_labels_gets_none() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let mut call = Call::new(LOOP, &[(&work, "/work")]);
    call.cfc = false;
    let container = lab.start(&call);
    wait_for(&work, "up");
    lab.exec(&exec("echo x >/work/made", Some("c")), &container.id)
        .assert_refused("cfc-unknown-container");
    assert!(!work.join("made").exists());
    // Without a label there is none to lose; what it read nobody tells.
    let ran = lab.exec(&exec("echo hello", None), &container.id);
    assert_eq!(ran.out, "hello\n");
    ran.assert_doubt("cfc-doubt-not-understood");
    put(&work.join("end"), "");
    assert_eq!(container.finish().code, Some(0));
}
