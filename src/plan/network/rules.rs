//! The rules of a container's network, as nft reads them.
//!
//! They are about what leaves the namespace, where they see every packet before pasta does. What
//! is not allowed is refused at once and not dropped: a program that waits for an answer would
//! wait in vain.
//!
//! Datagrams leave from the container's own ports alone (`launch::network::ports`), whatever port
//! its program sends from, and only answers to them come in. They leave for no port that another
//! container's may leave from: two that agreed on that could speak to each other by the host.

use std::fmt::Write;
use std::ops::RangeInclusive;

use super::Reach;
use crate::config::network::{ADDRESS, Destination, Egress, GATEWAY};

/// The ports that datagrams leave from: beyond those that Linux gives its own programs, and that
/// servers listen at.
pub const ZONE: RangeInclusive<u16> = 61_440..=65_535;
/// How many ports a container has. To one server, it can have as many conversations at once, and one
/// of a question and its answer counts for 5 s.
pub const PORTS_EACH: u16 = 64;
/// How long an answer is waited for, in seconds.
const QUESTION: u8 = 5;
/// How long a conversation may be silent, in seconds.
const SILENCE: u8 = 120;
/// How many containers can have ports of their own at once.
pub const SHARES: u16 = (*ZONE.end() - *ZONE.start() + 1) / PORTS_EACH;

/// The ports of a share, which is less than [`SHARES`].
#[must_use]
pub fn ports_of(share: u16) -> RangeInclusive<u16> {
    let first = *ZONE.start() + share * PORTS_EACH;
    first..=first + (PORTS_EACH - 1)
}

/// The rules. Without ports for them, no datagrams leave.
#[must_use]
pub fn text(egress: &Egress, reach: &Reach, datagrams: Option<&RangeInclusive<u16>>) -> String {
    // The sandbox's own, and the resolver that we keep there.
    let mut rules = vec!["oif lo accept".to_owned()];
    let (protocols, ports) = match datagrams {
        Some(_) => ("{ tcp, udp }", "meta l4proto { tcp, udp } th dport"),
        None => ("tcp", "tcp dport"),
    };
    if datagrams.is_some() {
        rules.push(format!("udp dport {} jump refuse", range(&ZONE)));
        rules.push("meta l4proto udp ct state new ct timeout set \"short\"".to_owned());
    }
    match egress {
        Egress::All => rules.push(format!("meta l4proto {protocols} accept")),
        Egress::Nothing => {}
        Egress::Loopback => {
            rules.push(format!(
                "ip daddr {GATEWAY} meta l4proto {protocols} accept"
            ));
        }
        Egress::List(list) => {
            let mut others = Vec::new();
            for allowed in list {
                let port = allowed.port;
                match &allowed.to {
                    Destination::Host => {
                        rules.push(format!("ip daddr {GATEWAY} {ports} {port} accept"));
                    }
                    Destination::Network(address, prefix) => {
                        others.push(format!("ip daddr {address}/{prefix} {ports} {port} accept"));
                    }
                    Destination::Name(name) => {
                        let pinned = reach.names.iter().find(|(pinned, _)| pinned == name);
                        for address in pinned.iter().flat_map(|(_, addresses)| addresses) {
                            others.push(format!("ip daddr {address} {ports} {port} accept"));
                        }
                    }
                }
            }
            // A network that happens to hold the gateway, or a name that claims to be it, does not
            // open the host.
            rules.push(format!("ip daddr {GATEWAY} jump refuse"));
            rules.extend(others);
        }
    }
    rules.push("jump refuse".to_owned());
    tables(&rules, datagrams)
}

fn range(ports: &RangeInclusive<u16>) -> String {
    format!("{}-{}", ports.start(), ports.end())
}

fn tables(rules: &[String], datagrams: Option<&RangeInclusive<u16>>) -> String {
    let mut text = String::from("table inet runsc_driver {\n");
    if datagrams.is_some() {
        let _ = write!(
            text,
            "\tct timeout short {{\n\
             \t\tprotocol udp\n\
             \t\tl3proto ip\n\
             \t\tpolicy = {{ unreplied : {QUESTION}, replied : {SILENCE} }}\n\
             \t}}\n"
        );
    }
    text.push_str(
        "\tchain refuse {\n\
         \t\tmeta l4proto tcp reject with tcp reset\n\
         \t\treject with icmpx type admin-prohibited\n\
         \t}\n\
         \tchain output {\n\
         \t\ttype filter hook output priority 0; policy drop;\n",
    );
    for rule in rules {
        let _ = writeln!(text, "\t\t{rule}");
    }
    text.push_str("\t}\n");
    if let Some(ports) = datagrams {
        let ports = range(ports);
        // The last chain is for what the one before it leaves alone, a packet that no conversation
        // is kept of.
        let _ = write!(
            text,
            "\tchain input {{\n\
             \t\ttype filter hook input priority 0; policy accept;\n\
             \t\tiif != lo meta l4proto udp ct state != {{ established, related }} drop\n\
             \t}}\n\
             \tchain ports {{\n\
             \t\ttype nat hook postrouting priority 100;\n\
             \t\toif != lo meta l4proto udp snat ip to {ADDRESS}:{ports}\n\
             \t}}\n\
             \tchain apart {{\n\
             \t\ttype filter hook postrouting priority 110; policy accept;\n\
             \t\toif != lo udp sport != {ports} drop\n\
             \t}}\n"
        );
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// The rules of each chain, its type left out.
    fn chains(egress: &str, datagrams: bool) -> Vec<(String, Vec<String>)> {
        let reach = Reach {
            names: vec![(
                "a.test".to_owned(),
                vec![Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
            )],
        };
        let ports = datagrams.then(|| ports_of(1));
        let text = text(&egress.parse().unwrap(), &reach, ports.as_ref());
        let chains = text.split("\tchain ").skip(1);
        let chain = |chain: &str| {
            let (name, rules) = chain.split_once(" {\n").unwrap();
            let rules = rules.lines().filter_map(|line| line.strip_prefix("\t\t"));
            let rules = rules.filter(|rule| !rule.starts_with("type "));
            (name.to_owned(), rules.map(str::to_owned).collect())
        };
        chains.map(chain).collect()
    }

    fn output(egress: &str, datagrams: bool) -> Vec<String> {
        let chains = chains(egress, datagrams);
        let output = chains.into_iter().find(|(name, _)| name == "output");
        output.unwrap().1
    }

    #[test]
    fn the_rules_follow_from_the_policy() {
        let last = "jump refuse";
        let zone = "udp dport 61440-65535 jump refuse";
        let short = "meta l4proto udp ct state new ct timeout set \"short\"";
        let cases: [(&str, bool, &[&str]); 8] = [
            (
                "all",
                true,
                &[
                    "oif lo accept",
                    zone,
                    short,
                    "meta l4proto { tcp, udp } accept",
                    last,
                ],
            ),
            (
                "all",
                false,
                &["oif lo accept", "meta l4proto tcp accept", last],
            ),
            ("none", false, &["oif lo accept", last]),
            (
                "loopback",
                true,
                &[
                    "oif lo accept",
                    zone,
                    short,
                    "ip daddr 10.0.2.2 meta l4proto { tcp, udp } accept",
                    last,
                ],
            ),
            (
                "loopback",
                false,
                &[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 meta l4proto tcp accept",
                    last,
                ],
            ),
            (
                "10.0.0.0/8:443,a.test:80,host.docker.internal:81",
                false,
                &[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 tcp dport 81 accept",
                    "ip daddr 10.0.2.2 jump refuse",
                    "ip daddr 10.0.0.0/8 tcp dport 443 accept",
                    "ip daddr 192.0.2.1 tcp dport 80 accept",
                    "ip daddr 192.0.2.2 tcp dport 80 accept",
                    last,
                ],
            ),
            (
                "192.0.2.9:53",
                true,
                &[
                    "oif lo accept",
                    zone,
                    short,
                    "ip daddr 10.0.2.2 jump refuse",
                    "ip daddr 192.0.2.9/32 meta l4proto { tcp, udp } th dport 53 accept",
                    last,
                ],
            ),
            (
                "192.0.2.9:53",
                false,
                &[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 jump refuse",
                    "ip daddr 192.0.2.9/32 tcp dport 53 accept",
                    last,
                ],
            ),
        ];
        for (egress, datagrams, expected) in cases {
            assert_eq!(output(egress, datagrams), expected, "{egress} {datagrams}");
        }
    }

    #[test]
    fn datagrams_leave_from_the_containers_ports_alone() {
        let others = |datagrams| {
            let mut chains = chains("all", datagrams);
            chains.retain(|(name, _)| name != "refuse" && name != "output");
            chains
        };
        assert_eq!(others(false), []);
        let chain = |name: &str, rule: &str| (name.to_owned(), vec![rule.to_owned()]);
        assert_eq!(
            others(true),
            [
                chain(
                    "input",
                    "iif != lo meta l4proto udp ct state != { established, related } drop"
                ),
                chain(
                    "ports",
                    "oif != lo meta l4proto udp snat ip to 10.0.2.15:61504-61567"
                ),
                chain("apart", "oif != lo udp sport != 61504-61567 drop"),
            ]
        );
    }

    #[test]
    fn the_shares_fill_the_zone_and_do_not_overlap() {
        let mut next = *ZONE.start();
        for share in 0..SHARES {
            let ports = ports_of(share);
            assert_eq!(*ports.start(), next);
            next = ports.end().wrapping_add(1);
        }
        assert_eq!(next, ZONE.end().wrapping_add(1));
    }
}
