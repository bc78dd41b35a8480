//! Which runsc is taken. One that is not is refused before anything is written.

use std::fs;
use std::path::PathBuf;

use runsc_driver::Error;
use runsc_driver::driver::End;

use crate::common::{NOT_HUNG, walk};
use crate::fake::{Fake, ZERO, run};

/// Refused with nothing written, and nothing run but the question.
async fn refused(fake: &Fake) -> Error {
    let driver = fake.driver();
    let refused = run(&driver).await.unwrap_err();
    assert_eq!(walk(&fake.place.tmp), Vec::<PathBuf>::new());
    assert!(
        fake.verb_names().iter().all(|verb| verb == "--version"),
        "{:?}",
        fake.verbs()
    );
    fake.place.assert_no_process_within(NOT_HUNG);
    refused
}

fn unknown(fake: &Fake) -> (&'static str, String) {
    (
        "runsc-unknown",
        format!(
            "the runsc {:?} does not say which release it is, so it cannot be told to be new \
             enough: use one whose `--version` names its date, such as `release-20240729.0`",
            fake.runsc()
        ),
    )
}

fn told(error: &Error) -> (&'static str, String) {
    (error.code(), error.to_string())
}

#[tokio::test]
async fn one_that_is_too_old_is_refused_with_the_reason_and_where_a_newer_one_is() {
    let fake = Fake::new();
    fake.write("version", "runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n");
    assert_eq!(
        told(&refused(&fake).await),
        (
            "runsc-too-old",
            format!(
                "the runsc {:?} of 20221219 is too old: the control socket of its sandboxes is \
                 open to every user of the machine, and newer images fail on its statx; install \
                 release 20240729 or newer (scripts/install-store.sh fetches one, in Debian 12 \
                 from bookworm-backports)",
                fake.runsc()
            )
        )
    );
}

#[tokio::test]
async fn debians_spelling_of_a_release_is_known() {
    let fake = Fake::new();
    fake.write(
        "version",
        "runsc version 0.0~20240729.0\nspec: 1.1.0-rc.1\n",
    );
    let driver = fake.driver();
    assert_eq!(run(&driver).await.unwrap().end, End::Exited);
}

#[tokio::test]
async fn one_that_does_not_tell_its_release_is_refused() {
    for (what, script) in [
        ("no date", "echo runsc version VERSION_MISSING; exit 0"),
        ("another program", "echo crun version 1.8.1; exit 0"),
        ("nothing", "exit 0"),
        ("bytes", r"printf 'runsc version \377 20240729\n'; exit 0"),
        ("failed", "cat \"$here/version\"; exit 1"),
        ("killed", "cat \"$here/version\"; kill -KILL $$"),
        ("on the wrong stream", "cat \"$here/version\" >&2; exit 0"),
        ("without an end", "exec yes"),
    ] {
        let fake = Fake::doing("version", script);
        assert_eq!(told(&refused(&fake).await), unknown(&fake), "{what}");
    }
}

#[tokio::test]
async fn a_program_that_is_no_runsc_is_refused() {
    let fake = Fake::new();
    fs::remove_file(fake.runsc()).unwrap();
    std::os::unix::fs::symlink("/bin/true", fake.runsc()).unwrap();
    let error = refused(&fake).await;
    assert_eq!(error.code(), "runsc-unknown");
}

#[tokio::test]
async fn one_that_says_so_and_runs_nothing_started_nothing() {
    let fake = Fake::doing("run", "rm \"$log\"; exit 0");
    let driver = fake.driver();
    let outcome = run(&driver).await.unwrap();
    let unknown = runsc_driver::driver::StartFailure::Unknown;
    assert_eq!(
        (outcome.end, outcome.exit()),
        (End::NotStarted(unknown), None)
    );
}

#[tokio::test]
async fn one_that_does_not_answer_is_given_up_on_and_ended() {
    for (what, script) in [
        ("itself", "hold"),
        ("in a child of its own", "\"$here/idle\" 1000"),
    ] {
        let fake = Fake::doing("version", script);
        assert_eq!(told(&refused(&fake).await), unknown(&fake), "{what}");
    }
}

#[tokio::test]
async fn an_answer_is_taken_though_somebody_holds_its_stream_open() {
    let fake = Fake::doing(
        "version",
        r#"setsid "$here/idle" 1000 & echo $! >"$here/survivor""#,
    );
    let driver = fake.driver();
    let outcome = run(&driver).await.unwrap();
    assert_eq!((outcome.end, outcome.exit()), (End::Exited, ZERO));
}
