//! pasta around runsc: what the driver does while the shell between them waits.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::{mkfifo, read};

use super::NetworkError;
use super::guard::Guard;
use super::ports::Ports;
use super::up::{ATTACHED, check_tun, last_line, load_rules, log_of, ports_for, resolver_inside};
use crate::launch::LaunchError;
use crate::launch::spawn::{self, what_is_there};
use crate::launch::state::{First, descendants};
use crate::launch::sys::namespace::{HolderSetup, Inside, Which};
use crate::launch::sys::{self, Enter};
use crate::plan::CommandLine;
use crate::plan::network::wrap::Meeting;
use crate::plan::network::{NetworkPlan, Reach};

/// Where the shell comes to before it starts runsc. The pipes are there before it is.
#[derive(Debug)]
pub(crate) struct Gate {
    network: NetworkPlan,
    log: PathBuf,
    ports: Option<Arc<Ports>>,
    stderr: OwnedFd,
    go: File,
}

/// What a container in such a network needs for as long as it runs.
pub(crate) struct Behind {
    /// Whether datagrams leave a container on this machine, where that was tried.
    pub(crate) datagrams: Option<bool>,
    _guard: Option<Guard>,
    /// What was written to it is lost with the last descriptor of it.
    _go: File,
    /// What pasta writes goes nowhere else.
    _words: Option<OwnedFd>,
}

impl Gate {
    /// Makes the gate of a call whose directory is there.
    pub(crate) fn make(
        meeting: &Meeting,
        network: &NetworkPlan,
        command: &CommandLine,
    ) -> Result<Self, LaunchError> {
        check_tun()?;
        for path in [meeting.stderr(), meeting.go()] {
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)
                .map_err(|errno| failed(path)(errno.into()))?;
        }
        let open = |path: PathBuf, write: bool| {
            OpenOptions::new()
                .read(true)
                .write(write)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
                .open(&path)
                .map_err(failed(path))
        };
        Ok(Self {
            network: network.clone(),
            log: log_of(command),
            ports: ports_for(network).map(Arc::new),
            stderr: open(meeting.stderr(), false)?.into(),
            go: open(meeting.go(), true)?,
        })
    }

    /// What has to be kept until pasta is gone.
    pub(crate) fn ports(&self) -> Option<Arc<Ports>> {
        self.ports.clone()
    }

    /// Waits for the shell, loads the rules and joins the resolver, and lets the shell go on. Gives
    /// the command's standard error. Blocks, for about 60 ms.
    pub(crate) fn open(
        mut self,
        pasta: u32,
        end: &OwnedFd,
        words: Option<OwnedFd>,
        reach: &Reach,
    ) -> Result<(OwnedFd, Behind), LaunchError> {
        match self.await_shell(end) {
            First::Ready => {}
            First::Neither => {
                let (program, limit) = (self.network.pasta, ATTACHED);
                return Err(NetworkError::NoRoute { program, limit }.into());
            }
            First::Ended => {
                let said = words.map(what_is_there).unwrap_or_default();
                let said = last_line(&said).unwrap_or_else(|| "it ended".to_owned());
                return Err(super::up::failed(self.network.pasta, said, &self.log).into());
            }
        }
        let namespaces =
            Namespaces::of(pasta, self.network.user_namespace.is_some()).map_err(|source| {
                let step = "pasta's";
                NetworkError::Namespace { step, source }
            })?;
        let ports = self.ports.as_deref();
        let datagrams = load_rules(&self.network, reach, ports, || namespaces.enter())?;
        let guard = self.guard(&namespaces)?;
        self.go.write_all(b"\n").map_err(LaunchError::Pipe)?;
        Ok((
            self.stderr,
            Behind {
                datagrams,
                _guard: guard,
                _go: self.go,
                _words: words,
            },
        ))
    }

    /// Waits for the one byte that comes before the command's own, or for the end of it all.
    fn await_shell(&self, end: &OwnedFd) -> First {
        let due = Instant::now() + ATTACHED;
        let mut hung_up = false;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return First::Neither;
            }
            let mut fds = vec![PollFd::new(end.as_fd(), PollFlags::POLLIN)];
            if !hung_up {
                fds.push(PollFd::new(self.stderr.as_fd(), PollFlags::POLLIN));
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut fds, timeout);
            if fds[0].any() == Some(true) {
                return First::Ended;
            }
            if fds.get(1).and_then(PollFd::any) == Some(true) {
                match read(&self.stderr, &mut [0]) {
                    Ok(1) => return First::Ready,
                    // A shell that ended before it wrote; the end of pasta follows.
                    Ok(_) => hung_up = true,
                    Err(_) => {}
                }
            }
        }
    }

    fn guard(&self, namespaces: &Namespaces) -> Result<Option<Guard>, LaunchError> {
        let inside = resolver_inside(&self.network);
        if inside == Inside::Nothing {
            return Ok(None);
        }
        let mut made = spawn::namespace(HolderSetup {
            namespace: Which::There(namespaces.enter().map_err(LaunchError::Pipe)?),
            inside,
        })?;
        let sockets = made.datagrams.take().zip(made.listener.take());
        let resolver = sockets.map(|sockets| (sockets, self.network.resolvers.clone()));
        let guard = Guard::start(None, resolver).map_err(LaunchError::Pipe)?;
        Ok(Some(guard))
    }
}

/// The namespaces of what pasta started.
struct Namespaces {
    user: Option<OwnedFd>,
    net: OwnedFd,
}

impl Namespaces {
    /// Those of the first process below pasta that is not in our network.
    fn of(pasta: u32, with_user: bool) -> io::Result<Self> {
        let ours = std::fs::metadata("/proc/self/ns/net")?.ino();
        let elsewhere = |pid: &u32| {
            let net = std::fs::metadata(format!("/proc/{pid}/ns/net"));
            net.is_ok_and(|net| net.ino() != ours)
        };
        let pid = descendants(pasta).into_iter().find(elsewhere);
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        // Held before it is looked for again: while it has not ended, its pid is no other's.
        let process = sys::pidfd_open(pid)?;
        let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}")).map(OwnedFd::from);
        let found = Self {
            user: with_user.then(|| open("user")).transpose()?,
            net: open("net")?,
        };
        let still = descendants(pasta).contains(&pid)
            && !spawn::all_ended(std::slice::from_ref(&process), Duration::ZERO);
        if still {
            Ok(found)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn enter(&self) -> io::Result<Enter> {
        Ok(Enter {
            user: self.user.as_ref().map(OwnedFd::try_clone).transpose()?,
            net: Some(self.net.try_clone()?),
        })
    }
}

fn failed(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> LaunchError {
    let path = path.as_ref().to_owned();
    move |source| LaunchError::Write { path, source }
}
