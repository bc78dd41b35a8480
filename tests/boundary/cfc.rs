//! The CFC contract with a fake runsc that speaks it: what goes in, and what is let out.

use std::fs;
use std::process::{Command, Stdio};

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::cfc::result::DiagnosticCode;
use runsc_driver::driver::{
    CancellationToken, End, Error, Observation, Outcome, Output, StartFailure,
};
use runsc_driver::{Call, Driver, SandboxOptions};
use serde_json::{Value, json};

use crate::common::{Ran, walk};
use crate::fake::Fake;

/// What the fake says that must not be seen.
const SECRET: &str = "swordfish";

fn options(fake: &Fake, mode: EnforcementMode) -> SandboxOptions {
    let policy = fake.place.dir.path().join("policy.json");
    fs::write(&policy, "{}").unwrap();
    let mut options = fake.options();
    options.policy = Some(policy);
    options.mode = mode;
    options
}

/// `runsc-driver run` with a policy.
fn command(fake: &Fake, flags: &[&str]) -> Command {
    let policy = fake.place.dir.path().join("policy.json");
    fs::write(&policy, "{}").unwrap();
    let mut command = fake.place.command(["run", "--sandbox-runtime", "runsc"]);
    command
        .arg("--sandbox-rootfs")
        .arg(&fake.image)
        .arg("--sandbox-cfc-policy")
        .arg(policy)
        .args(flags)
        .args(["--", "true"])
        .env("HOME", fake.place.dir.path())
        .env("CF_HARNESS_RUNSC_BINARY", fake.runsc());
    command
}

async fn run(fake: &Fake, mode: EnforcementMode, call: Call) -> Outcome {
    let driver = fake.driver_of(options(fake, mode));
    let outcome = driver.run(call).await.unwrap();
    driver.close().await;
    outcome
}

/// No file of the test's directory for temporary files holds the secret, nor does its name.
fn assert_nowhere(fake: &Fake, said: &[u8]) {
    let holds = |bytes: &[u8]| {
        bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    };
    assert!(!holds(said), "{}", String::from_utf8_lossy(said));
    for path in walk(&fake.place.tmp) {
        assert!(!holds(path.as_os_str().as_encoded_bytes()), "{path:?}");
        if path.is_file() {
            assert!(!holds(&fs::read(&path).unwrap()), "{path:?}");
        }
    }
}

#[tokio::test]
async fn the_context_comes_sealed_on_3_and_the_result_goes_on_4() {
    let fake = Fake::doing(
        "run",
        r#"cat <&3 >"$here/context"; (echo x >&3) 2>/dev/null && exit 1
           (echo x >/proc/self/fd/3) 2>/dev/null && exit 1
           result "$public" >&4; echo out; exit 7"#,
    );
    let mut call = Call::new(["sh", "-c", "true"]);
    call.env.push(("B".into(), "hidden".into()));
    let outcome = run(&fake, EnforcementMode::EnforceStrict, call).await;
    assert_eq!(outcome.exit().map(|exit| exit.code), Some(7), "{outcome:?}");

    let seen = fake.seen().pop().unwrap();
    let numbers: Vec<_> = seen.descriptors.keys().copied().collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4], "{seen:?}");
    for number in [3, 4] {
        assert!(seen.descriptors[&number].starts_with("/memfd:"), "{seen:?}");
    }
    let at = |word: &str| seen.argv.iter().position(|arg| arg == word).unwrap();
    let policy = fake.place.dir.path().join("policy.json");
    assert_eq!(
        seen.argv[at("--cfc")..][1..3],
        ["--cfc-policy", policy.to_str().unwrap()]
    );
    assert_eq!(
        seen.argv[at("run")..][1..6],
        [
            "--cfc-invocation-context-fd",
            "3",
            "--cfc-result-fd",
            "4",
            "--bundle"
        ]
    );

    let text = fake.read("context");
    assert!(text.ends_with("}\n") && !text.contains("hidden"), "{text}");
    let mut context: Value = serde_json::from_str(&text).unwrap();
    for made in ["createdAt", "runId"] {
        assert!(context.as_object_mut().unwrap().remove(made).is_some());
    }
    let argv = context["inputs"]["argv"].take();
    assert_eq!(
        (&argv["count"], &argv["totalBytes"]),
        (&json!(3), &json!(8))
    );
    assert_eq!(
        context,
        json!({
            "type": "cf-harness.cfc-invocation-context",
            "version": 1,
            "sequence": 1,
            "toolId": "command",
            "operation": "command",
            "cfcEnforcementMode": "enforce-strict",
            "cwd": "/workspace",
            "runManifest": { "present": false },
            "inputs": {
                "argv": null,
                "env": { "type": "cf-harness.env-summary", "count": 1, "names": ["B"] }
            }
        })
    );
}

#[tokio::test]
async fn without_a_policy_there_is_no_context_no_result_and_no_flag() {
    let fake = Fake::doing("run", "echo out");
    let driver = fake.driver();
    let outcome = driver.run(Call::new(["true"])).await.unwrap();
    assert!(matches!(outcome.observation, Observation::Untracked(_)));
    for seen in fake.seen() {
        assert!(
            seen.argv.iter().all(|arg| !arg.starts_with("--cfc")),
            "{seen:?}"
        );
        assert!(
            seen.descriptors.keys().all(|number| *number < 3),
            "{seen:?}"
        );
    }
    driver.close().await;
}

#[tokio::test]
async fn a_public_result_lets_everything_out() {
    let fake = Fake::doing("run", r#"result "$public" >&4; secret; exit 42"#);
    let outcome = run(&fake, EnforcementMode::EnforceStrict, Call::new(["true"])).await;
    let released = outcome.released().unwrap();
    assert_eq!(outcome.exit().unwrap().code, 42);
    assert_eq!(released.stdout.head, b"swordfish\n");
    assert_eq!(released.stderr.head, b"swordfish\n");
    assert!(matches!(outcome.observation, Observation::Observed { .. }));
}

#[tokio::test]
async fn a_label_leaves_a_byte_count_and_no_exit_value_in_any_spelling() {
    let fake = Fake::doing("run", r#"result "$tainted" >&4; secret; exit 42"#);
    let outcome = run(&fake, EnforcementMode::EnforceStrict, Call::new(["true"])).await;
    let Observation::Opaque {
        label,
        stdout_bytes,
        stderr_bytes,
        ..
    } = &outcome.observation
    else {
        panic!("{outcome:?}");
    };
    assert_eq!(label.confidentiality, [json!("finance")]);
    assert_eq!((*stdout_bytes, *stderr_bytes), (10, 10));
    assert_eq!((outcome.exit(), outcome.raw.is_none()), (None, true));
    let told = format!("{outcome:?}");
    for hidden in [SECRET, "10752", "42"] {
        let told = told.replace(&outcome.container_id, "");
        let told = told.split("elapsed").next().unwrap();
        assert!(!told.contains(hidden), "{hidden}: {told}");
    }
}

#[tokio::test]
async fn an_operator_who_asks_by_name_gets_the_raw_record() {
    let fake = Fake::doing("run", r#"result "$tainted" >&4; secret; exit 42"#);
    let mut call = Call::new(["true"]);
    call.keep_raw = true;
    let outcome = run(&fake, EnforcementMode::EnforceStrict, call).await;
    let raw = outcome.raw.as_ref().unwrap();
    assert_eq!(raw.released.stdout.head, b"swordfish\n");
    assert_eq!(raw.released.exit.unwrap().code, 42);
    assert!(!format!("{outcome:?}").contains(SECRET));
}

/// What a runsc may do with the result descriptor, and what it comes to.
const FAULTS: [(&str, &str, DiagnosticCode); 12] = [
    ("nothing", "", DiagnosticCode::ResultFdUnreadable),
    (
        "half",
        r#"result "$public" | head -c 40 >&4"#,
        DiagnosticCode::ResultFdUnreadable,
    ),
    ("null", "echo null >&4", DiagnosticCode::ResultFdUnreadable),
    (
        "another container's",
        r#"id=c-other; result "$public" >&4"#,
        DiagnosticCode::SidecarContainerMismatch,
    ),
    (
        "a longer id",
        r#"id=${id}0; result "$public" >&4"#,
        DiagnosticCode::SidecarContainerMismatch,
    ),
    (
        "version 2",
        r#"result "$public" | sed s/:1,/:2,/ >&4"#,
        DiagnosticCode::SidecarVersion,
    ),
    (
        "10 MiB",
        r#"result "$public" >&4; head -c 10485760 /dev/zero | tr '\0' ' ' >&4"#,
        DiagnosticCode::ResultFdUnreadable,
    ),
    (
        "twice",
        r#"result "$public" >&4; result "$public" >&4"#,
        DiagnosticCode::ResultFdUnreadable,
    ),
    ("closed", "exec 4>&-", DiagnosticCode::ResultFdUnreadable),
    (
        "no taint",
        r"result null >&4",
        DiagnosticCode::SidecarMissingTaint,
    ),
    (
        "an empty taint",
        r"result '{}' >&4",
        DiagnosticCode::SidecarMalformedTaint,
    ),
    (
        "after its end",
        r#"(read x </dev/null; setsid "$here/idle" 0.3; result "$public" >&4) </dev/null >/dev/null 2>&1 &"#,
        DiagnosticCode::ResultFdUnreadable,
    ),
];

#[tokio::test]
async fn a_faulty_result_is_denied_with_its_code_and_nothing_is_shown() {
    for (name, script, code) in FAULTS {
        let fake = Fake::doing("run", &format!("secret; {script}\nexit 42"));
        let outcome = run(&fake, EnforcementMode::EnforceStrict, Call::new(["true"])).await;
        let Observation::Denied { diagnostics } = &outcome.observation else {
            panic!("{name}: {outcome:?}");
        };
        let codes: Vec<_> = diagnostics
            .iter()
            .map(|diagnostic| diagnostic.code)
            .collect();
        assert_eq!(codes, [code], "{name}");
        assert_eq!((outcome.end, outcome.exit()), (End::Exited, None), "{name}");
        assert_eq!(
            outcome.evidence,
            runsc_driver::driver::Evidence::default(),
            "{name}"
        );
        assert!(!format!("{outcome:?}").contains(SECRET), "{name}");
    }
}

#[tokio::test]
async fn why_a_withheld_command_did_not_start_is_withheld_too() {
    let fake = Fake::doing("run", "fail");
    fake.log(
        r#"{"msg":"running container: starting container: starting root container: starting sandbox: creating process: failed to load /x: permission denied","level":"error"}"#,
    );
    let outcome = run(&fake, EnforcementMode::EnforceStrict, Call::new(["/x"])).await;
    assert_eq!(outcome.end, End::NotStarted(StartFailure::Withheld));
    assert_eq!(outcome.evidence.log, Vec::<String>::new());
}

#[tokio::test]
async fn a_stream_waits_for_the_verdict_where_the_mode_enforces() {
    let script = r#"echo early; touch "$here/up"; read x; result "$public" >&4; echo late"#;
    for (mode, early) in [
        (EnforcementMode::EnforceStrict, false),
        (EnforcementMode::EnforceExplicit, false),
        (EnforcementMode::Observe, true),
        (EnforcementMode::Disabled, true),
    ] {
        let fake = Fake::doing("run", script);
        let driver = fake.driver_of(options(&fake, mode));
        let (stdout, mut reader) = tokio::io::duplex(1024);
        let (stdin, mut go) = tokio::io::duplex(16);
        let mut call = Call::new(["true"]);
        call.stdout = Output::Stream(Box::new(stdout));
        call.stdin = runsc_driver::driver::Stdin::Reader(Box::new(stdin));
        let running = driver.run(call);
        let watching = async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            fake.up().await;
            let mut seen = vec![0; 6];
            if early {
                reader.read_exact(&mut seen).await.unwrap();
                assert_eq!(seen, b"early\n");
            }
            go.write_all(b"go\n").await.unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).await.unwrap();
            rest
        };
        let (outcome, rest) = tokio::join!(running, watching);
        let outcome = outcome.unwrap();
        assert_eq!(
            rest,
            if early {
                &b"late\n"[..]
            } else {
                b"early\nlate\n"
            },
            "{mode}"
        );
        assert_eq!(outcome.released().unwrap().stdout.bytes, 11, "{mode}");
        driver.close().await;
    }
}

#[tokio::test]
async fn a_held_stream_keeps_to_the_cap_and_says_so() {
    let fake = Fake::doing("run", r#"result "$public" >&4; printf 0123456789abcdef"#);
    let (stdout, mut reader) = tokio::io::duplex(1024);
    let mut call = Call::new(["true"]);
    call.stdout = Output::Stream(Box::new(stdout));
    call.output_cap = 8;
    let outcome = run(&fake, EnforcementMode::EnforceStrict, call).await;
    let mut seen = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut seen)
        .await
        .unwrap();
    let stdout = &outcome.released().unwrap().stdout;
    assert_eq!(
        (seen.as_slice(), stdout.bytes, stdout.truncated),
        (&b"0123cdef"[..], 16, true)
    );
}

#[tokio::test]
async fn a_call_that_was_taken_down_is_denied() {
    let fake = Fake::doing("run", r#"result "$public" >&4; secret; up; hold"#);
    let driver = fake.driver_of(options(&fake, EnforcementMode::EnforceStrict));
    let mut call = Call::new(["true"]);
    let cancel = CancellationToken::new();
    call.cancel = cancel.clone();
    let (outcome, ()) = tokio::join!(driver.run(call), async {
        fake.up().await;
        cancel.cancel();
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert!(
        matches!(outcome.observation, Observation::Denied { .. }),
        "{outcome:?}"
    );
    driver.close().await;
}

#[tokio::test]
async fn an_enforcing_call_without_a_policy_runs_nothing() {
    for mode in [
        EnforcementMode::EnforceExplicit,
        EnforcementMode::EnforceStrict,
    ] {
        let fake = Fake::new();
        let mut options = fake.options();
        options.mode = mode;
        let driver = fake.driver_of(options);
        let refused = driver.run(Call::new(["true"])).await.unwrap_err();
        assert_eq!(refused.code(), "policy-required");
        assert_eq!(fake.seen(), []);
        assert_eq!(walk(&fake.place.tmp), Vec::<std::path::PathBuf>::new());
    }
}

#[tokio::test]
async fn a_runsc_that_does_not_know_cfc_is_told_apart_and_refused() {
    let knows_not = r#"case " $* " in *" --cfc "*) echo "flag provided but not defined: -cfc" >&2; exit 2;; esac"#;
    let fake = Fake::new();
    // The verb's script sees no arguments any more: the fake itself is changed.
    let script = include_str!("../fakes/runsc")
        .replace("parse \"$@\"", &format!("{knows_not}\nparse \"$@\""));
    fake.executable(&script);
    let driver = fake.driver_of(options(&fake, EnforcementMode::EnforceStrict));
    for _ in 0..2 {
        let refused = driver.run(Call::new(["true"])).await.unwrap_err();
        assert_eq!(refused.code(), "cfc-unsupported");
        assert!(refused.to_string().contains("--no-cfc"), "{refused}");
    }
    assert!(!fake.verb_names().contains(&"run".to_owned()));
}

#[tokio::test]
async fn a_rule_of_the_labelling_runsc_is_a_refusal_of_its_own() {
    let fake = Fake::doing("run", "fail");
    fake.log(r#"{"msg":"no egress for what /data labelled","level":"error","code":"egress"}"#);
    let driver = fake.driver_of(options(&fake, EnforcementMode::EnforceStrict));
    let refused = driver.run(Call::new(["true"])).await.unwrap_err();
    assert_eq!(refused.code(), "label-rule");
    let Error::LabelRule { rule, message } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (rule.as_str(), message.as_str()),
        ("egress", "no egress for what /data labelled")
    );
    driver.close().await;
}

#[test]
fn the_secret_is_nowhere() {
    let cases = [
        r#"result "$tainted" >&4"#,
        "",
        r#"result "$public" | head -c 30 >&4"#,
    ];
    for script in cases {
        for flags in [
            &["-vvv"][..],
            &["-vvv", "--json"],
            &["-vvv", "--timeout", "60"],
        ] {
            let fake = Fake::doing("run", &format!("{script}\nsecret; exit 42"));
            let ran = Ran::of(command(&fake, flags).output().unwrap());
            assert_eq!(ran.code, Some(125), "{ran:?}");
            assert_nowhere(&fake, &[ran.stdout.clone(), ran.stderr.clone()].concat());
            let said = ran.err();
            for what in ["standard output", "standard error", "exit value"] {
                assert!(said.contains(&format!("{what} is withheld")), "{said}");
            }
            if flags.contains(&"--json") {
                let json = ran.json();
                assert_eq!(
                    (&json["exitCode"], &json["stdout"]),
                    (&Value::Null, &Value::Null)
                );
                assert_eq!(json["runsc"], Value::Null);
                assert!(["opaque", "denied"].contains(&json["cfc"]["verdict"].as_str().unwrap()));
                assert!(!json.to_string().contains(":10752"), "{json:#}");
                assert_fits(&json);
            } else {
                assert_eq!(ran.out(), "");
            }
        }
    }
}

fn assert_fits(json: &Value) {
    let schema: Value =
        serde_json::from_slice(include_bytes!("../../bundles/schemas/run-v1.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(json)
        .map(|err| err.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new(), "{json:#}");
}

#[test]
fn the_command_shows_what_is_observed_and_where_nothing_is_enforced() {
    let fake = Fake::doing("run", r#"result "$public" >&4; secret; exit 42"#);
    let ran = Ran::of(command(&fake, &[]).output().unwrap());
    assert_eq!((ran.code, ran.out().as_str()), (Some(42), "swordfish\n"));
    let json = Ran::of(command(&fake, &["--json"]).output().unwrap()).json();
    assert_eq!(json["cfc"]["verdict"], "observed");
    assert_eq!(
        (&json["exitCode"], &json["stdout"]["data"]),
        (&json!(42), &json!("swordfish\n"))
    );
    assert_fits(&json);

    let fake = Fake::doing("run", r#"result "$tainted" >&4; secret; exit 42"#);
    let observe = ["--cfc-enforcement-mode", "observe"];
    let ran = Ran::of(command(&fake, &observe).output().unwrap());
    assert_eq!((ran.code, ran.out().as_str()), (Some(42), "swordfish\n"));
    assert!(ran.err().contains("labelled data"), "{ran:?}");
}

#[test]
fn contexts_and_labels_come_from_flags() {
    let fake = Fake::doing("run", r#"cat <&3 >"$here/context"; result "$public" >&4"#);
    let context = r#"{"type":"cf-harness.cfc-invocation-context","version":1,"sequence":9,
        "runId":"r","createdAt":"2026-01-02T03:04:05.000Z","toolId":"bash","operation":"shell",
        "cfcEnforcementMode":"observe","cwd":"/workspace","runManifest":{"present":false},
        "inputs":{},"more":{"kept":true}}"#;
    let file = fake.place.dir.path().join("context.json");
    fs::write(&file, context).unwrap();
    let told = || serde_json::from_str::<Value>(&fake.read("context")).unwrap();

    let flags = [
        "--cfc-context",
        file.to_str().unwrap(),
        "--cfc-label",
        "finance",
    ];
    let ran = Ran::of(command(&fake, &flags).output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let context_in = told();
    assert_eq!(
        (&context_in["sequence"], &context_in["more"]["kept"]),
        (&json!(9), &json!(true))
    );
    // The stricter mode holds, and travels.
    assert_eq!(context_in["cfcEnforcementMode"], "enforce-strict");
    assert_eq!(
        context_in["cfcInputLabels"],
        json!({"version": 1, "entries": [
            {"path": ["command"], "label": {"confidentiality": ["finance"]}}
        ]})
    );

    let mut child = command(
        &fake,
        &["--cfc-context", "-", "--cfc-enforcement-mode", "observe"],
    )
    .stdin(Stdio::piped())
    .spawn()
    .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), context.as_bytes()).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(told()["cfcEnforcementMode"], "observe");

    fs::write(&file, "{}").unwrap();
    Ran::of(
        command(&fake, &["--cfc-context", file.to_str().unwrap()])
            .output()
            .unwrap(),
    )
    .assert_says(125, &["--cfc-context", "context.json"]);
    let integrity = context.replace(
        "\"inputs\":{}",
        "\"inputs\":{},\"cfcInputLabels\":{\"version\":1,\"entries\":[{\"path\":[\"command\"],\
         \"label\":{\"integrity\":[\"x\"]}}]}",
    );
    fs::write(&file, integrity).unwrap();
    Ran::of(
        command(&fake, &["--cfc-context", file.to_str().unwrap()])
            .output()
            .unwrap(),
    )
    .assert_says(125, &["integrity"]);
    let both = ["--no-cfc", "--cfc-enforcement-mode", "observe"];
    Ran::of(command(&fake, &both).output().unwrap()).assert_says(2, &["--no-cfc"]);
    let wrong = ["--cfc-enforcement-mode", "lenient"];
    Ran::of(command(&fake, &wrong).output().unwrap()).assert_says(2, &["lenient"]);
}
