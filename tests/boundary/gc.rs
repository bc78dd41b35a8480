//! What a killed driver leaves is found by the next start and by `gc`, which say what they did.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::common::{Ran, command_path, wait_for, walk};
use crate::fake::Fake;

/// A sandbox that outlives its runsc and the driver: it is known by its command line.
const SANDBOX: &str = r#"
mkfifo "$here/pipe"
setsid sh -c 'read x <"$0"' "$here/pipe" "--root=$root" boot </dev/null >/dev/null 2>&1 &
echo $! >"$here/survivor"
leave_state "$(cat "$here/survivor")"
up
hold
"#;

/// A driver was killed in the middle of a call, and its sandbox goes on.
struct Killed {
    fake: Fake,
    pid: u32,
    tree: PathBuf,
}

impl Killed {
    fn new() -> Self {
        let fake = Fake::doing("run", SANDBOX);
        let mut driver = fake.command(&[], &["true"]).spawn().unwrap();
        wait_for(&fake.dir, "up");
        let trees = walk(&fake.place.tmp.join("cf-harness-runsc"));
        kill(Pid::from_raw(driver.id().cast_signed()), Signal::SIGKILL).unwrap();
        driver.wait().unwrap();
        assert!(!fake.survivor_ended());
        Self {
            pid: driver.id(),
            tree: trees[0].clone(),
            fake,
        }
    }

    fn survivor(&self) -> u64 {
        self.fake.read("survivor").trim().parse().unwrap()
    }
}

fn gc(fake: &Fake, flags: &[&str]) -> Ran {
    Ran::of(
        fake.place
            .command(["gc"].iter().chain(flags))
            .output()
            .unwrap(),
    )
}

/// What it prints, valid against its schema; the exit status says the same.
#[track_caller]
fn told(ran: &Ran) -> Value {
    let schema: Value =
        serde_json::from_slice(include_bytes!("../../bundles/schemas/gc-v1.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let told = ran.json();
    let wrong: Vec<_> = validator
        .iter_errors(&told)
        .map(|err| err.to_string())
        .collect();
    assert_eq!(wrong, Vec::<String>::new(), "{told:#}");
    assert_eq!(ran.code == Some(0), told["complete"] == true, "{ran:?}");
    assert_eq!(ran.err(), "");
    told
}

#[test]
fn gc_tells_what_it_would_do_and_then_does_it() {
    let killed = Killed::new();
    let before = walk(&killed.fake.place.tmp);
    let dry = told(&gc(&killed.fake, &["--dry-run", "--json"]));
    assert_eq!(walk(&killed.fake.place.tmp), before);
    assert!(!killed.fake.survivor_ended());

    let done = told(&gc(&killed.fake, &["--json"]));
    assert!(killed.fake.survivor_ended());
    for (told, dry, fate) in [(&dry, true, "would-remove"), (&done, false, "removed")] {
        let found = &told["found"][0];
        let owner = &found["owner"];
        let expected = json!({
            "schema": "runsc-driver/gc/v1",
            "version": told["version"],
            "parent": killed.tree.parent(),
            "dryRun": dry,
            "complete": true,
            "code": null,
            "message": null,
            "found": [{
                "path": killed.tree,
                "owner": {
                    "pid": killed.pid,
                    "startTime": owner["startTime"],
                    "bootId": owner["bootId"],
                    "pidNamespace": owner["pidNamespace"],
                },
                "stopped": [killed.survivor()],
                "fate": fate,
                "code": null,
                "reason": null,
            }],
        });
        assert_eq!(*told, expected);
    }
    killed.fake.place.assert_gone();
    let parent = killed.tree.parent().unwrap().display().to_string();
    let nothing = format!("0 removed, 0 left in {parent}\n");
    gc(&killed.fake, &[]).assert(0, &nothing, "");
}

#[test]
fn gc_tells_a_person_line_by_line() {
    let killed = Killed::new();
    let (pid, survivor) = (killed.pid, killed.survivor());
    let (tree, parent) = (
        killed.tree.display(),
        killed.tree.parent().unwrap().display(),
    );
    fs::create_dir(killed.tree.with_file_name("zz")).unwrap();
    fs::write(killed.tree.with_file_name("zz").join("file"), "").unwrap();
    let left = format!(
        "left {parent}/zz: nothing in it says whose it is: remove it by hand where nothing uses it\n"
    );
    let dry = format!(
        "would remove {tree} (pid {pid}): its owner is gone; its processes {survivor} would be \
         stopped\n{left}1 to remove, 1 left in {parent}\n"
    );
    gc(&killed.fake, &["--dry-run"]).assert(0, &dry, "");
    let done = format!(
        "removed {tree} (pid {pid}): its owner is gone; stopped its processes {survivor}\n\
         {left}1 removed, 1 left in {parent}\n"
    );
    gc(&killed.fake, &[]).assert(0, &done, "");
}

#[test]
fn the_next_start_takes_it_away() {
    let killed = Killed::new();
    killed.fake.does("run", "exit 0");
    let next = Ran::of(killed.fake.command(&[], &["true"]).output().unwrap());
    next.assert(0, "", "");
    assert!(killed.fake.survivor_ended());
    killed.fake.place.assert_gone();
}

#[test]
fn a_live_drivers_call_goes_on() {
    let fake = Fake::doing("run", SANDBOX);
    let mut driver = fake.command(&[], &["true"]).spawn().unwrap();
    wait_for(&fake.dir, "up");
    let before = walk(&fake.place.tmp);
    let told = told(&gc(&fake, &["--json"]));
    assert_eq!(told["found"][0]["code"], "in-use");
    assert_eq!(told["found"][0]["owner"]["pid"], driver.id());
    assert_eq!(walk(&fake.place.tmp), before);
    assert!(!fake.survivor_ended());
    assert_eq!(driver.try_wait().unwrap(), None);
    driver.kill().unwrap();
    driver.wait().unwrap();
}

/// What is mounted in a tree is another's, whoever mounted it there.
#[test]
fn what_is_mounted_in_a_tree_keeps_it() {
    let killed = Killed::new();
    let at = killed.tree.join("bundles");
    let script =
        r#"mount -t tmpfs none "$1" && : >"$1/kept" && "$2" gc --json; echo $? "$1"/* >&2"#;
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(&at)
        .arg(command_path())
        .env("TMPDIR", &killed.fake.place.tmp)
        .output()
        .unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.err(), format!("1 {}/kept\n", at.display()), "{ran:?}");
    let told = ran.json();
    assert_eq!(told["complete"], false);
    let found = &told["found"][0];
    assert_eq!(found["code"], "mounted");
    assert_eq!(
        found["reason"],
        format!("something is mounted at {}: unmount it", at.display())
    );
    assert!(!killed.fake.survivor_ended());
}

#[test]
fn a_parent_that_lets_others_in_is_refused() {
    let killed = Killed::new();
    let parent = killed.tree.parent().unwrap();
    fs::set_permissions(parent, PermissionsExt::from_mode(0o755)).unwrap();
    let before = walk(&killed.fake.place.tmp);
    let refused = gc(&killed.fake, &["--json"]);
    assert_eq!(refused.code, Some(125));
    let told = told(&refused);
    assert_eq!(told["code"], "scratch-not-private");
    let said = gc(&killed.fake, &[]);
    said.assert_says(
        125,
        &["the scratch parent ", "which lets others in: remove it"],
    );
    assert_eq!(walk(&killed.fake.place.tmp), before);
    assert!(!killed.fake.survivor_ended());
}
