//! What both suites need: a place of a test's own, the command, and proof that nothing is left.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start the command and write files"
)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use runsc_driver::Host;
use serde_json::Value;

/// Longer than anything takes that does not hang.
pub const NOT_HUNG: Duration = Duration::from_secs(60);

/// The command under test, also where nextest runs it from an archive.
pub fn command_path() -> PathBuf {
    std::env::var_os("NEXTEST_BIN_EXE_runsc-driver")
        .map_or_else(|| env!("CARGO_BIN_EXE_runsc-driver").into(), PathBuf::from)
}

/// A temporary directory and a workspace of the test's own.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub workspace: PathBuf,
    pub tmp: PathBuf,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("runsc-driver-test-")
            .tempdir()
            .unwrap();
        let (workspace, tmp) = (dir.path().join("work"), dir.path().join("tmp"));
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(&tmp).unwrap();
        Self {
            workspace,
            tmp,
            dir,
        }
    }

    /// This machine, with the test's own directory for temporary files.
    pub fn host(&self) -> Host {
        Host {
            temp_dir: self.tmp.clone(),
            cwd: Some(self.workspace.clone()),
            ..Host::read()
        }
    }

    /// `runsc-driver` with these arguments, in the workspace.
    pub fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(command_path());
        command
            .args(args)
            .current_dir(&self.workspace)
            .env("TMPDIR", &self.tmp)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in runsc_driver::host::VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// `runsc-driver run --no-cfc` of a command.
    pub fn run(&self, argv: &[&str]) -> Ran {
        self.run_with(&[], argv)
    }

    /// The same with flags, and without a network where they name none.
    pub fn run_with(&self, flags: &[&str], argv: &[&str]) -> Ran {
        let network: &[&str] = match flags.contains(&"--network") {
            true => &[],
            false => &["--network", "none"],
        };
        let args = ["run", "--no-cfc"]
            .iter()
            .chain(network)
            .chain(flags)
            .chain(&["--"])
            .chain(argv);
        Ran::of(self.command(args).output().unwrap())
    }

    /// The processes that name this place on their command line.
    pub fn processes(&self) -> BTreeSet<u32> {
        processes_of(self.dir.path())
    }

    /// Everything of this place is gone: processes, scratch trees, mounts.
    pub fn assert_gone(&self) {
        self.assert_no_process_within(Duration::ZERO);
        let left: Vec<_> = walk(&self.tmp);
        assert_eq!(
            left,
            [self.tmp.join("cf-harness-runsc")],
            "something was left"
        );
        self.assert_no_mount();
    }

    /// No process names this place, at the latest after a while.
    pub fn assert_no_process_within(&self, limit: Duration) {
        let due = Instant::now() + limit;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            let shown: Vec<_> = left.iter().map(|pid| (*pid, command_line(*pid))).collect();
            assert!(Instant::now() < due, "processes were left: {shown:#?}");
            for pid in left {
                if let Some(end) = pidfd(pid) {
                    wait_readable(&end, due.saturating_duration_since(Instant::now()));
                }
            }
        }
    }

    fn assert_no_mount(&self) {
        let mounts = fs::read("/proc/self/mountinfo").unwrap();
        let place = self.dir.path().as_os_str().as_bytes();
        assert!(
            !mounts.windows(place.len()).any(|window| window == place),
            "a mount was left"
        );
    }
}

/// What a test that failed left running goes before its directory.
impl Drop for Place {
    fn drop(&mut self) {
        end_processes_of(self.dir.path());
    }
}

/// The processes that name a path on their command line, zombies left out: they have none.
pub fn processes_of(path: &Path) -> BTreeSet<u32> {
    let own = std::process::id();
    pids()
        .into_iter()
        .filter(|pid| *pid != own && is_of(*pid, path))
        .collect()
}

fn is_of(pid: u32, path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.windows(path.len()).any(|window| window == path)
}

/// Ends the processes that name a directory of the test's own, and waits until they are gone.
pub fn end_processes_of(dir: &Path) {
    // Those that are killed may have started others meanwhile.
    for _ in 0..8 {
        let left = processes_of(dir);
        if left.is_empty() {
            return;
        }
        for pid in left {
            // Held before it is asked for again: the number is not another's by now.
            let Some(process) = pidfd(pid).filter(|_| is_of(pid, dir)) else {
                continue;
            };
            let _ = rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL);
            wait_readable(&process, NOT_HUNG);
        }
    }
}

/// Makes an executable. Another process writes it: a child that is forked meanwhile would hold the
/// file open for writing, and it could not be executed.
pub fn install(path: &Path, text: &str) {
    use std::io::Write;
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = install.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(install.wait().unwrap().success());
}

/// Every path below a directory, sorted.
pub fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
        .replace('\0', " ")
}

/// A descriptor that becomes readable at a process's end; none where it has ended.
pub fn pidfd(pid: u32) -> Option<OwnedFd> {
    runsc_driver::launch::sys::pidfd_open(pid).ok()
}

/// Waits until a descriptor is readable; whether it became so.
pub fn wait_readable(fd: &impl AsFd, limit: Duration) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    poll(&mut fds, limit).is_ok_and(|ready| ready > 0)
}

/// Waits until there is such a file, by its directory's changes.
pub fn wait_for(dir: &Path, name: &str) {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).unwrap();
    watch
        .add_watch(dir, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)
        .unwrap();
    let due = Instant::now() + NOT_HUNG;
    while !dir.join(name).exists() {
        let left = due.saturating_duration_since(Instant::now());
        assert!(wait_readable(&watch, left), "{name} did not come");
        let _ = watch.read_events();
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr,
        }
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Standard output as the one JSON object that it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|err| panic!("not one JSON object ({err}): {self:?}"))
    }

    /// Compares code and streams at once.
    #[track_caller]
    pub fn assert(&self, code: i32, stdout: &str, stderr: &str) {
        assert_eq!(
            (self.code, self.out(), self.err()),
            (Some(code), stdout.into(), stderr.into())
        );
    }

    /// It failed with this code and says all of these on standard error.
    #[track_caller]
    pub fn assert_says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let said = self.err();
        for word in words {
            assert!(said.contains(word), "{word:?} is not in {said:?}");
        }
    }
}

/// The store of whoever runs the tests.
pub fn store() -> PathBuf {
    let home = Host::read().home.expect("HOME is set");
    let store = home.join(".local/share/runsc-cfc");
    assert!(
        store.join("bin/runsc").exists() && store.join("images/kitchensink").exists(),
        "there is no gVisor to test with: run scripts/install-store.sh"
    );
    store
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
