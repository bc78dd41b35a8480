//! The processes of a tree: runsc's, on its state directory.
//!
//! They die with the driver that started them. One that did not is known by its command line, which
//! has a state directory of the tree's as runsc's `--root`, and by its start, which is not before that of
//! the tree's owner. What else names the tree, an editor or a `runsc list`, is nobody's to stop.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::launch::state::names_root;
use crate::launch::{spawn, sys};
use crate::plan::network::wrap::Meeting;
use crate::trust::scratch::owner::start_time_of;
use crate::trust::scratch::{BUNDLES, STATE};

/// The verbs of runsc that live as long as what they run: ours, and those that runsc starts.
const VERBS: [&[u8]; 4] = [b"run", b"exec", b"boot", b"gofer"];
/// How long killed processes may take to be gone: they die in about 10 ms.
const GONE: Duration = Duration::from_secs(2);
/// How long a process that holds no lock any more may take to end: microseconds.
const ENDING: Duration = Duration::from_millis(100);
/// How often the processes are looked for: one that was just forking may leave another.
const ROUNDS: usize = 3;

/// A process, held: the descriptor stands for it alone, also once its pid is used again.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pidfd: OwnedFd,
}

/// Whether a process that was started then is still there. A zombie is not, and one that is ending
/// gets a moment.
pub(super) fn runs(pid: u32, start_time: u64) -> bool {
    let Ok(pidfd) = sys::pidfd_open(pid) else {
        return false;
    };
    start_time_of(pid) == Some(start_time)
        && !spawn::all_ended(std::slice::from_ref(&pidfd), ENDING)
}

/// What came of stopping a tree's processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stopped {
    pub(super) ended: Vec<u32>,
    pub(super) running: Vec<u32>,
}

/// The processes of a tree that run now.
pub(super) fn of_tree(tree: &Path, since: u64) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| hold(pid, tree, since)).collect()
}

/// Kills the processes of a tree and waits for their ends.
pub(super) fn stop(tree: &Path, since: u64, due: Instant) -> Stopped {
    let mut ended = Vec::new();
    for _ in 0..ROUNDS {
        let found = of_tree(tree, since);
        if found.is_empty() {
            break;
        }
        for process in &found {
            let _ = sys::pidfd_kill(&process.pidfd, Signal::SIGKILL);
        }
        let gone = Instant::now() + GONE;
        for process in found {
            let left = gone.min(due).saturating_duration_since(Instant::now());
            if spawn::all_ended(std::slice::from_ref(&process.pidfd), left) {
                ended.push(process.pid);
            }
        }
    }
    let running = of_tree(tree, since);
    Stopped {
        ended,
        running: running.iter().map(|process| process.pid).collect(),
    }
}

/// The process of this pid, where it is one of the tree's.
fn hold(pid: u32, tree: &Path, since: u64) -> Option<Process> {
    let is_its = || {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_on(&line, tree)
    };
    if !is_its() {
        return None;
    }
    let pidfd = sys::pidfd_open(pid).ok()?;
    // Only what is read while the descriptor's process has not ended is that one's.
    let its = is_its() && start_time_of(pid).is_some_and(|start| start >= since);
    let lives = !spawn::all_ended(std::slice::from_ref(&pidfd), Duration::ZERO);
    (its && lives).then_some(Process { pid, pidfd })
}

/// Whether a command line is that of a runsc, or of what starts one, that runs something in a tree.
fn is_on(line: &[u8], tree: &Path) -> bool {
    let runs = || {
        line.split(|byte| *byte == 0)
            .any(|word| VERBS.contains(&word))
    };
    names_root(line, |root| is_root_of(root, tree)) && runs()
}

/// Whether this is a state directory of the tree's: the one of all its calls, or one call's own.
fn is_root_of(root: &Path, tree: &Path) -> bool {
    if root == tree.join(STATE) {
        return true;
    }
    let bundle = root.ancestors().nth(2).unwrap_or(Path::new("/"));
    bundle.parent() == Some(&tree.join(BUNDLES)) && Meeting::new(bundle).state_dir() == root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_pid_and_its_start_together() {
        let pid = std::process::id();
        let start = start_time_of(pid).unwrap();
        assert!(runs(pid, start));
        assert!(!runs(pid, start - 1));
        assert!(!runs(pid, start + 1));
        assert!(!runs(u32::try_from(i32::MAX).unwrap(), start));
    }

    #[test]
    fn only_what_runsc_runs_on_the_state_directory_is_told() {
        let cases = [
            ("runsc\0--root\0/t/run-1/state\0run\0c-1\0", true),
            ("runsc-sandbox\0--root=/t/run-1/state\0boot\0c-1\0", true),
            ("runsc-gofer\0--root=/t/run-1/state\0gofer\0", true),
            ("runsc\0--root\0/t/run-1/state\0exec\0c-1\0", true),
            ("runsc\0--root=/t/run-1/state\0list\0", false),
            ("runsc\0--root=/t/run-10/state\0run\0", false),
            ("runsc\0--root=/t/run-1/state/x\0run\0", false),
            ("runsc\0--root\0run\0/t/run-1/state\0", false),
            ("vi\0/t/run-1/state\0run\0", false),
            ("grep\0--root=/t/run-1/state run\0", false),
            ("", false),
        ];
        for (line, expected) in cases {
            let found = is_on(line.as_bytes(), Path::new("/t/run-1"));
            assert_eq!(found, expected, "{line:?}");
        }
    }
}
