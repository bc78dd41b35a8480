//! What is read and asked of this machine. Nothing here judges.

pub(super) mod ask;
pub(super) mod files;
pub(super) mod machine;
pub(super) mod network;
pub(super) mod probe;
pub(super) mod programs;
pub(super) mod run;

use std::path::Path;

use super::{Name, Options, RealCall};
use crate::cfc::mode::EnforcementMode;
use crate::config::{NetworkMode, SandboxConfig};
use crate::host::{Host, Platform};
use crate::plan::IdMap;
use crate::selection::{Refusal, Selection};
use crate::settings::{Flags, Settings};
use ask::{Answer, Reading};
use files::{Image, PolicyFile, PolicyText, ScratchParent, Store};
use machine::Machine;
use probe::{PrivateDir, UserNamespace};
use programs::{Programs, Runsc};
use run::{Attempt, Had, Told};

/// Everything that is judged.
#[derive(Debug)]
pub(super) struct Readings {
    pub(super) host: Host,
    pub(super) machine: Machine,
    pub(super) user_namespace: Reading<UserNamespace>,
    /// Whether an orphan was reaped in time.
    pub(super) reaped: Reading<bool>,
    pub(super) runsc: Runsc,
    /// None where there is no place for one.
    pub(super) store: Option<Store>,
    pub(super) policy: PolicyFile,
    pub(super) image: Option<Image>,
    pub(super) programs: Programs,
    /// What came of making the default network, where it is pasta's.
    pub(super) network: Reading<network::Made>,
    pub(super) scratch: ScratchParent,
    /// The default selection: its description, its network and whether it has a policy.
    pub(super) default: Result<run::Default, Refusal>,
    /// Whether the default's network is pasta's, whatever becomes of the selection.
    pub(super) wants_pasta: bool,
    /// Whether the runtime is named.
    pub(super) runtime_named: bool,
    pub(super) attempt: Attempt,
    pub(super) session_call: Reading<run::SessionCall>,
}

impl Readings {
    /// Whether the default is refused where there is no policy: a named runtime has no default one.
    pub(super) fn needs_policy(&self) -> bool {
        !self.runtime_named
    }

    pub(super) fn real_call(&self) -> Option<RealCall> {
        self.attempt.real_call()
    }
}

/// Reads and asks, and makes the real call.
pub(super) async fn gather(host: &Host, options: &Options) -> Readings {
    let settings = Settings::new(&Flags::default(), host);
    let default = run::default(&settings, host);
    let programs = Programs::find(host, options);
    let wants_pasta = host.platform == Platform::Linux && run::wants_pasta(&settings);
    let network = match options.probes(&[Name::Network]) {
        true if wants_pasta => network::find_out(host, &programs).await,
        _ => Reading::Skipped,
    };
    let networked = matches!(network, Reading::Known(Ok(_)));
    let lesser = run::select(
        host,
        Had {
            labels: false,
            network: networked,
        },
    );

    let store_at = files::store_at(host);
    let store = store_at
        .as_deref()
        .map(|at| files::store(at, &settings, &host.platform));
    let rootfs = match &lesser {
        Ok(selection) => Some(selection.rootfs.clone()),
        Err(_) => store_at.as_ref().map(|at| at.join(files::IMAGE)),
    };
    let runsc_name = match &lesser {
        Ok(selection) => Some(selection.runsc.clone()),
        Err(_) => programs::likely_runsc(&settings, store_at.as_deref()),
    };

    let runsc = programs::runsc(runsc_name.as_deref(), host, options);
    let policy = files::policy(&settings, host, store_at.as_deref());
    // What is amiss with either is told by its own check.
    let labels = matches!(runsc.cfc, Reading::Known(Answer::Wrote(_)))
        && matches!(policy.found, Some((_, PolicyText::Object)));
    let nearest = match labels {
        true => run::select(
            host,
            Had {
                labels: true,
                network: networked,
            },
        ),
        false => lesser,
    };

    let probes = [Name::UserNamespaces, Name::Run, Name::SessionCalls];
    let private = match options.probes(&probes) {
        true => Some(PrivateDir::create(host)),
        false => None,
    };
    let user_namespace = match (&private, options.probes(&[Name::UserNamespaces])) {
        (Some(Ok(dir)), true) if host.platform == Platform::Linux => {
            probe::user_namespace(host, dir, id_map(host))
        }
        (Some(Err(reason)), true) => Reading::Unknown(reason.clone()),
        _ => Reading::Skipped,
    };
    let reaped = match options.probes(&[Name::Reaper]) && host.platform == Platform::Linux {
        true => probe::reaper(host),
        false => Reading::Skipped,
    };

    let (attempt, session_call) = calls(host, options, nearest, private).await;

    Readings {
        machine: Machine::read(host, store_at.as_deref()),
        user_namespace,
        reaped,
        runsc,
        store,
        policy,
        image: rootfs.as_deref().and_then(files::image),
        programs,
        network,
        scratch: files::scratch_parent(host),
        default,
        wants_pasta,
        runtime_named: settings.runtime.is_some(),
        attempt,
        session_call,
        host: host.clone(),
    }
}

/// Takes the run as far as it goes, and makes a call in a session beside it.
async fn calls(
    host: &Host,
    options: &Options,
    nearest: Result<Selection, Refusal>,
    private: Option<Result<PrivateDir, String>>,
) -> (Attempt, Reading<run::SessionCall>) {
    let selection = match nearest {
        Ok(selection) => selection,
        Err(refusal) => {
            let reason = "the selection is refused".to_owned();
            return (Attempt::Refused(refusal), Reading::Unknown(reason));
        }
    };
    let private = match private {
        Some(Ok(private)) => private,
        Some(Err(text)) => {
            let told = Told::own("workspace-not-made", text.clone());
            return (Attempt::Stopped(told), Reading::Unknown(text));
        }
        None => return (Attempt::Skipped, Reading::Skipped),
    };
    let workspace = private.workspace();
    tokio::join!(
        async {
            if !options.probes(&[Name::Run]) {
                return Attempt::Skipped;
            }
            match resolve(&selection, host, &workspace) {
                Err(told) => Attempt::Stopped(told),
                Ok(config) => run::call(config, host, options, selection.describe()).await,
            }
        },
        async {
            if !options.probes(&[Name::SessionCalls]) {
                return Reading::Skipped;
            }
            Reading::Known(match resolve(&without_all(&selection), host, &workspace) {
                Err(told) => Err(told),
                Ok(config) => run::session_call(config, host, options).await,
            })
        },
    )
}

/// The same without labels, which enforced leave no sessions, and without a network.
fn without_all(selection: &Selection) -> Selection {
    Selection {
        policy: None,
        network: NetworkMode::None,
        helper: None,
        ..selection.clone()
    }
}

fn resolve(selection: &Selection, host: &Host, workspace: &Path) -> Result<SandboxConfig, Told> {
    let mut options = selection.options(workspace);
    options.mode = match selection.policy {
        Some(_) => EnforcementMode::default(),
        None => EnforcementMode::Disabled,
    };
    SandboxConfig::resolve(options, host).map_err(|err| Told::own(err.code(), err.to_string()))
}

/// The map with which a child becomes the root of a user namespace of its own.
fn id_map(host: &Host) -> Option<IdMap> {
    Some(IdMap {
        uid: host.uid?,
        gid: host.gid?,
    })
}
