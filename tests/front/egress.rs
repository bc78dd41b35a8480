//! Labels and egress: rule 6.

use serde_json::json;

use crate::common::wait_for;
use crate::lab::{Call, Lab, SECRET, label, put};

#[test]
fn what_can_read_a_label_gets_no_egress_in_an_enforcing_mode() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("secret"), SECRET);
    let script = "echo >/work/ran; cat /work/secret";
    let run = |network, mode| {
        let mut call = Call::new(script, &[(&work, "/work")]);
        (call.network, call.mode) = (network, mode);
        lab.run(&call)
    };
    // The control: without a label it has egress, and what it prints is seen.
    run("host", Some("enforce-strict")).assert_observed();
    std::fs::remove_file(work.join("ran")).unwrap();

    label(&work.join("secret"), "finance");
    // Where no mode is told, it is taken to enforce.
    for mode in [Some("enforce-strict"), Some("enforce-explicit"), None] {
        for network in ["host", "sandbox"] {
            let ran = run(network, mode);
            ran.assert_refused("cfc-egress-refused");
            assert!(!work.join("ran").exists());
            let said = ran.log[0]["msg"].as_str().unwrap();
            for word in ["/work/secret", &format!("--network={network}"), "would run"] {
                assert!(said.contains(word), "{said}");
            }
        }
    }
    run("none", Some("enforce-strict")).assert_labelled(&["finance"]);
    // Whoever only observes is told the label.
    for mode in ["observe", "disabled"] {
        let ran = run("host", Some(mode));
        assert_eq!(ran.out, SECRET);
        ran.assert_labelled(&["finance"]);
    }
}

#[test]
fn host_sockets_are_egress_too() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("secret"), SECRET);
    let mut call = Call::new("cat /work/secret", &[(&work, "/work")]);
    call.flags = vec!["--host-uds=open"];
    lab.run(&call).assert_observed();
    label(&work.join("secret"), "finance");
    lab.run(&call).assert_refused("cfc-egress-refused");
}

#[test]
fn a_context_that_cannot_be_read_enforces_and_is_in_doubt() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("plain"), SECRET);
    let mut call = Call::new("cat /work/plain", &[(&work, "/work")]);
    call.raw_context = Some("{");
    let ran = lab.run(&call);
    assert_eq!(ran.out, SECRET);
    ran.assert_doubt("cfc-doubt-unreadable-context");
    label(&work.join("plain"), "finance");
    call.network = "host";
    lab.run(&call).assert_refused("cfc-egress-refused");
}

#[test]
fn labels_of_the_call_alone_refuse_egress_where_the_policy_says_so() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let mut call = Call::new("echo sent", &[(&work, "/work")]);
    (call.network, call.mode) = ("host", Some("enforce-strict"));
    call.labels = vec![("command", "c")];
    let ran = lab.run(&call);
    assert_eq!(ran.out, "sent\n");
    ran.assert_labelled(&["c"]);
    lab.set_policy(json!({"egress": {"call_labels": "refuse"}}));
    lab.run(&call).assert_refused("cfc-call-egress-refused");
    call.network = "none";
    lab.run(&call).assert_labelled(&["c"]);
}

#[test]
fn a_labelled_one_does_not_start_while_one_with_egress_sees_what_it_can_write() {
    let lab = Lab::new();
    let (work, vault, ready) = (lab.mount("work"), lab.mount("vault"), lab.mount("ready"));
    put(&vault.join("secret"), SECRET);
    let script = "echo >/tmp/ready/up; while ! [ -e /tmp/ready/go ]; do sleep 0.02; done; \
                  cat /work/copy";
    let mut call = Call::new(script, &[(&work, "/work"), (&ready, "/tmp/ready")]);
    // It would let out what it reads, and is labelled like the other by its call alone.
    (call.network, call.mode) = ("host", Some("enforce-strict"));
    call.labels = vec![("command", "finance")];
    let sender = lab.start(&call);
    wait_for(&ready, "up");

    let mounts = [(&*vault, "/other"), (&*work, "/work")];
    let mut call = Call::new("cat /other/secret >/work/copy", &mounts);
    call.mounts[0].2 = "ro";
    call.flags = vec!["--cfc-wait=0"];
    label(&vault.join("secret"), "finance");
    lab.run(&call).assert_refused("cfc-egress-beside");
    assert!(!work.join("copy").exists());
    // The control: without the rule it writes, and the other lets it out.
    call.cfc = false;
    call.flags = vec!["--cfc-ignore-labels"];
    assert_eq!(lab.run(&call).code, Some(0));
    put(&ready.join("go"), "");
    assert_eq!(sender.finish().out, SECRET);
}
