//! Finding out by doing: a user namespace, an orphan, a private place.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ask::{LIMIT, Reading};
use crate::host::Host;
use crate::launch::spawn::{self, SpawnRequest};
use crate::launch::{LaunchError, sys};
use crate::plan::{CommandLine, IdMap, ReadOnly};
use crate::selection::find_program;
use crate::trust::scratch::random_hex;
use crate::trust::shown;

/// How long process 1 may take to reap an orphan.
const REAPED: Duration = Duration::from_millis(300);

/// A directory of the doctor's own, below the one for temporary files. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct PrivateDir(PathBuf);

impl PrivateDir {
    pub(super) fn create(host: &Host) -> Result<Self, String> {
        let name = random_hex().map_err(|err| err.to_string())?;
        let dir = host.temp_dir.join(format!("runsc-driver-doctor-{name}"));
        let make = |dir: &Path| {
            let made = std::fs::DirBuilder::new().mode(0o700).create(dir);
            made.map_err(|err| format!("{} cannot be made ({err})", shown(dir)))
        };
        make(&dir)?;
        let private = Self(dir);
        make(&private.workspace())?;
        make(&private.bound())?;
        Ok(private)
    }

    /// Where the real call works.
    pub(super) fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }

    fn bound(&self) -> PathBuf {
        self.0.join("bound")
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What came of making a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum UserNamespace {
    /// It was made, and something was mounted in it.
    Works,
    /// It was not made; the system's number for why.
    NotMade(i32, String),
    /// It was made, and gave no right to mount in it.
    Powerless(String),
    /// Something else failed.
    Other(String),
}

/// Starts a program as a run would: in a user namespace of its own, with a mount in it.
pub(super) fn user_namespace(
    host: &Host,
    dir: &PrivateDir,
    map: Option<IdMap>,
) -> Reading<UserNamespace> {
    let (Some(program), Some(map)) = (find_program("true", host), map) else {
        return Reading::Unknown("no entry of PATH holds true".to_owned());
    };
    let command = CommandLine {
        program,
        args: Vec::new(),
    };
    let request = SpawnRequest {
        user_namespace: Some(map),
        read_only: vec![ReadOnly {
            source: dir.workspace(),
            at: dir.bound(),
            directory: true,
        }],
        ..SpawnRequest::plain(command, false)
    };
    Reading::Known(match spawn::run_bounded(request, LIMIT) {
        Ok((Some(status), _)) if status.success() => UserNamespace::Works,
        Ok((status, _)) => UserNamespace::Other(match status {
            Some(status) => format!("true ended with {status}"),
            None => "true did not end".to_owned(),
        }),
        Err(LaunchError::UserNamespace { source }) => UserNamespace::NotMade(
            source.raw_os_error().unwrap_or_default(),
            source.to_string(),
        ),
        Err(LaunchError::ReadOnly { source, .. }) => UserNamespace::Powerless(source.to_string()),
        Err(err) => UserNamespace::Other(err.to_string()),
    })
}

/// Leaves an orphan that ends with our end of its pipe, and looks whether it is still there as a
/// zombie a while later.
pub(super) fn reaper(host: &Host) -> Reading<bool> {
    const SCRIPT: &str = "exec 3<&0; { read -r _; } <&3 >/dev/null 2>&1 & echo $!";
    let Some(program) = find_program("sh", host) else {
        return Reading::Unknown("no entry of PATH holds sh".to_owned());
    };
    let args = ["-c", SCRIPT].map(OsString::from).to_vec();
    let request = SpawnRequest {
        stdin: true,
        ..SpawnRequest::plain(CommandLine { program, args }, true)
    };
    let failed = || Reading::Unknown("no orphan could be made".to_owned());
    let Ok((Some(status), output)) = spawn::run_bounded(request, LIMIT) else {
        return failed();
    };
    let pid = String::from_utf8_lossy(&output).trim().parse::<u32>();
    let (true, Ok(pid)) = (status.success(), pid) else {
        return failed();
    };
    let due = Instant::now() + REAPED;
    let Ok(pidfd) = sys::pidfd_open(pid) else {
        // It is gone already.
        return Reading::Known(true);
    };
    // First its end, then its being reaped, which a newer kernel tells with a hang-up.
    for events in [PollFlags::POLLIN, PollFlags::empty()] {
        let left = due.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut [PollFd::new(pidfd.as_fd(), events)], timeout);
    }
    match state(pid) {
        None => Reading::Known(true),
        Some('Z' | 'X') => Reading::Known(false),
        Some(_) => Reading::Unknown("the orphan did not end".to_owned()),
    }
}

/// A process's state, as the kernel has it; none where there is no such process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}
