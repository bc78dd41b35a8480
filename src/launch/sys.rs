//! The only unsafe code: what a child does between fork and exec, and the few calls that nix lacks.
//!
//! Nothing here allocates, locks or logs after the fork: another thread of the parent may have
//! held any lock at that moment. Whatever the child needs is made before.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use tokio::io::unix::AsyncFd;

#[cfg(target_os = "linux")]
pub(crate) mod namespace;
#[cfg(target_os = "linux")]
pub(crate) use namespace::Enter;

/// Elsewhere there are no namespaces to enter.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) enum Enter {}

#[cfg(not(target_os = "linux"))]
impl Enter {
    fn run(&self) -> io::Result<()> {
        match *self {}
    }
}

/// What the child does before it becomes the program, in this order.
#[derive(Debug)]
pub(crate) struct ChildSetup {
    /// Enters namespaces that are there already.
    pub enter: Option<Enter>,
    /// Makes a user namespace in which the caller is root.
    pub user_namespace: Option<UserMap>,
    /// Mounts an overlay, in a mount namespace of its own.
    pub overlay: Option<OverlayMount>,
    /// Binds read-only, in the same.
    pub read_only: Vec<ReadOnlyBind>,
    /// Becomes the program as the first process of a PID namespace, with which all in it ends, and
    /// with a `/proc` of that. The child itself stays outside.
    pub pid_namespace: bool,
    /// Gets a byte of [`Step`] where one fails: an error's number alone does not say which.
    pub failed_step: OwnedFd,
}

/// The maps of a user namespace with one id, as the kernel's files take them.
#[derive(Debug)]
pub(crate) struct UserMap {
    pub uid_map: CString,
    pub gid_map: CString,
}

/// An overlay's mount: where, and the options that name its layers.
#[derive(Debug)]
pub(crate) struct OverlayMount {
    pub target: CString,
    pub options: CString,
}

/// A bind mount that the kernel keeps read-only.
#[derive(Debug)]
pub(crate) struct ReadOnlyBind {
    pub source: CString,
    pub target: CString,
}

/// What a child was doing as it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    UserNamespace = 1,
    Overlay = 2,
    ReadOnly = 3,
    Tie = 4,
    Enter = 5,
    PidNamespace = 6,
}

impl Step {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::UserNamespace,
            Self::Overlay,
            Self::ReadOnly,
            Self::Tie,
            Self::Enter,
            Self::PidNamespace,
        ]
        .into_iter()
        .find(|step| *step as u8 == byte)
    }
}

/// Makes `command`'s child go through `setup` first. Descriptors from 3 on are closed at exec,
/// but for those that a later `pre_exec` hands on.
pub(crate) fn prepare(command: &mut Command, setup: ChildSetup) {
    // SAFETY: getpid has no precondition and touches no memory.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the closure runs in the forked child. It calls only async-signal-safe system calls
    // on memory that was allocated before the fork, and returns errors made from errno alone.
    unsafe {
        command.pre_exec(move || setup.run(parent));
    }
}

impl ChildSetup {
    fn run(&self, parent: libc::pid_t) -> io::Result<()> {
        if let Some(enter) = &self.enter {
            self.step(Step::Enter, enter.run())?;
        }
        if let Some(map) = &self.user_namespace {
            self.step(Step::UserNamespace, map.enter())?;
        }
        if let Some(step) = self.mounts() {
            self.step(step, private_mounts())?;
        }
        if let Some(overlay) = &self.overlay {
            self.step(Step::Overlay, overlay.mount())?;
        }
        for bind in &self.read_only {
            self.step(Step::ReadOnly, bind.mount())?;
        }
        // After the namespaces: a change of credentials clears the death signal.
        self.step(Step::Tie, tie_to(parent))?;
        self.step(Step::Tie, close_on_exec_from(3))?;
        if self.pid_namespace {
            self.step(Step::PidNamespace, go_on_as_first())?;
        }
        Ok(())
    }

    /// What it needs a mount namespace of its own for, where it does.
    fn mounts(&self) -> Option<Step> {
        if self.overlay.is_some() {
            Some(Step::Overlay)
        } else if !self.read_only.is_empty() {
            Some(Step::ReadOnly)
        } else {
            self.pid_namespace.then_some(Step::PidNamespace)
        }
    }

    fn step(&self, step: Step, result: io::Result<()>) -> io::Result<()> {
        if result.is_err() {
            let byte = [step as u8];
            // SAFETY: one byte of a live array to a descriptor that self owns.
            unsafe { libc::write(self.failed_step.as_raw_fd(), byte.as_ptr().cast(), 1) };
        }
        result
    }
}

#[cfg(target_os = "linux")]
impl UserMap {
    fn enter(&self) -> io::Result<()> {
        // SAFETY: unshare takes flags alone; the forked child has one thread, as a new user
        // namespace requires.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
        // An ordinary user may map a group only after giving setgroups up.
        write_file(c"/proc/self/setgroups", c"deny")?;
        write_file(c"/proc/self/uid_map", &self.uid_map)?;
        write_file(c"/proc/self/gid_map", &self.gid_map)
    }
}

#[cfg(not(target_os = "linux"))]
impl UserMap {
    fn enter(&self) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// Enters a mount namespace whose changes the host never sees.
#[cfg(target_os = "linux")]
fn private_mounts() -> io::Result<()> {
    // SAFETY: flags alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)
}

#[cfg(target_os = "linux")]
impl OverlayMount {
    fn mount(&self) -> io::Result<()> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        let overlay = Some(c"overlay");
        mount(overlay, &self.target, overlay, flags, Some(&self.options))
    }
}

#[cfg(target_os = "linux")]
impl ReadOnlyBind {
    fn mount(&self) -> io::Result<()> {
        mount(
            Some(&self.source),
            &self.target,
            None,
            libc::MS_BIND | libc::MS_REC,
            None,
        )?;
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_RDONLY,
            attr_clr: 0,
            propagation: 0,
            userns_fd: 0,
        };
        // With what is mounted below it, which a remount would leave out.
        // SAFETY: a live NUL-terminated path and a live structure with its own size.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                self.target.as_ptr(),
                libc::AT_RECURSIVE,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

#[cfg(target_os = "linux")]
fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the strings are NUL-terminated and live; all but the target may be null.
    check(unsafe {
        libc::mount(
            pointer(source),
            target.as_ptr(),
            pointer(kind),
            flags,
            pointer(options).cast(),
        )
    })
}

#[cfg(not(target_os = "linux"))]
fn private_mounts() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

#[cfg(not(target_os = "linux"))]
impl OverlayMount {
    fn mount(&self) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

#[cfg(not(target_os = "linux"))]
impl ReadOnlyBind {
    fn mount(&self) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// Goes on in a child that is the first process of a PID namespace, with a `/proc` of it. What called
/// waits for that child's end, takes its status, and never returns.
#[cfg(target_os = "linux")]
fn go_on_as_first() -> io::Result<()> {
    // SAFETY: no precondition.
    let own = unsafe { libc::getpid() };
    // Inherited, it tells the child whether we still are: to it, we have no pid.
    // SAFETY: a number and no flags.
    let own_end = unsafe { libc::syscall(libc::SYS_pidfd_open, own, 0) };
    if own_end < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: flags alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWPID) })?;
    // SAFETY: both go on with async-signal-safe system calls alone; the parent never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: PR_SET_PDEATHSIG takes a signal's number.
            check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
            let mut end = libc::pollfd {
                fd: own_end as RawFd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live structure, and no time.
            match unsafe { libc::poll(&raw mut end, 1, 0) } {
                0 => {
                    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                    mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, None)
                }
                _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        }
        child => stand_for(child),
    }
}

/// Ends as a child does, holding nothing open meanwhile.
#[cfg(target_os = "linux")]
fn stand_for(child: libc::pid_t) -> ! {
    let mut status = 0;
    // SAFETY: numbers alone, none of which is used after; a child of ours that nobody else awaits.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        while libc::waitpid(child, &raw mut status, 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    let code = match libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => 128 + libc::WTERMSIG(status),
    };
    // SAFETY: it ends the process without running anything of the parent's.
    unsafe { libc::_exit(code) }
}

#[cfg(not(target_os = "linux"))]
fn go_on_as_first() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}

/// The child dies with the thread that forked it, and at once where that is gone already.
#[cfg(target_os = "linux")]
fn tie_to(parent: libc::pid_t) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal's number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: no precondition.
    if unsafe { libc::getppid() } != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

/// macOS has no such signal: there the held standard input is what ends a container.
#[cfg(not(target_os = "linux"))]
fn tie_to(_parent: libc::pid_t) -> io::Result<()> {
    Ok(())
}

/// Marks, and does not close: the pipe on which the standard library reports a failed exec is one
/// of them.
#[cfg(target_os = "linux")]
fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: a range of numbers and a flag.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    // SAFETY: no precondition; numbers that are not open are left alone.
    unsafe {
        let limit = libc::getdtablesize();
        for fd in first as RawFd..limit {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn write_file(path: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: a NUL-terminated path; the descriptor is closed below.
    let fd: RawFd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    check(fd)?;
    // SAFETY: the text is live and this long.
    let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.count_bytes()) };
    let result = if written < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    };
    // SAFETY: fd was opened above and is closed once.
    unsafe { libc::close(fd) };
    result
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A descriptor that becomes readable when the process has ended, zombie or not.
///
/// # Errors
/// No such process, or no such call in this kernel (before Linux 5.3).
#[cfg(target_os = "linux")]
pub fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a number and no flags.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// A descriptor that async code can wait for.
///
/// # Errors
/// The runtime has no I/O, or the descriptor is of a kind that cannot be waited for.
pub(crate) fn awaitable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd stays the same open descriptor for as long as the registration owns it.
    Ok(unsafe { AsyncFd::register(fd) }?)
}

/// Sends a signal to the process that a descriptor stands for, and to no other that took its pid.
///
/// # Errors
/// The process has ended and was awaited.
#[cfg(target_os = "linux")]
pub(crate) fn pidfd_kill(pidfd: &OwnedFd, signal: nix::sys::signal::Signal) -> io::Result<()> {
    let null: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: a live descriptor, a signal's number, a null info and no flags.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal as i32,
            null,
            0,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Takes over a descriptor that this process was started with, and keeps it from its children.
///
/// # Errors
/// The number is not open.
#[cfg(target_os = "linux")]
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a number and flags; fcntl checks the number.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, it was opened by nobody in this process, and it is adopted once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes `command`'s child die with the thread that starts it, with this mask of signals.
#[cfg(target_os = "linux")]
pub(crate) fn tie_and_unmask(command: &mut Command, mask: nix::sys::signal::SigSet) {
    // SAFETY: getpid has no precondition and touches no memory.
    let parent = unsafe { libc::getpid() };
    let set = move || {
        tie_to(parent)?;
        let null = std::ptr::null_mut();
        // SAFETY: a live set of signals, and no place for the old one.
        check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask.as_ref(), null) })
    };
    // SAFETY: the closure runs in the forked child. It calls only async-signal-safe system calls
    // on memory that was moved into it before the fork.
    unsafe {
        command.pre_exec(set);
    }
}

/// Ends this process by a signal, as if it had never been caught, so that a shell sees why.
pub fn die_by(signal: nix::sys::signal::Signal) {
    use nix::sys::signal::{SigHandler, raise, signal as set_handler};
    // SAFETY: the default action is no handler of ours.
    let restored = unsafe { set_handler(signal, SigHandler::SigDfl) };
    if restored.is_ok() {
        let _ = raise(signal);
    }
}
