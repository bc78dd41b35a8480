//! The default run as far as it is selected, the nearest that can be had to its end, and a call in
//! a session.

use std::ffi::OsString;
use std::time::Duration;

use crate::cfc::mode::EnforcementMode;
use crate::config::{NetworkMode, SandboxConfig};
use crate::direct::DirectDriver;
use crate::doctor::{Options, RealCall};
use crate::driver::{Call, Driver, End, ExecVia, Outcome};
use crate::host::Host;
use crate::selection::{self, Refusal, Selection};
use crate::settings::{Entrypoint, Flags, NamedNetwork, Settings};

/// How long the real call may take.
const LIMIT: Duration = Duration::from_secs(20);
/// What it writes, to be known again.
const WORD: &str = "ok";

/// What is selected where nothing is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Default {
    pub(in crate::doctor) described: String,
    pub(in crate::doctor) network: NetworkMode,
    /// Whether pasta would give the network.
    pub(in crate::doctor) pasta: bool,
    pub(in crate::doctor) policy: bool,
}

pub(super) fn default(settings: &Settings, host: &Host) -> Result<Default, Refusal> {
    let selection = selection::select(settings, host, &Entrypoint::BATCH)?;
    Ok(Default {
        described: selection.describe(),
        network: selection.network,
        pasta: selection.helper.is_some(),
        policy: selection.policy.is_some(),
    })
}

/// Whether a default selection takes pasta's network.
pub(super) fn wants_pasta(settings: &Settings) -> bool {
    let other = match &settings.network {
        Some(NamedNetwork::Variable(word)) => word != "bridge",
        Some(NamedNetwork::Flag(mode)) => *mode != NetworkMode::Sandbox,
        None => false,
    };
    settings.runtime.is_none() && !other
}

/// What of the default can be had here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Had {
    pub(super) labels: bool,
    pub(super) network: bool,
}

/// The selection of `run`, with `--no-cfc` and `--network none` for what cannot be had.
pub(super) fn select(host: &Host, had: Had) -> Result<Selection, Refusal> {
    let flags = Flags {
        sandbox_cfc_policy: (!had.labels).then(OsString::new),
        network: (!had.network).then_some(NetworkMode::None),
        ..Flags::default()
    };
    selection::select(&Settings::new(&flags, host), host, &Entrypoint::BATCH)
}

/// Why a run stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Told {
    /// The stable word.
    pub(in crate::doctor) code: &'static str,
    pub(in crate::doctor) text: String,
}

impl Told {
    pub(super) fn own(code: &'static str, text: String) -> Self {
        Self { code, text }
    }
}

/// How far the run came.
#[derive(Debug, Clone)]
pub(in crate::doctor) enum Attempt {
    /// It was not made.
    Skipped,
    /// The selection refused it.
    Refused(Refusal),
    /// The configuration or the driver did.
    Stopped(Told),
    /// There was a call.
    Ended(Box<Ended>),
}

/// A call, as it ended.
#[derive(Debug, Clone)]
pub(in crate::doctor) struct Ended {
    pub(in crate::doctor) call: RealCall,
    pub(in crate::doctor) end: End,
    /// Whether its verdict let nothing out.
    pub(in crate::doctor) withheld: bool,
    /// What runsc said of a failure.
    pub(in crate::doctor) log: Vec<String>,
}

impl Attempt {
    pub(super) fn real_call(&self) -> Option<RealCall> {
        match self {
            Self::Ended(ended) => Some(ended.call.clone()),
            Self::Skipped | Self::Refused(_) | Self::Stopped(_) => None,
        }
    }
}

/// Makes the real call.
pub(super) async fn call(
    config: SandboxConfig,
    host: &Host,
    options: &Options,
    selected: String,
) -> Attempt {
    let network = config.network().as_str();
    let no_cfc = config.mode() == EnforcementMode::Disabled;
    let driver = DirectDriver::new(config, host.clone());
    let mut call = Call::new(["/bin/sh", "-c", &format!("echo {WORD}")]);
    call.deadline = Some(LIMIT);
    call.cancel = options.cancel.clone();
    let result = driver.run(call).await;
    driver.close().await;
    match result {
        Ok(outcome) => Attempt::Ended(Box::new(ended(&outcome, selected, network, no_cfc))),
        Err(err) => Attempt::Stopped(Told::own(err.code(), err.to_string())),
    }
}

fn ended(outcome: &Outcome, selected: String, network: &'static str, no_cfc: bool) -> Ended {
    let exit = outcome.exit().map(|exit| exit.code);
    let wrote = outcome
        .released()
        .is_some_and(|released| released.stdout.head == format!("{WORD}\n").as_bytes());
    Ended {
        withheld: outcome.released().is_none(),
        call: RealCall {
            worked: exit == Some(0) && wrote,
            outcome: outcome.end.word(),
            exit_code: exit,
            elapsed_ms: (outcome.elapsed.as_secs_f64() * 1e4).round() / 10.0,
            selected,
            network,
            no_cfc,
        },
        end: outcome.end,
        log: outcome.evidence.log.clone(),
    }
}

/// How a call in a session was started, or why there was none.
pub(in crate::doctor) type SessionCall = Result<ExecVia, Told>;

/// Makes a call in a session.
pub(super) async fn session_call(
    config: SandboxConfig,
    host: &Host,
    options: &Options,
) -> SessionCall {
    let driver = DirectDriver::new(config, host.clone());
    let mut call = Call::new(["/bin/true"]);
    call.session = Some("doctor".to_owned());
    call.deadline = Some(LIMIT);
    call.cancel = options.cancel.clone();
    let result = driver.run(call).await;
    let via = driver.sessions().first().and_then(|session| session.via);
    driver.close().await;
    match (result, via) {
        (Ok(outcome), Some(via)) if outcome.end == End::Exited => Ok(via),
        (Ok(outcome), _) => Err(Told::own(
            outcome.end.word(),
            "a call in a session does not come to its end: see `runsc-driver -vv shell --no-cfc`"
                .to_owned(),
        )),
        (Err(err), _) => Err(Told::own(err.code(), err.to_string())),
    }
}
