//! How commands end, and how the command says so.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{NOT_HUNG, Place, Ran, pidfd, wait_for, wait_readable};

#[test]
fn both_streams_and_the_exit_value_pass() {
    let place = Place::new();
    place
        .run(&["sh", "-c", "echo out; echo err >&2; exit 7"])
        .assert(7, "out\n", "err\n");
    place.assert_gone();
}

#[test]
fn exit_values_are_the_commands_own() {
    let place = Place::new();
    for code in [0, 1, 2, 124, 125, 126, 127, 128, 192, 193, 255] {
        let ran = place.run(&["sh", "-c", &format!("exit {code}")]);
        ran.assert(code, "", "");
    }
    place.assert_gone();
}

#[test]
fn a_value_that_may_be_a_signal_is_marked() {
    let place = Place::new();
    let cause = |script: &str| {
        let ran = place.run_with(&["--json"], &["sh", "-c", script]).json();
        (
            ran["outcome"].clone(),
            ran["exitCode"].clone(),
            ran["exitCause"].clone(),
        )
    };
    assert_eq!(
        cause("exit 128"),
        ("exited".into(), 128.into(), "exit".into())
    );
    assert_eq!(
        cause("exit 137"),
        ("exited".into(), 137.into(), "ambiguous".into())
    );
    assert_eq!(
        cause("kill -9 $$"),
        ("exited".into(), 137.into(), "ambiguous".into())
    );
    assert_eq!(
        cause("kill -TERM $$"),
        ("exited".into(), 143.into(), "ambiguous".into())
    );
    place.assert_gone();
}

#[test]
fn a_timeout_takes_everything_down() {
    let place = Place::new();
    let started = Instant::now();
    let ran = place.run_with(&["--timeout", "1s"], &["sh", "-c", "sleep 100 & sleep 100"]);
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    place.assert_gone();
    ran.assert_says(124, &["timed out after 1s"]);

    let json = place.run_with(
        &["--timeout", "1s", "--json"],
        &["sh", "-c", "echo so far; sleep 9"],
    );
    assert_eq!(json.code, Some(124));
    let json = json.json();
    assert_eq!(json["outcome"], "timed-out");
    assert_eq!(json["exitCode"], serde_json::Value::Null);
    assert_eq!(json["stdout"]["data"], "so far\n");
    place.assert_gone();
}

#[test]
fn a_timeout_of_nothing_starts_nothing() {
    let place = Place::new();
    let ran = place.run_with(&["--timeout", "0"], &["touch", "/workspace/ran"]);
    assert_eq!(ran.code, Some(124));
    assert!(!place.workspace.join("ran").exists());
    assert_eq!(
        crate::common::walk(&place.tmp),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn what_holds_the_pipes_in_the_background_does_not_delay_the_end() {
    let place = Place::new();
    let script = "sleep 30 & date +%s%N; echo hi";
    let ran = place.run(&["sh", "-c", script]);
    let returned = std::time::SystemTime::now();
    assert_eq!(ran.code, Some(0));
    let out = ran.out();
    let (ended, hi) = out.split_once('\n').unwrap();
    assert_eq!(hi, "hi\n");
    let ended = std::time::UNIX_EPOCH + Duration::from_nanos(ended.parse().unwrap());
    let delay = returned.duration_since(ended).unwrap_or_default();
    assert!(
        delay < Duration::from_millis(500),
        "{delay:?} after the command's end"
    );
    place.assert_gone();
}

#[test]
fn what_cannot_start_is_told_apart() {
    let place = Place::new();
    place
        .run(&["nosuch"])
        .assert_says(127, &["no such program"]);
    place
        .run(&["/bin/nosuch"])
        .assert_says(127, &["no such program"]);
    place
        .run(&["/etc/passwd"])
        .assert_says(126, &["cannot be executed"]);
    place
        .run(&["/etc"])
        .assert_says(126, &["cannot be executed"]);
    place
        .run(&[""])
        .assert_says(125, &["empty", "empty-command"]);
    let json = place.run_with(&["--json"], &["nosuch"]).json();
    assert_eq!(
        (&json["outcome"], &json["code"]),
        (&"not-started".into(), &"no-such-command".into())
    );
    place.assert_gone();
}

#[test]
fn a_program_cannot_choose_its_own_failure() {
    let place = Place::new();
    let name = "/x: exec format error";
    place.run(&[name]).assert_says(127, &["no such program"]);
    let ran = place.run(&["/a\u{1b}[31m"]);
    let last = ran.err();
    let own = last.lines().last().unwrap();
    assert!(
        own.starts_with("runsc-driver: ") && !own.contains('\u{1b}'),
        "{own:?}"
    );
    place.assert_gone();
}

#[test]
fn a_signal_closes_the_driver_and_is_what_ended_the_command() {
    use std::os::unix::process::ExitStatusExt;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let place = Place::new();
        let mut child = place
            .command([
                "run",
                "--no-cfc",
                "--",
                "sh",
                "-c",
                "touch /workspace/up; sleep 100",
            ])
            .spawn()
            .unwrap();
        wait_for(&place.workspace, "up");
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        let end = pidfd(child.id()).unwrap();
        assert!(wait_readable(&end, NOT_HUNG), "{signal} did not end it");
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal as i32), "{status:?}");
        place.assert_gone();
    }
}

#[test]
fn wrong_usage_is_two_and_says_what() {
    let place = Place::new();
    let usage = |args: &[&str]| Ran::of(place.command(args).output().unwrap());
    usage(&["run", "--no-cfc"]).assert_says(2, &["ARGV"]);
    usage(&["run", "--no-cfc", "--network", "bridge", "--", "true"]).assert_says(2, &["none"]);
    usage(&["run", "--no-cfc", "--timeout", "soon", "--", "true"]).assert_says(2, &["--timeout"]);
    usage(&["run", "--sandbox-image", "x", "--", "true"]).assert_says(2, &["--sandbox-image"]);
    usage(&["run", "--no-cfc", "--env", "NOVALUE", "--", "true"]).assert_says(125, &["NAME=VALUE"]);
    usage(&["run", "--sandbox-cfc-policy", "", "--", "true"]).assert_says(125, &["CFC policy"]);
    assert_eq!(
        crate::common::walk(&place.tmp),
        Vec::<std::path::PathBuf>::new()
    );
}
