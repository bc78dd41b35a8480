//! Bringing a network up beside runsc: the namespace, the rules, and then pasta.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::guard::Guard;
use super::ports::Ports;
use super::{NetworkError, NftFor, route};
use crate::config::network::Egress;
use crate::launch::LaunchError;
use crate::launch::spawn::{self, Child, Ended, Pipes, SpawnRequest};
use crate::launch::state::First;
use crate::launch::sys::Enter;
use crate::launch::sys::namespace::{Holder, HolderSetup, Inside, Which};
use crate::launch::teardown::Token;
use crate::plan::network::{NetworkPlan, Reach, rules};
use crate::plan::{CommandLine, IdMap};

/// How long pasta may take to give a namespace its network: it takes about 10 ms.
pub(super) const ATTACHED: Duration = Duration::from_secs(5);
/// How long nft may take.
const LOADED: Duration = Duration::from_secs(5);
/// The most of what a program said that is repeated, in bytes.
const SAID: usize = 300;

/// A container's network. Dropped, it is taken down; its container is gone by then.
pub(crate) struct Network {
    /// Serves the container's resolver and watches pasta, once there is a container.
    guard: Option<Guard>,
    pasta: Child,
    /// What pasta writes goes nowhere else.
    _pipes: Pipes,
    /// Until runsc is in the namespace.
    holder: Option<Holder>,
    resolvers: Vec<std::net::SocketAddr>,
    /// Another container's once pasta is gone.
    _ports: Option<Ports>,
    datagrams: Option<bool>,
    _token: Token,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// Brings a network up, where pasta is to be beside runsc. Blocks, for about 20 ms. Where it
    /// fails, nothing of it is left.
    pub(crate) fn up(
        plan: &NetworkPlan,
        reach: &Reach,
        token: Token,
    ) -> Result<Option<Self>, LaunchError> {
        let Some(pasta) = &plan.beside else {
            return Ok(None);
        };
        check_tun()?;
        let holder = hold(plan.user_namespace, resolver_inside(plan))?;
        let ports = ports_for(plan);
        let datagrams = load_rules(plan, reach, ports.as_ref(), || enter(&holder, true))?;
        let (pasta, pipes) = attach(pasta, &holder)?;
        Ok(Some(Self {
            guard: None,
            pasta,
            _pipes: pipes,
            holder: Some(holder),
            resolvers: plan.resolvers.clone(),
            _ports: ports,
            datagrams,
            _token: token,
        }))
    }

    /// Whether datagrams leave a container on this machine, where that was tried.
    pub(crate) fn datagrams(&self) -> Option<bool> {
        self.datagrams
    }

    /// The namespaces, for runsc to enter.
    pub(crate) fn entry(&self) -> io::Result<Enter> {
        let holder = self.holder.as_ref().ok_or(io::ErrorKind::NotFound)?;
        enter(holder, true)
    }

    /// Ties a container to its network: the end of pasta is the end of it.
    pub(crate) fn tie(&mut self, runsc: OwnedFd) -> io::Result<()> {
        let Some(mut holder) = self.holder.take() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let sockets = holder.datagrams.take().zip(holder.listener.take());
        let resolver = sockets.map(|sockets| (sockets, self.resolvers.clone()));
        let tied = Some((self.pasta.end()?, runsc));
        self.guard = Some(Guard::start(tied, resolver)?);
        Ok(())
    }

    /// Whether pasta has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.pasta.status(), Ok(Some(_)))
    }
}

/// Found out before pasta is started: one that cannot open it leaves a process of its behind.
pub(super) fn check_tun() -> Result<(), NetworkError> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    opened.map(drop).map_err(NetworkError::Tun)
}

pub(super) fn hold(map: Option<IdMap>, inside: Inside) -> Result<Holder, LaunchError> {
    spawn::namespace(HolderSetup {
        namespace: Which::New(map.map(spawn::user_map)),
        inside,
    })
}

pub(super) fn resolver_inside(plan: &NetworkPlan) -> Inside {
    match plan.resolvers.is_empty() {
        true => Inside::Nothing,
        false => Inside::Resolver,
    }
}

pub(super) fn enter(holder: &Holder, net: bool) -> io::Result<Enter> {
    Ok(Enter {
        user: holder.user.as_ref().map(OwnedFd::try_clone).transpose()?,
        net: net.then(|| holder.net.try_clone()).transpose()?,
    })
}

/// The ports that a container's datagrams leave from, where any may leave.
pub(super) fn ports_for(plan: &NetworkPlan) -> Option<Ports> {
    if plan.egress == Egress::Nothing {
        return None;
    }
    let ports = Ports::take();
    if ports.is_none() {
        tracing::warn!("all ports for datagrams are taken, so that none leave this sandbox");
    }
    ports
}

/// Loads the rules of a container's network into its namespace. Says whether datagrams leave it,
/// where they were to: not every kernel knows the rules that keep them apart.
pub(super) fn load_rules(
    plan: &NetworkPlan,
    reach: &Reach,
    ports: Option<&Ports>,
    enter: impl Fn() -> io::Result<Enter>,
) -> Result<Option<bool>, LaunchError> {
    let Some(nft) = &plan.nft else {
        let why = NftFor::of(&plan.egress);
        return Err(NetworkError::NoNft { why }.into());
    };
    let load = |ports: Option<&Ports>| {
        let text = rules::text(&plan.egress, reach, ports.map(Ports::range).as_ref());
        load(nft, &text, enter().map_err(LaunchError::Pipe)?)
    };
    match (load(ports), ports) {
        (Err(LaunchError::Network(NetworkError::Rules { said })), Some(_)) => {
            tracing::warn!(%said, "no datagrams leave this sandbox");
            load(None).map(|()| Some(false))
        }
        (loaded, ports) => loaded.map(|()| ports.map(|_| true)),
    }
}

pub(super) fn load(nft: &Path, text: &str, namespaces: Enter) -> Result<(), LaunchError> {
    let command = CommandLine {
        program: nft.to_owned(),
        args: vec!["-f".into(), "-".into()],
    };
    let request = SpawnRequest {
        enter: Some(namespaces),
        stdin: true,
        ..SpawnRequest::plain(command, true)
    };
    let ended = spawn::run_on(request, text.as_bytes(), LOADED)?;
    match ended.status {
        Some(status) if status.success() => Ok(()),
        _ => Err(NetworkError::Rules { said: said(&ended) }.into()),
    }
}

/// Starts pasta on a namespace and waits until that has its network.
pub(super) fn attach(pasta: &CommandLine, holder: &Holder) -> Result<(Child, Pipes), LaunchError> {
    let mut args = pasta.args.clone();
    args.push("--netns".into());
    args.push(OsString::from(format!("/proc/{}/ns/net", holder.pid())));
    let program = pasta.program.clone();
    let command = CommandLine {
        program: program.clone(),
        args,
    };
    let request = SpawnRequest {
        // It gives the namespace its network from outside.
        enter: Some(enter(holder, false).map_err(LaunchError::Pipe)?),
        ..SpawnRequest::plain(command, true)
    };
    let (mut child, pipes) = spawn::begin(request)?;
    let end = child.end().map_err(LaunchError::Pipe)?;
    match route::await_default(&holder.routes, &end, ATTACHED) {
        First::Ready => Ok((child, pipes)),
        First::Neither => Err(NetworkError::NoRoute {
            program,
            limit: ATTACHED,
        }
        .into()),
        First::Ended => {
            let ended = spawn::leavings(child.status().ok().flatten(), pipes);
            Err(failed(program, said(&ended), &log_of(pasta)).into())
        }
    }
}

pub(super) fn log_of(pasta: &CommandLine) -> PathBuf {
    let at = pasta.args.iter().position(|arg| arg == "--log-file");
    at.and_then(|at| pasta.args.get(at + 1))
        .map_or_else(PathBuf::new, PathBuf::from)
}

/// Why a pasta that ended gave no network.
pub(super) fn failed(program: PathBuf, said: String, log: &Path) -> NetworkError {
    let logged = std::fs::read(log).unwrap_or_default();
    let said = match last_line(&logged) {
        Some(line) if !said.contains(&line) => format!("{said}; its log: {line}"),
        _ => said,
    };
    NetworkError::Pasta {
        program,
        said,
        host_has_route: route::host_has_default(),
    }
}

/// What a program that failed wrote last, or how it ended.
fn said(ended: &Ended) -> String {
    last_line(&ended.stderr).unwrap_or_else(|| match ended.status {
        Some(status) => format!("it ended with {status}"),
        None => "it did not end".to_owned(),
    })
}

pub(super) fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(plain.take(SAID).collect())
}
