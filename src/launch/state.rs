//! runsc's state directory, looked at without asking runsc.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
#[cfg(target_os = "linux")]
use nix::sys::inotify::Inotify;

use serde_json::Value;

/// The files that runsc has of a container. An attached run that ended cleanly left none.
pub(crate) fn files(state_dir: &Path, id: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(state_dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains(id))
        .map(|entry| entry.path())
        .collect()
}

/// The pids that a container's state file names: its gofer's and its sandbox's.
pub(crate) fn pids(state_dir: &Path, id: &str) -> BTreeSet<u32> {
    files(state_dir, id)
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "state")
        })
        .filter_map(|path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok())
        .flat_map(|state| [state["goferPid"].as_u64(), state["sandbox"]["pid"].as_u64()])
        .flatten()
        .filter_map(|pid| u32::try_from(pid).ok())
        .filter(|pid| *pid > 1)
        .collect()
}

/// Whether runsc's state file says that a container is running.
pub(crate) fn is_running(state_dir: &Path, id: &str) -> bool {
    files(state_dir, id)
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "state")
        })
        .filter_map(|path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok())
        .any(|state| state["status"] == "running")
}

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// What was waited for.
    Ready,
    /// The process ended.
    Ended,
    /// Neither, for as long as was waited.
    Neither,
}

/// Waits until a container is running by its state file, its runsc has ended, or the time is over.
pub(crate) fn await_running(state_dir: &Path, id: &str, end: &OwnedFd, limit: Duration) -> First {
    await_change(state_dir, end, limit, || is_running(state_dir, id))
}

/// Waits until something holds that a change in `dir` can bring about, `end` is readable, or the
/// time is over. Where a directory cannot be watched, it is looked at again and again.
pub(crate) fn await_change(
    dir: &Path,
    end: &OwnedFd,
    limit: Duration,
    holds: impl Fn() -> bool,
) -> First {
    let due = Instant::now() + limit;
    let watch = watch(dir);
    loop {
        // The watch came first, so that no change falls between the look and the wait.
        if holds() {
            return First::Ready;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return First::Neither;
        }
        let mut fds = vec![PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        let slice = match &watch {
            Some(watch) => {
                fds.push(PollFd::new(watch.as_fd(), PollFlags::POLLIN));
                left
            }
            None => left.min(LOOK_AGAIN),
        };
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(slice).unwrap_or(PollTimeout::MAX),
        );
        if fds[0].any() == Some(true) {
            return if holds() { First::Ready } else { First::Ended };
        }
        if let Some(watch) = &watch {
            drain(watch);
        }
    }
}

/// How often to look at a directory that cannot be watched.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

#[cfg(target_os = "linux")]
fn watch(dir: &Path) -> Option<Inotify> {
    use nix::sys::inotify::{AddWatchFlags, InitFlags};
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let changes =
        AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE;
    watch.add_watch(dir, changes).ok()?;
    Some(watch)
}

#[cfg(target_os = "linux")]
fn drain(watch: &Inotify) {
    while watch.read_events().is_ok_and(|events| !events.is_empty()) {}
}

#[cfg(not(target_os = "linux"))]
fn watch(_dir: &Path) -> Option<OwnedFd> {
    None
}

#[cfg(not(target_os = "linux"))]
fn drain(_watch: &OwnedFd) {}

/// The processes below one, as the kernel has them now.
pub(crate) fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pending = vec![pid];
    while let Some(pid) = pending.pop() {
        let fresh = children(pid)
            .into_iter()
            .filter(|child| found.insert(*child));
        pending.extend(fresh.collect::<Vec<_>>());
    }
    found
}

/// The processes that have this directory as runsc's `--root` on their command line: runsc's own,
/// and what is to become one.
pub(crate) fn on_root(state_dir: &Path) -> BTreeSet<u32> {
    let is_on = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        names_root(&line, |root| root == state_dir)
    };
    pids_of_all().filter(is_on).collect()
}

/// Whether a command line has such a `--root`. We write two words, and runsc hands one on.
pub(crate) fn names_root(line: &[u8], is_it: impl Fn(&Path) -> bool) -> bool {
    let words: Vec<_> = line.split(|byte| *byte == 0).collect();
    let apart = words
        .windows(2)
        .filter_map(|pair| (pair[0] == b"--root").then_some(pair[1]));
    let joined = words
        .iter()
        .filter_map(|word| word.strip_prefix(b"--root="));
    apart
        .chain(joined)
        .any(|root| is_it(Path::new(OsStr::from_bytes(root))))
}

/// Whether this is what a process was started as.
pub(crate) fn runs(pid: u32, program: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).next() == Some(program.as_os_str().as_bytes())
}

fn pids_of_all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
}

/// The processes that have a container's id on their command line: also those whose parent is gone.
pub(crate) fn naming(id: &str) -> BTreeSet<u32> {
    pids_of_all().filter(|pid| names(*pid, id)).collect()
}

/// What is no runsc may name it as well: an editor, for one.
fn names(pid: u32, id: &str) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let program = program.rsplit(|byte| *byte == b'/').next();
    program.is_some_and(|name| name.starts_with(b"runsc"))
        && line.windows(id.len()).any(|window| window == id.as_bytes())
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_the_container_and_the_pids_in_its_state_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            use std::io::Write;
            fs::File::create(dir.path().join(name))
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        };
        put(
            "c-a-1_sandbox:c-a-1.state",
            r#"{"goferPid":41,"sandbox":{"pid":42,"cid":"x"}}"#,
        );
        put("c-a-1_sandbox:c-a-1.lock", "");
        put("runsc-c-a-1.sock", "");
        put(
            "c-a-2_sandbox:c-a-2.state",
            r#"{"goferPid":0,"sandbox":null}"#,
        );
        put("c-a-3_sandbox:c-a-3.state", "{broken");
        assert_eq!(files(dir.path(), "c-a-1").len(), 3);
        assert_eq!(pids(dir.path(), "c-a-1"), BTreeSet::from([41, 42]));
        assert_eq!(pids(dir.path(), "c-a-2"), BTreeSet::new());
        assert_eq!(pids(dir.path(), "c-a-3"), BTreeSet::new());
        assert_eq!(files(&dir.path().join("none"), "c"), Vec::<PathBuf>::new());
    }
}
