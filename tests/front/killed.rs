//! Fronts that are killed: rule 7.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::common::wait_for;
use crate::lab::{Call, Lab, SECRET, atoms, label, number_of, put};

/// The secret in one mount, a workspace beside it.
fn vault(lab: &Lab) -> std::path::PathBuf {
    let vault = lab.mount("vault");
    put(&vault.join("secret"), SECRET);
    label(&vault.join("secret"), "finance");
    vault
}

fn thief<'a>(script: &'a str, vault: &'a Path, work: &'a Path) -> Call<'a> {
    let mut call = Call::new(script, &[(vault, "/other"), (work, "/work")]);
    call.mounts[0].2 = "ro";
    call
}

#[test]
fn what_a_killed_one_changed_is_labelled_by_the_next_start_over_it() {
    let lab = Lab::new();
    let (vault, work) = (vault(&lab), lab.mount("work"));
    put(&work.join("old"), "old");
    let script = "cat /other/secret >/work/copy; echo >/work/up; while :; do sleep 1; done";
    let mut started = lab.start(&thief(script, &vault, &work));
    wait_for(&work, "up");
    started.kill();
    // The control: nobody has labelled it, and nothing but the registration is left.
    assert_eq!(atoms(&work.join("copy")), Vec::<String>::new());
    assert_eq!(lab.registered("live").len(), 2);

    // One that shares nothing with it leaves it alone.
    let apart = lab.mount("apart");
    lab.sh(&apart, "exit 0").assert_observed();
    assert_eq!(lab.registered("live").len(), 2);

    let ran = lab.sh(&work, "cat /work/copy /work/old");
    assert_eq!(ran.out, format!("{SECRET}old"));
    ran.assert_labelled(&["finance"]);
    ran.assert_told("cfc-settled");
    assert_eq!(atoms(&work.join("copy")), ["finance"]);
    lab.assert_settled();
}

#[test]
fn what_was_half_written_at_the_kill_goes() {
    let lab = Lab::new();
    let work = lab.mount("work");
    lab.sh(&work, "exit 0").assert_observed();
    let registry = lab.store.join("registry");
    for name in ["live/t.lock", "live/t.partial", "marks/m.partial"] {
        put(&registry.join(name), "{");
    }
    lab.sh(&work, "exit 0").assert_observed();
    lab.assert_settled();
    assert_eq!(lab.registered("marks"), Vec::<String>::new());
}

#[test]
fn one_that_was_public_leaves_nothing_to_label() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let script = "echo x >/work/made; echo >/work/up; while :; do sleep 1; done";
    let mut started = lab.start(&Call::new(script, &[(&work, "/work")]));
    wait_for(&work, "up");
    started.kill();
    lab.sh(&work, "cat /work/made").assert_observed();
    lab.assert_settled();
}

#[test]
fn a_file_that_arrived_before_the_kill_labels_what_was_written() {
    let lab = Lab::new();
    let (work, away) = (lab.mount("work"), lab.mount("away"));
    put(&away.join("secret"), SECRET);
    label(&away.join("secret"), "late");
    let script = "while ! cat /work/secret >/work/copy 2>/tmp/no; do sleep 0.02; done; \
                  echo >/work/up; while :; do sleep 1; done";
    let mut started = lab.start(&Call::new(script, &[(&work, "/work")]));
    fs::rename(away.join("secret"), work.join("secret")).unwrap();
    wait_for(&work, "up");
    started.kill();
    fs::rename(work.join("copy"), away.join("copy")).unwrap();
    fs::rename(away.join("copy"), work.join("moved")).unwrap();
    fs::remove_file(work.join("secret")).unwrap();
    // The host took the labelled file away: that it was there cannot be told any more, which is
    // not covered. Put back, it is.
    put(&work.join("secret"), SECRET);
    label(&work.join("secret"), "late");
    let ran = lab.sh(&work, "cat /work/moved");
    assert_eq!(ran.out, SECRET);
    ran.assert_labelled(&["late"]);
    assert_eq!(atoms(&work.join("moved")), ["late"]);
}

/// As many as the variable says, or 100.
const KILLS: &str = "RUNSC_CFC_KILLS";

#[test]
fn killed_at_any_moment_the_next_start_settles_and_nothing_leaks() {
    let lab = Lab::new();
    let (vault, work) = (vault(&lab), lab.mount("work"));
    let kills = number_of(KILLS, 100);
    // Until a good while after the end of all that it does.
    let whole = {
        let begun = Instant::now();
        lab.run(&thief("for i in 1 2 3; do :; done", &vault, &work));
        begun.elapsed()
    };
    let (mut copied, mut settled) = (0, 0);
    for kill in 0..kills {
        let script = "i=0; while [ $i -lt 150 ]; do i=$((i+1)); cat /other/secret >/work/f$i; \
                      mkdir -p /work/d$i; mv /work/f$i /work/d$i/f; done";
        let mut started = lab.start(&thief(script, &vault, &work));
        // Each share of the time once, not evenly: a moment of the clock is random enough.
        let share = whole.mul_f64(1.6 * f64::from(kill) / f64::from(kills));
        wait_at_most(&mut started.child, share + jitter());
        started.kill();
        let ran = lab.sh(&work, "cat /work/*/f /work/f* 2>/tmp/no; exit 0");
        if ran.out.contains(SECRET) {
            copied += 1;
            ran.assert_labelled(&["finance"]);
        }
        settled += usize::from(ran.log.iter().any(|record| record["code"] == "cfc-settled"));
        lab.assert_settled();
        fs::remove_dir_all(&work).unwrap();
        fs::create_dir(&work).unwrap();
    }
    // The controls: some came to copying, and some were killed before they had labelled.
    assert!(copied > 0 && settled > 0, "{copied} {settled} of {kills}");
}

fn jitter() -> Duration {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    Duration::from_micros(u64::from(since.subsec_nanos()) % 15_000)
}

/// Waits for a child's end, or for so long.
fn wait_at_most(child: &mut std::process::Child, limit: Duration) {
    if let Some(end) = crate::common::pidfd(child.id()) {
        crate::common::wait_readable(&end, limit);
    }
}

#[test]
fn a_deadline_of_the_driver_lets_the_labels_be_put_on() {
    let lab = crate::driver::Home::new();
    put(&lab.place.workspace.join("secret"), SECRET);
    label(&lab.place.workspace.join("secret"), "finance");
    let script = "cp secret copy; while :; do sleep 1; done";
    let ran = lab.run(&["--json", "--timeout", "4"], &["sh", "-c", script]);
    assert_eq!(ran.json()["outcome"], "timed-out", "{ran:?}");
    assert_eq!(atoms(&lab.place.workspace.join("copy")), ["finance"]);
    assert_eq!(lab.lab.registered("live"), Vec::<String>::new());
    lab.place.assert_gone();
}

#[test]
fn one_that_is_killed_over_and_over_by_its_driver_is_settled_too() {
    let lab = crate::driver::Home::new();
    put(&lab.place.workspace.join("secret"), SECRET);
    label(&lab.place.workspace.join("secret"), "finance");
    let script = "cp secret copy; echo >up; while :; do sleep 1; done";
    let mut driver = lab.command(&["run", "--network", "none", "--", "sh", "-c", script]);
    let mut driver = driver.spawn().unwrap();
    wait_for(&lab.place.workspace, "up");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(driver.id().cast_signed()),
        Signal::SIGKILL,
    )
    .unwrap();
    driver.wait().unwrap();
    let ran = lab.run(&["--json"], &["cat", "copy"]);
    assert_eq!(ran.json()["cfc"]["verdict"], "opaque", "{ran:?}");
    assert_eq!(atoms(&lab.place.workspace.join("copy")), ["finance"]);
}
