//! What else runs a command in a sandbox, where it is installed (`scripts/bench-peers.sh`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::measure::{Effort, Latency, Rounds, Subject, timed};
use crate::place::{Place, apart, finish};
use crate::stop::Stop;
use crate::subjects::{RUNSC_RUN, RunscRun};

/// The venv that `scripts/bench-peers.sh` makes.
const VENV_PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/target/bench-peers/bin/python3"
);
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/calls/peer.py");

/// What was not measured, and why.
#[derive(Debug, Serialize)]
pub struct Absent {
    pub subject: String,
    pub why: String,
}

/// Makes a peer ready, or says why it is not to be had.
type Make = for<'a> fn(&'a Place) -> Result<Box<dyn Subject + 'a>, String>;

/// Each peer beside bare `runsc run` in rounds of their own: some take so long that they would
/// leave the others few rounds.
pub fn measure(place: &Place, effort: Effort) -> Result<(Vec<Latency>, Vec<Absent>), Stop> {
    let (mut latencies, mut absent) = (Vec::new(), Vec::new());
    let all: [(&str, Make); 5] = [
        (DO, |place| Ok(Box::new(RunscDo(place)))),
        (BWRAP, bwrap),
        (PODMAN, podman),
        (WHEEL, |place| {
            Library::start(place, WHEEL, "gvisor", "gvisor")
        }),
        (TEMENOS, |place| {
            Library::start(place, TEMENOS, "temenos", "temenos")
        }),
    ];
    for (name, make) in all {
        let measured = make(place).map_err(Stop::Failed).and_then(|mut peer| {
            let mut subjects: [&mut dyn Subject; 2] = [&mut *peer, &mut RunscRun(place)];
            let rounds = Rounds::measure("peer", &mut subjects, effort)?;
            Ok(rounds.latencies(RUNSC_RUN).swap_remove(0))
        });
        match measured {
            Ok(latency) => latencies.push(latency),
            Err(Stop::Failed(why)) => {
                eprintln!("  absent: {name}: {why}");
                absent.push(Absent {
                    subject: name.to_owned(),
                    why,
                });
            }
            Err(Stop::Signal) => return Err(Stop::Signal),
        }
    }
    Ok((latencies, absent))
}

const DO: &str = "runsc do";
const BWRAP: &str = "bwrap";
const PODMAN: &str = "podman run -d + runsc, its start alone";
const WHEEL: &str = "Google's gvisor wheel";
const TEMENOS: &str = "temenos, its kvm probe left out";

/// `runsc do`, which shows the host's own files.
struct RunscDo<'a>(&'a Place);

impl Subject for RunscDo<'_> {
    fn name(&self) -> &str {
        DO
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| finish(self.0.bare().args(["do", "true"])))
    }
}

/// bubblewrap over the same image: namespaces, no gVisor.
struct Bwrap<'a> {
    place: &'a Place,
    program: PathBuf,
}

fn bwrap(place: &Place) -> Result<Box<dyn Subject + '_>, String> {
    let program = which::which("bwrap").map_err(|_| "not installed".to_owned())?;
    Ok(Box::new(Bwrap { place, program }))
}

impl Subject for Bwrap<'_> {
    fn name(&self) -> &str {
        BWRAP
    }

    fn call(&mut self) -> Result<Duration, String> {
        let mut command = apart(&self.program);
        command
            .args(["--unshare-all", "--die-with-parent", "--ro-bind"])
            .arg(&self.place.rootfs);
        command.args(["/", "--proc", "/proc", "--dev", "/dev", "true"]);
        timed(|| finish(&mut command))
    }
}

/// podman with runsc as its runtime. In the foreground it waits for conmon on some machines for
/// 20 s, so it is its start alone that is measured.
struct Podman<'a> {
    place: &'a Place,
    program: PathBuf,
}

const CONTAINER: &str = "runsc-driver-bench";

fn podman(place: &Place) -> Result<Box<dyn Subject + '_>, String> {
    let program = which::which("podman").map_err(|_| "not installed".to_owned())?;
    Ok(Box::new(Podman { place, program }))
}

impl Podman<'_> {
    fn command(&self) -> Command {
        let mut command = apart(&self.program);
        let dir = |name| self.place.dir.path().join(name);
        command
            .arg("--root")
            .arg(dir("podman"))
            .arg("--runroot")
            .arg(dir("podman-run"));
        command
            .args(["--cgroup-manager=cgroupfs", "--runtime"])
            .arg(&self.place.runsc);
        command.args([
            "--runtime-flag=ignore-cgroups",
            "--runtime-flag=network=none",
        ]);
        command
    }

    fn remove(&self) -> Result<(), String> {
        finish(
            self.command()
                .args(["rm", "--force", "--ignore", "--time=0", CONTAINER]),
        )
    }
}

impl Subject for Podman<'_> {
    fn name(&self) -> &str {
        PODMAN
    }

    fn call(&mut self) -> Result<Duration, String> {
        let mut command = self.command();
        // It may not raise the limits on files that this process has.
        command.args([
            "run",
            "--detach",
            "--network=none",
            "--ulimit=nofile=1024:1024",
            "--name",
            CONTAINER,
        ]);
        command
            .arg("--rootfs")
            .arg(overlaid(&self.place.rootfs))
            .arg("true");
        timed(|| finish(&mut command))
    }

    fn after(&mut self) -> Result<(), String> {
        finish(self.command().args(["wait", CONTAINER]))?;
        self.remove()
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// An image that podman does not write to.
fn overlaid(rootfs: &Path) -> std::ffi::OsString {
    let mut named = rootfs.as_os_str().to_owned();
    named.push(":O");
    named
}

/// A library for Python, in a process that makes one call a line.
struct Library {
    name: &'static str,
    child: Child,
    ask: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Library {
    fn start<'a>(
        place: &Place,
        name: &'static str,
        which: &str,
        package: &str,
    ) -> Result<Box<dyn Subject + 'a>, String> {
        if !Path::new(VENV_PYTHON).exists() {
            return Err("not installed".to_owned());
        }
        let tmp = place.dir.path().join(which);
        fs::create_dir_all(&tmp).map_err(|err| err.to_string())?;
        let bin = place.runsc.parent().unwrap_or(Path::new("/"));
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
        let mut command = apart(VENV_PYTHON);
        command
            .args([PEER, which, package])
            .env("PATH", path)
            .env("TMPDIR", tmp);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|err| err.to_string())?;
        let (ask, told) = (child.stdin.take(), child.stdout.take().unwrap());
        let told = BufReader::new(told);
        let mut library = Self {
            name,
            child,
            ask,
            told,
        };
        let version = library.line()?;
        if version.is_empty() {
            return Err("not installed".to_owned());
        }
        eprintln!("{name} {version}");
        Ok(Box::new(library))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.told
            .read_line(&mut line)
            .map_err(|err| err.to_string())?;
        Ok(line.trim_end().to_owned())
    }
}

impl Subject for Library {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&mut self) -> Result<Duration, String> {
        let started = Instant::now();
        let asked = self.ask.as_mut().map(|ask| ask.write_all(b"\n"));
        asked.transpose().map_err(|err| err.to_string())?;
        match self.line()?.as_str() {
            "ok" => Ok(started.elapsed()),
            why => Err(why.to_owned()),
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // The end of its input ends it, after its call.
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}
