//! The host's resolvers, and what the container is told instead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::Path;

/// Where resolvers listen.
const PORT: u16 = 53;
/// The most that are asked, as glibc has it.
const MOST: usize = 3;
/// The most of the file that is read, in bytes.
const LONGEST: usize = 64 * 1024;
/// Where ours listens in the container, `launch::sys` says so too.
const OURS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);

/// What a `resolv.conf` says (resolv.conf(5)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolv {
    /// The resolvers to ask, in order. No other is ever asked.
    pub servers: Vec<SocketAddr>,
    /// The lines about names and options, for the container to have too.
    pub rest: Vec<String>,
}

impl Resolv {
    /// No resolver.
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Reads the host's. Where it names no resolver, it is the one on this machine, as it is for
    /// the host's own programs.
    pub(super) fn read(path: &Path) -> Self {
        let mut bytes = std::fs::read(path).unwrap_or_default();
        bytes.truncate(LONGEST);
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    found.servers.extend(
                        words
                            .next()
                            .and_then(server)
                            .filter(|_| found.servers.len() < MOST),
                    );
                }
                Some("search" | "domain" | "options") if plain(line) => {
                    found.rest.push(line.to_owned());
                }
                _ => {}
            }
        }
        if found.servers.is_empty() {
            found
                .servers
                .push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        found
    }

    /// What the container's file says: the one resolver there, which asks the host's.
    pub(super) fn text(&self) -> String {
        if self.servers.is_empty() {
            return "# No names are resolved here but those of /etc/hosts.\n".to_owned();
        }
        let mut text = format!("nameserver {OURS}\n");
        for line in &self.rest {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

fn plain(line: &str) -> bool {
    line.bytes()
        .all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t')
}

/// A resolver's address; a link-local one names its interface.
fn server(word: &str) -> Option<SocketAddr> {
    match word.split_once('%') {
        None => word
            .parse::<IpAddr>()
            .ok()
            .map(|address| SocketAddr::new(address, PORT)),
        Some((address, interface)) => {
            let address: Ipv6Addr = address.parse().ok()?;
            let index = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"));
            let index = index.ok()?.trim().parse().ok()?;
            Some(SocketAddrV6::new(address, PORT, 0, index).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolv(servers: &[&str], rest: &[&str]) -> Resolv {
        Resolv {
            servers: servers.iter().map(|text| text.parse().unwrap()).collect(),
            rest: rest.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn the_resolvers_are_those_of_the_host_and_no_other() {
        let cases = [
            ("", resolv(&["127.0.0.1:53"], &[])),
            ("nameserver 127.0.0.53\n", resolv(&["127.0.0.53:53"], &[])),
            (
                "# nameserver 192.0.2.9\nsearch a.test b.test\nnameserver 192.0.2.1 # one\n\
                 nameserver\t2001:db8::1\noptions edns0 trust-ad\nnameserver bad\n",
                resolv(
                    &["192.0.2.1:53", "[2001:db8::1]:53"],
                    &["search a.test b.test", "options edns0 trust-ad"],
                ),
            ),
            (
                "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n\
                 nameserver 192.0.2.4\n",
                resolv(&["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"], &[]),
            ),
            ("nameserver fe80::1%none\n", resolv(&["127.0.0.1:53"], &[])),
            ("search \u{1b}[31m\n", resolv(&["127.0.0.1:53"], &[])),
        ];
        for (text, expected) in cases {
            assert_eq!(Resolv::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn the_container_is_told_of_one_resolver_or_of_none() {
        assert_eq!(
            Resolv::parse("search a.test\nnameserver 192.0.2.1").text(),
            "nameserver 127.0.0.53\nsearch a.test\n"
        );
        assert!(!Resolv::none().text().contains("nameserver"));
    }
}
