//! The only place that starts a process.
//!
//! One thread forks every child and never ends: a child's death signal fires when the *thread*
//! that forked it ends, and a runtime's threads come and go.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as StdChild, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::oneshot;

use super::LaunchError;
#[cfg(target_os = "linux")]
use super::network::NetworkError;
#[cfg(target_os = "linux")]
use super::sys::namespace::{Holder, HolderSetup, HolderStep, hold};
use super::sys::{self, ChildSetup, Enter, OverlayMount, ReadOnlyBind, Step, UserMap};
use crate::plan::{CommandLine, IdMap, Overlay, RUNSC_ENV, ReadOnly};

/// A descriptor that a child gets, and the number that it sees.
#[derive(Debug)]
pub(crate) struct Donation {
    /// Closed in this process once the child has it.
    pub file: OwnedFd,
    /// The number in the child, from 3 on.
    pub number: i32,
}

/// A process to start.
#[derive(Debug)]
pub(crate) struct SpawnRequest {
    pub command: CommandLine,
    /// Namespaces that are there already; a user namespace of its own is made in them.
    pub enter: Option<Enter>,
    pub user_namespace: Option<IdMap>,
    pub overlay: Option<Overlay>,
    pub read_only: Vec<ReadOnly>,
    /// Whether it is the first process of a PID namespace, all of which ends with it.
    pub pid_namespace: bool,
    /// Whether its standard input is a pipe; it has none otherwise.
    pub stdin: bool,
    /// Whether its output streams are pipes; they lead nowhere otherwise.
    pub output: bool,
    pub donations: Vec<Donation>,
}

impl SpawnRequest {
    /// A program that needs nothing but its arguments.
    pub(crate) fn plain(command: CommandLine, output: bool) -> Self {
        Self {
            command,
            enter: None,
            user_namespace: None,
            overlay: None,
            read_only: Vec::new(),
            pid_namespace: false,
            stdin: false,
            output,
            donations: Vec::new(),
        }
    }
}

/// Our ends of a child's standard streams.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
}

/// A child of this process. It dies with us; dropped, it is killed and awaited.
#[derive(Debug)]
pub(crate) struct Child {
    process: StdChild,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
}

impl Child {
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A descriptor of the caller's own that becomes readable when the child has ended.
    pub(crate) fn end(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    /// Kills it and its group, in which are those that it started and that did not leave.
    pub(crate) fn kill(&self) {
        // It fails where the child was awaited: then its pid, and with it the group's, may be
        // another's.
        if sys::pidfd_kill(&self.pidfd, Signal::SIGKILL).is_ok() {
            let _ = killpg(Pid::from_raw(self.pid().cast_signed()), Signal::SIGKILL);
        }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        // It fails where the child was awaited.
        let _ = sys::pidfd_kill(&self.pidfd, Signal::SIGTERM);
    }

    /// Its status, where it has ended.
    pub(crate) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.process.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits for its end, at most this long.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        all_ended(std::slice::from_ref(&self.pidfd), limit);
        self.status()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status.is_some() {
            return;
        }
        self.kill();
        // Killed, it ends within milliseconds, and only its parent can put it to rest.
        let _ = self.process.wait();
    }
}

/// Waits until the processes of all descriptors have ended, at most this long; whether they have.
pub(crate) fn all_ended(pidfds: &[OwnedFd], limit: Duration) -> bool {
    let due = Instant::now() + limit;
    pidfds.iter().all(|pidfd| {
        let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, timeout) {
                Err(nix::Error::EINTR) => {}
                Ok(0) | Err(_) => break false,
                Ok(_) => break true,
            }
        }
    })
}

/// What becomes of a request: called on the launcher's thread.
type Reply<T> = Box<dyn FnOnce(Result<T, LaunchError>) + Send>;

/// What the launcher does.
enum Job {
    Start(Box<SpawnRequest>, Reply<(Child, Pipes)>),
    #[cfg(target_os = "linux")]
    Hold(HolderSetup, Reply<Holder>),
}

impl Job {
    fn run(self) {
        match self {
            Self::Start(request, reply) => reply(start(*request)),
            #[cfg(target_os = "linux")]
            Self::Hold(setup, reply) => reply(hold(&setup).map_err(holder_error)),
        }
    }

    fn refuse(self) {
        match self {
            Self::Start(_, reply) => reply(Err(LaunchError::NoLauncher)),
            #[cfg(target_os = "linux")]
            Self::Hold(_, reply) => reply(Err(LaunchError::NoLauncher)),
        }
    }
}

#[cfg(target_os = "linux")]
fn holder_error((step, source): (HolderStep, io::Error)) -> LaunchError {
    match step {
        HolderStep::UserNamespace => LaunchError::UserNamespace { source },
        HolderStep::NetworkNamespace | HolderStep::Sockets | HolderStep::Settle => {
            let step = match step {
                HolderStep::NetworkNamespace => "unshare",
                HolderStep::Sockets => "the sockets in it",
                HolderStep::UserNamespace | HolderStep::Settle => "its holder",
            };
            NetworkError::Namespace { step, source }.into()
        }
    }
}

/// Starts a process; `reply` gets it on the launcher's thread, and decides who owns it.
pub(crate) fn submit(request: SpawnRequest, reply: Reply<(Child, Pipes)>) {
    to_launcher(Job::Start(Box::new(request), reply));
}

/// Makes a network namespace that a process holds. Blocks: for threads of our own.
#[cfg(target_os = "linux")]
pub(crate) fn namespace(setup: HolderSetup) -> Result<Holder, LaunchError> {
    let (sender, made) = channel();
    let reply = move |result| {
        let _ = sender.send(result);
    };
    to_launcher(Job::Hold(setup, Box::new(reply)));
    made.recv().map_err(|_| LaunchError::NoLauncher)?
}

fn to_launcher(job: Job) {
    static LAUNCHER: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    match LAUNCHER.get_or_init(start_launcher) {
        Some(sender) => {
            if let Err(unsent) = sender.send(job) {
                unsent.0.refuse();
            }
        }
        None => job.refuse(),
    }
}

fn start_launcher() -> Option<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let forever = move || jobs.into_iter().for_each(Job::run);
    std::thread::Builder::new()
        .name("runsc-launcher".to_owned())
        .spawn(forever)
        .ok()?;
    Some(sender)
}

/// Starts a process and waits until it has started. Blocks: for threads of our own.
pub(crate) fn begin(request: SpawnRequest) -> Result<(Child, Pipes), LaunchError> {
    let (sender, started) = channel();
    submit(
        request,
        Box::new(move |result| {
            let _ = sender.send(result);
        }),
    );
    started.recv().map_err(|_| LaunchError::NoLauncher)?
}

/// Does something that blocks on a thread of its own. It goes on where nobody waits any more.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LaunchError> {
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let _ = sender.send(work());
    };
    // Where no thread is to be had, the work is dropped, and what it owns is with it.
    std::thread::Builder::new()
        .name("runsc-blocking".to_owned())
        .spawn(work)
        .map_err(|_| LaunchError::NoLauncher)?;
    receiver.await.map_err(|_| LaunchError::NoLauncher)
}

/// What a program that was awaited wrote, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None where it was killed at its limit.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Starts a process and waits for it, at most this long. For threads of our own, never in async
/// code. Past the limit it is killed and there is no status.
pub(crate) fn run_bounded(
    request: SpawnRequest,
    limit: Duration,
) -> Result<(Option<ExitStatus>, Vec<u8>), LaunchError> {
    let ended = run_to_end(request, limit)?;
    Ok((ended.status, ended.stdout))
}

/// The same, with both of its streams.
pub(crate) fn run_to_end(request: SpawnRequest, limit: Duration) -> Result<Ended, LaunchError> {
    run_on(request, b"", limit)
}

/// The same, of a program that reads this where it has a standard input.
pub(crate) fn run_on(
    request: SpawnRequest,
    input: &[u8],
    limit: Duration,
) -> Result<Ended, LaunchError> {
    let (mut child, mut pipes) = begin(request)?;
    if let Some(stdin) = pipes.stdin.take() {
        // One that ended before it read all says why.
        let _ = std::fs::File::from(stdin).write_all(input);
    }
    let status = child.wait(limit).ok().flatten();
    Ok(leavings(status, pipes))
}

/// What a program left that has ended with this status; nothing where it has not.
pub(super) fn leavings(status: Option<ExitStatus>, pipes: Pipes) -> Ended {
    let read = |pipe: Option<OwnedFd>| status.and(pipe).map(what_is_there).unwrap_or_default();
    Ended {
        status,
        stdout: read(pipes.stdout),
        stderr: read(pipes.stderr),
    }
}

/// What a program that has ended left in its pipe. It is not waited for more: what the program
/// started may hold the other end for as long as it likes.
pub(super) fn what_is_there(pipe: OwnedFd) -> Vec<u8> {
    let mut output = Vec::new();
    if fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).is_ok() {
        // An error is the end of what is there; a pipe holds less than this.
        let _ = std::fs::File::from(pipe)
            .take(64 * 1024)
            .read_to_end(&mut output);
    }
    output
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that starts a process"
)]
fn start(mut request: SpawnRequest) -> Result<(Child, Pipes), LaunchError> {
    let (mut steps, failed_step) = io::pipe().map_err(LaunchError::Pipe)?;
    let enter = request.enter.take();
    let setup = child_setup(&request, enter, failed_step.into());
    let made = (request.overlay, request.read_only);
    let pipe_if = |wanted: bool| {
        if wanted {
            Stdio::piped()
        } else {
            Stdio::null()
        }
    };

    let mut command = Command::new(&request.command.program);
    command
        .args(&request.command.args)
        .env_clear()
        .envs(RUNSC_ENV)
        .current_dir("/")
        .process_group(0)
        .stdin(pipe_if(request.stdin))
        .stdout(pipe_if(request.output))
        .stderr(pipe_if(request.output));
    sys::prepare(&mut command, setup);
    let mappings = request
        .donations
        .into_iter()
        .map(|donation| FdMapping {
            parent_fd: donation.file,
            child_fd: donation.number,
        })
        .collect();
    // Numbers are ours and distinct; sources on a target's number are moved off it first.
    command
        .fd_mappings(mappings)
        .map_err(|_| LaunchError::NoLauncher)?;

    let spawned = command.spawn();
    drop(command);
    let mut process = match spawned {
        Ok(process) => process,
        Err(source) => {
            let mut step = [0];
            let read = steps.read(&mut step).unwrap_or(0);
            let step = Step::from_byte(step[0]).filter(|_| read == 1);
            return Err(spawn_error(step, source, &request.command.program, &made));
        }
    };
    let pipes = Pipes {
        stdin: process.stdin.take().map(OwnedFd::from),
        stdout: process.stdout.take().map(OwnedFd::from),
        stderr: process.stderr.take().map(OwnedFd::from),
    };
    match sys::pidfd_open(process.id()) {
        Ok(pidfd) => Ok((
            Child {
                process,
                pidfd,
                status: None,
            },
            pipes,
        )),
        Err(source) => {
            let _ = process.kill();
            let _ = process.wait();
            Err(LaunchError::Tie {
                program: request.command.program,
                source,
            })
        }
    }
}

fn child_setup(request: &SpawnRequest, enter: Option<Enter>, failed_step: OwnedFd) -> ChildSetup {
    ChildSetup {
        enter,
        user_namespace: request.user_namespace.map(user_map),
        overlay: request.overlay.as_ref().map(overlay_mount),
        read_only: request.read_only.iter().map(read_only_bind).collect(),
        pid_namespace: request.pid_namespace,
        failed_step,
    }
}

pub(super) fn user_map(map: IdMap) -> UserMap {
    UserMap {
        uid_map: text(format!("0 {} 1", map.uid).as_bytes()),
        gid_map: text(format!("0 {} 1", map.gid).as_bytes()),
    }
}

fn overlay_mount(overlay: &Overlay) -> OverlayMount {
    let mut options = Vec::new();
    for (name, path) in [
        ("lowerdir", &overlay.lower),
        ("upperdir", &overlay.upper),
        ("workdir", &overlay.work),
    ] {
        options.extend([name.as_bytes(), b"="].concat());
        options.extend(escape_option(path));
        options.push(b',');
    }
    // The attributes that a user namespace's root may set too.
    options.extend(b"userxattr");
    OverlayMount {
        target: text(overlay.merged.as_os_str().as_bytes()),
        options: text(&options),
    }
}

fn read_only_bind(bound: &ReadOnly) -> ReadOnlyBind {
    let path = |path: &Path| text(path.as_os_str().as_bytes());
    ReadOnlyBind {
        source: path(&bound.source),
        target: path(&bound.at),
    }
}

/// The filesystem splits its options at commas and layers at colons, unless escaped.
fn escape_option(path: &Path) -> Vec<u8> {
    let special = |byte: &u8| matches!(byte, b'\\' | b',' | b':');
    path.as_os_str()
        .as_bytes()
        .iter()
        .flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte]))
        .collect()
}

/// Paths that came from the system hold no NUL; one that did would be cut, and fail to mount.
fn text(bytes: &[u8]) -> CString {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

fn spawn_error(
    step: Option<Step>,
    source: io::Error,
    program: &Path,
    (overlay, read_only): &(Option<Overlay>, Vec<ReadOnly>),
) -> LaunchError {
    let program = program.to_owned();
    match step {
        Some(Step::UserNamespace) => LaunchError::UserNamespace { source },
        Some(Step::Overlay) => LaunchError::Overlay {
            missing: overlay
                .iter()
                .flat_map(|overlay| overlay.missing.clone())
                .collect(),
            source,
        },
        Some(Step::ReadOnly) => LaunchError::ReadOnly {
            mounts: read_only.iter().map(|bound| bound.source.clone()).collect(),
            source,
        },
        Some(Step::Tie) => LaunchError::Tie { program, source },
        Some(Step::Enter) => LaunchError::Enter { program, source },
        Some(Step::PidNamespace) => LaunchError::PidNamespace { program, source },
        None => LaunchError::Execute { program, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_options_escape_what_the_filesystem_splits_at() {
        assert_eq!(escape_option(Path::new(r"/a,b:c\d e")), br"/a\,b\:c\\d e");
    }
}
