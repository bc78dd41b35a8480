//! Containers that run beside each other: rule 5.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::wait_for;
use crate::lab::{Call, Lab, SECRET, Started, atoms, label, put};

/// Waits, in a container, for a file of the host's.
const UNTIL: &str = "while ! [ -e /tmp/on/go ]; do sleep 0.02; done";

/// Mounts of a labelled secret, of what is shared, and of the host's word to go on.
struct Shared {
    lab: Lab,
    vault: PathBuf,
    work: PathBuf,
    on: PathBuf,
    /// Of the one that is waited for to be up; each test's second has the other.
    ready: [PathBuf; 2],
}

impl Shared {
    fn new() -> Self {
        let lab = Lab::new();
        let ready = ["ready", "ready-too"].map(|name| lab.mount(name));
        let (vault, work, on) = (lab.mount("vault"), lab.mount("work"), lab.mount("on"));
        put(&vault.join("secret"), SECRET);
        label(&vault.join("secret"), "finance");
        Self {
            lab,
            vault,
            work,
            on,
            ready,
        }
    }

    /// A container that reads the secret and writes it where others see it.
    fn labelled<'a>(&'a self, script: &'a str) -> Call<'a> {
        let mounts = [(&*self.vault, "/other"), (&*self.work, "/work")];
        let mut call = Call::new(script, &mounts);
        call.mounts[0].2 = "ro";
        call
    }

    /// A container that waits for the host, sees what is shared, and may not write it.
    fn reader<'a>(&'a self, script: &'a str) -> Call<'a> {
        let mut call = Call::new(script, &[(&*self.work, "/work"), (&*self.on, "/tmp/on")]);
        call.mounts[0].2 = "ro";
        call
    }

    /// Starts one that says in a mount of its own that it runs.
    fn start_ready<'a>(&'a self, call: Call<'a>) -> Started {
        self.start_with(call, &self.ready[0])
    }

    fn start_with<'a>(&self, mut call: Call<'a>, ready: &'a Path) -> Started {
        call.mounts.push((ready, "/tmp/ready", "rw"));
        let started = self.lab.start(&call);
        wait_for(ready, "up");
        fs::remove_file(ready.join("up")).unwrap();
        started
    }

    fn go(&self) {
        put(&self.on.join("go"), "");
    }
}

#[test]
fn one_that_starts_beside_a_labelled_writer_takes_its_label_from_the_start() {
    let shared = Shared::new();
    let script = format!("cat /other/secret >/work/copy; echo >/tmp/ready/up; {UNTIL}");
    let mut call = shared.labelled(&script);
    call.mounts.push((&shared.on, "/tmp/on", "ro"));
    let writer = shared.start_ready(call);
    // The file has no label yet, so only the one beside it tells.
    assert_eq!(atoms(&shared.work.join("copy")), Vec::<String>::new());
    let mut call = Call::new("cat /work/copy", &[(&shared.work, "/work")]);
    call.mounts[0].2 = "ro";
    let ran = shared.lab.run(&call);
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);
    // With a mount of its own it is as public as ever.
    let apart = shared.lab.mount("apart");
    shared.lab.sh(&apart, "exit 0").assert_observed();
    shared.go();
    writer.finish().assert_labelled(&["finance"]);
    assert_eq!(atoms(&shared.work.join("copy")), ["finance"]);
    shared.lab.assert_settled();
}

#[test]
fn a_labelled_one_does_not_start_while_a_lower_one_sees_what_it_can_write() {
    let shared = Shared::new();
    let script = format!("echo >/tmp/ready/up; {UNTIL}; cat /work/copy");
    let reader = shared.start_ready(shared.reader(&script));
    let mut call = shared.labelled("cat /other/secret >/work/copy");
    call.flags = vec!["--cfc-wait=1"];
    let refused = shared.lab.run(&call);
    refused.assert_refused("cfc-lower-beside");
    let said = refused.log[0]["msg"].as_str().unwrap();
    for word in ["/vault/secret", &reader.id, "would run once"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!shared.work.join("copy").exists());

    // The control: run without the rule, the one that is public prints it.
    call.cfc = false;
    call.flags = vec!["--cfc-ignore-labels"];
    assert_eq!(shared.lab.run(&call).code, Some(0));
    shared.go();
    let leaked = reader.finish();
    leaked.assert_observed();
    assert_eq!(leaked.out, SECRET);
}

#[test]
fn it_waits_until_the_lower_one_has_ended() {
    let shared = Shared::new();
    let script = format!("echo >/tmp/ready/up; {UNTIL}; ls /work");
    let reader = shared.start_ready(shared.reader(&script));
    let mut call = shared.labelled("cat /other/secret >/work/copy");
    call.flags = vec!["--cfc-wait=60"];
    let waiting = shared.lab.start(&call);
    // It has looked and waits: its registration is the second one.
    let live = shared.lab.store.join("registry/live");
    let two = || shared.lab.registered("live").len() == 4;
    while !two() {
        std::thread::yield_now();
    }
    assert!(live.exists());
    shared.go();
    let ended = reader.finish();
    ended.assert_observed();
    assert_eq!(ended.out, "");
    waiting.finish().assert_labelled(&["finance"]);
    assert_eq!(atoms(&shared.work.join("copy")), ["finance"]);
    shared.lab.assert_settled();
}

#[test]
fn a_signal_ends_the_wait_and_nothing_is_started() {
    let shared = Shared::new();
    let script = format!("echo >/tmp/ready/up; {UNTIL}");
    let reader = shared.start_ready(shared.reader(&script));
    let mut call = shared.labelled("echo >/work/ran");
    call.flags = vec!["--cfc-wait=60"];
    let waiting = shared.lab.start(&call);
    while shared.lab.registered("live").len() != 4 {
        std::thread::yield_now();
    }
    waiting.signal(nix::sys::signal::Signal::SIGTERM);
    waiting.finish().assert_refused("cfc-interrupted");
    assert!(!shared.work.join("ran").exists());
    shared.go();
    reader.finish().assert_observed();
    shared.lab.assert_settled();
}

/// What is shared otherwise than by the same mount.
fn assert_refused_beside(seen: impl Fn(&Shared) -> PathBuf, written: impl Fn(&Shared) -> PathBuf) {
    let shared = Shared::new();
    let (seen, written) = (seen(&shared), written(&shared));
    let script = format!("echo >/tmp/ready/up; {UNTIL}");
    let mut call = Call::new(&script, &[(&seen, "/work"), (&shared.on, "/tmp/on")]);
    call.mounts[0].2 = "ro";
    let reader = shared.start_ready(call);
    let start = |at: &Path| {
        let mounts = [(&*shared.vault, "/other"), (at, "/work")];
        let mut call = Call::new("exit 0", &mounts);
        call.mounts[0].2 = "ro";
        call.flags = vec!["--cfc-wait=0"];
        shared.lab.run(&call)
    };
    start(&written).assert_refused("cfc-lower-beside");
    // The control: a mount that is apart is no reason.
    start(&shared.lab.mount("apart")).assert_labelled(&["finance"]);
    shared.go();
    reader.finish().assert_observed();
}

#[test]
fn what_is_shared_is_told_by_trees_within_trees() {
    let below = |shared: &Shared| {
        let below = shared.work.join("below");
        fs::create_dir_all(&below).unwrap();
        below
    };
    assert_refused_beside(|shared| shared.work.clone(), below);
    assert_refused_beside(below, |shared| shared.work.clone());
}

#[test]
fn what_is_shared_is_told_by_a_file_with_two_names() {
    let twin = |shared: &Shared| {
        let twins = shared.lab.mount("twins");
        put(&twins.join("one"), "");
        if !shared.work.join("two").exists() {
            fs::hard_link(twins.join("one"), shared.work.join("two")).unwrap();
        }
        twins
    };
    assert_refused_beside(twin, |shared| shared.work.clone());
}

#[test]
fn those_of_one_label_run_beside_each_other() {
    let shared = Shared::new();
    let script = format!("echo >/tmp/ready/up; {UNTIL}; cat /work/two");
    let mut call = shared.labelled(&script);
    call.mounts.push((&shared.on, "/tmp/on", "ro"));
    let first = shared.start_ready(call);
    let mut call = shared.labelled("cat /other/secret >/work/two");
    call.flags = vec!["--cfc-wait=0"];
    shared.lab.run(&call).assert_labelled(&["finance"]);
    shared.go();
    let first = first.finish();
    assert_eq!(first.out, SECRET);
    first.assert_labelled(&["finance"]);
    shared.lab.assert_settled();
}

#[test]
fn a_label_that_comes_late_is_told_to_those_beside() {
    let shared = Shared::new();
    // Public, and it writes what another sees.
    let script = format!("echo >/tmp/ready/up; {UNTIL}; cat /work/late >/work/copy");
    let mut call = Call::new(&script, &[(&shared.work, "/work"), (&shared.on, "/tmp/on")]);
    call.mounts[1].2 = "ro";
    let writer = shared.start_ready(call);
    let script = "echo >/tmp/ready/up; while ! [ -e /tmp/ready/go ]; do sleep 0.02; done; \
                  cat /work/copy";
    let mut call = Call::new(script, &[(&shared.work, "/work")]);
    call.mounts[0].2 = "ro";
    let reader = shared.start_with(call, &shared.ready[1]);
    // The host brings what is labelled.
    put(&shared.vault.join("late"), SECRET);
    label(&shared.vault.join("late"), "late");
    fs::rename(shared.vault.join("late"), shared.work.join("late")).unwrap();
    shared.go();
    writer.finish().assert_labelled(&["late"]);
    // The label on the file is gone, so that only what was told is left.
    for name in ["late", "copy"] {
        let copy = fs::read(shared.work.join(name)).unwrap();
        fs::remove_file(shared.work.join(name)).unwrap();
        fs::write(shared.work.join(name), copy).unwrap();
    }
    crate::lab::clear(&shared.work);
    put(&shared.ready[1].join("go"), "");
    let ran = reader.finish();
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["late"]);
    shared.lab.assert_settled();
}

#[test]
fn what_comes_to_one_labels_those_that_saw_what_it_wrote_though_they_end_first() {
    let shared = Shared::new();
    let aside = shared.lab.mount("aside");
    let script = "echo >/tmp/ready/up; while ! [ -e /other/late ]; do sleep 0.02; done; \
                  cat /other/late >/work/copy; echo >/tmp/ready/done; while :; do sleep 1; done";
    let call = Call::new(script, &[(&shared.work, "/work"), (&aside, "/other")]);
    let writer = shared.start_ready(call);
    let script = "echo >/tmp/ready/up; while ! [ -e /tmp/ready/go ]; do sleep 0.02; done; \
                  cat /work/copy";
    let reader = shared.start_with(
        Call::new(script, &[(&shared.work, "/work")]),
        &shared.ready[1],
    );
    // The host brings it to where only the writer sees it.
    fs::rename(shared.vault.join("secret"), aside.join("late")).unwrap();
    wait_for(&shared.ready[0], "done");
    put(&shared.ready[1].join("go"), "");
    // The writer has not ended, and nothing that the reader sees is labelled.
    let ran = reader.finish();
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["finance"]);
    writer.signal(nix::sys::signal::Signal::SIGTERM);
    writer.finish().assert_labelled(&["finance"]);
    shared.lab.assert_settled();
}
