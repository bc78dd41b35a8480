//! Stopping one command in a session, and nothing else there.
//!
//! The end of a `runsc exec` leaves its command running in the container. So the command is ended
//! by its pid in there, and its end is confirmed: by that of the `runsc exec`, or by the control
//! socket. What it started goes with it, as far as it still descends from it. All of that is
//! stopped (SIGSTOP) before any is killed, since what is started after a look has no parent to be
//! found by once the command is dead.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::Shared;
use super::super::control::{Control, Listed};
use super::super::remote::Answer;
use super::Session;
use crate::driver::LostReason;
use crate::launch::bundle::BundleDir;
use crate::launch::spawn::{self, Child, SpawnRequest};
use crate::launch::state::{self, First};
use crate::launch::teardown::Token;
use crate::plan::{CommandLine, runsc};

/// How long a command may take to have started, and to have ended.
const SOON: Duration = Duration::from_secs(2);
/// How long one of runsc's control commands may take.
const CONTROL: Duration = Duration::from_secs(15);
/// How often the processes below a command are looked up at most.
const LOOKS: usize = 32;

/// Whose the command is.
type Owners = (Arc<Shared>, Arc<Session>);

/// A command that runs in a session. Dropped, it is stopped on a thread of its own, and the
/// session ended where that is not confirmed.
pub(super) struct Command(Option<Parts>);

struct Parts {
    how: How,
    owners: Owners,
    _token: Token,
}

/// How the command was started, and so how it is reached.
enum How {
    Client {
        child: Child,
        pid_file: PathBuf,
        _dir: BundleDir,
    },
    Remote {
        control: Control,
        pid: u32,
        answer: Answer,
    },
}

impl Command {
    /// A command that a `runsc exec` started.
    pub(super) fn client(
        child: Child,
        dir: BundleDir,
        pid_file: PathBuf,
        owners: Owners,
        token: Token,
    ) -> Self {
        let how = How::Client {
            child,
            pid_file,
            _dir: dir,
        };
        Self(Some(Parts {
            how,
            owners,
            _token: token,
        }))
    }

    /// A command that the control socket started.
    pub(super) fn remote(
        control: Control,
        pid: u32,
        answer: Answer,
        owners: Owners,
        token: Token,
    ) -> Self {
        let how = How::Remote {
            control,
            pid,
            answer,
        };
        Self(Some(Parts {
            how,
            owners,
            _token: token,
        }))
    }

    /// The status of a `runsc exec` that has ended. Nothing is left to stop.
    pub(super) fn finished(&mut self) -> Option<ExitStatus> {
        match &mut self.0.as_mut()?.how {
            How::Client { child, .. } => child.status().ok().flatten(),
            How::Remote { .. } => None,
        }
    }

    /// Waits for the `runsc exec` of a container that is gone, and kills it where it lingers.
    pub(super) fn let_end(mut self) {
        if let Some(Parts {
            how: How::Client { child, .. },
            ..
        }) = &mut self.0
        {
            let _ = child.wait(SOON);
        }
        self.0 = None;
    }

    /// Stops the command; whether that is confirmed. Blocks.
    pub(super) fn stop(mut self) -> bool {
        self.0.take().is_none_or(|mut parts| parts.stop())
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let Some(mut parts) = self.0.take() else {
            return;
        };
        if parts.has_ended() {
            return;
        }
        let stop = move || {
            let (shared, session) = parts.owners.clone();
            // A closing driver ends the session in any case.
            if shared.calls.is_closed() || parts.stop() {
                return;
            }
            shared
                .sessions
                .forget(&session, Some(LostReason::NotStopped));
            session.container.take_down();
        };
        let _ = std::thread::Builder::new()
            .name("runsc-stop".to_owned())
            .spawn(stop);
    }
}

impl Parts {
    fn has_ended(&mut self) -> bool {
        match &mut self.how {
            How::Client { child, .. } => matches!(child.status(), Ok(Some(_))),
            How::Remote { answer, .. } => matches!(answer.get(), Some(Ok(_))),
        }
    }

    fn stop(&mut self) -> bool {
        let (shared, session) = &self.owners;
        match &mut self.how {
            How::Client {
                child, pid_file, ..
            } => Client {
                shared,
                session,
                pid_file,
            }
            .stop(child),
            How::Remote { control, pid, .. } => stop_remote(control, *pid),
        }
    }
}

/// A command that is reached by runsc's control commands.
struct Client<'a> {
    shared: &'a Shared,
    session: &'a Session,
    pid_file: &'a PathBuf,
}

impl Client<'_> {
    fn stop(&self, child: &mut Child) -> bool {
        let (Ok(end), Some(dir)) = (child.end(), self.pid_file.parent()) else {
            return false;
        };
        match state::await_change(dir, &end, SOON, || self.pid().is_some()) {
            First::Ready => {}
            // It ended by itself, or never started.
            First::Ended => return matches!(child.status(), Ok(Some(_))),
            First::Neither => return false,
        }
        let Some(pid) = self.pid() else { return false };
        let killed = end_tree(
            pid,
            || self.below(pid),
            |pid, signal| self.signal(pid, signal),
        );
        if !killed && !matches!(child.status(), Ok(Some(_))) {
            return false;
        }
        matches!(child.wait(SOON), Ok(Some(_)))
    }

    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.pid_file)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn signal(&self, pid: u32, signal: Signal) -> bool {
        let (config, id) = (&self.shared.config, &self.session.container.id);
        let Ok(scratch) = self.shared.scratch() else {
            return false;
        };
        let word = signal.as_str().trim_start_matches("SIG");
        let line = runsc::signal_one(config, &scratch.state_dir(), id, pid, word);
        control(line).is_some()
    }

    /// The processes in the container that descend from one.
    fn below(&self, pid: u32) -> BTreeSet<u32> {
        let (config, id) = (&self.shared.config, &self.session.container.id);
        let Ok(scratch) = self.shared.scratch() else {
            return BTreeSet::new();
        };
        let table = control(runsc::ps(config, &scratch.state_dir(), id));
        descendants(
            &listed(&String::from_utf8_lossy(&table.unwrap_or_default())),
            pid,
        )
    }
}

/// What a control command prints, where it succeeds.
fn control(command: CommandLine) -> Option<Vec<u8>> {
    let ran = spawn::run_bounded(SpawnRequest::plain(command, true), CONTROL).ok()?;
    ran.0
        .is_some_and(|status| status.success())
        .then_some(ran.1)
}

fn stop_remote(control: &Control, pid: u32) -> bool {
    let list = || control.processes(SOON);
    let killed = end_tree(
        pid,
        || descendants(&list().unwrap_or_default(), pid),
        |pid, signal| control.signal(pid, signal, SOON).is_ok(),
    );
    if killed && control.wait_blocking(pid, SOON).is_ok() {
        return true;
    }
    // It had ended before: then nobody there knows it any more.
    list().is_ok_and(|listed| listed.iter().all(|process| process.pid != pid))
}

/// Ends a process and all below it; whether the process itself could be killed.
fn end_tree(
    root: u32,
    below: impl Fn() -> BTreeSet<u32>,
    signal: impl Fn(u32, Signal) -> bool,
) -> bool {
    let below = stop_tree(root, below, |pid| _ = signal(pid, Signal::SIGSTOP));
    let killed = signal(root, Signal::SIGKILL);
    for pid in below {
        signal(pid, Signal::SIGKILL);
    }
    killed
}

/// Stops a process and all below it, and says what is below. Until two looks in a row show nothing
/// new: a stop takes effect a moment later, and what was being started is seen then.
fn stop_tree(root: u32, below: impl Fn() -> BTreeSet<u32>, stop: impl Fn(u32)) -> BTreeSet<u32> {
    stop(root);
    let (mut known, mut same) = (BTreeSet::new(), 0);
    for _ in 0..LOOKS {
        let fresh: Vec<_> = below().difference(&known).copied().collect();
        for pid in &fresh {
            stop(*pid);
        }
        same = if fresh.is_empty() { same + 1 } else { 0 };
        known.extend(fresh);
        if same == 2 {
            break;
        }
    }
    known
}

/// The processes in a table whose header names the columns `PID` and `PPID`.
fn listed(table: &str) -> Vec<Listed> {
    let mut lines = table.lines();
    let header: Vec<_> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let column = |name| header.iter().position(|column| *column == name);
    let (Some(pid), Some(parent)) = (column("PID"), column("PPID")) else {
        return Vec::new();
    };
    lines
        .filter_map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            Some(Listed {
                pid: cells.get(pid)?.parse().ok()?,
                ppid: cells.get(parent)?.parse().ok()?,
            })
        })
        .collect()
}

/// The processes that descend from one.
fn descendants(listed: &[Listed], of: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pending = vec![of];
    while let Some(parent) = pending.pop() {
        let children = listed.iter().filter(|process| process.ppid == parent);
        let fresh = children
            .map(|process| process.pid)
            .filter(|pid| found.insert(*pid));
        pending.extend(fresh.collect::<Vec<_>>());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn all_is_stopped_until_two_looks_show_nothing_new() {
        let cases: [(&[&[u32]], &[u32]); 4] = [
            (&[&[], &[]], &[2]),
            (&[&[3], &[3, 4], &[3, 4], &[3, 4]], &[2, 3, 4]),
            (&[&[], &[3], &[], &[3]], &[2, 3]),
            (&[&[], &[], &[3]], &[2]),
        ];
        for (looks, stopped) in cases {
            let (looks, seen) = (RefCell::new(looks.iter()), RefCell::new(Vec::new()));
            let below = || looks.borrow_mut().next().unwrap().iter().copied().collect();
            let found = stop_tree(2, below, |pid| seen.borrow_mut().push(pid));
            assert_eq!(seen.into_inner(), stopped);
            assert_eq!(found, stopped[1..].iter().copied().collect());
        }
        let forever = Cell::new(2);
        let ever_more = || BTreeSet::from([forever.replace(forever.get() + 1) + 1]);
        assert_eq!(stop_tree(2, ever_more, |_| {}).len(), LOOKS);
    }

    #[test]
    fn descendants_are_told_by_the_columns_that_the_header_names() {
        let table = "UID  PID  PPID  C  TTY  STIME  TIME  CMD\n\
                     0    1    0     0  ?    23:08  0s    sh\n\
                     0    2    0     0  ?    23:08  10ms  sh\n\
                     0    3    2     1  ?    23:08  20ms  sleep\n\
                     0    4    3     0  ?    23:08  0s    a b 2 2\n\
                     0    5    1     0  ?    23:08  0s    other\n";
        let below = |table: &str, pid| descendants(&listed(table), pid);
        assert_eq!(below(table, 2), BTreeSet::from([3, 4]));
        assert_eq!(below(table, 5), BTreeSet::new());
        assert_eq!(below("", 2), BTreeSet::new());
        assert_eq!(below("what\never 2 2\n", 2), BTreeSet::new());
    }
}
