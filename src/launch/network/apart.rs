//! Whether the datagrams of two containers are kept apart, for the doctor: found out by two
//! namespaces that send from one port to one server.
//!
//! Calls need not ask. The rules let nothing out but from the container's own ports, and where the
//! kernel does not know them, no datagram leaves. That the answers come back is what is seen here.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ports::Ports;
use super::up::{attach, enter, hold, load};
use crate::config::network::{Egress, GATEWAY};
use crate::launch::LaunchError;
use crate::launch::spawn::Child;
use crate::launch::sys::namespace::Inside;
use crate::plan::IdMap;
use crate::plan::network::{self, Reach, rules};

/// How many datagrams each sends.
const ROUNDS: u8 = 8;
/// How long all answers may take: they take about a millisecond.
const LIMIT: Duration = Duration::from_millis(500);

/// One of the two.
struct Side {
    socket: UdpSocket,
    _pasta: Child,
    _ports: Ports,
}

/// Whether two containers are kept apart. Blocks, for about 100 ms.
pub(crate) fn keeps_apart(
    pasta: &Path,
    nft: &Path,
    map: Option<IdMap>,
) -> Result<bool, LaunchError> {
    let mut random = [0u8; 10];
    getrandom::fill(&mut random).map_err(|err| LaunchError::Pipe(io::Error::other(err)))?;
    let port = 20_000 + u16::from_ne_bytes([random[0], random[1]]) % 12_000;
    // None where it cannot be told: all ports are taken, or the kernel does not know such rules.
    let side = || -> Result<Option<Side>, LaunchError> {
        let Some(ports) = Ports::take() else {
            return Ok(None);
        };
        let mut holder = hold(map, Inside::Datagrams(port))?;
        let text = rules::text(&Egress::Loopback, &Reach::default(), Some(&ports.range()));
        let namespaces = enter(&holder, true).map_err(LaunchError::Pipe)?;
        if let Err(err) = load(nft, &text, namespaces) {
            tracing::warn!(%err, "the rules that keep datagrams apart were not loaded");
            return Ok(None);
        }
        let command = network::attach(pasta, Path::new("/dev/null"));
        let (child, _) = attach(&command, &holder)?;
        let socket = holder.datagrams.take().ok_or(LaunchError::NoLauncher)?;
        Ok(Some(Side {
            socket: socket.into(),
            _pasta: child,
            _ports: ports,
        }))
    };
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(side);
        let broken = |_| Err(LaunchError::NoLauncher);
        (side(), other.join().unwrap_or_else(broken))
    });
    let (Some(a), Some(b)) = (a?, b?) else {
        return Ok(false);
    };
    let sides = [a, b];
    // Where it cannot be told, it is taken to mix them.
    let apart = exchange(&sides, &random[2..]).unwrap_or(false);
    // An end of a pasta takes longer than its start, and nobody has to wait for these.
    let _ = std::thread::Builder::new()
        .name("runsc-network-probe".to_owned())
        .spawn(move || drop(sides));
    Ok(apart)
}

/// Has a server on the host's loopback send everything back, and looks who gets what.
fn exchange(sides: &[Side; 2], nonce: &[u8]) -> io::Result<bool> {
    let due = Instant::now() + LIMIT;
    let server = server()?;
    server.set_nonblocking(true)?;
    let to = SocketAddr::from((GATEWAY, server.local_addr()?.port()));
    for round in 0..ROUNDS {
        let message = |of: usize| [nonce, &[of as u8, round]].concat();
        for (of, side) in sides.iter().enumerate() {
            side.socket.send_to(&message(of), to)?;
        }
        let mut answered = [false; 2];
        while answered != [true; 2] {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            wait(&[&server, &sides[0].socket, &sides[1].socket], left);
            while let Some((bytes, from)) = receive(&server) {
                server.send_to(&bytes, from)?;
            }
            for (of, side) in sides.iter().enumerate() {
                while let Some((bytes, _)) = receive(&side.socket) {
                    if bytes == message(of) {
                        answered[of] = true;
                    } else if bytes.starts_with(nonce) && bytes != message(of) {
                        return Ok(false);
                    }
                }
            }
        }
    }
    Ok(true)
}

/// At a port that datagrams may be sent to.
fn server() -> io::Result<UdpSocket> {
    loop {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = server.local_addr()?.port();
        if !rules::ZONE.contains(&port) {
            return Ok(server);
        }
        // This machine gives its programs such ports too: any below them.
        if let Ok(server) = UdpSocket::bind((
            Ipv4Addr::LOCALHOST,
            port - rules::PORTS_EACH * rules::SHARES,
        )) {
            return Ok(server);
        }
    }
}

fn wait(sockets: &[&UdpSocket], limit: Duration) {
    let mut fds: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut fds, timeout);
}

fn receive(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = [0; 64];
    let (length, from) = socket.recv_from(&mut buffer).ok()?;
    Some((buffer[..length].to_vec(), from))
}
