//! Stopping one command in a session, and nothing else there.
//!
//! The end of a `runsc exec` leaves its command running in the container. So the command is ended
//! by its pid in there, which runsc wrote as it started it, and its end is confirmed by that of
//! the `runsc exec`. What it started goes with it, as far as it still descends from it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use super::super::Shared;
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

/// A command that runs in a session. Dropped, it is stopped on a thread of its own, and the
/// session ended where that is not confirmed.
pub(super) struct Command(Option<Parts>);

struct Parts {
    child: Child,
    _dir: BundleDir,
    pid_file: PathBuf,
    session: Arc<Session>,
    shared: Arc<Shared>,
    _token: Token,
}

impl Command {
    pub(super) fn new(
        child: Child,
        dir: BundleDir,
        pid_file: PathBuf,
        session: Arc<Session>,
        shared: Arc<Shared>,
        token: Token,
    ) -> Self {
        Self(Some(Parts {
            child,
            _dir: dir,
            pid_file,
            session,
            shared,
            _token: token,
        }))
    }

    /// The status of a `runsc exec` that has ended. Nothing is left to stop.
    pub(super) fn finished(&mut self) -> Option<ExitStatus> {
        let parts = self.0.as_mut()?;
        parts.child.status().ok().flatten()
    }

    /// Waits for the `runsc exec` of a container that is gone, and kills it where it lingers.
    pub(super) fn let_end(mut self) {
        if let Some(mut parts) = self.0.take() {
            let _ = parts.child.wait(SOON);
        }
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
        if matches!(parts.child.status(), Ok(Some(_))) {
            return;
        }
        let stop = move || {
            // A closing driver ends the session in any case.
            if parts.shared.calls.is_closed() || parts.stop() {
                return;
            }
            parts
                .shared
                .sessions
                .forget(&parts.session, Some(LostReason::NotStopped));
            if let Some(held) = parts.session.slot.take()
                && let Err(err) = held.remains.take_down()
            {
                tracing::error!(%err, "a session's container was not taken down");
            }
        };
        let _ = std::thread::Builder::new()
            .name("runsc-stop".to_owned())
            .spawn(stop);
    }
}

impl Parts {
    fn stop(&mut self) -> bool {
        let Ok(end) = self.child.end() else {
            return false;
        };
        let Some(dir) = self.pid_file.parent() else {
            return false;
        };
        match state::await_change(dir, &end, SOON, || self.pid().is_some()) {
            First::Ready => {}
            // It ended by itself, or never started.
            First::Ended => return matches!(self.child.status(), Ok(Some(_))),
            First::Neither => return false,
        }
        let Some(pid) = self.pid() else { return false };
        let below = self.below(pid);
        if self.kill(pid) || matches!(self.child.status(), Ok(Some(_))) {
            for pid in below {
                self.kill(pid);
            }
            return matches!(self.child.wait(SOON), Ok(Some(_)));
        }
        false
    }

    fn pid(&self) -> Option<u32> {
        std::fs::read_to_string(&self.pid_file)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn kill(&self, pid: u32) -> bool {
        let (config, id) = (&self.shared.config, &self.session.id);
        let Ok(scratch) = self.shared.scratch() else {
            return false;
        };
        self.control(runsc::kill_one(config, &scratch.state_dir(), id, pid))
            .is_some()
    }

    /// The processes in the container that descend from one.
    fn below(&self, pid: u32) -> BTreeSet<u32> {
        let (config, id) = (&self.shared.config, &self.session.id);
        let Ok(scratch) = self.shared.scratch() else {
            return BTreeSet::new();
        };
        let table = self.control(runsc::ps(config, &scratch.state_dir(), id));
        descendants(&String::from_utf8_lossy(&table.unwrap_or_default()), pid)
    }

    /// What a control command prints, where it succeeds.
    fn control(&self, command: CommandLine) -> Option<Vec<u8>> {
        let ran = spawn::run_bounded(SpawnRequest::plain(command, true), CONTROL).ok()?;
        ran.0
            .is_some_and(|status| status.success())
            .then_some(ran.1)
    }
}

/// The descendants of a process in a table whose header names the columns `PID` and `PPID`.
fn descendants(table: &str, of: u32) -> BTreeSet<u32> {
    let mut lines = table.lines();
    let header: Vec<_> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let column = |name| header.iter().position(|column| *column == name);
    let (Some(pid), Some(parent)) = (column("PID"), column("PPID")) else {
        return BTreeSet::new();
    };
    let pairs: Vec<(u32, u32)> = lines
        .filter_map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            Some((
                cells.get(pid)?.parse().ok()?,
                cells.get(parent)?.parse().ok()?,
            ))
        })
        .collect();
    let mut found = BTreeSet::new();
    let mut pending = vec![of];
    while let Some(parent) = pending.pop() {
        let children = pairs
            .iter()
            .filter(|(_, of)| *of == parent)
            .map(|(pid, _)| *pid);
        pending.extend(
            children
                .filter(|child| found.insert(*child))
                .collect::<Vec<_>>(),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_told_by_the_columns_that_the_header_names() {
        let table = "UID  PID  PPID  C  TTY  STIME  TIME  CMD\n\
                     0    1    0     0  ?    23:08  0s    sh\n\
                     0    2    0     0  ?    23:08  10ms  sh\n\
                     0    3    2     1  ?    23:08  20ms  sleep\n\
                     0    4    3     0  ?    23:08  0s    a b 2 2\n\
                     0    5    1     0  ?    23:08  0s    other\n";
        assert_eq!(descendants(table, 2), BTreeSet::from([3, 4]));
        assert_eq!(descendants(table, 5), BTreeSet::new());
        assert_eq!(descendants("", 2), BTreeSet::new());
        assert_eq!(descendants("what\never 2 2\n", 2), BTreeSet::new());
    }
}
