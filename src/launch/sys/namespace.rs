//! A network namespace of our own: a forked process that makes it and holds it open, and the
//! sockets in it that it hands to us.
//!
//! The holder executes nothing: whatever it does is done by system calls on memory that was there
//! before the fork. It gives all of its capabilities up, since what attaches to the namespace may
//! look at no process that has more of them.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::libc;

use super::{UserMap, check, pidfd_open, tie_to};

/// The address of the resolver in a namespace: a loopback address that a program in the sandbox
/// has little reason to take for itself.
pub(crate) const RESOLVER: [u8; 4] = [127, 0, 0, 53];
const RESOLVER_PORT: u16 = 53;
/// The most descriptors that a holder hands out.
const MOST: usize = 5;

/// Which sockets to make in the namespace, beside the one that tells of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    Nothing,
    /// A datagram socket and a listening stream socket at [`RESOLVER`].
    Resolver,
    /// A datagram socket at this port of every address.
    Datagrams(u16),
}

/// Which network namespace a holder holds.
#[derive(Debug)]
pub(crate) enum Which {
    /// One that it makes, in a user namespace that it makes too; in the machine's own for root.
    New(Option<UserMap>),
    /// One that is there.
    There(Enter),
}

impl Which {
    /// Whether it makes a user namespace.
    fn makes_user(&self) -> bool {
        matches!(self, Self::New(Some(_)))
    }
}

/// What a holder is to make.
#[derive(Debug)]
pub(crate) struct HolderSetup {
    pub namespace: Which,
    pub inside: Inside,
}

/// What a holder was doing as it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HolderStep {
    UserNamespace = 1,
    NetworkNamespace = 2,
    Sockets = 3,
    Settle = 4,
}

impl HolderStep {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::UserNamespace,
            2 => Self::NetworkNamespace,
            3 => Self::Sockets,
            _ => Self::Settle,
        }
    }
}

/// A namespace, held open by a process of ours. Dropped, that is ended and awaited; the namespace
/// stays for as long as anything is in it or has a descriptor of it.
#[derive(Debug)]
pub(crate) struct Holder {
    pid: libc::pid_t,
    pidfd: OwnedFd,
    /// Its end makes the holder end too.
    _line: OwnedFd,
    /// The user namespace, where one was made.
    pub user: Option<OwnedFd>,
    pub net: OwnedFd,
    /// Tells of each new IPv4 route in the namespace.
    pub routes: OwnedFd,
    /// The datagram socket that was asked for.
    pub datagrams: Option<OwnedFd>,
    /// The listening socket that was asked for.
    pub listener: Option<OwnedFd>,
}

impl Holder {
    pub(crate) fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = super::pidfd_kill(&self.pidfd, nix::sys::signal::Signal::SIGKILL);
        reap(self.pid);
    }
}

fn reap(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of ours that nobody else awaits, and a live integer.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Forks a holder. For the launcher's thread alone: the holder dies with the thread that forked
/// it.
pub(crate) fn hold(setup: &HolderSetup) -> Result<Holder, (HolderStep, io::Error)> {
    let failed = |err| (HolderStep::Settle, err);
    let (ours, theirs) = line().map_err(failed)?;
    // SAFETY: no precondition.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child calls only async-signal-safe system calls on memory that was allocated
    // before, and never returns from `live`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        live(setup, theirs.as_raw_fd(), parent);
    }
    if pid < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    drop(theirs);
    let held = pidfd_open(pid.cast_unsigned())
        .map_err(failed)
        .and_then(|pidfd| Ok((pidfd, receive(&ours, setup)?)));
    match held {
        Ok((
            pidfd,
            Received {
                user,
                net,
                routes,
                datagrams,
                listener,
            },
        )) => Ok(Holder {
            pid,
            pidfd,
            _line: ours,
            user,
            net,
            routes,
            datagrams,
            listener,
        }),
        Err(err) => {
            drop(ours);
            // SAFETY: a child of ours that was not awaited yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            reap(pid);
            Err(err)
        }
    }
}

/// The two ends of what a holder and we talk over.
fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: an array of two, as the call takes it.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: the kernel just gave both to us alone.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// The holder's whole life. Nothing here allocates, locks or logs.
fn live(setup: &HolderSetup, line: RawFd, parent: libc::pid_t) -> ! {
    let mut made = [-1; MOST];
    let message = match make(setup, line, parent, &mut made) {
        Ok(count) => Message {
            step: 0,
            errno: 0,
            count,
        },
        Err((step, err)) => Message {
            step: step as u8,
            errno: err.raw_os_error().unwrap_or(0),
            count: 0,
        },
    };
    message.send(&made);
    if message.step != 0 {
        // SAFETY: it ends the process without running anything of the parent's.
        unsafe { libc::_exit(1) };
    }
    let mut byte = [0u8];
    // Until our driver hangs up, or ends.
    // SAFETY: one byte of a live array, from a descriptor that is the line's after `make`.
    while unsafe { libc::read(LINE, byte.as_mut_ptr().cast(), 1) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    // SAFETY: it ends the process without running anything of the parent's.
    unsafe { libc::_exit(0) }
}

/// The line's number in the holder, which has no other descriptor of the parent's.
const LINE: RawFd = 3;

fn make(
    setup: &HolderSetup,
    line: RawFd,
    parent: libc::pid_t,
    made: &mut [RawFd; MOST],
) -> Result<usize, (HolderStep, io::Error)> {
    let at = |step| move |err| (step, err);
    let settle = at(HolderStep::Settle);
    // By descriptors that are closed next; and only then is there a line to report on.
    let entered = match &setup.namespace {
        Which::New(_) => Ok(()),
        Which::There(enter) => enter.run(),
    };
    alone(line).map_err(settle)?;
    tie_to(parent).map_err(settle)?;
    entered.map_err(at(HolderStep::NetworkNamespace))?;
    if let Which::New(map) = &setup.namespace {
        if let Some(map) = map {
            map.enter().map_err(at(HolderStep::UserNamespace))?;
        }
        // SAFETY: flags alone.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
            .map_err(at(HolderStep::NetworkNamespace))?;
    }
    let count = sockets(setup, made).map_err(at(HolderStep::Sockets))?;
    give_capabilities_up().map_err(settle)?;
    // Both are cleared by a change of credentials; what attaches looks at us through /proc.
    // SAFETY: numbers alone.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) }).map_err(settle)?;
    tie_to(parent).map_err(settle)?;
    Ok(count)
}

/// In a group of its own, out of a terminal's reach, with the line and no other descriptor: what
/// else the parent has open must end when the parent closes it.
fn alone(line: RawFd) -> io::Result<()> {
    // SAFETY: numbers alone.
    check(unsafe { libc::setpgid(0, 0) })?;
    if line != LINE {
        // SAFETY: numbers; what had the number was the parent's, whose own copy stays open.
        check(unsafe { libc::dup2(line, LINE) })?;
    }
    for (first, last) in [(0, LINE - 1), (LINE + 1, RawFd::MAX)] {
        // SAFETY: numbers alone; none of the closed ones is used after this.
        let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Makes the sockets, and opens the namespaces, in the order that [`receive`] takes them.
fn sockets(setup: &HolderSetup, made: &mut [RawFd; MOST]) -> io::Result<usize> {
    let mut count = 0;
    let mut put = |fd: RawFd| {
        made[count] = fd;
        count += 1;
    };
    if setup.namespace.makes_user() {
        put(open(c"/proc/self/ns/user")?);
    }
    put(open(c"/proc/self/ns/net")?);
    put(route_socket()?);
    bring_loopback_up()?;
    match setup.inside {
        Inside::Nothing => {}
        Inside::Resolver => {
            put(bound(libc::SOCK_DGRAM, RESOLVER, RESOLVER_PORT)?);
            let listener = bound(libc::SOCK_STREAM, RESOLVER, RESOLVER_PORT)?;
            // SAFETY: numbers alone.
            check(unsafe { libc::listen(listener, 64) })?;
            put(listener);
        }
        Inside::Datagrams(port) => put(bound(libc::SOCK_DGRAM, [0; 4], port)?),
    }
    Ok(count)
}

fn open(path: &std::ffi::CStr) -> io::Result<RawFd> {
    // SAFETY: a NUL-terminated path.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    check(fd)?;
    Ok(fd)
}

/// A socket that is told of new IPv4 routes.
fn route_socket() -> io::Result<RawFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: numbers alone.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    check(fd)?;
    // SAFETY: a structure of numbers, for which zeroes are values.
    let mut address: libc::sockaddr_nl = unsafe { zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = libc::RTMGRP_IPV4_ROUTE as u32;
    bind(
        fd,
        (&raw const address).cast(),
        size_of::<libc::sockaddr_nl>(),
    )?;
    Ok(fd)
}

fn bring_loopback_up() -> io::Result<()> {
    // SAFETY: numbers alone.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: a structure of numbers, for which zeroes are values.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: a live request of the kind that this call takes.
    let result = check(unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &raw mut request) });
    // SAFETY: opened above, and closed once.
    unsafe { libc::close(fd) };
    result
}

fn bound(kind: libc::c_int, address: [u8; 4], port: u16) -> io::Result<RawFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: numbers alone.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    check(fd)?;
    // SAFETY: a structure of numbers, for which zeroes are values.
    let mut to: libc::sockaddr_in = unsafe { zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_port = port.to_be();
    to.sin_addr.s_addr = u32::from_ne_bytes(address);
    bind(fd, (&raw const to).cast(), size_of::<libc::sockaddr_in>())?;
    Ok(fd)
}

fn bind(fd: RawFd, address: *const libc::sockaddr, length: usize) -> io::Result<()> {
    // SAFETY: every caller passes a live address with its own length.
    check(unsafe { libc::bind(fd, address, length as libc::socklen_t) })
}

fn give_capabilities_up() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // Effective, permitted and inheritable, twice.
    let none = [0u32; 6];
    // SAFETY: a header and the two triples that its version says.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What a holder says once: how far it came, and how many descriptors come along.
struct Message {
    step: u8,
    errno: i32,
    count: usize,
}

/// Room for the control message of [`MOST`] descriptors, aligned as its header.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Message {
    const LENGTH: usize = 5;

    /// Nobody is told where this fails: the parent finds the line broken.
    fn send(&self, made: &[RawFd; MOST]) {
        let mut text = [0u8; Self::LENGTH];
        text[0] = self.step;
        text[1..].copy_from_slice(&self.errno.to_ne_bytes());
        let mut part = libc::iovec {
            iov_base: text.as_mut_ptr().cast(),
            iov_len: text.len(),
        };
        let mut control = Control([0; 64]);
        let length = (self.count * size_of::<RawFd>()) as u32;
        // SAFETY: a structure of numbers and pointers, for which zeroes are values.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if self.count > 0 {
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: the room is enough for MOST descriptors, so the first header and its data
            // lie within it; all of it is live until the call is over.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(length) as _;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(length) as _;
                std::ptr::copy_nonoverlapping(
                    made.as_ptr().cast::<u8>(),
                    libc::CMSG_DATA(first),
                    length as usize,
                );
            }
        }
        // SAFETY: every part of the message is live.
        unsafe { libc::sendmsg(LINE, &raw const header, libc::MSG_NOSIGNAL) };
    }
}

struct Received {
    user: Option<OwnedFd>,
    net: OwnedFd,
    routes: OwnedFd,
    datagrams: Option<OwnedFd>,
    listener: Option<OwnedFd>,
}

/// What the holder hands out, or where it failed. It blocks for as long as a few system calls take.
fn receive(line: &OwnedFd, setup: &HolderSetup) -> Result<Received, (HolderStep, io::Error)> {
    let broken = || {
        let err = io::Error::from(io::ErrorKind::BrokenPipe);
        (HolderStep::Settle, err)
    };
    let mut text = [0u8; Message::LENGTH];
    let (length, fds) =
        receive_message(line, &mut text).map_err(|err| (HolderStep::Settle, err))?;
    if length != text.len() {
        return Err(broken());
    }
    if text[0] != 0 {
        let errno = i32::from_ne_bytes([text[1], text[2], text[3], text[4]]);
        let err = io::Error::from_raw_os_error(errno);
        return Err((HolderStep::from_byte(text[0]), err));
    }
    let mut fds = fds.into_iter();
    let user = match setup.namespace.makes_user() {
        true => Some(fds.next().ok_or_else(broken)?),
        false => None,
    };
    Ok(Received {
        user,
        net: fds.next().ok_or_else(broken)?,
        routes: fds.next().ok_or_else(broken)?,
        datagrams: fds.next(),
        listener: fds.next(),
    })
}

fn receive_message(line: &OwnedFd, text: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec {
        iov_base: text.as_mut_ptr().cast(),
        iov_len: text.len(),
    };
    let mut control = Control([0; 64]);
    // SAFETY: a structure of numbers and pointers, for which zeroes are values.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    let length = loop {
        // SAFETY: every part of the message is live and as long as it says.
        let length =
            unsafe { libc::recvmsg(line.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if length >= 0 {
            break length.cast_unsigned();
        }
        let err = io::Error::last_os_error();
        if err.kind() != io::ErrorKind::Interrupted {
            return Err(err);
        }
    };
    let mut fds = Vec::new();
    // SAFETY: the kernel filled the header in; a first control header is within the room, and so
    // is as much data as it says. Each descriptor was just given to us alone.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if !first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS {
            let data = libc::CMSG_DATA(first);
            let bytes = (*first).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            for at in 0..bytes / size_of::<RawFd>() {
                let fd = data.cast::<RawFd>().add(at).read_unaligned();
                fds.push(OwnedFd::from_raw_fd(fd));
            }
        }
    }
    Ok((length, fds))
}

/// Namespaces that a child enters, of a [`Holder`]'s.
#[derive(Debug)]
pub(crate) struct Enter {
    pub user: Option<OwnedFd>,
    pub net: Option<OwnedFd>,
}

impl Enter {
    /// In the child, before it makes mounts: the user namespace gives it the right to.
    pub(super) fn run(&self) -> io::Result<()> {
        for (fd, kind) in [
            (&self.user, libc::CLONE_NEWUSER),
            (&self.net, libc::CLONE_NEWNET),
        ] {
            if let Some(fd) = fd {
                // SAFETY: a live descriptor of a namespace and its kind; the forked child has one
                // thread.
                check(unsafe { libc::setns(fd.as_raw_fd(), kind) })?;
            }
        }
        Ok(())
    }
}
