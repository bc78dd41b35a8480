//! What has to be found out before a container is started on a network: once a driver.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

use super::up::check_tun;
use super::{NetworkError, NftFor};
use crate::config::network::{Destination, Egress, Pasta};
use crate::launch::LaunchError;
use crate::plan::network::Reach;

/// Finds out. Blocks: for a thread of its own.
pub(crate) fn find(pasta: &Pasta) -> Result<Reach, LaunchError> {
    check_tun()?;
    if pasta.nft.is_none() {
        let why = NftFor::of(&pasta.egress);
        return Err(NetworkError::NoNft { why }.into());
    }
    let names = names(&pasta.egress)?;
    Ok(Reach { names })
}

fn names(egress: &Egress) -> Result<Vec<(String, Vec<Ipv4Addr>)>, NetworkError> {
    let Egress::List(list) = egress else {
        return Ok(Vec::new());
    };
    let mut names: Vec<(String, Vec<Ipv4Addr>)> = Vec::new();
    for allowed in list {
        if let Destination::Name(name) = &allowed.to
            && !names.iter().any(|(known, _)| known == name)
        {
            names.push((name.clone(), addresses(name)?));
        }
    }
    Ok(names)
}

/// The addresses that a name stands for. One of the sandbox's own would not lead where the name
/// does on the host, so it is none.
fn addresses(name: &str) -> Result<Vec<Ipv4Addr>, NetworkError> {
    let unresolved = |reason: String| NetworkError::Name {
        name: name.to_owned(),
        reason,
    };
    let found = (name, 0)
        .to_socket_addrs()
        .map_err(|err| unresolved(err.to_string()))?;
    let mut addresses: Vec<_> = found
        .filter_map(|address| match address.ip() {
            IpAddr::V4(address) if !address.is_loopback() && !address.is_unspecified() => {
                Some(address)
            }
            _ => None,
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(unresolved("it stands for no other machine".to_owned()));
    }
    Ok(addresses)
}
