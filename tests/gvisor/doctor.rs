//! The doctor on a real machine: each thing that is broken changes exactly the checks that it has
//! to. What is there besides (pasta or not, a slow process 1) is the same before and after.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Place, Ran, command_path, is_root, store, walk};

type States = BTreeMap<String, String>;

/// A place with a home of its own, whose store leads to the real pieces, and a policy.
struct Home {
    place: Place,
    home: PathBuf,
    store: PathBuf,
}

impl Home {
    fn new() -> Self {
        let place = Place::new();
        let home = place.dir.path().join("home");
        let own = home.join(".local/share/runsc-cfc");
        fs::create_dir_all(own.join("bin")).unwrap();
        fs::create_dir_all(own.join("images")).unwrap();
        symlink(store().join("bin/runsc"), own.join("bin/runsc")).unwrap();
        let image = "images/kitchensink";
        symlink(store().join(image), own.join(image)).unwrap();
        let made = Self {
            place,
            home,
            store: own,
        };
        made.put_policy("{}");
        made
    }

    fn put_policy(&self, text: &str) {
        let path = self.store.join("cfc-policy.json");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn doctor(&self, args: &[&str]) -> Command {
        let args = ["doctor", "--json"].iter().chain(args);
        let mut command = self.place.command(args);
        command.env("HOME", &self.home);
        command
    }

    fn ask(&self) -> Value {
        told(self.doctor(&[]))
    }
}

/// What it tells, valid against its schema; the exit status says the same.
#[track_caller]
fn told(mut command: Command) -> Value {
    let ran = Ran::of(command.output().unwrap());
    let told = ran.json();
    assert_valid("doctor", &told);
    let code = i32::from(told["ok"] != true);
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert_eq!(ran.err(), "", "{told:#}");
    told
}

#[track_caller]
fn assert_valid(what: &str, told: &Value) {
    let schema = match what {
        "doctor" => include_str!("../../bundles/schemas/doctor-v1.schema.json"),
        _ => include_str!("../../bundles/schemas/capabilities-v1.schema.json"),
    };
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<_> = validator
        .iter_errors(told)
        .map(|err| err.to_string())
        .collect();
    assert_eq!(wrong, Vec::<String>::new(), "{told:#}");
}

/// Every check's state. Only what other work on this machine may change meanwhile is left out.
fn states(told: &Value) -> States {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = told["checks"].as_array().unwrap().iter();
    let all = checks.map(|check| (text(&check["name"]), text(&check["state"])));
    all.filter(|(name, _)| !["memory", "reaper"].contains(&name.as_str()))
        .collect()
}

fn state(told: &Value, name: &str) -> String {
    states(told).remove(name).unwrap()
}

/// Exactly these checks came to other states.
#[track_caller]
fn assert_changes(before: &Value, after: &Value, expected: &[(&str, &str)]) {
    let was = states(before);
    let is = states(after);
    assert!(was.keys().eq(is.keys()), "another set of checks");
    let mut changed = is;
    changed.retain(|name, state| was[name] != *state);
    let expected = expected.iter().copied();
    let expected: States = expected
        .map(|(name, state)| (name.into(), state.into()))
        .collect();
    assert_eq!(changed, expected, "{after:#}");
}

/// The problems that these checks tell.
fn problems(told: &Value) -> BTreeMap<String, String> {
    let problems = told["problems"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let whole = |problem: &Value| {
        let (headline, fix) = (text(&problem["headline"]), text(&problem["fix"]));
        (text(&problem["check"]), format!("{headline} / {fix}"))
    };
    problems.map(whole).collect()
}

fn on_path(name: &str) -> bool {
    runsc_driver::selection::find_program(name, &runsc_driver::Host::read()).is_some()
}

/// The default's selection before something is broken: pass, unless pasta or another of its
/// programs is missing here.
fn selection_passes() -> bool {
    let programs = ["pasta", "setpriv", "unshare"];
    programs.iter().all(|name| on_path(name))
}

/// What changes where the default's selection comes to be refused.
fn and_selection(expected: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let selection = selection_passes().then_some(("selection", "fail"));
    expected.iter().copied().chain(selection).collect()
}

#[test]
fn it_says_in_time_that_a_run_works_and_what_the_default_lacks() {
    let home = Home::new();
    let started = Instant::now();
    let told = home.ask();
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "it took {took:?}");

    let run = &told["run"];
    assert_eq!(run["worked"], true, "{told:#}");
    assert_eq!(run["exitCode"], 0);
    assert!(run["elapsedMs"].as_f64().unwrap() > 1.0);
    // What this machine may lack for the default network.
    let of_pasta = ["pasta", "tun", "setpriv", "unshare", "selection", "network"];
    for (name, state) in states(&told) {
        if !of_pasta.contains(&&*name) {
            assert_ne!(state, "fail", "{name}: {told:#}");
        }
    }
    let checks = told["checks"].as_array().unwrap();
    let kind = checks.iter().find(|check| check["name"] == "runsc-cfc");
    let kind = kind.unwrap()["value"].as_str().unwrap();
    assert!(kind.starts_with("runsc-cfc before a stock runsc"), "{kind}");
    let networked = state(&told, "network") != "fail";
    assert_eq!(told["ok"], networked && state(&told, "selection") == "pass");
    assert_eq!(run["network"], if networked { "sandbox" } else { "none" });
    home.place.assert_gone();
}

#[test]
fn a_store_moved_away_is_one_problem_with_all_pieces_and_the_fix() {
    let home = Home::new();
    let before = home.ask();
    fs::rename(&home.store, home.home.join("away")).unwrap();
    let after = home.ask();
    let expected = and_selection(&[
        ("runsc", "fail"),
        ("runsc-version", "info"),
        ("runsc-platforms", "info"),
        ("runsc-flags", "info"),
        ("runsc-cfc", "info"),
        ("control-socket", "info"),
        ("store", "fail"),
        ("store-runsc", "fail"),
        ("store-image", "fail"),
        ("store-policy", "fail"),
        ("policy", "fail"),
        ("image-owner", "info"),
        ("image-mount-points", "info"),
        ("run", "fail"),
        ("session-calls", "info"),
    ]);
    assert_changes(&before, &after, &expected);
    assert_eq!(after["run"], Value::Null);

    let problems = problems(&after);
    let missing: Vec<_> = problems
        .iter()
        .filter(|(_, text)| text.contains(&*home.store.to_string_lossy()))
        .map(|(check, _)| check.as_str())
        .collect();
    assert_eq!(missing, ["store"], "{problems:#?}");
    let words = [
        "bin/runsc is missing; images/kitchensink is missing; a CFC policy is missing",
        "set it up there with gVisor's Linux installer",
    ];
    for word in words {
        assert!(problems["store"].contains(word), "{problems:#?}");
    }
    home.place.assert_gone();
}

#[test]
fn no_user_namespaces_at_all() {
    // In a user namespace of the test's own, whose limit is its own too.
    let within = |home: &Home, script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c"])
            .arg(format!("{script}; exec \"$@\""))
            .arg("sh")
            .arg(command_path())
            .args(["doctor", "--json"])
            .env("HOME", &home.home)
            .env("TMPDIR", &home.place.tmp)
            .current_dir(&home.place.workspace);
        for name in runsc_driver::host::VARIABLES {
            command.env_remove(name);
        }
        told(command)
    };
    let home = Home::new();
    // In a user namespace root sees no label, and takes what it cannot see for labelled: so without.
    home.put_policy("{ not JSON");
    let host_limit = fs::read("/proc/sys/user/max_user_namespaces").unwrap();
    let before = within(&home, ":");
    assert_eq!(state(&before, "run"), "pass", "{before:#}");
    let after = within(&home, "echo 0 > /proc/sys/user/max_user_namespaces");
    let session_calls = if is_root() { "warn" } else { "info" };
    let broken = [
        ("max-user-namespaces", "fail"),
        ("user-namespaces", "fail"),
        ("session-calls", session_calls),
    ];
    let networked = before["run"]["network"] == "sandbox";
    // Root selects its runsc, which then fails, but for one on a network that is its host's: that
    // one makes no user namespace. Nobody else's network can be made either.
    let expected = match (is_root(), networked) {
        (true, true) => broken.to_vec(),
        (true, false) => [&broken[..], &[("run", "fail")]].concat(),
        (false, false) => and_selection(&[&broken[..], &[("run", "fail")]].concat()),
        (false, true) => {
            and_selection(&[&broken[..], &[("run", "fail"), ("network", "fail")]].concat())
        }
    };
    assert_changes(&before, &after, &expected);
    let problems = problems(&after);
    let limit = &problems["max-user-namespaces"];
    assert!(
        limit.contains("sysctl -w user.max_user_namespaces=15000"),
        "{problems:#?}"
    );
    for covered in ["user-namespaces", "run", "network", "session-calls"] {
        if before["run"]["network"] == "sandbox" && is_root() && covered == "network" {
            continue; // It works, as it did.
        }
        assert!(!problems.contains_key(covered), "{problems:#?}");
    }
    let limit = fs::read("/proc/sys/user/max_user_namespaces").unwrap();
    assert_eq!(limit, host_limit, "the host's own limit changed");
}

#[test]
fn an_invalid_policy_is_told_by_the_policy_alone() {
    let home = Home::new();
    let before = home.ask();
    home.put_policy("{ not JSON");
    let after = home.ask();
    assert_changes(&before, &after, &[("policy", "fail")]);
    assert!(problems(&after)["policy"].contains("is no JSON"));
    home.put_policy("[]");
    let after = home.ask();
    assert_changes(&before, &after, &[("policy", "fail")]);
    assert!(problems(&after)["policy"].contains("no object"));
}

#[test]
fn an_unreadable_policy_refuses_the_default_and_not_the_run_without() {
    // Root reads what nobody may: for it, a loop of links stands in.
    let home = Home::new();
    let before = home.ask();
    let policy = home.store.join("cfc-policy.json");
    if is_root() {
        fs::remove_file(&policy).unwrap();
        symlink("cfc-policy.json", &policy).unwrap();
    } else {
        fs::set_permissions(&policy, Permissions::from_mode(0o000)).unwrap();
    }
    let after = home.ask();
    let expected = and_selection(&[("policy", "fail")]);
    assert_changes(&before, &after, &expected);
    assert!(problems(&after)["policy"].contains("could not be read"));
    assert!(!problems(&after).contains_key("selection"));
}

#[test]
fn a_directory_as_runsc() {
    let home = Home::new();
    let before = home.ask();
    let runsc = home.store.join("bin/runsc");
    fs::remove_file(&runsc).unwrap();
    fs::create_dir(&runsc).unwrap();
    let after = home.ask();
    let expected = and_selection(&[
        ("runsc", "fail"),
        ("runsc-version", "info"),
        ("runsc-platforms", "info"),
        ("runsc-flags", "info"),
        ("runsc-cfc", "info"),
        ("control-socket", "info"),
        ("store", "fail"),
        ("store-runsc", "fail"),
        ("run", "fail"),
        ("session-calls", "info"),
    ]);
    assert_changes(&before, &after, &expected);
    let problems = problems(&after);
    assert!(problems["store"].contains("bin/runsc is not an executable file"));
    assert!(!problems.contains_key("runsc") && !problems.contains_key("run"));
}

#[test]
fn a_runsc_that_hangs_or_fails_is_bounded() {
    let home = Home::new();
    let before = home.ask();
    let runsc = home.store.join("bin/runsc");
    fs::remove_file(&runsc).unwrap();
    let mut script = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&runsc)
        .unwrap();
    script.write_all(b"#!/bin/sh\nexec sleep 100\n").unwrap();
    drop(script);
    let started = Instant::now();
    let after = home.ask();
    assert!(started.elapsed() < Duration::from_secs(10));
    let expected = [
        ("runsc-version", "fail"),
        ("runsc-platforms", "info"),
        ("runsc-flags", "info"),
        ("runsc-cfc", "info"),
        ("control-socket", "info"),
        ("run", "fail"),
        ("session-calls", "warn"),
    ];
    assert_changes(&before, &after, &expected);
    assert!(problems(&after)["runsc-version"].contains("did not answer within 3 s"));
    home.place.assert_no_process_within(Duration::from_secs(2));
}

#[test]
fn no_pasta_on_the_path() {
    // A PATH with everything but pasta, and one with a pasta of our own.
    let home = Home::new();
    let bin = home.place.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["true", "sh", "setpriv", "unshare", "nft"] {
        let found = runsc_driver::selection::find_program(name, &runsc_driver::Host::read());
        if let Some(found) = found {
            symlink(found, bin.join(name)).unwrap();
        }
    }
    let ask = || {
        let mut command = home.doctor(&[]);
        command.env("PATH", &bin);
        told(command)
    };
    let pasta = bin.join("pasta");
    let mut script = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&pasta)
        .unwrap();
    let text = b"#!/bin/sh\necho 'pasta 0.0~git20250503.587980c-2'\n";
    script.write_all(text).unwrap();
    drop(script);
    let before = ask();
    assert_eq!(state(&before, "pasta"), "pass", "{before:#}");
    assert_eq!(state(&before, "pasta-proc"), "pass");
    fs::remove_file(&pasta).unwrap();
    let after = ask();
    let selection = state(&before, "selection") == "pass";
    let selection = selection.then_some(("selection", "fail"));
    let expected: Vec<_> = [("pasta", "fail"), ("pasta-proc", "info")]
        .into_iter()
        .chain(selection)
        .collect();
    assert_changes(&before, &after, &expected);
    let problems = problems(&after);
    assert!(
        problems["pasta"].contains("install passt, or take a network"),
        "{problems:#?}"
    );
    assert!(!problems.contains_key("selection"));
}

#[test]
fn a_world_writable_scratch_parent() {
    let home = Home::new();
    let parent = home.place.tmp.join("cf-harness-runsc");
    DirBuilder::new().mode(0o700).create(&parent).unwrap();
    let before = home.ask();
    assert_eq!(state(&before, "run"), "pass", "{before:#}");
    fs::set_permissions(&parent, Permissions::from_mode(0o777)).unwrap();
    let after = home.ask();
    let expected = [
        ("control-socket", "fail"),
        ("scratch", "fail"),
        ("run", "fail"),
        ("session-calls", "warn"),
    ];
    assert_changes(&before, &after, &expected);
    let problems = problems(&after);
    assert!(problems["scratch"].contains("mode 0777"), "{problems:#?}");
    assert!(!problems.contains_key("run") && !problems.contains_key("control-socket"));
    // What it could not use it left as it was.
    assert_eq!(walk(&home.place.tmp), [parent]);
}

#[test]
fn no_probe_starts_nothing_and_writes_nothing() {
    let home = Home::new();
    let told = told(home.doctor(&["--no-probe"]));
    assert_eq!(told["run"], Value::Null);
    for name in [
        "run",
        "session-calls",
        "user-namespaces",
        "runsc-version",
        "runsc-flags",
    ] {
        assert_eq!(state(&told, name), "info", "{name}");
    }
    assert_eq!(walk(&home.place.tmp), Vec::<PathBuf>::new());
}

#[test]
fn only_the_named_checks_are_told_and_decide() {
    let home = Home::new();
    let told = told(home.doctor(&["--only", "run", "--only", "kernel"]));
    let states = states(&told);
    assert_eq!(states.into_keys().collect::<Vec<_>>(), ["kernel", "run"]);
    assert_eq!(told["ok"], true, "{told:#}");
    assert_eq!(told["run"]["worked"], true);
    let usage = Ran::of(home.doctor(&["--only", "nosuch"]).output().unwrap());
    usage.assert_says(2, &["nosuch", "user-namespaces"]);
    home.place.assert_gone();
}

#[test]
fn a_person_gets_text_without_colours_in_a_pipe() {
    let home = Home::new();
    let mut command = home.place.command(["doctor"]);
    let ran = Ran::of(command.env("HOME", &home.home).output().unwrap());
    let text = ran.out();
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.starts_with("machine\n  pass  platform "), "{text}");
    let last = text.lines().last().unwrap();
    // By whether this machine has the default network.
    let says = match ran.code {
        Some(0) => "the default run works here",
        _ => "the default run does not work here",
    };
    assert!(last.starts_with(says), "{text}");
}

#[test]
fn capabilities_are_described_without_looking_at_anything() {
    let place = Place::new();
    let mut command = place.command(["--describe-capabilities"]);
    command.env("HOME", "/nonexistent").env("PATH", "");
    let ran = Ran::of(command.output().unwrap());
    let told = ran.json();
    assert_valid("capabilities", &told);
    assert_eq!((ran.code, ran.err()), (Some(0), String::new()));
    assert_eq!(walk(&place.tmp), Vec::<PathBuf>::new());
    let flags = told["verbs"]["run"]["flags"].as_array().unwrap().iter();
    let flags: Vec<_> = flags.map(|flag| flag["name"].as_str().unwrap()).collect();
    // Each is one that the verb knows: it does not come to be called unexpected.
    for flag in ["--sandbox-runtime", "--sandbox-rootfs"] {
        assert!(flags.contains(&flag), "{flags:?}");
    }
    let verb = place
        .command(["--describe-capabilities", "doctor"])
        .output();
    Ran::of(verb.unwrap()).assert_says(2, &["--describe-capabilities"]);
}
