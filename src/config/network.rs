//! The sandboxed network as it is asked for: what gives it, and where it leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of a container on the default Linux network.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// The length of its network's prefix.
pub const PREFIX: u8 = 24;
/// Its gateway, which stands for the host's loopback.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The gateway's name in the container.
pub const HOST_NAME: &str = "host.docker.internal";

/// The programs that give a container the default Linux network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkHelper {
    /// passt's `pasta`, which gives a network namespace its network. As `PATH` has it and not
    /// resolved, like all three: it is usually a link to `passt`, which goes by the name that it
    /// is called by.
    pub pasta: PathBuf,
    /// util-linux's `setpriv`, which ties the container's life to pasta's.
    pub setpriv: PathBuf,
    /// util-linux's `unshare`, for root alone: pasta then mounts a `/proc`.
    pub unshare: Option<PathBuf>,
}

/// How pasta and runsc stand to each other on the default Linux network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkLayout {
    /// Beside each other: the driver makes the network namespace, pasta attaches to it, and runsc
    /// enters it.
    #[default]
    Holder,
    /// pasta makes the namespace, and a PID namespace, and starts runsc in them. There no control
    /// command finds the container, so that there are no sessions.
    Wrap,
}

impl NetworkLayout {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::Wrap => "wrap",
        }
    }
}

impl fmt::Display for NetworkLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for NetworkLayout {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Holder, Self::Wrap]
            .into_iter()
            .find(|layout| layout.as_str() == word)
            .ok_or("it is holder or wrap")
    }
}

/// Where a container on the default Linux network may connect to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Egress {
    /// Wherever the host can, and to the host's loopback.
    #[default]
    All,
    /// Nowhere.
    Nothing,
    /// The host's loopback alone, at [`HOST_NAME`].
    Loopback,
    /// These alone. Names are resolved once, by us: there is no resolver.
    List(Vec<Allowed>),
}

/// One destination of a list, over TCP and UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// Where.
    pub to: Destination,
    /// The port there.
    pub port: u16,
}

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The host's loopback.
    Host,
    /// An IPv4 network, or one address where the prefix is 32 bits long.
    Network(Ipv4Addr, u8),
    /// A name, to be resolved.
    Name(String),
}

/// Why an egress policy is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--egress {entry:?} is no policy, since {reason}: write all, none, loopback, or HOST:PORT with \
     commas between, such as 192.0.2.0/24:443,example.org:443,host.docker.internal:8080"
)]
pub struct BadEgress {
    /// What was written.
    pub entry: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl BadEgress {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "bad-egress"
    }
}

impl FromStr for Egress {
    type Err = BadEgress;

    fn from_str(text: &str) -> Result<Self, BadEgress> {
        match text.trim() {
            "all" => Ok(Self::All),
            "none" => Ok(Self::Nothing),
            "loopback" => Ok(Self::Loopback),
            list => {
                let entries = list.split(',').map(|entry| entry.trim().parse());
                entries.collect::<Result<_, _>>().map(Self::List)
            }
        }
    }
}

impl FromStr for Allowed {
    type Err = BadEgress;

    fn from_str(entry: &str) -> Result<Self, BadEgress> {
        let bad = |reason| BadEgress {
            entry: entry.to_owned(),
            reason,
        };
        let (to, port) = entry.rsplit_once(':').ok_or(bad("it has no port"))?;
        // `parse` takes a sign.
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits.then(|| port.parse().ok()).flatten();
        let port = port
            .filter(|port| *port != 0)
            .ok_or(bad("its port is not a number from 1 to 65535"))?;
        let to = destination(to).map_err(bad)?;
        Ok(Self { to, port })
    }
}

fn destination(text: &str) -> Result<Destination, &'static str> {
    const OWN: &str = "that is the sandbox's own loopback, which is always open to it; the host's \
                       is host.docker.internal";
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        let IpAddr::V4(address) = address else {
            return Err("the sandbox's network has IPv4 alone");
        };
        let prefix = match prefix {
            None => 32,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= 32)
                .ok_or("its prefix is not a number from 0 to 32")?,
        };
        if address.is_loopback() {
            return Err(OWN);
        }
        if address == GATEWAY && prefix == 32 {
            return Ok(Destination::Host);
        }
        return Ok(Destination::Network(network(address, prefix), prefix));
    }
    if prefix.is_some() {
        return Err("what is before the slash is not an address");
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if name == HOST_NAME {
        return Ok(Destination::Host);
    }
    if name == "localhost" || name.ends_with(".localhost") {
        return Err(OWN);
    }
    // A name of digits and dots alone would be read as an address in an old spelling.
    let good = name.split('.').all(label) && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    if !good || name.len() > 253 {
        return Err("it is neither an address nor a host name");
    }
    Ok(Destination::Name(name))
}

fn label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// The address with nothing beyond the prefix.
fn network(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from(u32::from(address) & mask)
}

impl fmt::Display for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Nothing => f.write_str("none"),
            Self::Loopback => f.write_str("loopback"),
            Self::List(list) => {
                for (at, allowed) in list.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{allowed}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Destination::Host => f.write_str(HOST_NAME),
            Destination::Network(address, 32) => write!(f, "{address}"),
            Destination::Network(address, prefix) => write!(f, "{address}/{prefix}"),
            Destination::Name(name) => f.write_str(name),
        }?;
        write!(f, ":{}", self.port)
    }
}

/// The default Linux network of a checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pasta {
    /// passt's `pasta`.
    pub(crate) pasta: PathBuf,
    /// `nft`, where there is one.
    pub(crate) nft: Option<PathBuf>,
    /// Where a container may connect to.
    pub(crate) egress: Egress,
    /// Whether sessions may have it.
    pub(crate) sessions: bool,
    /// What puts pasta around runsc, in that layout.
    pub(crate) wrapping: Option<Wrapping>,
}

/// The programs that are around runsc in [`NetworkLayout::Wrap`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrapping {
    /// util-linux's `setpriv`.
    pub(crate) setpriv: PathBuf,
    /// `mount`, for the `/proc` that not every pasta mounts.
    pub(crate) mount: PathBuf,
    /// util-linux's `unshare`, for root.
    pub(crate) unshare: Option<PathBuf>,
}

impl Pasta {
    /// passt's `pasta`.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.pasta
    }

    /// Where a container may connect to.
    #[must_use]
    pub fn egress(&self) -> &Egress {
        &self.egress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Destination, u16)]) -> Egress {
        let allowed = |(to, port): &(Destination, u16)| Allowed {
            to: to.clone(),
            port: *port,
        };
        Egress::List(entries.iter().map(allowed).collect())
    }

    #[test]
    fn a_policy_is_a_word_or_a_list() {
        let net = |a, b, c, d, prefix| Destination::Network(Ipv4Addr::new(a, b, c, d), prefix);
        let name = |name: &str| Destination::Name(name.to_owned());
        let cases = [
            ("all", Egress::All),
            (" none ", Egress::Nothing),
            ("loopback", Egress::Loopback),
            ("192.0.2.7:443", list(&[(net(192, 0, 2, 7, 32), 443)])),
            ("192.0.2.77/24:1", list(&[(net(192, 0, 2, 0, 24), 1)])),
            ("0.0.0.0/0:443", list(&[(net(0, 0, 0, 0, 0), 443)])),
            (
                "Example.ORG.:443, a_b.test:65535",
                list(&[(name("example.org"), 443), (name("a_b.test"), 65535)]),
            ),
            (
                "host.docker.internal:80,10.0.2.2:81",
                list(&[(Destination::Host, 80), (Destination::Host, 81)]),
            ),
            ("all.test:1", list(&[(name("all.test"), 1)])),
        ];
        for (text, expected) in cases {
            let parsed: Egress = text.parse().unwrap();
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_and_says_why() {
        let port = "its port is not a number from 1 to 65535";
        let neither = "it is neither an address nor a host name";
        let cases = [
            ("", "it has no port"),
            ("example.org", "it has no port"),
            ("a.test:80,", "it has no port"),
            ("a.test:0", port),
            ("a.test:65536", port),
            ("a.test:", port),
            ("a.test:+1", port),
            ("*:80", neither),
            (":80", neither),
            ("-a.test:80", neither),
            ("a..test:80", neither),
            ("192.0.2.300:80", neither),
            ("2130706433:80", neither),
            ("192.0.2.0/33:80", "its prefix is not a number from 0 to 32"),
            ("a.test/24:80", "what is before the slash is not an address"),
            ("[2001:db8::1]:80", "the sandbox's network has IPv4 alone"),
            ("2001:db8::/32:80", "the sandbox's network has IPv4 alone"),
        ];
        for (text, reason) in cases {
            let refused = text.parse::<Egress>().unwrap_err();
            assert_eq!(refused.reason, reason, "{text}");
        }
        for own in [
            "localhost:1",
            "127.0.0.1:1",
            "127.0.0.0/8:1",
            "a.LOCALHOST:1",
        ] {
            let refused = own.parse::<Egress>().unwrap_err();
            assert!(refused.reason.contains("own loopback"), "{own}");
        }
    }
}
