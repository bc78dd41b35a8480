//! A harness that is killed at any moment leaves no process, and no file that the next start or `gc`
//! does not take away.
//!
//! The harness is this binary, executed again. It says in which phase it is, so that the moments are
//! spread over all of them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::config::{NetworkLayout, Pool};
use runsc_driver::direct::DirectDriver;
use runsc_driver::{Call, Driver, Host};

use crate::common::{NOT_HUNG, Place, Ran, pidfd, wait_readable, walk};
use crate::library::{made_on, sh};
use crate::network::on_network;

const MOMENTS: u64 = 50;
/// The variable that tells the harness what to do.
const KIND: &str = "RUNSC_DRIVER_TEST_HARNESS";
/// The variable that makes a run of the test again.
const SEED: &str = "RUNSC_DRIVER_TEST_SEED";
const POOL: Pool = Pool {
    size: 2,
    idle_timeout: NOT_HUNG,
};
/// How long the processes of a killed harness may take to be gone.
const GONE: Duration = Duration::from_secs(2);
/// The phases, and how long after its beginning one is killed at the latest.
const PHASES: [(&str, u64); 4] = [
    ("starting", 400),
    ("running", 60),
    ("in a call", 120),
    ("closing", 40),
];

#[test]
fn one_shot_calls_leave_nothing() {
    killed("one-shot");
}

#[test]
fn sessions_leave_nothing() {
    killed("session");
}

#[test]
fn a_pool_leaves_nothing() {
    killed("pool");
}

#[test]
fn one_shot_calls_on_the_network_leave_nothing() {
    killed("one-shot-networked");
}

#[test]
fn one_shot_calls_with_pasta_around_them_leave_nothing() {
    killed("one-shot-wrapped");
}

#[test]
fn sessions_on_the_network_leave_nothing() {
    killed("session-networked");
}

/// What the tests kill.
#[test]
#[ignore = "it never ends: the tests beside it execute it and kill it"]
fn harness() {
    let kind = std::env::var(KIND).unwrap();
    let (kind, layout) = match kind.rsplit_once('-') {
        Some((kind, "networked")) => (kind, Some(NetworkLayout::Holder)),
        Some((kind, "wrapped")) => (kind, Some(NetworkLayout::Wrap)),
        _ => (kind.as_str(), None),
    };
    let session = (kind == "session").then(|| "s".to_owned());
    let workspace = std::env::current_dir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    loop {
        let driver = Arc::new(made_on(Host::read(), &workspace, |options| {
            options.pool = (kind == "pool").then_some(POOL);
            if let Some(layout) = layout {
                on_network(options, layout);
                options.session_egress = true;
            }
        }));
        runtime.block_on(live(driver, session.as_deref()));
    }
}

/// A driver's life, phase by phase.
async fn live(driver: Arc<DirectDriver>, session: Option<&str>) {
    let call = |script: &str| {
        let mut call = sh(script);
        call.session = session.map(str::to_owned);
        call
    };
    let begin = |call: Call| {
        let driver = Arc::clone(&driver);
        tokio::spawn(async move { driver.run(call).await })
    };
    say("starting");
    driver.prepare().await.unwrap();
    let long = begin(call("sleep 100"));
    driver.run(call("true")).await.unwrap();
    say("running");
    driver.run(call("echo a >/tmp/a")).await.unwrap();
    say("in a call");
    let both = [
        begin(call("sleep 0.1")),
        begin(call("setsid sleep 50 & sleep 0.1")),
    ];
    for one in both {
        one.await.unwrap().unwrap();
    }
    say("closing");
    driver.close().await;
    let _ = long.await;
}

fn say(phase: &str) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\nphase {phase}").unwrap();
    stdout.flush().unwrap();
}

/// A harness that runs, and its phases as they begin.
struct Harness {
    process: Child,
    phases: Receiver<String>,
}

impl Harness {
    fn start(place: &Place, kind: &str) -> Self {
        // What is skipped is nothing: it puts the place on the command line, by which what is left
        // of a harness is found, a child that has not become runsc yet included.
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "killed_harness::harness",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .arg("--skip")
            .arg(place.dir.path())
            .current_dir(&place.workspace)
            .env("TMPDIR", &place.tmp)
            .env(KIND, kind)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, phases) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(phase) = line.strip_prefix("phase ") {
                    let _ = sender.send(phase.to_owned());
                }
            }
        });
        Self { process, phases }
    }

    /// Waits for a phase to begin, and for this long then.
    fn reach(&self, phase: &str, delay: Duration) {
        while self.phases.recv_timeout(NOT_HUNG).expect("the next phase") != phase {}
        let end = pidfd(self.process.id()).unwrap();
        assert!(!wait_readable(&end, delay), "it ended by itself");
    }

    fn kill(&mut self) {
        let pid = Pid::from_raw(self.process.id().cast_signed());
        kill(pid, Signal::SIGKILL).unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn killed(kind: &str) {
    let mut random = Random::new();
    let place = Place::new();
    let parent = place.tmp.join("cf-harness-runsc");
    // The first may be killed before it has made that.
    assert_eq!(place.run(&["true"]).code, Some(0));
    let mut with_sandbox = 0;
    let mut with_files = 0;
    for moment in 0..MOMENTS {
        let (phase, longest) = PHASES[usize::try_from(moment).unwrap() % PHASES.len()];
        let delay = Duration::from_micros(random.below(longest * 1000));
        let mut harness = Harness::start(&place, kind);
        harness.reach(phase, delay);
        // Beside the harness itself.
        with_sandbox += u64::from(place.processes().len() > 1);
        harness.kill();
        place.assert_no_process_within(GONE);
        with_files += u64::from(!walk(&parent).is_empty());
        await_let_go(&parent);

        let next: &[&str] = match random.below(2) {
            0 => &["gc"],
            _ => &["run", "--no-cfc", "--", "true"],
        };
        let ran = Ran::of(place.command(next).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let left = walk(&place.tmp);
        assert_eq!(
            left,
            [PathBuf::from(&parent)],
            "{delay:?} into {phase:?}, after {next:?}: {ran:?}"
        );
        place.assert_gone();
    }
    // The control: there was something to leave behind.
    for (what, count) in [("a sandbox", with_sandbox), ("files", with_files)] {
        assert!(count > MOMENTS / 2, "only {count} of {MOMENTS} had {what}");
    }
}

/// Waits until no owner's file is locked. What was forked right before the kill has no command line
/// any more as it dies, and its descriptors for a moment longer.
fn await_let_go(parent: &Path) {
    let owners = walk(parent).into_iter();
    for owner in owners.filter(|path| path.file_name().is_some_and(|name| name == "owner")) {
        File::open(owner).unwrap().lock().unwrap();
    }
}

/// Numbers that a seed makes again (SplitMix64).
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let named = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap());
        let seed = named.unwrap_or_else(|| u64::try_from(now() & u128::from(u64::MAX)).unwrap());
        // A failed test shows it.
        let mut stderr = std::io::stderr().lock();
        writeln!(stderr, "{SEED}={seed}").unwrap();
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
