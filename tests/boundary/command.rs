//! The command over the fake: which exit status and which words each end has.

use serde_json::{Value, json};

use crate::common::{Ran, walk};
use crate::fake::Fake;

fn run(fake: &Fake, flags: &[&str], argv: &[&str]) -> Ran {
    Ran::of(fake.command(flags, argv).output().unwrap())
}

fn record(message: &str) -> String {
    json!({ "msg": message, "level": "error", "time": "t" }).to_string()
}

#[test]
fn streams_and_status_pass() {
    let fake = Fake::doing("run", "echo out; echo err >&2; exit 7");
    run(&fake, &[], &["true"]).assert(7, "out\n", "err\n");
    fake.does("run", "exit 128");
    run(&fake, &[], &["true"]).assert(128, "", "");
    assert_eq!(fake.verb_names(), ["--version", "run", "--version", "run"]);
    fake.place.assert_gone();
}

#[test]
fn a_command_that_did_not_start_has_the_shells_status_and_runscs_failure_the_drivers() {
    let start = "running container: starting container: starting root container: starting \
                 sandbox: creating process: failed to load ";
    let cases = [
        (
            format!("{start}/x: no such file or directory"),
            127,
            "runsc-driver: x did not start: the image has no such program, or lacks the \
             interpreter that its first line names\n",
        ),
        (
            format!("{start}/x: permission denied"),
            126,
            "runsc-driver: x did not start: it is there and cannot be executed: see its mode and \
             kind\n",
        ),
        (
            "reading spec: error opening spec file \"/b/config.json\": open /b/config.json: \
             permission denied"
                .to_owned(),
            125,
            "runsc-driver: x did not start: runsc could not read its bundle: see -v\n",
        ),
        (
            "something new".to_owned(),
            125,
            "runsc-driver: x did not start: runsc failed in a way that is not known: see -v for \
             what it said\n",
        ),
    ];
    for (message, code, said) in cases {
        let fake = Fake::doing("run", "fail");
        fake.log(&record(&message));
        run(&fake, &[], &["x"]).assert(code, "", said);
        fake.place.assert_gone();
    }
}

#[test]
fn what_runsc_said_is_shown_on_asking_and_cannot_steer_a_terminal() {
    let fake = Fake::doing("run", "fail");
    fake.log(&record("something \u{1b}[2J new"));
    let ran = run(&fake, &["-v"], &["x"]);
    ran.assert_says(125, &["runsc said", "[2J new"]);
    assert!(!ran.stderr.contains(&0x1b), "{ran:?}");
}

#[test]
fn a_flag_that_runsc_does_not_know_and_a_lost_runsc_are_the_drivers_failures() {
    let fake = Fake::doing(
        "run",
        "rm \"$log\"; echo flag provided but not defined >&2; exit 2",
    );
    run(&fake, &[], &["x"]).assert(
        125,
        "",
        "flag provided but not defined\nrunsc-driver: x did not start: this runsc does not know a \
         flag that the driver gives it: use release 20240729 or newer\n",
    );
    fake.does("run", "echo so far; kill -KILL $$");
    run(&fake, &[], &["x"]).assert(
        125,
        "so far\n",
        "runsc-driver: runsc was killed by a signal that the driver did not send: the command may \
         have run in part\n",
    );
    fake.place.assert_gone();
}

#[test]
fn a_refusal_is_one_line_with_its_code_and_one_object() {
    let fake = Fake::new();
    fake.write("version", "runsc version 0.0~20221219.0\n");
    let ran = run(&fake, &["--json"], &["x"]);
    let message = format!(
        "the runsc {:?} of 20221219 is too old: the control socket of its sandboxes is open to \
         every user of the machine, and newer images fail on its statx; install release 20240729 \
         or newer (scripts/install-store.sh fetches one, in Debian 12 from bookworm-backports)",
        fake.runsc()
    );
    assert_eq!(ran.code, Some(125));
    assert_eq!(
        ran.err(),
        format!("runsc-driver: {message} [runsc-too-old]\n")
    );
    assert_eq!(
        ran.json(),
        json!({
            "schema": "runsc-driver/run/v1",
            "outcome": "refused",
            "exitCode": null,
            "exitCause": null,
            "code": "runsc-too-old",
            "message": message,
            "containerId": null,
            "elapsedMs": null,
            "stdout": null,
            "stderr": null,
            "cfc": null,
            "runsc": null,
        })
    );
    assert_eq!(walk(&fake.place.tmp), Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_object_holds_what_runsc_left() {
    let fake = Fake::doing("run", "printf 'a\\377'; echo err >&2; fail");
    fake.log(&record("something new"));
    let mut object = run(&fake, &["--json"], &["x"]).json();
    let id = object["containerId"].take();
    assert!(id.as_str().is_some_and(|id| id.starts_with("c-run-")));
    assert!(object["elapsedMs"].take().is_number());
    assert_eq!(
        object,
        json!({
            "schema": "runsc-driver/run/v1",
            "outcome": "not-started",
            "exitCode": null,
            "exitCause": null,
            "code": "unknown",
            "message": null,
            "containerId": Value::Null,
            "elapsedMs": Value::Null,
            "stdout": {
                "bytes": 2, "truncated": false, "open": false, "encoding": "base64", "data": "Yf8=",
            },
            "stderr": {
                "bytes": 4, "truncated": false, "open": false, "encoding": "utf-8",
                "data": "err\n",
            },
            "cfc": null,
            "runsc": { "status": 128, "signal": null, "log": ["something new"] },
        })
    );
}

#[test]
fn a_dry_run_starts_nothing() {
    let fake = Fake::new();
    let ran = run(&fake, &["--dry-run"], &["x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let plan = ran.json();
    assert_eq!(plan["program"].as_str(), fake.runsc().to_str());
    assert_eq!(fake.verb_names(), Vec::<String>::new());
    assert_eq!(walk(&fake.place.tmp), Vec::<std::path::PathBuf>::new());
}
