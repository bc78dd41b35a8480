//! The fake runsc, laid out in a test's place, and what it saw.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{BoxFuture, Cause, Exit};
use runsc_driver::{Call, Driver, Error, NetworkMode, Outcome, SandboxConfig, SandboxOptions};

use crate::common::{NOT_HUNG, Place, install, pidfd, wait_for, wait_readable};

pub const ZERO: Option<Exit> = Some(Exit {
    code: 0,
    cause: Cause::Exit,
});

/// A place with a fake runsc and a made-up image, which has nothing but the mount points.
pub struct Fake {
    pub place: Place,
    pub dir: PathBuf,
    pub image: PathBuf,
}

/// One start of the fake.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub argv: Vec<String>,
    pub environ: String,
    pub cwd: String,
    /// The shell's own on its script is left out.
    pub descriptors: BTreeMap<i32, String>,
    pub pid: u32,
    pub group: u32,
}

impl Fake {
    pub fn new() -> Self {
        let place = Place::new();
        let (dir, image) = (
            place.dir.path().join("fake"),
            place.dir.path().join("image"),
        );
        for made in [&dir, &dir.join("seen"), &dir.join("does"), &image] {
            fs::create_dir(made).unwrap();
        }
        let fake = Self { place, dir, image };
        fake.mount_point("workspace");
        fake.write("lib.sh", include_str!("../fakes/lib.sh"));
        fake.write(
            "version",
            "runsc version release-20240729.0\nspec: 1.1.0-rc.1\n",
        );
        symlink("/bin/sleep", fake.dir.join("idle")).unwrap();
        fake.executable(include_str!("../fakes/runsc"));
        fake
    }

    /// The fake does this for a verb.
    pub fn doing(verb: &str, script: &str) -> Self {
        let fake = Self::new();
        fake.does(verb, script);
        fake
    }

    pub fn does(&self, verb: &str, script: &str) {
        self.write(&format!("does/{verb}"), script);
    }

    /// What `fail` writes into runsc's log.
    pub fn log(&self, text: &str) {
        self.write("log", text);
    }

    pub fn mount_point(&self, name: &str) {
        fs::create_dir(self.image.join(name)).unwrap();
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap()
    }

    pub fn runsc(&self) -> PathBuf {
        self.dir.join("runsc")
    }

    /// Makes this the runsc.
    pub fn executable(&self, text: &str) {
        install(&self.runsc(), text);
    }

    pub fn options(&self) -> SandboxOptions {
        let mut options = SandboxOptions::new(self.runsc(), &self.image, &self.place.workspace);
        options.network = NetworkMode::None;
        options.mode = EnforcementMode::Disabled;
        options
    }

    pub fn driver(&self) -> Arc<DirectDriver> {
        self.driver_of(self.options())
    }

    pub fn driver_of(&self, options: SandboxOptions) -> Arc<DirectDriver> {
        let host = self.place.host();
        let config = SandboxConfig::resolve(options, &host).unwrap();
        Arc::new(DirectDriver::new(config, host))
    }

    /// `runsc-driver run` with the fake as its runsc.
    pub fn command(&self, flags: &[&str], argv: &[&str]) -> Command {
        let args = ["run", "--no-cfc", "--sandbox-runtime", "runsc"];
        let mut command = self.place.command(args);
        command
            .arg("--sandbox-rootfs")
            .arg(&self.image)
            .args(flags)
            .arg("--")
            .args(argv)
            .env("HOME", self.place.dir.path())
            .env("CF_HARNESS_RUNSC_BINARY", self.runsc());
        command
    }

    /// Every start so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        (1..)
            .map(|number: u32| self.dir.join("seen").join(number.to_string()))
            .take_while(|record| record.exists())
            .map(|record| Seen::read(&record, &self.runsc()))
            .collect()
    }

    /// The words of every start so far that follow the flags: the verb and what it is given.
    pub fn verbs(&self) -> Vec<Vec<String>> {
        let verb = |seen: Seen| {
            let is_verb =
                |arg: &String| ["run", "exec", "kill", "delete", "state"].contains(&arg.as_str());
            let at = seen.argv.iter().position(is_verb).unwrap_or(0);
            seen.argv[at..].to_vec()
        };
        self.seen().into_iter().map(verb).collect()
    }

    /// The verbs alone.
    pub fn verb_names(&self) -> Vec<String> {
        let first = |words: Vec<String>| words.first().cloned().unwrap_or_default();
        self.verbs().into_iter().map(first).collect()
    }

    /// Waits, beside what else runs here, until the fake says that it is up.
    pub async fn up(&self) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let dir = self.dir.clone();
        std::thread::spawn(move || {
            wait_for(&dir, "up");
            let _ = sender.send(());
        });
        receiver.await.unwrap();
    }

    /// Whether the process that the fake left behind has ended.
    pub fn survivor_ended(&self) -> bool {
        let pid = self.read("survivor").trim().parse().unwrap();
        pidfd(pid).is_none_or(|end| wait_readable(&end, Duration::ZERO))
    }
}

impl Drop for Fake {
    /// Ends what a test's fakes left, however the test ended.
    fn drop(&mut self) {
        for pid in self.place.processes() {
            if let Some(end) = pidfd(pid) {
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
                wait_readable(&end, NOT_HUNG);
            }
        }
    }
}

impl Seen {
    fn read(record: &Path, script: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(record.join(name)).unwrap();
        let stat = text("stat");
        let fields: Vec<u32> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .skip(1)
            .take(2)
            .map(|field| field.parse().unwrap())
            .collect();
        Self {
            argv: text("argv")
                .split_terminator('\0')
                .map(str::to_owned)
                .collect(),
            environ: text("environ"),
            cwd: text("cwd").trim_end().to_owned(),
            descriptors: text("fds")
                .lines()
                .filter_map(|line| {
                    let (left, target) = line.split_once(" -> ")?;
                    Some((left.rsplit(' ').next()?.parse().ok()?, target.to_owned()))
                })
                .filter(|(_, target)| Path::new(target) != script)
                .collect(),
            pid: stat.split(' ').next().unwrap().parse().unwrap(),
            group: fields[1],
        }
    }
}

/// Runs a call that must not hang.
pub async fn bounded<T>(call: impl Future<Output = T>) -> T {
    let bounded = tokio::time::timeout(NOT_HUNG, call);
    bounded.await.expect("it did not hang")
}

/// Runs the shortest of calls.
pub async fn run(driver: &DirectDriver) -> Result<Outcome, Error> {
    bounded(driver.run(Call::new(["true"]))).await
}

/// Starts a call and waits until the fake says that it is up.
pub async fn started<'a>(
    fake: &Fake,
    driver: &'a DirectDriver,
    call: Call,
) -> BoxFuture<'a, Result<Outcome, Error>> {
    let mut running = driver.run(call);
    tokio::select! {
        ended = &mut running => panic!("it ended: {ended:?}"),
        () = fake.up() => {}
    }
    running
}
