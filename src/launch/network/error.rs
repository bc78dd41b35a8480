//! Why a container has no network.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::network::Egress;

/// Why the network of a container could not be made. No container was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The device that pasta needs cannot be opened.
    #[error(
        "/dev/net/tun cannot be opened ({0}), and pasta needs it: run `sudo modprobe tun && sudo \
         chmod 0666 /dev/net/tun`, or take the network none"
    )]
    Tun(io::Error),
    /// Rules are needed and there is no `nft` to load them.
    #[error(
        "there is no nft to load the rules with {why}: install nftables, or take the network none"
    )]
    NoNft {
        /// What the rules are for.
        why: NftFor,
    },
    /// The network namespace could not be made.
    #[error("the container's network namespace could not be made ({step}: {source})")]
    Namespace {
        /// At which step.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// `nft` did not load the rules.
    #[error(
        "nft could not load the rules of the egress policy ({said}): the kernel may lack nf_tables"
    )]
    Rules {
        /// What it wrote.
        said: String,
    },
    /// pasta ended, or did not start.
    #[error(
        "{program:?} did not give the container a network ({said}): {}, or take the network none",
        if *host_has_route {
            "see its own documentation"
        } else {
            "this machine has no IPv4 default route, without which older releases do not start, so \
             connect it"
        }
    )]
    Pasta {
        /// Which pasta.
        program: PathBuf,
        /// What it wrote.
        said: String,
        /// Whether the host can reach anything itself.
        host_has_route: bool,
    },
    /// pasta runs and there is no route yet.
    #[error("{program:?} gave the container no route within {} s", limit.as_secs())]
    NoRoute {
        /// Which pasta.
        program: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// A name of the egress policy stands for nothing.
    #[error(
        "the name {name:?} of the egress policy has no IPv4 address that could be allowed \
         ({reason}): correct it, or name an address"
    )]
    Name {
        /// The name.
        name: String,
        /// What is in the way.
        reason: String,
    },
    /// There is no such network on this platform.
    #[error("pasta's network is Linux's alone: take another network")]
    NotLinux,
}

/// What rules are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NftFor {
    /// An egress policy.
    Policy,
    /// Keeping the datagrams of two containers apart, whatever their egress is.
    Datagrams,
}

impl NftFor {
    pub(crate) fn of(egress: &Egress) -> Self {
        match egress {
            Egress::All => Self::Datagrams,
            Egress::Nothing | Egress::Loopback | Egress::List(_) => Self::Policy,
        }
    }
}

impl fmt::Display for NftFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "that keep the egress policy",
            Self::Datagrams => "that keep the datagrams of two sandboxes apart",
        })
    }
}

impl NetworkError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tun(_) => "tun-unavailable",
            Self::NoNft { .. } => "nft-missing",
            Self::Namespace { .. } => "network-namespace-unavailable",
            Self::Rules { .. } => "rules-not-loaded",
            Self::Pasta { .. } | Self::NoRoute { .. } => "pasta-failed",
            Self::Name { .. } => "egress-name-unresolved",
            Self::NotLinux => "network-unavailable",
        }
    }
}
