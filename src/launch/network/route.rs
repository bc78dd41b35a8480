//! Whether a namespace has its network: it has once there is a default route.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::launch::state::First;

/// Waits for the default route, by the messages of a socket that was there before it; for the end
/// of a process; or for the time to be over.
pub(super) fn await_default(routes: &OwnedFd, end: &OwnedFd, limit: Duration) -> First {
    let due = Instant::now() + limit;
    let mut buffer = [0u8; 8192];
    loop {
        while let Ok(length @ 1..) = nix::unistd::read(routes, &mut buffer) {
            if has_default(&buffer[..length]) {
                return First::Ready;
            }
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return First::Neither;
        }
        let mut fds = [
            PollFd::new(routes.as_fd(), PollFlags::POLLIN),
            PollFd::new(end.as_fd(), PollFlags::POLLIN),
        ];
        debug_assert!(routes.as_raw_fd() != end.as_raw_fd());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut fds, timeout);
        if fds[1].any() == Some(true) {
            return First::Ended;
        }
    }
}

/// Whether this machine has an IPv4 default route, as its table says (proc(5)).
pub(super) fn host_has_default() -> bool {
    std::fs::read_to_string("/proc/net/route").is_ok_and(|table| lists_default(&table))
}

/// The destination is the second field and the mask the eighth.
fn lists_default(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

/// Whether one of these messages is about a new default route (rtnetlink(7)).
fn has_default(mut messages: &[u8]) -> bool {
    /// Length, type, flags, sequence number and port.
    const HEADER: usize = 16;
    while messages.len() >= HEADER + 2 {
        let length = u32::from_ne_bytes([messages[0], messages[1], messages[2], messages[3]]);
        let length = length as usize;
        if length < HEADER + 2 || length > messages.len() {
            return false;
        }
        let kind = u16::from_ne_bytes([messages[4], messages[5]]);
        let (family, prefix) = (messages[HEADER], messages[HEADER + 1]);
        let ipv4 = i32::from(family) == libc::AF_INET;
        if kind == libc::RTM_NEWROUTE && ipv4 && prefix == 0 {
            return true;
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, family: u8, prefix: u8) -> Vec<u8> {
        let mut bytes = 28u32.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(16, 0);
        bytes.extend([family, prefix]);
        bytes.resize(28, 0);
        bytes
    }

    #[test]
    fn a_default_route_is_told_from_other_messages() {
        let default = message(libc::RTM_NEWROUTE, 2, 0);
        let others = [
            message(libc::RTM_NEWROUTE, 2, 24),
            message(libc::RTM_NEWROUTE, 10, 0),
            message(libc::RTM_DELROUTE, 2, 0),
        ];
        assert!(has_default(&default));
        assert!(!has_default(&others.concat()));
        assert!(has_default(&[others.concat(), default.clone()].concat()));
        assert!(!has_default(&default[..20]));
        assert!(!has_default(&[0; 64]));
        assert!(!has_default(&[]));
    }

    #[test]
    fn a_default_route_of_the_host_is_told_from_others() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n";
        let local = "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
        let default = "eth0\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\n";
        assert!(!lists_default(&[head, local].concat()));
        assert!(lists_default(&[head, local, default].concat()));
        assert!(!lists_default(""));
    }
}
