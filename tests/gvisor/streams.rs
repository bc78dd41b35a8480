//! What goes in and what comes out.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use base64::Engine as _;
use serde_json::json;

use crate::common::{Place, Ran};

#[test]
fn standard_input_passes_and_ends() {
    let place = Place::new();
    let mut child = place
        .command([
            "run",
            "--no-cfc",
            "--",
            "sh",
            "-c",
            "read x; echo got $x; cat | wc -c",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        stdin.write_all(b"line\n").unwrap();
        stdin.write_all(&vec![b'x'; 3_000_000]).unwrap();
    });
    Ran::of(child.wait_with_output().unwrap()).assert(0, "got line\n3000000\n", "");
    feeder.join().unwrap();
    place.run(&["cat"]).assert(0, "", "");
    place
        .run_with(&["--stdin", "null"], &["wc", "-c"])
        .assert(0, "0\n", "");
    place.assert_gone();
}

#[test]
fn a_command_that_reads_nothing_ends_though_its_input_stays_open() {
    let place = Place::new();
    let mut child = place
        .command(["run", "--no-cfc", "--", "echo", "done"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let held = child.stdin.take();
    Ran::of(child.wait_with_output().unwrap()).assert(0, "done\n", "");
    drop(held);
    place.assert_gone();
}

#[test]
fn output_passes_while_the_command_runs() {
    let place = Place::new();
    let mut child = place
        .command([
            "run",
            "--no-cfc",
            "--",
            "sh",
            "-c",
            "echo first; read x; echo second",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(
        (rest.as_str(), child.wait().unwrap().code()),
        ("second\n", Some(0))
    );
    place.assert_gone();
}

#[test]
fn a_reader_that_goes_away_ends_the_writer() {
    let place = Place::new();
    let mut child = place
        .command(["run", "--no-cfc", "--", "yes"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    // It is gone at all: `yes` would write for ever.
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(line, "y\n");
    assert!(matches!(ran.code, Some(1 | 141)), "{ran:?}");
    place.assert_gone();
}

#[test]
fn bytes_that_are_not_text_survive() {
    let place = Place::new();
    let script = r"printf 'a\377\000b'";
    assert_eq!(place.run(&["sh", "-c", script]).stdout, b"a\xff\0b");
    let json = place.run_with(&["--json"], &["sh", "-c", script]).json();
    let data = json["stdout"]["data"].as_str().unwrap();
    assert_eq!(json["stdout"]["encoding"], "base64");
    assert_eq!(
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap(),
        b"a\xff\0b"
    );
}

#[test]
fn a_flood_is_counted_and_costs_no_memory() {
    let place = Place::new();
    let ran = place.run_with(&["--json"], &["head", "-c", "300000000", "/dev/zero"]);
    let json = ran.json();
    assert_eq!(json["stdout"]["bytes"], 300_000_000);
    assert_eq!(json["stdout"]["truncated"], true);
    let length = |part: &str| {
        let data = json["stdout"][part].as_str().unwrap();
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap()
            .len()
    };
    assert_eq!((length("data"), length("tail")), (8 << 20, 8 << 20));
    // The largest of the driver and what it awaited, in KiB.
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN);
    let peak = usage.unwrap().max_rss();
    assert!(peak < 64 * 1024, "{peak} KiB");
    place.assert_gone();
}

#[test]
fn a_limit_keeps_head_and_tail() {
    let place = Place::new();
    let json = place
        .run_with(
            &["--json", "--output-limit", "8"],
            &["printf", "abcdefghijklmnop"],
        )
        .json();
    assert_eq!(
        json["stdout"],
        json!({
            "bytes": 16, "truncated": true, "open": false, "encoding": "utf-8",
            "data": "abcd", "tail": "mnop"
        })
    );
}

#[test]
fn json_is_one_object_that_fits_its_schema() {
    let place = Place::new();
    let schema: serde_json::Value =
        serde_json::from_slice(include_bytes!("../../bundles/schemas/run-v1.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let cases: [(&[&str], &[&str]); 5] = [
        (&["--json"], &["sh", "-c", "echo out; exit 3"]),
        (
            &["--json", "--output-limit", "4"],
            &["printf", "abcdefghij"],
        ),
        (&["--json", "--timeout", "300ms"], &["sleep", "9"]),
        (&["--json"], &["nosuch"]),
        (&["--json", "--cwd", "/etc"], &["true"]),
    ];
    for (flags, argv) in cases {
        let json = place.run_with(flags, argv).json();
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|err| err.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{json:#}");
    }
    place.assert_gone();
}

#[test]
fn arguments_and_variables_pass_whole() {
    let place = Place::new();
    let argv = ["printf", "%s|", "a b", "ü\"'\\", "", "--", "-c"];
    place.run(&argv).assert(0, "a b|ü\"'\\||--|-c|", "");
    place
        .run_with(
            &["--env", "A=1 2", "--env", "B=x=y", "--env", "TERM=dumb"],
            // runsc hands them over in no fixed order.
            &["sh", "-c", "env | grep -v ^PWD= | sort"],
        )
        .assert(
            0,
            "A=1 2\nB=x=y\nHOME=/root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:\
             /sbin:/bin\nTERM=dumb\n",
            "",
        );
}
