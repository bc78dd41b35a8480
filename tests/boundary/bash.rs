//! The `bash` tool over a fake runsc: each refusal, what a model is told, and what it is not.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::cfc::result::Policy;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::Driver;
use runsc_driver::tools::bash::{Bash, Error, Input, Invocation, Output};
use serde_json::{Value, json};

use crate::common::walk;
use crate::fake::{Fake, bounded};
use crate::sessions::{sessions, with_policy};

/// The fake runs a command of a session's on this machine.
const REAL: &str = r#"shift "$words"; "$@"; exit"#;

fn tool(driver: &Arc<DirectDriver>, mode: EnforcementMode) -> Bash {
    Bash::new(Arc::clone(driver) as Arc<dyn Driver>, "r", mode)
}

fn plain(driver: &Arc<DirectDriver>) -> Bash {
    tool(driver, EnforcementMode::Disabled)
}

fn input(text: Value) -> Input {
    Input::parse(&text).unwrap()
}

async fn run(bash: &Bash, text: Value) -> Output {
    bounded(bash.run(input(text))).await.unwrap()
}

fn parts(output: &Output) -> (u8, &str, &str) {
    (
        *output.exit_code.observed().unwrap(),
        output.stdout.observed().unwrap(),
        output.stderr.observed().unwrap(),
    )
}

/// A refusal: its status, nothing on standard output, and a text with these words and none of
/// these.
#[track_caller]
fn assert_refused(output: &Output, words: &str, hidden: &[&str]) {
    let (code, stdout, stderr) = parts(output);
    assert_eq!((code, stdout), (125, ""), "{output:?}");
    assert!(stderr.contains(words), "{stderr}");
    for word in hidden.iter().chain(&["/tmp", "runsc"]) {
        assert!(!stderr.contains(word), "{word} is in {stderr}");
    }
    assert_eq!(output.cwd.to_str(), Some("/workspace"));
}

/// What reached the operator's log on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The one line of a call that did not run.
    #[track_caller]
    fn line(&self) -> String {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.contains("did not run"))
            .collect();
        assert_eq!(lines.len(), 1, "{text}");
        lines[0].to_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_command_gives_its_output_its_status_and_its_directory() {
    let fake = sessions();
    fake.does("exec", REAL);
    fs::create_dir(fake.place.workspace.join("sub")).unwrap();
    let driver = fake.driver();
    let bash = plain(&driver);
    // The fake runs it here, where there is no /workspace: so it says that it is there.
    let there = "pwd() { echo /workspace/sub; }; echo out; echo err >&2; exit 3";
    let output = run(&bash, json!({"command": there, "session": "s"})).await;
    assert_eq!(
        output.for_model(),
        json!({
            "outputId": "r:bash:1",
            "stdout": "out\n",
            "stderr": "err\n",
            "exitCode": 3,
            "cwd": "/workspace/sub",
        })
    );
    // The next one starts there; one that ends outside the mounts is not followed.
    let output = run(&bash, json!({"command": "cd /; echo x", "session": "s"})).await;
    assert_eq!(parts(&output), (0, "x\n", ""));
    assert_eq!(output.cwd.to_str(), Some("/workspace/sub"));
    let exec = fake.verbs().pop().unwrap();
    assert!(
        exec.windows(2)
            .any(|pair| pair == ["--cwd", "/workspace/sub"])
    );
    // Nor one whose directory there is not.
    let gone = "pwd() { echo /workspace/nosuch; }; true";
    run(&bash, json!({"command": gone, "session": "s"})).await;
    let output = run(&bash, json!({"command": "true", "session": "s"})).await;
    let (code, stdout, stderr) = parts(&output);
    assert_eq!((code, stdout), (1, ""));
    assert!(
        stderr.contains("now /workspace:") && !stderr.contains("/tmp"),
        "{stderr}"
    );
    let output = run(
        &bash,
        json!({"command": "true", "cwd": "sub", "session": "s"}),
    )
    .await;
    assert_eq!(
        (parts(&output), output.cwd.to_str()),
        ((0, "", ""), Some("/workspace/sub"))
    );
    bounded(driver.close()).await;
}

#[tokio::test]
async fn the_mark_goes_where_the_output_goes_and_nowhere_else() {
    let fake = sessions();
    fake.does("exec", REAL);
    let driver = fake.driver();
    let bash = plain(&driver);
    let file = fake.place.dir.path().join("file");
    let file = file.to_str().unwrap();
    let cases = [
        (format!("exec >{file}; echo in"), (0, "", "")),
        (format!("cat {file}"), (0, "in\n", "")),
        ("printf 'no newline'".into(), (0, "no newline", "")),
        ("set -x; true".into(), (0, "", "+ true\n")),
        ("set -eu; false; echo no".into(), (1, "", "")),
        ("trap 'echo mine' EXIT; exit 4".into(), (4, "mine\n", "")),
        ("exec >&-; exit 5".into(), (5, "", "")),
        ("exec true".into(), (0, "", "")),
        ("(exit 9)".into(), (9, "", "")),
        ("# nothing".into(), (0, "", "")),
        ("".into(), (0, "", "")),
        ("cat <<'E'\n'\"$x`\\\nE".into(), (0, "'\"$x`\\\n", "")),
        ("kill -9 $$".into(), (137, "", "")),
    ];
    for (command, expected) in cases {
        let output = run(&bash, json!({"command": command, "session": "s"})).await;
        let (code, stdout, stderr) = parts(&output);
        // The fake's own shell may say that its child was killed.
        let stderr = if code == 137 { "" } else { stderr };
        assert_eq!((code, stdout, stderr), expected, "{command}");
    }
    bounded(driver.close()).await;
}

#[tokio::test]
async fn what_the_tool_refuses_has_no_context_and_starts_nothing() {
    let fake = sessions();
    let driver = fake.driver();
    let bash = plain(&driver);
    for name in ["", "no name", "-a", "a\n", "../../x", &"a".repeat(33)] {
        let refused = bash.prepare(input(json!({"command": "true", "session": name})));
        let hidden: &[&str] = if name.is_empty() { &[] } else { &[name] };
        assert_refused(refused.err().unwrap().as_ref(), "1 to 32 letters", hidden);
    }
    for cwd in ["/etc", "..", "/workspacex", "sub/../.."] {
        let refused = bash.prepare(input(json!({"command": "true", "cwd": cwd})));
        let refused = refused.err().unwrap();
        let (code, stdout, stderr) = parts(&refused);
        assert_eq!((code, stdout), (1, ""));
        assert!(
            stderr.contains("below /workspace.") && !stderr.contains("/tmp"),
            "{stderr}"
        );
        assert_eq!(refused.cwd.to_str(), Some("/workspace"));
    }
    assert_eq!(fake.seen(), []);
    assert_eq!(walk(&fake.place.tmp), Vec::<std::path::PathBuf>::new());
    // What it did not make a context for does not count.
    let prepared = bash
        .prepare(input(json!({"command": "true"})))
        .ok()
        .unwrap();
    let context: Value = serde_json::from_slice(&prepared.context().unwrap().to_bytes()).unwrap();
    assert_eq!(
        (&context["sequence"], &context["toolOutputId"]),
        (&json!(1), &json!("r:bash:11"))
    );
}

#[tokio::test]
async fn a_context_says_what_the_tool_knows_and_no_more() {
    let fake = Fake::doing("run", r#"cat <&3 >"$here/context"; result "$public" >&4"#);
    let driver = with_policy(&fake, EnforcementMode::EnforceStrict);
    let bash = tool(&driver, EnforcementMode::EnforceStrict);
    run(&bash, json!({"command": "ls"})).await;
    let mut context: Value = serde_json::from_str(&fake.read("context")).unwrap();
    assert!(
        context
            .as_object_mut()
            .unwrap()
            .remove("createdAt")
            .is_some()
    );
    assert_eq!(
        context,
        json!({
            "type": "cf-harness.cfc-invocation-context",
            "version": 1,
            "sequence": 1,
            "runId": "r",
            "toolId": "bash",
            "toolOutputId": "r:bash:1",
            "operation": "shell",
            "cfcEnforcementMode": "enforce-strict",
            "cwd": "/workspace",
            "runManifest": {"present": false},
            "inputs": {"command": {
                "type": "cf-harness.redacted-text-summary",
                "bytes": 2,
                // From coreutils' sha256sum.
                "digest":
                    "sha256:c7b68ac37f364473e922936708e7f43c293dd07b295171566c07ff5fe024fab9",
            }},
        })
    );
    bounded(driver.close()).await;
}

#[tokio::test]
async fn what_the_driver_refuses_leaves_the_directory_and_is_told_by_reason() {
    // A container that exited.
    let fake = sessions();
    let driver = fake.driver();
    let bash = plain(&driver);
    let call = json!({"command": "true", "session": "kept-name"});
    fake.does("exec", "end_session; exit 137");
    run(&bash, call.clone()).await;
    let log = Log::listen();
    assert_refused(
        &run(&bash, call.clone()).await,
        "did not run",
        &["kept-name"],
    );
    let line = log.0.line();
    assert!(
        line.contains("session-lost") && line.contains("kept-name"),
        "{line}"
    );
    // One that went with the call.
    fake.does("exec", "end_session; exit 128");
    let log = Log::listen();
    assert_refused(
        &run(&bash, call.clone()).await,
        "in whole or in part",
        &["kept-name"],
    );
    assert!(log.0.line().contains("session-ended-during-call"));

    // As many as there may be.
    fake.does("exec", "");
    for number in 0..8 {
        run(
            &bash,
            json!({"command": "true", "session": format!("n{number}")}),
        )
        .await;
    }
    let log = Log::listen();
    assert_refused(
        &run(&bash, call.clone()).await,
        "Reuse one",
        &["kept-name", "n0"],
    );
    let line = log.0.line();
    assert!(
        line.contains("session-limit") && line.contains("kept-name"),
        "{line}"
    );
    let reused = run(&bash, json!({"command": "true", "session": "n0"})).await;
    assert_eq!(parts(&reused).0, 0);
    bounded(driver.close()).await;

    // One that cannot start: the log has its path, the model does not.
    let fake = Fake::doing("run", "fail");
    let image = fake.image.to_str().unwrap();
    fake.log(&json!({"msg": format!("no {image}\nat all"), "level": "error"}).to_string());
    let driver = fake.driver();
    let log = Log::listen();
    assert_refused(
        &run(&plain(&driver), call.clone()).await,
        "do not try",
        &["kept-name", image],
    );
    let line = log.0.line();
    assert!(
        line.contains("start-failed") && line.contains(image),
        "{line}"
    );
    bounded(driver.close()).await;

    // A mode that enforces: the driver refuses, so there is a context.
    let fake = sessions();
    let mode = EnforcementMode::EnforceExplicit;
    let driver = with_policy(&fake, mode);
    let bash = tool(&driver, mode);
    let prepared = bash.prepare(input(call)).ok().unwrap();
    let invocation = Invocation {
        context: Some(prepared.context().unwrap()),
        ..Invocation::default()
    };
    let log = Log::listen();
    let refused = bounded(prepared.run(invocation)).await.unwrap();
    assert_refused(&refused, "mode enforces", &["kept-name"]);
    assert!(log.0.line().contains("enforcing-mode"));
    assert_eq!(fake.seen(), []);
}

#[tokio::test]
async fn an_overrun_is_124_and_its_session_is_lost_once() {
    let fake = sessions();
    fake.does("exec", "started 7; echo out; hold");
    fs::create_dir(fake.place.workspace.join("sub")).unwrap();
    let driver = fake.driver();
    let bash = plain(&driver);
    // Long enough for a loaded machine to have started the session by then.
    let call = json!({"command": "x", "cwd": "sub", "timeoutMs": 3000.5, "session": "s"});
    let output = run(&bash, call).await;
    assert_eq!(parts(&output), (124, "", "timed out after 3000.5 ms"));
    assert_eq!(output.cwd.to_str(), Some("/workspace/sub"));
    fake.does("exec", "");
    let next = json!({"command": "x", "session": "s"});
    assert_eq!(parts(&run(&bash, next.clone()).await).0, 125);
    assert_eq!(parts(&run(&bash, next).await).0, 0);
    bounded(driver.close()).await;
    fake.place.assert_gone();
}

#[tokio::test]
async fn what_may_not_be_seen_is_an_object_and_not_a_text() {
    for (mode, script, reason, detail) in [
        (
            EnforcementMode::EnforceStrict,
            r#"result "$tainted" >&4"#,
            "needs-opaque-pass-through",
            false,
        ),
        (
            EnforcementMode::Observe,
            r#"result "$tainted" >&4"#,
            "needs-opaque-pass-through",
            false,
        ),
        (EnforcementMode::EnforceExplicit, "", "not-observable", true),
        (
            EnforcementMode::EnforceExplicit,
            "result x >&4; fail",
            "not-observable",
            true,
        ),
    ] {
        let fake = Fake::doing("run", &format!("{script}\nsecret; exit 42"));
        fake.log(r#"{"msg":"swordfish","level":"error"}"#);
        let driver = with_policy(&fake, mode);
        let output = run(&tool(&driver, mode), json!({"command": "x"})).await;
        let shown = output.for_model();
        assert_eq!(shown.as_object().unwrap().len(), 5, "{shown}");
        for part in ["stdout", "stderr", "exitCode"] {
            let object = &shown[part];
            assert_eq!(object["type"], "cf-harness.observation-denied");
            assert_eq!(object["reason"], reason);
            assert_eq!(object["handle"], format!("r:bash:1:{part}"));
            assert_eq!(object.get("detail").is_some(), detail, "{object}");
        }
        let whole = format!(
            "{output:?}{shown}{}",
            serde_json::to_string(&output).unwrap()
        );
        assert!(!whole.contains("swordfish"), "{whole}");
        assert_ne!(output.cfc_result.unwrap().policy, Policy::Observed);
        bounded(driver.close()).await;
    }
}

#[tokio::test]
async fn what_is_observed_is_shown_with_what_is_known_of_it() {
    let fake = Fake::doing("run", r#"result "$public" >&4; echo out; exit 42"#);
    let driver = with_policy(&fake, EnforcementMode::EnforceStrict);
    let bash = tool(&driver, EnforcementMode::EnforceStrict);
    let output = run(&bash, json!({"command": "x"})).await;
    assert_eq!(parts(&output), (42, "out\n", ""));
    assert!(output.for_model().get("cfcResult").is_none());
    assert_eq!(output.cfc_result.unwrap().policy, Policy::Observed);
    bounded(driver.close()).await;
}

#[tokio::test]
async fn an_enforcing_run_without_a_policy_runs_nothing() {
    let fake = Fake::new();
    let driver = fake.driver();
    let bash = tool(&driver, EnforcementMode::EnforceStrict);
    let output = run(&bash, json!({"command": "x"})).await;
    assert_refused(&output, "no policy", &[]);
    assert_eq!(fake.seen(), []);
}

#[tokio::test]
async fn a_rule_of_the_labels_is_told_without_its_words() {
    let fake = Fake::doing("run", "fail");
    fake.log(r#"{"msg":"no egress for what /data labelled","level":"error","code":"egress"}"#);
    let driver = with_policy(&fake, EnforcementMode::EnforceStrict);
    let bash = tool(&driver, EnforcementMode::EnforceStrict);
    let log = Log::listen();
    let output = run(&bash, json!({"command": "x"})).await;
    assert_refused(&output, "do not let it start", &["egress", "/data"]);
    assert!(log.0.line().contains("/data"));
    bounded(driver.close()).await;
}

#[tokio::test]
async fn what_is_no_fault_of_the_command_is_the_harnesss() {
    let fake = sessions();
    fake.does("exec", "started 7; up; hold");
    fake.does("kill", "exit 128");
    let driver = fake.driver();
    let bash = plain(&driver);
    let prepared = bash
        .prepare(input(json!({"command": "x", "session": "s"})))
        .ok()
        .unwrap();
    let invocation = Invocation::default();
    let cancel = invocation.cancel.clone();
    let (cancelled, ()) = tokio::join!(prepared.run(invocation), async {
        fake.up().await;
        cancel.cancel();
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    bounded(driver.close()).await;
    for call in [
        json!({"command": "x"}),
        json!({"command": "x", "session": "new"}),
    ] {
        let closed = bounded(bash.run(input(call))).await.unwrap_err();
        assert_eq!(closed.code(), "closed");
    }
}

#[tokio::test]
async fn long_output_loses_its_middle_and_says_so() {
    let fake = sessions();
    fake.does("exec", REAL);
    let driver = fake.driver();
    let bash = plain(&driver);
    let long = "head -c 2000000 /dev/zero | tr '\\0' a; echo; pwd() { echo /workspace; }";
    let output = run(&bash, json!({"command": long, "session": "s"})).await;
    let (_, stdout, _) = parts(&output);
    let expected = format!(
        "{}\n[… {} bytes of output are left out here …]\n{}\n",
        "a".repeat(60_000),
        2_000_001 - 80_000,
        "a".repeat(19_999)
    );
    assert!(stdout == expected, "{} characters", stdout.len());
    bounded(driver.close()).await;
}
