//! The `bash` tool on real gVisor.

use std::sync::Arc;

use runsc_driver::Driver;
use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::tools::bash::{Bash, Input, Output};
use serde_json::{Value, json};

use crate::common::{NOT_HUNG, Place};

fn tool(place: &Place) -> (Arc<dyn Driver>, Bash) {
    let driver: Arc<dyn Driver> = Arc::new(crate::library::made(place));
    let bash = Bash::new(Arc::clone(&driver), "run", EnforcementMode::Disabled);
    (driver, bash)
}

async fn run(bash: &Bash, input: Value) -> Output {
    let call = bash.run(Input::parse(&input).unwrap());
    let output = tokio::time::timeout(NOT_HUNG, call).await;
    output.unwrap().unwrap()
}

fn parts(output: &Output) -> (u8, &str, &str, &str) {
    (
        *output.exit_code.observed().unwrap(),
        output.stdout.observed().unwrap(),
        output.stderr.observed().unwrap(),
        output.cwd.to_str().unwrap(),
    )
}

#[tokio::test]
async fn the_directory_goes_along_and_stays_inside_the_mounts() {
    let place = Place::new();
    let (driver, bash) = tool(&place);
    std::os::unix::fs::symlink("/etc", place.workspace.join("out")).unwrap();
    let start = "/workspace";
    let cases = [
        ("pwd", (0, "/workspace\n", "", start)),
        (
            "mkdir -p 'a b/c' && cd 'a b/c'",
            (0, "", "", "/workspace/a b/c"),
        ),
        (
            "pwd; exit 7",
            (7, "/workspace/a b/c\n", "", "/workspace/a b/c"),
        ),
        ("cd /tmp; pwd", (0, "/tmp\n", "", "/workspace/a b/c")),
        (
            "cd /workspace/out; ls passwd",
            (0, "passwd\n", "", "/workspace/a b/c"),
        ),
        ("cd ..; exec >f; echo in", (0, "", "", "/workspace/a b/c")),
        ("cd ..; cat f; printf x", (0, "in\nx", "", "/workspace/a b")),
        (
            "cd ../..; set -x; true",
            (0, "", "+ true\n", "/workspace/a b"),
        ),
        ("rm -r ../a\\ b; true", (0, "", "", "/workspace/a b")),
    ];
    for session in [None, Some("s")] {
        for (command, expected) in cases {
            let mut input = json!({"command": command});
            if let Some(session) = session {
                input["session"] = session.into();
            }
            assert_eq!(parts(&run(&bash, input).await), expected, "{command}");
        }
        // It is gone: that is told once, and the next call is right again.
        let (code, _, told, cwd) = parts(&run(&bash, json!({"command": "pwd"})).await).into_owned();
        assert_eq!((code, cwd.as_str()), (1, start), "{told}");
        let place = place.dir.path().to_str().unwrap();
        assert!(
            told.contains("run the command again") && !told.contains(place),
            "{told}"
        );
    }
    let (code, _, told, _) =
        parts(&run(&bash, json!({"command": "pwd", "cwd": "out"})).await).into_owned();
    assert!(code == 1 && told.contains("leads out"), "{told}");
    driver.close().await;
    place.assert_gone();
}

/// Parts that outlive their output.
trait IntoOwned {
    fn into_owned(self) -> (u8, String, String, String);
}

impl IntoOwned for (u8, &str, &str, &str) {
    fn into_owned(self) -> (u8, String, String, String) {
        (self.0, self.1.into(), self.2.into(), self.3.into())
    }
}

#[tokio::test]
async fn a_session_keeps_what_calls_leave_and_an_overrun_ends_it() {
    let place = Place::new();
    let (driver, bash) = tool(&place);
    assert!(bash.descriptor()["inputSchema"]["properties"]["session"].is_object());
    let within = |command: &str| json!({"command": command, "session": "s"});
    run(&bash, within("echo kept > /tmp/f; sleep 500 &")).await;
    assert_eq!(
        parts(&run(&bash, within("cat /tmp/f; pgrep -c sleep")).await).1,
        "kept\n1\n"
    );
    let mut long = within("sleep 777");
    long["timeoutMs"] = 500.into();
    let (code, out, told, _) = parts(&run(&bash, long).await).into_owned();
    assert_eq!(
        (code, out.as_str(), told.as_str()),
        (124, "", "timed out after 500 ms")
    );
    let (code, _, told, _) = parts(&run(&bash, within("true")).await).into_owned();
    assert!(code == 125 && told.contains("only once"), "{told}");
    assert_eq!(parts(&run(&bash, within("ls /tmp | wc -l")).await).1, "0\n");
    // Without a session there is nothing of it.
    assert_eq!(
        parts(&run(&bash, json!({"command": "ls /tmp"})).await).1,
        ""
    );
    driver.close().await;
    place.assert_gone();
}
