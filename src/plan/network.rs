//! The default Linux network, laid out: what is started beside runsc, and the files that the
//! container gets.
//!
//! The driver makes a network namespace, loads the rules of the egress policy into it, and has
//! pasta give it a network; runsc takes it as its host's. So the sandbox is below what makes its
//! network and its rules, and cannot reach either. In the layout [`wrap`], pasta makes the namespace
//! and starts runsc in it.

mod resolv;
pub mod rules;
pub mod wrap;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{CommandLine, IdMap, PlanError};
use crate::config::network::{ADDRESS, Egress, GATEWAY, HOST_NAME, PREFIX, Pasta};
use crate::config::{Mount, MountKind};
use crate::host::Host;

pub use resolv::Resolv;

/// The host's own list of resolvers.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// pasta's log, in the bundle.
const LOG: &str = "pasta.log";

/// The network of a container, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPlan {
    /// The user namespace that owns the network namespace; none for root.
    pub user_namespace: Option<IdMap>,
    /// passt's `pasta`.
    pub pasta: PathBuf,
    /// pasta beside runsc: its command line, but for the namespace that it attaches to. None where
    /// it is around runsc.
    pub beside: Option<CommandLine>,
    /// `nft`, where there is one.
    pub nft: Option<PathBuf>,
    /// Where the container may connect to.
    pub egress: Egress,
    /// The host's resolvers, which ours asks; none where there is to be no resolver.
    pub resolvers: Vec<SocketAddr>,
    /// The file that is shown as `/etc/hosts`.
    pub hosts: PathBuf,
    /// The file that is shown as `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// Its text.
    pub resolv_text: String,
}

/// Lays the network of a container with this bundle out.
///
/// # Errors
/// [`PlanError::UnknownUser`].
pub(super) fn lay_out(
    pasta: &Pasta,
    host: &Host,
    bundle_dir: &Path,
) -> Result<NetworkPlan, PlanError> {
    // A list of destinations is none where any resolver can be asked about any name.
    let resolv = match pasta.egress {
        Egress::All => Resolv::read(Path::new(RESOLV_CONF)),
        Egress::Nothing | Egress::Loopback | Egress::List(_) => Resolv::none(),
    };
    Ok(NetworkPlan {
        user_namespace: user_namespace(host)?,
        pasta: pasta.pasta.clone(),
        beside: match pasta.wrapping {
            None => Some(attach(&pasta.pasta, &bundle_dir.join(LOG))),
            Some(_) => None,
        },
        nft: pasta.nft.clone(),
        egress: pasta.egress.clone(),
        resolv_text: resolv.text(),
        resolvers: resolv.servers,
        hosts: bundle_dir.join("hosts"),
        resolv_conf: bundle_dir.join("resolv.conf"),
    })
}

/// Anybody but root makes a network namespace as the root of a user namespace.
pub(crate) fn user_namespace(host: &Host) -> Result<Option<IdMap>, PlanError> {
    match (host.uid, host.gid) {
        (Some(0), _) => Ok(None),
        (Some(uid), Some(gid)) => Ok(Some(IdMap { uid, gid })),
        _ => Err(PlanError::UnknownUser),
    }
}

/// pasta beside runsc, in the foreground.
pub(crate) fn attach(pasta: &Path, log: &Path) -> CommandLine {
    let mut args = vec!["-f".into()];
    args.extend(fixed(log));
    // The namespace goes by a process that ends before it; newer releases look whether its path is
    // still there, once a second.
    args.push("--no-netns-quit".into());
    CommandLine {
        program: pasta.to_owned(),
        args,
    }
}

/// What every pasta is told: the container's addresses, every port forward off, and that the
/// namespaces around it stay as they are.
fn fixed(log: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["--config-net", "--quiet", "-4", "-a"]
        .map(OsString::from)
        .to_vec();
    args.extend([
        ADDRESS.to_string().into(),
        "-n".into(),
        PREFIX.to_string().into(),
        "-g".into(),
        GATEWAY.to_string().into(),
    ]);
    for forward in ["-t", "-u", "-T", "-U"] {
        args.extend([forward.into(), "none".into()]);
    }
    args.extend(["--log-file".into(), log.into()]);
    args.extend(["--netns-only", "--runas", "0"].map(OsString::from));
    args
}

impl NetworkPlan {
    /// The mounts of the container's own files. Both are read-only.
    pub(super) fn mounts(&self) -> [Mount; 2] {
        let file = |source: &Path, at: &str| Mount {
            kind: MountKind::HostBind {
                name: at.to_owned(),
            },
            host_path: source.to_owned(),
            sandbox_path: at.into(),
            read_only: true,
        };
        [
            file(&self.hosts, "/etc/hosts"),
            file(&self.resolv_conf, "/etc/resolv.conf"),
        ]
    }

    /// The files of the container, once it is known what the names of a policy stand for.
    #[must_use]
    pub fn files(&self, reach: &Reach) -> [(PathBuf, Vec<u8>); 2] {
        [
            (self.hosts.clone(), hosts(reach).into_bytes()),
            (
                self.resolv_conf.clone(),
                self.resolv_text.clone().into_bytes(),
            ),
        ]
    }
}

/// What was found out before a container is started on the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// What the names of the policy stand for.
    pub names: Vec<(String, Vec<Ipv4Addr>)>,
}

/// What `/etc/hosts` holds in a container.
fn hosts(reach: &Reach) -> String {
    let mut text = format!(
        "127.0.0.1\tlocalhost\n127.0.1.1\t{}\n{GATEWAY}\t{HOST_NAME}\n",
        super::bundle::HOSTNAME
    );
    for (name, addresses) in &reach.names {
        for address in addresses {
            text.push_str(&format!("{address}\t{name}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasta_stays_in_the_foreground_and_forwards_nothing() {
        let command = attach(Path::new("/usr/bin/pasta"), Path::new("/b/pasta.log"));
        let args: Vec<_> = command
            .args
            .iter()
            .map(|arg| arg.to_str().unwrap())
            .collect();
        let expected = "-f --config-net --quiet -4 -a 10.0.2.15 -n 24 -g 10.0.2.2 -t none -u none \
                        -T none -U none --log-file /b/pasta.log --netns-only --runas 0 --no-netns-quit";
        assert_eq!(args.join(" "), expected);
    }

    #[test]
    fn hosts_name_the_gateway_and_what_is_pinned() {
        let reach = Reach {
            names: vec![(
                "a.test".to_owned(),
                vec![Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)],
            )],
        };
        assert_eq!(
            hosts(&reach),
            "127.0.0.1\tlocalhost\n127.0.1.1\tcf-harness\n10.0.2.2\thost.docker.internal\n\
             192.0.2.1\ta.test\n192.0.2.2\ta.test\n"
        );
    }
}
