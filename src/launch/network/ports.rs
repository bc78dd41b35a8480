//! The source ports that the datagrams of one container leave from, and of no other at the time.
//!
//! A pasta sends from the port on the host that the container's program sent from, and shares it:
//! what comes back goes to whichever pasta took the port last. With ports of its own for each
//! container there is nothing to share. Who has which is told by a name in the abstract namespace of
//! Unix sockets: it is the network namespace's, as the ports are, it is one user's at a time, and the
//! kernel drops it with its owner.

use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::plan::network::rules::{PORTS_EACH, SHARES, ports_of};

/// Ports of a container's own, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Ports {
    share: u16,
    _taken: UnixListener,
}

impl Ports {
    /// The first share from a random one on that nobody has; none where all are taken.
    pub(super) fn take() -> Option<Self> {
        let mut random = [0u8; 2];
        getrandom::fill(&mut random).ok()?;
        let first = u16::from_ne_bytes(random) % SHARES;
        let shares = (0..SHARES).map(|at| (first + at) % SHARES);
        let taken = |share| {
            let name = format!("runsc-driver/udp/{share}/{PORTS_EACH}");
            let address = SocketAddr::from_abstract_name(name).ok()?;
            let _taken = UnixListener::bind_addr(&address).ok()?;
            Some(Self { share, _taken })
        };
        shares.into_iter().find_map(taken)
    }

    pub(super) fn range(&self) -> RangeInclusive<u16> {
        ports_of(self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_the_same_ports_at_once() {
        let both = [Ports::take().unwrap(), Ports::take().unwrap()];
        let [a, b] = both.each_ref().map(Ports::range);
        assert!(a.end() < b.start() || b.end() < a.start(), "{a:?} {b:?}");
    }
}
