//! The driver over a store with the front in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use runsc_driver::cfc::context::InvocationContext;
use runsc_driver::cfc::label::{LabelRoot, LabelView};
use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::Observation;
use runsc_driver::{Call, Driver, Error, NetworkMode, Outcome, SandboxConfig, SandboxOptions};
use serde_json::json;

use crate::common::{Place, Ran, is_root, store, wait_for};
use crate::lab::{Lab, SECRET, atoms, label, put};

/// A home with a store in it as `scripts/install-store.sh` makes it.
pub struct Home {
    pub place: Place,
    pub lab: Lab,
    home: PathBuf,
}

impl Home {
    pub fn new() -> Self {
        let place = Place::new();
        let home = place.dir.path().join("home");
        fs::create_dir_all(home.join(".local/share")).unwrap();
        let lab = Lab::at(home.join(".local/share/runsc-cfc"));
        fs::create_dir(lab.store.join("images")).unwrap();
        symlink(
            store().join("images/kitchensink"),
            lab.store.join("images/kitchensink"),
        )
        .unwrap();
        fs::copy(
            concat!(env!("CARGO_MANIFEST_DIR"), "/bundles/cfc-policy.json"),
            lab.store.join("cfc-policy.json"),
        )
        .unwrap();
        Self { place, lab, home }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("HOME", &self.home);
        command
    }

    /// `run` with nothing named but no network.
    pub fn run(&self, flags: &[&str], argv: &[&str]) -> Ran {
        let args = [&["run", "--network", "none"], flags, &["--"], argv].concat();
        Ran::of(self.command(&args).output().unwrap())
    }

    fn driver(&self, mode: EnforcementMode) -> DirectDriver {
        let store = &self.lab.store;
        let mut options = SandboxOptions::new(
            store.join("bin/runsc"),
            fs::canonicalize(store.join("images/kitchensink")).unwrap(),
            &self.place.workspace,
        );
        options.policy = Some(store.join("cfc-policy.json"));
        options.network = NetworkMode::None;
        options.mode = mode;
        options.rootless = !is_root();
        let host = self.place.host();
        DirectDriver::new(SandboxConfig::resolve(options, &host).unwrap(), host)
    }
}

#[test]
fn with_nothing_named_the_default_enforces_and_a_public_call_is_observed() {
    let home = Home::new();
    let ran = home.run(&[], &["uname", "-a"]);
    assert_eq!((ran.code, &*ran.err()), (Some(0), ""), "{ran:?}");
    assert!(ran.out().starts_with("Linux "), "{ran:?}");
    let told = home.run(&["--json"], &["uname", "-a"]).json();
    assert_eq!(told["cfc"]["verdict"], "observed", "{told:#}");
    home.place.assert_gone();
    home.lab.assert_settled();
}

#[test]
fn what_a_labelled_file_could_tell_is_withheld() {
    let home = Home::new();
    let secret = home.place.workspace.join("secret");
    put(&secret, SECRET);
    assert_eq!(home.run(&[], &["cat", "secret"]).out(), SECRET);
    label(&secret, "finance");
    let ran = home.run(&["--json"], &["cat", "secret"]);
    let told = ran.json();
    assert_eq!(told["cfc"]["verdict"], "opaque", "{told:#}");
    assert_eq!(told["cfc"]["label"]["confidentiality"], json!(["finance"]));
    assert!(!ran.out().contains(SECRET) && !ran.err().contains(SECRET));

    // Observed only, it is shown with its label.
    let ran = home.run(
        &["--json", "--cfc-enforcement-mode", "observe"],
        &["cat", "secret"],
    );
    assert_eq!(ran.json()["cfc"]["verdict"], "opaque", "{ran:?}");
    home.place.assert_gone();
}

#[test]
fn a_rule_that_refuses_is_a_refusal_of_the_drivers_own() {
    let home = Home::new();
    put(&home.place.workspace.join("secret"), SECRET);
    label(&home.place.workspace.join("secret"), "finance");
    let args = ["run", "--network", "host", "--json", "--", "touch", "made"];
    let ran = Ran::of(home.command(&args).output().unwrap());
    let told = ran.json();
    assert_eq!(
        (&told["outcome"], &told["code"]),
        (&json!("refused"), &json!("label-rule")),
        "{told:#}"
    );
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("secret is labelled"), "{message}");
    assert!(!home.place.workspace.join("made").exists());
    home.place.assert_gone();
}

#[test]
fn the_default_network_is_egress_whatever_it_leads_to() {
    let home = Home::new();
    let run = |flags: &[&str]| {
        let args = [&["run", "--json"], flags, &["--", "cat", "secret"]].concat();
        Ran::of(home.command(&args).output().unwrap()).json()
    };
    let secret = home.place.workspace.join("secret");
    put(&secret, SECRET);
    // The control: without a label it runs there, and is observed.
    let told = run(&[]);
    assert_eq!(told["cfc"]["verdict"], "observed", "{told:#}");
    assert_eq!(told["stdout"]["data"], SECRET, "{told:#}");

    label(&secret, "finance");
    // What the driver's rules let out of its namespace the front does not know.
    for flags in [&[][..], &["--egress", "loopback"], &["--egress", "none"]] {
        let told = run(flags);
        assert_eq!(told["code"], "label-rule", "{told:#}");
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("--network=none"), "{message}");
    }
    let told = run(&["--network", "none"]);
    assert_eq!(told["cfc"]["verdict"], "opaque", "{told:#}");
    home.place.assert_gone();
}

#[test]
fn without_a_policy_it_runs_over_no_labels_unless_told_to() {
    let home = Home::new();
    put(&home.place.workspace.join("secret"), SECRET);
    label(&home.place.workspace.join("secret"), "finance");
    let ran = home.run(&["--no-cfc", "--json"], &["cat", "secret"]);
    assert_eq!(ran.json()["code"], "label-rule", "{ran:?}");
    // Once, though standard error is the command's.
    let said = home.run(&["--no-cfc"], &["cat", "secret"]).err();
    assert_eq!(said.matches("--cfc-ignore-labels").count(), 1, "{said}");
    let ran = home.run(&["--no-cfc", "--ignore-labels"], &["cat", "secret"]);
    ran.assert(0, SECRET, "");
    // It says what is given up where one reads what the flag is.
    let help = Ran::of(home.command(&["run", "--help"]).output().unwrap()).out();
    assert!(help.contains("keeps what is labelled from"), "{help}");
}

fn labelled(mut call: Call, atom: &str) -> Call {
    call.labels = LabelView::of(LabelRoot::Command, vec![json!(atom)]).unwrap();
    call
}

fn in_session(script: &str) -> Call {
    let mut call = Call::new(["sh", "-c", script]);
    call.session = Some("s".into());
    call
}

fn is_observed(outcome: &Outcome) -> bool {
    matches!(outcome.observation, Observation::Observed { .. })
}

#[tokio::test]
async fn sessions_that_observe_have_the_label_of_all_their_calls() {
    let home = Home::new();
    let work = &home.place.workspace;
    let driver = home.driver(EnforcementMode::Observe);
    let outcome = driver.run(in_session("echo x >plain")).await.unwrap();
    assert!(is_observed(&outcome), "{outcome:?}");
    let call = labelled(in_session("echo x >made"), "c");
    let outcome = driver.run(call).await.unwrap();
    let Observation::Opaque { label, .. } = &outcome.observation else {
        panic!("{outcome:?}")
    };
    assert_eq!(label.confidentiality, [json!("c")]);
    let outcome = driver.run(in_session("cat made")).await.unwrap();
    assert!(!is_observed(&outcome), "{outcome:?}");
    // A call of its own beside it sees what it wrote, with its label.
    let outcome = driver.run(Call::new(["cat", "made"])).await;
    assert!(
        matches!(&outcome, Err(Error::LabelRule { rule, .. }) if rule == "cfc-lower-beside")
            || outcome.as_ref().is_ok_and(|outcome| !is_observed(outcome)),
        "{outcome:?}"
    );
    driver.close().await;
    assert_eq!(atoms(&work.join("made")), ["c"]);
    assert_eq!(home.lab.registered("live"), Vec::<String>::new());
    home.place.assert_gone();
}

#[tokio::test]
async fn a_context_of_the_callers_own_reaches_the_front() {
    let home = Home::new();
    let driver = home.driver(EnforcementMode::Observe);
    let context = json!({
        "type": "cf-harness.cfc-invocation-context", "version": 1, "sequence": 1,
        "runId": "r", "createdAt": "2026-01-02T03:04:05.000Z", "toolId": "bash",
        "operation": "shell", "cfcEnforcementMode": "enforce-strict", "cwd": "/workspace",
        "runManifest": {"present": false}, "inputs": {},
        "cfcInputLabels": {"version": 1, "entries": [
            {"path": ["args"], "label": {"confidentiality": [{"anyOf": ["a", "b"]}]}}
        ]},
    });
    let mut call = Call::new(["sh", "-c", "echo x >made"]);
    call.context = Some(InvocationContext::parse(context.to_string().as_bytes()).unwrap());
    let outcome = driver.run(call).await.unwrap();
    let Observation::Opaque { label, .. } = &outcome.observation else {
        panic!("{outcome:?}")
    };
    assert_eq!(label.confidentiality, [json!({"anyOf": ["a", "b"]})]);
    driver.close().await;
    home.place.assert_gone();
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_dropped_is_labelled_before_the_driver_is_closed() {
    for dropped in [false, true] {
        let home = Home::new();
        let work = home.place.workspace.clone();
        put(&work.join("secret"), SECRET);
        label(&work.join("secret"), "finance");
        let driver = home.driver(EnforcementMode::EnforceStrict);
        let call = Call::new(["sh", "-c", "cp secret copy; echo >up; sleep 1000"]);
        let cancel = call.cancel.clone();
        let running = driver.run(call);
        let until = work.clone();
        let up = tokio::task::spawn_blocking(move || wait_for(&until, "up"));
        let ended = tokio::select! {
            outcome = running => Some(outcome),
            // Dropped with what it started.
            () = async { up.await.unwrap(); if !dropped { cancel.cancel(); std::future::pending().await } } => None,
        };
        assert_eq!(ended.is_none(), dropped, "{ended:?}");
        driver.close().await;
        assert_eq!(atoms(&work.join("copy")), ["finance"], "{dropped}");
        assert_eq!(home.lab.registered("live"), Vec::<String>::new());
        home.place.assert_gone();
    }
}

#[test]
fn public_calls_beside_each_other_stay_so_whatever_namespaces_they_are_in() {
    let home = Home::new();
    let work = &home.place.workspace;
    let shown = home.place.dir.path().join("shown");
    fs::create_dir(&shown).unwrap();
    put(&shown.join("file"), "shown");
    // A mount that the kernel keeps read-only, at a place that the image lacks: each is another
    // mount in a namespace of the call's own.
    let bind = ["--ro-bind", shown.to_str().unwrap(), "/data/deep"];
    let script = "echo >up; while ! [ -e go ]; do sleep 0.02; done; cat /data/deep/file";
    let run = ["run", "--network", "none", "--json"];
    let args = [&run[..], &bind, &["--", "sh", "-c", script]].concat();
    let first = home.command(&args).spawn().unwrap();
    wait_for(work, "up");
    let second = home.run(
        &[&bind[..], &["--json"]].concat(),
        &["sh", "-c", "cat /data/deep/file >made; cat made"],
    );
    assert_eq!(second.json()["cfc"]["verdict"], "observed", "{second:?}");
    put(&work.join("go"), "");
    let first = Ran::of(first.wait_with_output().unwrap());
    assert_eq!(first.json()["cfc"]["verdict"], "observed", "{first:?}");
    home.place.assert_gone();
    home.lab.assert_settled();
}
