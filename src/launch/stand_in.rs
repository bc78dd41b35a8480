//! A program in whose place this process stands: it gets our streams, directory, variables and
//! descriptors, our signals, and our end; we take its exit status.
//!
//! The other place that starts a process is [`super::spawn`], which hands on nothing. Here all is
//! handed on, and the child is forked by the thread that called, which has to stay.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{LaunchError, sys};

/// The signals that are handed on. Those that stop a process stop it and its child alike.
const HANDED_ON: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Becomes the program. It returns where that failed.
#[expect(clippy::disallowed_methods, reason = "see the module's comment")]
pub(crate) fn replace(program: &Path, args: &[OsString]) -> LaunchError {
    let mut command = Command::new(program);
    // As it would have been called itself: its usage says its name.
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    let source = command.args(args).exec();
    LaunchError::Execute {
        program: program.to_owned(),
        source,
    }
}

/// Signals that wait to be handed on. Made before there is a child, so that none is lost between.
pub(crate) struct Signals {
    waiting: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Holds them back. Threads that are started from now on do the same.
    pub(crate) fn hold() -> io::Result<Self> {
        let held: SigSet = HANDED_ON.into_iter().collect();
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&held), Some(&mut before))?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            waiting: SignalFd::with_flags(&held, flags)?,
            before,
        })
    }

    /// The one that came first, where there is no child yet that it could be handed on to.
    pub(crate) fn came(&self) -> Option<Signal> {
        let info = self.waiting.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo.cast_signed())
            .ok()
            .filter(|signal| *signal != Signal::SIGWINCH)
    }

    /// Waits until a descriptor is readable or was hung up, a signal came, or the time is over;
    /// whether it was the descriptor.
    pub(crate) fn or_readable(&self, fd: &OwnedFd, limit: Duration) -> bool {
        let due = Instant::now() + limit;
        loop {
            let mut fds = [
                PollFd::new(fd.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.waiting.as_fd(), PollFlags::POLLIN),
            ];
            let left = due.saturating_duration_since(Instant::now());
            match poll(
                &mut fds,
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
            ) {
                Err(nix::Error::EINTR) => {}
                Ok(0) | Err(_) => return false,
                Ok(_) => return fds[0].any().unwrap_or(false),
            }
        }
    }
}

/// A child in whose place this process stands.
pub(crate) struct StandIn {
    child: Child,
    pidfd: OwnedFd,
    signals: Signals,
}

impl StandIn {
    /// Starts it. It dies with the calling thread.
    #[expect(clippy::disallowed_methods, reason = "see the module's comment")]
    pub(crate) fn start(
        program: &Path,
        args: &[OsString],
        signals: Signals,
    ) -> Result<Self, LaunchError> {
        let mut command = Command::new(program);
        command.args(args);
        sys::tie_and_unmask(&mut command, signals.before);
        let mut child = command.spawn().map_err(|source| LaunchError::Execute {
            program: program.to_owned(),
            source,
        })?;
        match sys::pidfd_open(child.id()) {
            Ok(pidfd) => Ok(Self {
                child,
                pidfd,
                signals,
            }),
            Err(source) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(LaunchError::Tie {
                    program: program.to_owned(),
                    source,
                })
            }
        }
    }

    /// Hands signals on until the child has ended. It has, also where this fails.
    pub(crate) fn wait(mut self) -> io::Result<ExitStatus> {
        let ended = self.until_the_end();
        if ended.is_err() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        ended
    }

    fn until_the_end(&mut self) -> io::Result<ExitStatus> {
        loop {
            let mut fds = [
                PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.waiting.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.hand_on();
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
        }
    }

    fn hand_on(&mut self) {
        while let Ok(Some(info)) = self.signals.waiting.read_signal() {
            // A terminal's go to all of its foreground processes, the child among them.
            if info.ssi_code == libc::SI_KERNEL {
                continue;
            }
            let signal = i32::try_from(info.ssi_signo)
                .ok()
                .and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal {
                // It fails where the child has just ended.
                let _ = sys::pidfd_kill(&self.pidfd, signal);
            }
        }
    }
}

/// Ends as the child did: with its status, or by the signal that killed it.
pub(crate) fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(|n| Signal::try_from(n).ok()) {
        let mut only = SigSet::empty();
        only.add(signal);
        let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&only), None);
        sys::die_by(signal);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(u8::MAX))
}
