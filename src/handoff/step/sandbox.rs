//! A step's sandbox and broker, ready before its command is handed on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Uid, chown};
use serde_json::{Map, json};

use super::claims;
use super::dispatch::{Ended, Step, blocking};
use super::payload::in_our_words;
use super::view::{self, BROKER, CLAIMS, MakeSandbox, OUTPUTS, Shown, View};
use super::{StepError, records, sockets, stage};
use crate::driver::{Description, Driver};
use crate::handoff::broker::{Broker, ChildPlace, Grant, MakeChild, SHIM_NAME};
use crate::handoff::events::LineLog;
use crate::handoff::files::{self, FileError};
use crate::handoff::host::{Block, ChildTemplate, VARIABLE, Writer};
use crate::handoff::journal::Replay;
use crate::handoff::plan::Launch;
use crate::trust::{self, TrustedPath};

/// Why a step is not handed on: a stable word, and a sentence that names no path of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: String,
    pub message: String,
}

impl Refusal {
    pub(super) fn new(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// A sandbox that a step can be handed on to.
pub(super) struct Prepared {
    pub driver: Arc<dyn Driver>,
    launching: Option<Launching>,
}

struct Launching {
    broker: Broker,
    document: String,
    block: Block,
    template: ChildTemplate,
    claims: PathBuf,
    watch: Watch,
}

impl Prepared {
    /// The variable by which the step is told what it may launch.
    pub(super) fn variable(&self) -> Option<(OsString, OsString)> {
        let launching = self.launching.as_ref()?;
        Some((VARIABLE.into(), launching.document.as_str().into()))
    }

    pub(super) fn launches(&self) -> bool {
        self.launching.is_some()
    }

    /// Ends what still runs, and tells what became of the launches.
    pub(super) async fn close(self) -> Option<Ended> {
        let ended = match self.launching {
            Some(launching) => Some(launching.close().await),
            None => None,
        };
        self.driver.close().await;
        ended
    }
}

impl Launching {
    async fn close(self) -> Ended {
        let launches = self.broker.close().await;
        let claims = claims::check(&self.claims, self.block, &self.template, &launches.workers);
        drop(self.watch);
        Ended { launches, claims }
    }
}

/// Tells whoever watches where to look, before the step starts, and that it ended, however it does.
struct Watch(LineLog);

impl Watch {
    fn start(dir: &Path, block: Block) -> Result<Self, FileError> {
        let log = LineLog::open(&dir.join("watch.jsonl"))?;
        log.line(&json!({
            "event": "workflow_started",
            "journal": "journal.jsonl",
            "events": "events.jsonl",
            "first_child": block.first(),
            "child_count": block.count(),
        }));
        Ok(Self(log))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.line(&json!({ "event": "workflow_finished" }));
    }
}

/// Makes a step's sandbox, and its broker where it may launch. A refusal starts nothing.
pub(super) async fn prepare(
    step: &Step<'_>,
    dir: &Path,
    block: Option<Block>,
    replay: Replay,
) -> Result<Result<Prepared, Refusal>, StepError> {
    let options = &step.host.options;
    let plan = &step.placed.plan;
    let inputs = match options.stage_inputs {
        false => view::inputs(plan, &step.placed.base),
        true => {
            let (plan, base, into) = (
                Arc::clone(plan),
                step.placed.base.clone(),
                dir.join("staged"),
            );
            match blocking(move || stage::stage(&plan, &base, &into)).await? {
                Ok(shown) => shown,
                Err(stage::NotStaged::Changed) => {
                    let said = stage::NotStaged::Changed.to_string();
                    return Ok(Err(Refusal::new("input-changed", &said)));
                }
                Err(stage::NotStaged::File(err)) => return Err(err.into()),
            }
        }
    };
    for name in ["work", "out", "children"] {
        own_dir(&dir.join(name), options.owner)?;
    }
    let mut shown = inputs.clone();
    shown.push(writable("outputs", &dir.join("out"), OUTPUTS));
    let seen = dir.join("seen");
    if block.is_some() {
        own_dir(&dir.join("claims"), options.owner)?;
        files::make_dir(&seen)?;
        shown.push(Shown {
            read_only: true,
            ..writable("broker", &seen, BROKER)
        });
        shown.push(writable("claims", &dir.join("claims"), CLAIMS));
    }
    let view = View {
        name: plan.consumer.clone(),
        workspace: dir.join("work"),
        shown,
    };
    let driver = match step.host.make.make(&view) {
        Ok(driver) => driver,
        Err(err) => {
            tracing::error!("{err}");
            let said = "the step's sandbox cannot be made";
            return Ok(Err(Refusal::new(&err.code, said)));
        }
    };
    let description = driver.describe();
    if let Err(refusal) = labelled(step, &description, block.is_some()) {
        return Ok(Err(refusal));
    }
    let launching = match (block, &plan.launch) {
        (Some(block), Some(launch)) => {
            let canonical = trust::path::walk("the broker's directory", &seen)?;
            let looked = description.clone();
            let free = blocking(move || sockets::check(&looked, canonical.as_path())).await?;
            if let Err(refused) = free {
                return Ok(Err(Refusal::new(refused.code(), &refused.to_string())));
            }
            match launching(step, dir, block, launch, replay, inputs, description)? {
                Ok(launching) => Some(launching),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        _ => None,
    };
    Ok(Ok(Prepared { driver, launching }))
}

/// Labels that nobody tracks are no labels, and the broker is a way out that no verdict is on.
fn labelled(step: &Step<'_>, sandbox: &Description, launches: bool) -> Result<(), Refusal> {
    if step.labels.is_empty() {
        return Ok(());
    }
    if !sandbox.cfc.runtime_requested {
        return Err(Refusal::new(
            "labels-untracked",
            "the plan has labels and there is no CFC policy to track them by: name one, or leave \
             the labels out",
        ));
    }
    if launches && step.host.make.enforces() {
        return Err(Refusal::new(
            "labelled-egress",
            "the step is given what is labelled, and what it writes to its broker leaves before \
             any verdict: leave its launches out, or name a mode that does not enforce",
        ));
    }
    Ok(())
}

fn writable(name: &str, host: &Path, sandbox: &str) -> Shown {
    Shown {
        name: name.to_owned(),
        host: host.to_owned(),
        sandbox: sandbox.into(),
        read_only: false,
    }
}

/// A directory that the container's user can write.
fn own_dir(dir: &Path, owner: Option<(u32, u32)>) -> Result<(), FileError> {
    files::make_dir(dir)?;
    let Some((uid, gid)) = owner else {
        return Ok(());
    };
    chown(dir, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .map_err(|errno| FileError::of("give away", dir)(errno.into()))
}

fn launching(
    step: &Step<'_>,
    dir: &Path,
    block: Block,
    launch: &Launch,
    replay: Replay,
    inputs: Vec<Shown>,
    parent: Description,
) -> Result<Result<Launching, Refusal>, StepError> {
    let options = &step.host.options;
    let mut limits = options.limits.clone();
    limits.deadline = launch.deadline.unwrap_or(limits.deadline);
    limits.max_concurrent = launch.max_concurrent;
    let writer = writer(&step.placed.plan.run_id, block, limits.deadline);
    let (document, _) = match writer.write() {
        Ok(written) => written,
        Err(err) => return Ok(Err(Refusal::new(err.code(), &in_our_words(&err)))),
    };
    let Some(template) = ChildTemplate::new(&writer.child_id) else {
        return Ok(Err(Refusal::new(
            "bad-field",
            "the children would have one name",
        )));
    };
    let mut records = records(dir)?;
    records.replay = replay;
    records.redactor = step.redactor.clone();
    records.correlation = step.correlation.clone();
    records.total = block.count();
    let grant = Grant {
        block,
        template: template.clone(),
        kinds: launch.kinds.clone(),
        limits,
        labels: step.labels.clone(),
    };
    let make = children(
        Arc::clone(&step.host.make),
        dir.join("children"),
        inputs,
        parent,
        options.owner,
    );
    let watch = Watch::start(dir, block)?;
    let broker = Broker::open(&dir.join("seen"), options.owner, grant, records, make)?;
    Ok(Ok(Launching {
        broker,
        document,
        block,
        template,
        claims: dir.join("claims"),
        watch,
    }))
}

/// What a step is told that it may launch.
pub(super) fn writer(run: &str, block: Block, deadline: Duration) -> Writer {
    let name: String = run.chars().take(64).collect();
    Writer {
        exe: format!("{BROKER}/{SHIM_NAME}"),
        child_args: vec!["{kind}".into(), "{child}".into()],
        child_id: format!("{name}-c-{{n}}"),
        ids: (block.first(), block.count()),
        journal: Some(format!("{CLAIMS}/{}", claims::JOURNAL)),
        events: Some(format!("{CLAIMS}/{}", claims::EVENTS)),
        cwd: Some("/workspace".into()),
        deadline_ms: u64::try_from(deadline.as_millis()).ok(),
        extensions: Map::new(),
    }
}

/// Makes each child's sandbox, which shows no more than the step's does.
fn children(
    make: Arc<dyn MakeSandbox>,
    dir: PathBuf,
    inputs: Vec<Shown>,
    parent: Description,
    owner: Option<(u32, u32)>,
) -> MakeChild {
    Arc::new(move |child| {
        let workspace = dir.join(child);
        own_dir(&workspace, owner).map_err(|err| {
            tracing::error!("{err}");
            "the child's directory cannot be made".to_owned()
        })?;
        let keep = Removed(workspace.clone());
        let view = view::of_child(child, workspace, &inputs);
        let driver = make.make(&view).map_err(|err| {
            tracing::error!("{err}");
            format!("the child's sandbox cannot be made ({})", err.code)
        })?;
        if !no_wider(&parent, &driver.describe(), &keep.0) {
            return Err("the child's sandbox would be wider than its step's".to_owned());
        }
        Ok(ChildPlace {
            driver,
            keep: Box::new(keep),
        })
    })
}

/// A directory that goes with its child.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Err(err) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = ?self.0, %err, "a child's directory was left");
        }
    }
}

/// Whether a child's sandbox lets it see and reach no more than its step's.
fn no_wider(step: &Description, child: &Description, workspace: &Path) -> bool {
    // A network of no known reach is wider than any.
    let reach = |word: &str| {
        let known = ["none", "sandbox", "host"];
        known.iter().position(|known| *known == word)
    };
    let network = reach(child.cfc.network_mode)
        .is_some_and(|child| Some(child) <= reach(step.cfc.network_mode));
    let tracked = child.cfc.runtime_requested || !step.cfc.runtime_requested;
    let own = trust::path::walk("the child's directory", workspace).ok();
    let mounts = child.cfc.mounts.iter().all(|mount| {
        Some(mount.host_path.as_path()) == own.as_ref().map(TrustedPath::as_path)
            || step.cfc.mounts.iter().any(|of_step| {
                of_step.host_path == mount.host_path && (mount.read_only || !of_step.read_only)
            })
    });
    network && tracked && mounts && child.cfc.image == step.cfc.image
}
