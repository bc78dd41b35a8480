//! The rules of an egress policy, as nft reads them.
//!
//! They are about what leaves the namespace, where they see every packet before pasta does. What
//! is not allowed is refused at once and not dropped: a program that waits for an answer would
//! wait in vain.

use std::fmt::Write;

use super::Reach;
use crate::config::network::{Destination, Egress, GATEWAY};

/// The rules; none where everything may leave.
#[must_use]
pub fn text(egress: &Egress, reach: &Reach) -> Option<String> {
    if *egress == Egress::All && reach.datagrams {
        return None;
    }
    let mut rules = Vec::new();
    // The sandbox's own, and the resolver that we keep there.
    rules.push("oif lo accept".to_owned());
    let ports = if reach.datagrams {
        "meta l4proto { tcp, udp } th dport"
    } else {
        "tcp dport"
    };
    match egress {
        Egress::All => rules.push("meta l4proto tcp accept".to_owned()),
        Egress::Nothing => {}
        Egress::Loopback => rules.push(match reach.datagrams {
            true => format!("ip daddr {GATEWAY} meta l4proto {{ tcp, udp }} accept"),
            false => format!("ip daddr {GATEWAY} meta l4proto tcp accept"),
        }),
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
    Some(tables(&rules))
}

fn tables(rules: &[String]) -> String {
    let mut text = String::from(
        "table inet runsc_driver {\n\
         \tchain refuse {\n\
         \t\tmeta l4proto tcp reject with tcp reset\n\
         \t\treject with icmpx type admin-prohibited\n\
         \t}\n\
         \tchain output {\n\
         \t\ttype filter hook output priority 0; policy drop;\n",
    );
    for rule in rules {
        let _ = writeln!(text, "\t\t{rule}");
    }
    text.push_str("\t}\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn output(egress: &str, datagrams: bool) -> Option<Vec<String>> {
        let reach = Reach {
            datagrams,
            names: vec![(
                "a.test".to_owned(),
                vec![Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
            )],
        };
        let text = text(&egress.parse().unwrap(), &reach)?;
        let (_, chain) = text.split_once("policy drop;\n").unwrap();
        let rules = chain.lines().filter(|line| line.starts_with("\t\t"));
        Some(rules.map(|rule| rule.trim().to_owned()).collect())
    }

    #[test]
    fn the_rules_follow_from_the_policy() {
        let last = "jump refuse";
        let cases: [(&str, bool, Option<&[&str]>); 7] = [
            ("all", true, None),
            (
                "all",
                false,
                Some(&["oif lo accept", "meta l4proto tcp accept", last]),
            ),
            ("none", true, Some(&["oif lo accept", last])),
            (
                "loopback",
                true,
                Some(&[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 meta l4proto { tcp, udp } accept",
                    last,
                ]),
            ),
            (
                "loopback",
                false,
                Some(&[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 meta l4proto tcp accept",
                    last,
                ]),
            ),
            (
                "10.0.0.0/8:443,a.test:80,host.docker.internal:81",
                false,
                Some(&[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 tcp dport 81 accept",
                    "ip daddr 10.0.2.2 jump refuse",
                    "ip daddr 10.0.0.0/8 tcp dport 443 accept",
                    "ip daddr 192.0.2.1 tcp dport 80 accept",
                    "ip daddr 192.0.2.2 tcp dport 80 accept",
                    last,
                ]),
            ),
            (
                "192.0.2.9:53",
                true,
                Some(&[
                    "oif lo accept",
                    "ip daddr 10.0.2.2 jump refuse",
                    "ip daddr 192.0.2.9/32 meta l4proto { tcp, udp } th dport 53 accept",
                    last,
                ]),
            ),
        ];
        for (egress, datagrams, expected) in cases {
            let expected = expected.map(|rules| {
                rules
                    .iter()
                    .map(|rule| (*rule).to_owned())
                    .collect::<Vec<_>>()
            });
            assert_eq!(output(egress, datagrams), expected, "{egress} {datagrams}");
        }
    }
}
