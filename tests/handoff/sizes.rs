//! Outputs that are large, many, or only look so: bounded time and memory, and the right word.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

use crate::common::{Place, Ran};
use crate::session::Session;

/// The most memory that the command takes, in KiB.
const MEMORY: i64 = 128 * 1024;
/// Far longer than any of it takes.
const NOT_HUNG: Duration = Duration::from_secs(240);

fn create(place: &Place, flags: &[&str]) -> Ran {
    let args = ["bundle", "create", "out", "--root", "session"];
    let started = Instant::now();
    let ran = Ran::of(place.command(args.iter().chain(flags)).output().unwrap());
    assert!(started.elapsed() < NOT_HUNG);
    // Nothing else was started by this process, which runs one test.
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    assert!(used < MEMORY, "{used} KiB");
    ran
}

fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.workspace.join("out")).unwrap();
    place
}

fn error(ran: &Ran) -> Value {
    ran.json()["error"]["code"].clone()
}

fn allocated(place: &Place, name: &str, bytes: i64) {
    let file = File::create(place.workspace.join("out").join(name)).unwrap();
    let flags = nix::fcntl::FallocateFlags::empty();
    nix::fcntl::fallocate(&file, flags, 0, bytes).unwrap();
}

#[test]
fn two_gibibytes_are_too_much_unless_they_are_asked_for() {
    let place = place();
    allocated(&place, "large", 2 << 30);
    let ran = create(&place, &["--path", "large"]);
    assert_eq!(error(&ran), "output-oversized");
    let ran = create(&place, &["--path", "large", "--max-output", "3GiB"]);
    assert_eq!((ran.code, error(&ran)), (Some(0), Value::Null), "{ran:?}");
    assert_eq!(
        ran.json()["result"]["files"][0]["bytes"],
        json!(2_u64 << 30)
    );
}

#[test]
fn a_tebibyte_of_holes_is_told_at_once() {
    let place = place();
    let file = File::create(place.workspace.join("out/holes")).unwrap();
    file.set_len(1 << 40).unwrap();
    for (flags, code) in [
        (vec!["--path", "holes"], "output-oversized"),
        (
            vec!["--path", "holes", "--max-output", "2TiB"],
            "output-sparse",
        ),
        (vec!["--all", "--max-output", "2TiB"], "output-sparse"),
    ] {
        assert_eq!(error(&create(&place, &flags)), code);
    }
}

#[test]
fn ten_thousand_files_are_too_many() {
    let place = place();
    for at in 0..10_000 {
        fs::write(place.workspace.join(format!("out/{at}")), b"x").unwrap();
    }
    assert_eq!(error(&create(&place, &["--all"])), "output-too-many-files");
    // Those that are declared are taken, and the others told of.
    let ran = create(&place, &["--path", "77"]);
    assert_eq!((ran.code, error(&ran)), (Some(0), Value::Null));
    let told = ran.json()["diagnostics"].as_array().unwrap().len();
    assert_eq!(told, 101);
}

#[test]
fn a_pipe_keeps_nobody_waiting() {
    let place = place();
    let pipe = place.workspace.join("out/pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(
        error(&create(&place, &["--path", "pipe"])),
        "output-not-regular"
    );
    assert_eq!(error(&create(&place, &["--all"])), "output-not-regular");
}

#[test]
fn a_step_in_gvisor_meets_the_same_bounds() {
    let tricks = [
        (
            "block = b'x' * (1 << 20)\n\
             with open('/outputs/report.json', 'wb') as out:\n\
             \x20   for _ in range(2048):\n\
             \x20       out.write(block)\n",
            "output-oversized",
        ),
        (
            "open('/outputs/report.json', 'w').close()\n\
             for at in range(10000):\n\
             \x20   open('/outputs/%d' % at, 'w').close()\n",
            "output-too-many-files",
        ),
        (
            "open('/outputs/report.json', 'w').truncate(1 << 40)\n",
            "output-oversized",
        ),
    ];
    let mut session = Session::new(1, "", "");
    session.plan.as_object_mut().unwrap().remove("launch");
    session.plan["outputs"]["allowUndeclared"] = json!(true);
    for (at, (trick, code)) in tricks.iter().enumerate() {
        session.put("in/step.py", trick.as_bytes());
        session.write_manifest();
        session.plan["run"]["revision"] = json!(at + 1);
        let started = Instant::now();
        let handed = session.run();
        assert_eq!(handed.error(), *code, "{handed:?}");
        assert!(started.elapsed() < NOT_HUNG);
    }
}

/// As a full disk does, a limit on files fails the writing of a copy, whose source is not to blame.
#[test]
fn a_copy_that_cannot_be_written_is_no_fault_of_the_output() {
    let place = place();
    for (name, bytes) in [("text", vec![b'a'; 1 << 20]), ("binary", vec![0; 1 << 20])] {
        fs::write(place.workspace.join("out").join(name), bytes).unwrap();
        let whole = place.command([
            "bundle", "create", "out", "--root", "session", "--path", name,
        ]);
        let mut limited = std::process::Command::new("sh");
        limited
            .args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"])
            .arg(whole.get_program())
            .args(whole.get_args())
            .current_dir(&place.workspace);
        let ran = Ran::of(limited.output().unwrap());
        assert_eq!(error(&ran), "bundle-file", "{name}: {}", ran.out());
        ran.assert_says(1, &["could not write", "[bundle-file]"]);
        let left = crate::common::walk(&place.workspace.join("session"));
        assert!(
            left.iter()
                .all(|path| !path.to_string_lossy().contains("incoming")),
            "{left:?}"
        );
        // The control: it is the limit's doing.
        assert_eq!(error(&create(&place, &["--path", name])), Value::Null);
    }
}
