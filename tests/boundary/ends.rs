//! How runsc ends, and what is claimed of the command.

use runsc_driver::Driver;
use runsc_driver::driver::{
    Cause, End, Evidence, Exit, Observation, Outcome, Released, StartFailure,
};

use crate::fake::{Fake, bounded, run};

const START: &str = "running container: starting container: starting root container: starting \
                     sandbox: ";
const CLIENT: &str = "running container: creating container: cannot create sandbox: cannot read \
                      client sync file: waiting for sandbox to start: EOF";

/// Records as runsc writes them: nothing between them.
fn records(messages: &[&str]) -> String {
    messages
        .iter()
        .map(|message| {
            serde_json::json!({
                "msg": message, "level": "error", "time": "2026-01-01T00:00:00.0Z",
            })
            .to_string()
        })
        .collect()
}

/// Everything that an outcome says, but for the time that it took.
fn whole(outcome: &Outcome, end: End, exit: Option<Exit>, evidence: Evidence) -> Outcome {
    Outcome {
        container_id: outcome.container_id.clone(),
        end,
        observation: Observation::Untracked(Released {
            exit,
            ..Released::default()
        }),
        elapsed: outcome.elapsed,
        evidence,
        raw: None,
    }
}

fn status(code: i32, log: &[&str]) -> Evidence {
    Evidence {
        status: Some(code),
        signal: None,
        log: log.iter().map(|message| (*message).to_owned()).collect(),
    }
}

/// What the table knows, in the words of release 20240729.
fn table() -> Vec<(Vec<String>, StartFailure)> {
    use StartFailure::*;
    let load = |rest: &str| vec![format!("{START}creating process: failed to load {rest}")];
    let gofer = |message: &str| vec![message.to_owned(), CLIENT.to_owned()];
    vec![
        (
            vec![format!(
                "{START}error finding executable \"x\" in PATH [/bin]: no such file or directory"
            )],
            NoSuchCommand,
        ),
        (
            vec![format!(
                "{START}error finding executable \"x\" in PATH [/bin]: permission denied"
            )],
            NotExecutable,
        ),
        (load("/x: no such file or directory"), NoSuchCommand),
        (load("/x: permission denied"), NotExecutable),
        (load("/x: exec format error"), NotExecutable),
        (load("/x/y: not a directory"), NotExecutable),
        (
            load("/x: too many symbolic links encountered"),
            NotExecutable,
        ),
        (load("/x: file name too long"), NotExecutable),
        (
            gofer(
                "Error setting up root FS: mounting root on root (\"/proc/fs/root\") err: no such \
                 file or directory",
            ),
            BadRootfs,
        ),
        (
            gofer(
                "Error setting up root FS: creating working directory \"/etc/passwd\": mkdir \
                 /proc/fs/root/etc/passwd: not a directory",
            ),
            BadCwd,
        ),
        (
            gofer(
                "error setting up FS: mounting {Destination:/work Type:bind Source:/x}: \
                 stat(\"/x\") failed: stat /x: permission denied",
            ),
            BadMount,
        ),
        (
            vec![format!(
                "{START}failed to setupFS: mounting submounts: mount submount \"/tmp\": failed to \
                 mount \"/tmp\" (type: tmpfs): invalid argument, opts: &{{}}"
            )],
            BadMount,
        ),
        (
            vec![
                "running container: starting container: setting up network: creating interfaces \
                 from net namespace \"/proc/1/ns/net\": cannot run with network enabled in root \
                 network namespace"
                    .to_owned(),
            ],
            NetworkUnavailable,
        ),
        (
            vec![
                "reading spec: error opening spec file \"/b/config.json\": open /b/config.json: \
                 permission denied"
                    .to_owned(),
            ],
            BadBundle,
        ),
        (gofer("a newer release's words"), Unknown),
        (vec![CLIENT.to_owned()], Unknown),
    ]
}

#[tokio::test]
async fn each_failure_of_runsc_is_told_by_its_log() {
    let fake = Fake::doing("run", "fail");
    let driver = fake.driver();
    for (messages, failure) in table() {
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        fake.log(&records(&messages));
        let outcome = run(&driver).await.unwrap();
        let end = End::NotStarted(failure);
        assert_eq!(
            outcome,
            whole(&outcome, end, None, status(128, &messages)),
            "{messages:?}"
        );
    }
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn a_log_that_is_not_one_is_a_failure_that_nothing_is_known_of() {
    let fake = Fake::doing("run", "fail");
    let driver = fake.driver();
    for (text, said) in [
        (
            "panic: runtime error\n",
            "the log could not be understood: expected value at line 1 column 1",
        ),
        (
            "[1]",
            "the log could not be understood: invalid type: integer `1`, expected a string at \
             line 1 column 2",
        ),
        (
            "{\"msg\":\"cut",
            "the log could not be understood: EOF while parsing a string at line 1 column 11",
        ),
    ] {
        fake.log(text);
        let outcome = run(&driver).await.unwrap();
        let end = End::NotStarted(StartFailure::Unknown);
        assert_eq!(
            outcome,
            whole(&outcome, end, None, status(128, &[said])),
            "{text}"
        );
    }
}

#[tokio::test]
async fn with_nothing_in_the_log_the_status_is_the_commands() {
    let fake = Fake::new();
    let driver = fake.driver();
    for code in [0, 1, 2, 126, 127, 128, 129, 137, 192, 193, 255] {
        fake.does("run", &format!("exit {code}"));
        let outcome = run(&driver).await.unwrap();
        let cause = if (129..=192).contains(&code) {
            Cause::Ambiguous
        } else {
            Cause::Exit
        };
        let exit = Exit {
            code: u8::try_from(code).unwrap(),
            cause,
        };
        assert_eq!(
            outcome,
            whole(&outcome, End::Exited, Some(exit), status(code, &[])),
            "{code}"
        );
    }
}

#[tokio::test]
async fn what_is_no_failure_in_the_log_is_none() {
    let fake = Fake::doing("run", "fail");
    fake.log(r#"{"msg":"slow","level":"warning","time":"t"}{"msg":"so","level":"info"}"#);
    let outcome = run(&fake.driver()).await.unwrap();
    let exit = Exit {
        code: 128,
        cause: Cause::Exit,
    };
    assert_eq!(
        outcome,
        whole(&outcome, End::Exited, Some(exit), status(128, &[]))
    );
}

#[tokio::test]
async fn a_runsc_that_got_as_far_as_no_log_started_nothing() {
    for (code, failure) in [
        (2, StartFailure::UnsupportedFlag),
        (0, StartFailure::Unknown),
        (1, StartFailure::Unknown),
        (128, StartFailure::Unknown),
    ] {
        let fake = Fake::doing("run", &format!("rm \"$log\"; exit {code}"));
        let outcome = run(&fake.driver()).await.unwrap();
        let end = End::NotStarted(failure);
        assert_eq!(
            outcome,
            whole(&outcome, end, None, status(code, &[])),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_runsc_that_somebody_else_killed_is_lost() {
    for (signal, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11)] {
        let fake = Fake::doing("run", &format!("kill -{signal} $$"));
        let driver = fake.driver();
        let outcome = run(&driver).await.unwrap();
        let evidence = Evidence {
            status: None,
            signal: Some(number),
            log: Vec::new(),
        };
        assert_eq!(outcome, whole(&outcome, End::Lost, None, evidence));
        bounded(driver.close()).await;
        assert_eq!(fake.verb_names(), ["--version", "run"]);
        fake.place.assert_gone();
    }
}
