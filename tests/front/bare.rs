//! What the front is to whoever does not ask for labels, and to whoever does.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::common::{NOT_HUNG, pidfd, wait_for, wait_readable};
use crate::lab::{Call, Lab, SECRET, label, put, stock};

fn said(program: &std::path::Path, args: &[&str]) -> (Option<i32>, Vec<u8>, Vec<u8>) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program)
        .arg0("runsc")
        .args(args)
        .output()
        .unwrap();
    (status.code(), stdout, stderr)
}

#[test]
fn without_cfc_it_is_the_stock_runsc() {
    let lab = Lab::new();
    let state = lab.state.to_str().unwrap();
    for args in [
        &["--version"][..],
        &["--root", state, "list", "-format", "json"],
        &["help", "run"],
        &["--no-such-flag"],
        &["--root", state, "state", "nobody"],
    ] {
        assert_eq!(said(&lab.front(), args), said(&stock(), args), "{args:?}");
    }
    // A link to it elsewhere finds what is beside it, and not beside the link.
    let link = lab.dir.path().join("runsc");
    symlink(lab.front(), &link).unwrap();
    assert_eq!(said(&link, &["--version"]), said(&stock(), &["--version"]));
    assert_eq!(lab.registered("live"), Vec::<String>::new());
}

#[test]
fn with_cfc_it_answers_what_a_driver_asks_before_it_runs_anything() {
    let lab = Lab::new();
    let version = said(&stock(), &["--version"]);
    assert_eq!(said(&lab.front(), &["--cfc", "--version"]), version);
    // The stock one does not know the flag: it tells a front from none.
    assert_eq!(said(&stock(), &["--cfc", "--version"]).0, Some(2));
    let (code, out, err) = said(&lab.front(), &["flags"]);
    assert_eq!(code, Some(0));
    let text = String::from_utf8([out, err].concat()).unwrap();
    for flag in ["  -cfc\n", "  -cfc-policy string\n", "  -overlay2 "] {
        assert!(text.contains(flag), "{flag:?}: {text}");
    }
}

#[test]
fn what_leaves_no_process_to_wait_for_is_refused() {
    let lab = Lab::new();
    let policy = lab.policy.to_str().unwrap();
    for command in ["create", "start", "do", "restore", "checkpoint", "boot"] {
        let (code, out, _) = said(
            &lab.front(),
            &["--cfc", "--cfc-policy", policy, command, "x"],
        );
        assert_eq!((code, out), (Some(128), Vec::new()), "{command}");
    }
    let bundle = lab.dir.path().to_str().unwrap();
    for args in [
        &["--cfc", "run", "--bundle", bundle, "c"][..],
        &[
            "--cfc",
            "--cfc-policy",
            "/nonesuch",
            "run",
            "--bundle",
            bundle,
            "c",
        ],
        &[
            "--cfc",
            "--cfc-policy",
            policy,
            "run",
            "--bundle",
            bundle,
            "c",
        ],
        &[
            "--cfc",
            "--cfc-policy",
            policy,
            "run",
            "--detach",
            "--bundle",
            bundle,
            "c",
        ],
        &[
            "--cfc",
            "--cfc-policy",
            policy,
            "run",
            "--cfc-result-fd",
            "77",
            "c",
        ],
        &["--cfc-nonsense", "run", "c"],
    ] {
        assert_eq!(said(&lab.front(), args).0, Some(128), "{args:?}");
    }
}

#[test]
fn statuses_streams_and_signals_pass_through() {
    let lab = Lab::new();
    let work = lab.mount("work");
    for (script, code, status) in [
        ("exit 7", 7, 7 << 8),
        ("exit 128", 128, 128 << 8),
        ("kill -9 $$", 137, 137 << 8),
    ] {
        let ran = lab.sh(&work, script);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let result: serde_json::Value = serde_json::from_slice(&ran.result).unwrap();
        assert_eq!(result["waitStatus"], status);
    }
    let mut call = Call::new("cat; echo err >&2; ls /proc/self/fd", &[(&work, "/work")]);
    call.mode = Some("observe");
    call.stdin = Some("in\n");
    let ran = lab.run(&call);
    // Neither the context nor the result is the container's.
    assert_eq!((&*ran.out, &*ran.err), ("in\n0\n1\n2\n3\n", "err\n"));
    ran.assert_observed();

    // A program that is not there: runsc's own failure, and a result for nobody's use.
    let ran = lab.sh(&work, "exec /nonesuch");
    assert_eq!(ran.code, Some(127));
}

#[test]
fn a_signal_ends_it_as_it_ends_the_stock_one_and_the_labels_are_put_on_first() {
    let lab = Lab::new();
    let work = lab.mount("work");
    put(&work.join("secret"), SECRET);
    label(&work.join("secret"), "finance");
    let script = "cp /work/secret /work/copy; echo >/work/up; while :; do sleep 1; done";
    let started = lab.start(&Call::new(script, &[(&work, "/work")]));
    wait_for(&work, "up");
    started.signal(Signal::SIGTERM);
    let ran = started.finish();
    ran.assert_labelled(&["finance"]);
    assert_eq!(crate::lab::atoms(&work.join("copy")), ["finance"]);
    lab.assert_settled();
}

#[test]
fn its_death_takes_the_stock_runsc_with_it() {
    let lab = Lab::new();
    let work = lab.mount("work");
    let script = "echo >/work/up; while :; do sleep 1; done";
    let mut started = lab.start(&Call::new(script, &[(&work, "/work")]));
    wait_for(&work, "up");
    let place = lab.dir.path().to_str().unwrap();
    let ends: Vec<_> = crate::common::pids()
        .into_iter()
        .filter(|pid| *pid != std::process::id() && *pid != started.child.id())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(place)
        })
        .filter_map(pidfd)
        .collect();
    assert!(ends.len() >= 3, "runsc, its gofer and its sandbox");
    started.kill();
    for end in ends {
        assert!(wait_readable(&end, NOT_HUNG));
    }
}

#[test]
fn without_a_policy_nothing_runs_over_what_is_labelled_or_marked() {
    let lab = Lab::new();
    let work = lab.mount("work");
    fs::create_dir(work.join("deep")).unwrap();
    put(&work.join("deep/secret"), SECRET);
    let mut call = Call::new("cat /work/deep/secret", &[(&work, "/work")]);
    call.cfc = false;
    let ran = lab.run(&call);
    assert_eq!((ran.code, &*ran.out), (Some(0), SECRET));
    assert_eq!(lab.registered("live"), Vec::<String>::new());

    label(&work.join("deep/secret"), "finance");
    let ran = lab.run(&call);
    ran.assert_refused("cfc-labels-without-policy");
    let said = ran.log[0]["msg"].as_str().unwrap();
    for word in [
        "deep/secret",
        "--cfc-policy",
        "--cfc-ignore-labels",
        "leaving",
    ] {
        assert!(said.contains(word), "{said}");
    }
    // The override, which is the control too.
    call.flags = vec!["--cfc-ignore-labels"];
    let ran = lab.run(&call);
    assert_eq!((ran.code, &*ran.out), (Some(0), SECRET));

    // What is no label says that it should be one.
    crate::lab::set(&work.join("deep/secret"), crate::lab::USER, b"?").unwrap();
    call.flags = vec![];
    lab.run(&call).assert_refused("cfc-labels-without-policy");
}

#[test]
fn a_store_without_the_stock_runsc_is_told() {
    let lab = Lab::new();
    fs::remove_file(lab.store.join("bin/runsc-gvisor")).unwrap();
    let (code, _, err) = said(&lab.front(), &["--version"]);
    assert_eq!(code, Some(128));
    assert!(String::from_utf8_lossy(&err).contains("runsc-gvisor"));
    assert!(json!(lab.registered("live")).as_array().unwrap().is_empty());
}
