//! The default run as far as it is selected, and the lesser run to its end.

use std::ffi::OsString;
use std::time::Duration;

use crate::config::{NetworkMode, SandboxConfig};
use crate::direct::DirectDriver;
use crate::doctor::{Options, RealCall};
use crate::driver::{Call, Driver, End, Outcome};
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

/// The selection of `run --no-cfc`, with `--network none` where the default network is not to be
/// had.
pub(super) fn select_lesser(host: &Host, networked: bool) -> Result<Selection, Refusal> {
    let flags = Flags {
        sandbox_cfc_policy: Some(OsString::new()),
        network: (!networked).then_some(NetworkMode::None),
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

/// How far the lesser run came.
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
    let driver = DirectDriver::new(config, host.clone());
    let mut call = Call::new(["/bin/sh", "-c", &format!("echo {WORD}")]);
    call.deadline = Some(LIMIT);
    call.cancel = options.cancel.clone();
    let result = driver.run(call).await;
    driver.close().await;
    match result {
        Ok(outcome) => Attempt::Ended(Box::new(ended(&outcome, selected, network))),
        Err(err) => Attempt::Stopped(Told::own(err.code(), err.to_string())),
    }
}

fn ended(outcome: &Outcome, selected: String, network: &'static str) -> Ended {
    let exit = outcome.exit().map(|exit| exit.code);
    let wrote = outcome
        .released()
        .is_some_and(|released| released.stdout.head == format!("{WORD}\n").as_bytes());
    Ended {
        call: RealCall {
            worked: exit == Some(0) && wrote,
            outcome: match outcome.end {
                End::Exited => "exited",
                End::TimedOut => "timed-out",
                End::Cancelled => "cancelled",
                End::NotStarted(_) => "not-started",
                End::Lost => "lost",
            },
            exit_code: exit,
            elapsed_ms: (outcome.elapsed.as_secs_f64() * 1e4).round() / 10.0,
            selected,
            network,
            no_cfc: true,
        },
        end: outcome.end,
        log: outcome.evidence.log.clone(),
    }
}
