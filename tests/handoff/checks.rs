//! What a sandboxed step cannot do, in real gVisor, through the command.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::common::{NOT_HUNG, Ran, wait_for, walk};
use crate::session::{Handed, Session};

/// A child that reports what it was asked.
const ECHO: &str = "import json,sys\nr=json.loads(sys.stdin.readline())\n\
    print(json.dumps({'subrun_report': r['input']}))\n";
/// A child that is there until it is taken down.
const FOREVER: &str =
    "import sys\nsys.stdin.readline()\nprint('{}', flush=True)\nimport time\ntime.sleep(300)\n";

#[test]
fn a_script_that_ignores_its_library_gets_no_more_than_its_block() {
    let step = "first, count = HOST['ids']\n\
        open_ones = [ask(child_id(first + at), value=at) for at in range(count + 5)]\n\
        report([answer(broker)[0] for broker in open_ones])\n";
    let session = Session::new(2, step, ECHO);
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.envelope["result"]["launches"],
        json!({"launched": 2, "refused": {"launch-ceiling": 5}})
    );
    let answers = handed.output(&session, "report.json");
    let reports = answers.as_array().unwrap().iter();
    let reports = reports.filter(|text| text.as_str().unwrap().contains("subrun_report"));
    assert_eq!(reports.count(), 2);
    assert_eq!(session.lines("events.jsonl").len(), 4);
    // A refusal is told to be skipped, without an attempt.
    let skipped = session
        .lines("journal.jsonl")
        .iter()
        .filter(|line| {
            line["e"]["outcome"]
                == json!(["DidNotFinish", {"failure": ["Skipped"], "attempt": null}])
        })
        .count();
    assert_eq!(skipped, 5);
}

#[test]
fn no_way_to_ask_wrongly_launches_anything() {
    let step = "first, count = HOST['ids']\n\
        good, used = child_id(first), None\n\
        answers = {}\n\
        answers['good'] = answer(ask(good, value=1))\n\
        answers['twice'] = answer(ask(good, value=1))\n\
        answers['before'] = answer(ask(child_id(0)))\n\
        answers['foreign'] = answer(ask('run-8-c-%d' % (first + 1)))\n\
        answers['template'] = answer(ask(child_id(first + 1), kind='{child}'))\n\
        answers['large'] = answer(ask(child_id(first + 1), value='x' * (2 << 20)))\n\
        answers['other'] = answer(connect({'v': 1, 'child': child_id(first + 1), 'kind': 'k'},\n\
                                          request(good)))\n\
        answers['no hello'] = answer(connect(None, b'\\n'))\n\
        answers['silent'] = answer(connect())\n\
        report(answers)\n";
    let session = Session::new(2, step, ECHO);
    let handed = session.run();
    handed.assert_success();
    let answers = handed.output(&session, "report.json");
    let said = |name: &str| answers[name][0].as_str().unwrap().to_owned();
    assert_eq!(said("good"), "{\"subrun_report\": 1}\n");
    for name in [
        "twice", "before", "foreign", "template", "large", "other", "no hello", "silent",
    ] {
        assert!(said(name).contains("command_error"), "{name}: {answers}");
        assert_eq!(answers[name][1], 0, "{name}");
    }
    assert_eq!(
        handed.envelope["result"]["launches"],
        json!({"launched": 1, "refused": {
            "child-id-used": 1, "foreign-child-id": 2, "unknown-kind": 1, "request-too-large": 1,
            "bad-request": 1, "bad-hello": 1, "hello-timeout": 1
        }})
    );
    assert_eq!(session.lines("events.jsonl").len(), 2);
}

#[test]
fn what_a_script_claims_is_no_record() {
    let step = "launch(child_id(HOST['ids'][0]), value=1).stdout.read()\n\
        with open(HOST['events'], 'w') as out:\n\
        \x20   out.write('{\"event\":\"agent_started\",\"child\":\"run-8-c-1\",\"kind\":\"k\",\"label\":\"l\"}\\n')\n\
        \x20   out.write('{\"event\":\"agent_fin')\n\
        with open(HOST['journal'], 'w') as out:\n\
        \x20   out.truncate(1 << 30)\n\
        report(0)\n";
    let session = Session::new(1, step, ECHO);
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.diagnostics(),
        ["claims-foreign-child", "claims-too-large", "claims-torn"]
    );
    let events = session.lines("events.jsonl");
    let children: Vec<_> = events
        .iter()
        .map(|line| line["child"].as_str().unwrap())
        .collect();
    assert_eq!(children, ["run-7-c-1", "run-7-c-1"]);
    assert_eq!(session.lines("journal.jsonl").len(), 1);
}

#[test]
fn a_socket_in_sight_refuses_the_step_before_anything_starts() {
    let session = Session::new(1, "report(0)\n", ECHO);
    let socket = session.path("in/host.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let handed = session.run();
    assert_eq!((handed.error(), handed.code), ("socket-visible", Some(1)));
    assert_eq!(handed.envelope["result"]["dispatched"], false);
    drop(listener);
    fs::remove_file(socket).unwrap();
    // The control, in the same session: the refusal let go of the step.
    session.run().assert_success();

    let session = Session::new(1, "report(0)\n", ECHO);
    let image = session.path("image");
    fs::create_dir_all(image.join("run")).unwrap();
    let _listener = UnixListener::bind(image.join("run/host.sock")).unwrap();
    let handed = session.run_with(&["--sandbox-rootfs", image.to_str().unwrap()]);
    assert_eq!(handed.error(), "socket-visible", "{handed:?}");
}

#[test]
fn a_step_that_launches_nothing_has_no_way_out() {
    let step = "assert HOST is None\n\
        assert not os.path.exists('/run/handoff/broker.sock')\n\
        listener = socket.socket(socket.AF_UNIX)\n\
        try:\n\
        \x20   listener.connect('/inputs/in/host.sock')\n\
        \x20   report('connected')\n\
        except OSError as error:\n\
        \x20   report('refused')\n";
    let mut session = Session::new(1, step, ECHO);
    session.plan.as_object_mut().unwrap().remove("launch");
    let _listener = UnixListener::bind(session.path("in/host.sock")).unwrap();
    let handed = session.run();
    handed.assert_success();
    assert_eq!(handed.output(&session, "report.json"), "refused");
}

#[test]
fn a_child_sees_no_more_than_its_step_was_given() {
    let child = "import json,os,sys\nsys.stdin.readline()\n\
        print(json.dumps({'subrun_report': {\n\
        'host': os.environ.get('WORKFLOW_HOST'),\n\
        'there': [p for p in ('/outputs', '/run/handoff', '/run/claims') if os.path.exists(p)],\n\
        'inputs': sorted(os.listdir('/inputs')), 'work': os.listdir('/workspace'),\n\
        'writable': os.access('/inputs/in', os.W_OK)}}))\n";
    let step = "open('/workspace/mine', 'w').close()\n\
        said = launch(child_id(HOST['ids'][0])).stdout.read().decode()\n\
        report(json.loads(said)['subrun_report'])\n";
    let session = Session::new(1, step, child);
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.output(&session, "report.json"),
        json!({"host": null, "there": [], "inputs": ["in", "in.json"], "work": [], "writable": false})
    );
}

#[test]
fn a_step_that_ends_takes_its_children_with_it() {
    let step = "child = launch(child_id(HOST['ids'][0]))\n\
        child.stdout.readline()\n\
        report(0)\n\
        os._exit(0)\n";
    let session = Session::new(1, step, FOREVER);
    let handed = session.run();
    handed.assert_success();
    let events = session.lines("events.jsonl");
    assert_eq!(
        (events.len(), &events[1]["status"]),
        (2, &json!("cancelled"))
    );
    assert_eq!(session.lines("journal.jsonl"), [] as [Value; 0]);
    assert_eq!(
        handed.envelope["result"]["launches"],
        json!({"launched": 1, "refused": {}})
    );
    let result = fs::read(session.record(1).join("fanout/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(result["workerResultRefs"][0]["status"], "cancelled");
}

#[test]
fn a_cancelled_step_closes_its_brackets_and_ends_by_the_signal() {
    let step = "child = launch(child_id(HOST['ids'][0]))\n\
        child.stdout.readline()\n\
        child.wait()\n";
    let session = Session::new(1, step, FOREVER);
    let started = session.start(&[]);
    let record = session.record(1);
    // The child is under way once its bracket is open.
    let above = session.path("session/runs/run-7/step/r1");
    wait_for_dir(&session.place.workspace, &above);
    wait_for(&above, "attempt-1");
    wait_for_line(&record, "events.jsonl");
    kill(
        Pid::from_raw(started.id().try_into().unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let output = started.wait_with_output().unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(
        output.status.signal(),
        Some(Signal::SIGINT as i32),
        "{output:?}"
    );
    let handed = Handed::of(&Ran::of(output), &session);
    assert_eq!(handed.error(), "step-cancelled");
    let events = session.lines("events.jsonl");
    assert_eq!(
        (events.len(), &events[1]["status"]),
        (2, &json!("cancelled"))
    );
    assert_eq!(session.lines("journal.jsonl"), [] as [Value; 0]);
    session.place.assert_no_process_within(NOT_HUNG);
}

/// Waits for a directory, one name after the other.
fn wait_for_dir(from: &std::path::Path, to: &std::path::Path) {
    let mut at = from.to_owned();
    for name in to.strip_prefix(from).unwrap() {
        wait_for(&at, name.to_str().unwrap());
        at.push(name);
    }
}

/// Waits until a file has something in it.
fn wait_for_line(dir: &std::path::Path, name: &str) {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).unwrap();
    let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE;
    watch.add_watch(dir, flags).unwrap();
    while fs::metadata(dir.join(name)).map_or(0, |found| found.len()) == 0 {
        assert!(
            crate::common::wait_readable(&watch, NOT_HUNG),
            "{name} stayed empty"
        );
        let _ = watch.read_events();
    }
}

#[test]
fn no_trick_with_an_output_gets_into_a_bundle() {
    let tricks = [
        (
            "os.symlink('/etc/passwd', '/outputs/report.json')",
            "output-link",
        ),
        (
            "os.symlink('/etc', '/outputs/d'); open('/outputs/report.json', 'w').close()",
            "output-link",
        ),
        (
            "open('/outputs/one', 'w').close(); os.link('/outputs/one', '/outputs/report.json')",
            "output-hardlink",
        ),
        (
            "open('/outputs/report.json', 'w').truncate(1 << 40)",
            "output-oversized",
        ),
        (
            "open('/outputs/report.json', 'w').truncate(32 << 20)",
            "output-sparse",
        ),
        ("os.mkdir('/outputs/report.json')", "output-not-regular"),
        (
            "open('/outputs/report.json', 'w').close(); open(b'/outputs/a\\xff', 'w').close()",
            "output-odd-name",
        ),
        (
            "open('/outputs/report.json', 'w').close(); open('/outputs/a\\nb', 'w').close()",
            "output-odd-name",
        ),
        ("pass", "output-missing"),
    ];
    let mut session = Session::new(1, "", ECHO);
    session.plan.as_object_mut().unwrap().remove("launch");
    session.plan["outputs"]["allowUndeclared"] = json!(true);
    for (at, (trick, code)) in tricks.iter().enumerate() {
        session.put("in/step.py", format!("import os\n{trick}\n").as_bytes());
        session.write_manifest();
        session.plan["run"]["revision"] = json!(at + 1);
        let handed = session.run();
        assert_eq!(
            (handed.error(), handed.code),
            (*code, Some(1)),
            "{trick}: {handed:?}"
        );
        assert_eq!(
            fs::read_dir(session.path("session/artifacts"))
                .unwrap()
                .count(),
            0
        );
    }
    // The control: without a trick there is a bundle.
    session.put(
        "in/step.py",
        b"open('/outputs/report.json', 'w').write('1')\n",
    );
    session.write_manifest();
    session.plan["run"]["revision"] = json!(99);
    session.run().assert_success();
}

#[test]
fn a_bundle_is_kept_as_it_is() {
    let session = Session::new(1, "report('a sk-abcdefghijklmnopqrstuvwx b')\n", ECHO);
    let handed = session.run();
    handed.assert_success();
    assert_eq!(
        handed.output(&session, "report.json"),
        "a [REDACTED:openai-api-key] b"
    );
    let bundle = &handed.envelope["artifactBundle"];
    let (id, path) = (
        bundle["id"].as_str().unwrap(),
        bundle["path"].as_str().unwrap(),
    );
    let kept = session.path("session").join(path);
    let copy = session.path("copy");
    for from in walk(&kept) {
        let to = copy.join(from.strip_prefix(&kept).unwrap());
        if from.is_dir() {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        }
    }
    let again = Handed::of(
        &session.bundle(&["import", "copy", "--session", "job-1"]),
        &session,
    );
    assert_eq!(again.envelope["status"], "existing");
    assert_eq!(&again.envelope["artifactBundle"], bundle);
    session.put("envelope.json", handed.envelope.to_string().as_bytes());
    for named in [id, "envelope.json"] {
        let again = Handed::of(&session.bundle(&["reimport", named]), &session);
        assert_eq!(again.envelope["status"], "existing");
        assert_eq!(&again.envelope["artifactBundle"], bundle);
    }
    assert_eq!(session.bundle(&["show", id]).json()["id"], id);

    fs::write(kept.join("outputs/report.json"), b"\"b\"").unwrap();
    for args in [["import", "copy"], ["reimport", id]] {
        let damaged = Handed::of(&session.bundle(&args), &session);
        assert_eq!(
            (damaged.error(), damaged.code),
            ("artifact-stored-damaged", Some(1))
        );
    }
    assert_eq!(
        fs::read(kept.join("outputs/report.json")).unwrap(),
        b"\"b\"",
        "it was repaired"
    );
    let before = walk(&session.path("session"));
    let miss = Handed::of(
        &session.bundle(&["reimport", "artifact-bundle-sha256-0"]),
        &session,
    );
    assert_eq!((miss.error(), miss.code), ("artifact-not-stored", Some(1)));
    assert_eq!(walk(&session.path("session")), before);
}

#[test]
fn a_report_is_retrieved_whatever_it_says_and_changes_nothing() {
    let session = Session::new(1, "report(0)\n", ECHO);
    let check = |flags: &[&str]| Ran::of(session.handoff("check", flags).output().unwrap());
    let first = check(&["--require-ready"]);
    assert_eq!(
        (first.code, &first.json()["status"]),
        (Some(0), &json!("READY"))
    );
    let digest = first.json()["contextDigest"].as_str().unwrap().to_owned();
    session.put("in/step.py", b"changed");
    let before = walk(&session.place.workspace);
    let blocked = check(&[]);
    assert_eq!(walk(&session.place.workspace), before);
    assert_eq!(
        (blocked.code, &blocked.json()["status"]),
        (Some(0), &json!("BLOCKED"))
    );
    assert_eq!(blocked.json()["contextDigest"], digest.as_str());
    assert_eq!(blocked.json()["authorized"], false);
    assert_eq!(check(&["--require-ready"]).code, Some(3));
    assert_eq!(check(&["--context", "x"]).code, Some(2));
    let handed = session.run();
    assert_eq!(handed.error(), "handoff-blocked");
    assert!(!session.path("session/runs").exists());
    fs::remove_file(session.path("plan.json")).unwrap();
    let gone = Ran::of(
        session
            .place
            .command(["handoff", "check", "plan.json"])
            .output()
            .unwrap(),
    );
    assert_eq!(
        (gone.code, &gone.json()["error"]["code"]),
        (Some(1), &json!("handoff-file"))
    );
}

#[test]
fn the_example_runs() {
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/handoff");
    let session = Session::new(1, "", "");
    for from in walk(&example).into_iter().filter(|path| path.is_file()) {
        let name = from.strip_prefix(&example).unwrap().to_str().unwrap();
        session.put(&format!("example/{name}"), &fs::read(&from).unwrap());
    }
    let args = ["handoff", "run", "example/plan.json", "--root", "session"];
    let handed = Handed::of(
        &Ran::of(session.place.command(args).output().unwrap()),
        &session,
    );
    handed.assert_success();
    let readme = include_str!("../../README.md");
    let bundle = handed.envelope["artifactBundle"]["path"].as_str().unwrap();
    for shown in [
        "runsc-driver handoff run examples/handoff/plan.json",
        bundle,
    ] {
        assert!(readme.contains(shown), "the README does not show {shown}");
    }
    let report = handed.output(&session, "report.json");
    let words: Vec<_> = report["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["report"]["words"].as_u64())
        .collect();
    assert_eq!(words, [Some(4), Some(4), Some(8), None]);
    assert_eq!(
        report["calls"][3]["error"],
        "the launch ceiling was reached"
    );
    let args = ["handoff", "progress", "example-1", "--root", "session"];
    let snapshot = Ran::of(session.place.command(args).output().unwrap()).json();
    assert_eq!(
        (
            &snapshot["counts"]["completed"],
            &snapshot["counts"]["skipped"]
        ),
        (&json!(3), &json!(1))
    );
    session.place.assert_no_process_within(Duration::ZERO);
}
