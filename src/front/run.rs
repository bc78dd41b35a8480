//! `run`: the order of effects, from the first look to the result.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::args::{Args, Command, absolute};
use super::attributes::{Sight, Unlabelled};
use super::context::{CallContext, adopt};
use super::decide::{Beside, Decision, Starting, decide};
use super::doubt::{Doubt, Found};
use super::egress::{egress, image_stays_as_it_is, overlay_elsewhere};
use super::image::Index;
use super::look::Eyes;
use super::marks;
use super::mounts::{Bind, MountTable, Tree, shows_writes};
use super::owner::{Moment, Owner};
use super::policy::Policy;
use super::refusal::Refusal;
use super::registry::{Links, Other, Own, Phase, Record, Registry, RegistryError, token};
use super::report::{Log, result, write_result};
use super::scene::{Before, Scene};
use super::settle::{Settler, await_processes, touching_dead};
use super::spec::Spec;
use super::taint::Taint;
use super::walk::Limits;
use crate::launch::stand_in::{Signals, StandIn, end_as};
use crate::launch::{LaunchError, state};

/// How long a container waits for those beside it.
const WAIT: Duration = Duration::from_secs(10);
/// How many entries a look may see, and how long it may take.
const ENTRIES: u64 = 4_000_000;
const LOOK: Duration = Duration::from_secs(120);
/// How often a look is taken again because something was settled or ended meanwhile.
const ROUNDS: usize = 64;
/// A run that took longer than this has its image looked at once more.
const LONG: Duration = Duration::from_secs(1);

/// How far looks go, and how long is waited.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    entries: u64,
    wait: Duration,
}

impl Bounds {
    /// As the arguments have them.
    #[must_use]
    pub fn of(args: &Args) -> Self {
        Self {
            entries: args.walk_limit.unwrap_or(ENTRIES),
            wait: args.wait.unwrap_or(WAIT),
        }
    }

    /// The limits of one look.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::new(self.entries, LOOK)
    }

    /// How long is waited for a container beside.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

/// What a call with labels needs.
#[derive(Debug)]
pub struct Front<'a> {
    /// The arguments.
    pub args: &'a Args,
    /// The stock runsc.
    pub stock: PathBuf,
    /// The store that it is in.
    pub store: PathBuf,
    /// This process's working directory.
    pub cwd: PathBuf,
    /// runsc's log.
    pub log: Log,
}

/// Runs a container with labels.
///
/// # Errors
/// [`Refusal`]: nothing was started, and the descriptor of the result is as it was.
pub fn run(front: &Front<'_>, command: &Command) -> Result<ExitCode, Refusal> {
    let signals = Signals::hold().map_err(LaunchError::Pipe)?;
    let result_fd = adopt("cfc-result-fd", command.result_fd)?;
    let context = CallContext::read(adopt("cfc-invocation-context-fd", command.context_fd)?);
    let policy = front.policy()?;
    let id = command.operands.first().cloned().unwrap_or_default();
    let id = id.to_string_lossy().into_owned();
    let spec = Spec::open(&front.bundle(command))?;

    let registry = Registry::open(&front.store)?;
    let sight = Sight::probe(registry.dir(), policy.unseen_trusted_labels)
        .map_err(|source| front.registry_io(&registry, source))?;
    let table = MountTable::read().map_err(|source| front.registry_io(&registry, source))?;
    let stays = image_stays_as_it_is(front.args, spec.rootfs_read_only);
    let mut scene =
        Scene::of(&spec, &table, stays).map_err(|source| front.registry_io(&registry, source))?;
    if let Some(overlay) = overlay_elsewhere(front.args) {
        scene
            .found
            .doubt(Doubt::NotUnderstood(format!("--overlay2={overlay}")));
    }
    refuse_exposed(&scene.binds, &registry, &table)?;

    let bounds = Bounds::of(front.args);
    let record = Record {
        token: token()?,
        container: id.clone(),
        state_dir: front.state_dir(),
        bundle: front.bundle(command),
        owner: Owner::this().map_err(|source| front.registry_io(&registry, source))?,
        phase: Phase::Looking,
        binds: scene.binds.clone(),
        links: None,
        taint: Taint::public(),
        egress: egress(front.args, command, &scene.binds),
        started: Moment::now().map_err(|source| front.registry_io(&registry, source))?,
        policy,
    };
    let own = registry.lock()?.register(record)?;
    let mut run = Run {
        front,
        scene,
        context,
        table,
        own,
        settler: Settler {
            registry: &registry,
            sight: &sight,
            bounds,
            log: &front.log,
        },
    };
    let before = match run.prepare(&signals) {
        Ok(before) => before,
        Err(refusal) => {
            run.forget();
            return Err(refusal);
        }
    };
    let child = match StandIn::start(&front.stock, &front.args.stock, signals) {
        Ok(child) => child,
        Err(err) => {
            run.forget();
            return Err(err.into());
        }
    };
    run.end(child, before, &id, result_fd)
}

/// What one may write must not be what decides over its labels.
fn refuse_exposed(binds: &[Bind], registry: &Registry, table: &MountTable) -> Result<(), Refusal> {
    let trees = |path: &Path| -> Vec<Tree> { table.trees(path).unwrap_or_default() };
    let held = [Bind {
        destination: PathBuf::new(),
        source: registry.dir().to_owned(),
        trees: trees(registry.dir()),
    }];
    let exposed = binds
        .iter()
        .find(|bind| shows_writes(std::slice::from_ref(bind), &held));
    match exposed {
        Some(bind) => Err(Refusal::RegistryExposed {
            mount: bind.source.clone(),
            registry: registry.dir().to_owned(),
        }),
        None => Ok(()),
    }
}

impl Front<'_> {
    /// Reads the policy.
    pub(super) fn policy(&self) -> Result<Policy, Refusal> {
        let path = self.args.policy.as_ref().ok_or(Refusal::NoPolicy)?;
        Ok(Policy::open(&self.cwd.join(path))?)
    }

    /// Where the bundle is.
    pub(super) fn bundle(&self, command: &Command) -> PathBuf {
        match command.flag("bundle") {
            Some(bundle) => absolute(bundle, &self.cwd),
            None => self.cwd.clone(),
        }
    }

    /// runsc's state directory; empty for its own default.
    pub(super) fn state_dir(&self) -> PathBuf {
        let named = self.args.global("root").filter(|root| !root.is_empty());
        named
            .map(|root| absolute(root, &self.cwd))
            .unwrap_or_default()
    }

    pub(super) fn registry_io(&self, registry: &Registry, source: std::io::Error) -> RegistryError {
        RegistryError::Io {
            path: registry.dir().to_owned(),
            step: "used",
            source,
        }
    }
}

struct Run<'a> {
    front: &'a Front<'a>,
    scene: Scene,
    context: CallContext,
    table: MountTable,
    own: Own,
    settler: Settler<'a>,
}

impl Run<'_> {
    /// Looks, until what was seen is what holds as the container starts.
    fn prepare(&mut self, signals: &Signals) -> Result<Before, Refusal> {
        let due = Instant::now() + self.settler.bounds.wait();
        for _ in 0..ROUNDS {
            self.settler.look_beside(&self.own.record)?;
            self.settler.dead_ones(&self.own.record, &self.table)?;
            self.settle_marks()?;
            let before = self.look()?;
            interrupted(signals)?;
            match self.start_or_wait(&before)? {
                Step::Start => return Ok(before),
                Step::Again => {}
                Step::Wait { on, refusal } => {
                    let left = due.saturating_duration_since(Instant::now());
                    let registry = self.settler.registry;
                    if left.is_zero() || !registry.await_end(&on, left, signals) {
                        interrupted(signals)?;
                        return Err(refusal);
                    }
                }
            }
        }
        Err(Refusal::LowerBeside {
            why: "they never stopped coming and going".into(),
            beside: "one after the other".into(),
        })
    }

    fn settle_marks(&self) -> Result<(), RegistryError> {
        let limits = self.settler.bounds.limits();
        let locked = self.settler.registry.lock()?;
        let eyes = self.eyes(&limits, true);
        marks::settle(&locked, &self.table, &self.scene.binds, eyes)
    }

    fn look(&self) -> Result<Before, Refusal> {
        let limits = self.settler.bounds.limits();
        let eyes = self.eyes(&limits, self.is_beside_a_writer()?);
        let policy = &self.own.record.policy;
        let mut before = self
            .scene
            .before(policy, &self.settler.registry.images(), eyes);
        // Before anything runs that could move them away from their pattern.
        if self.label_matched(&before)? {
            before = self
                .scene
                .before(policy, &self.settler.registry.images(), eyes);
        }
        Ok(before)
    }

    fn eyes<'e>(&'e self, limits: &'e Limits, tolerant: bool) -> Eyes<'e> {
        Eyes {
            sight: self.settler.sight,
            limits,
            tolerant,
        }
    }

    /// Whether one runs that may change what we look at; its label is ours then.
    fn is_beside_a_writer(&self) -> Result<bool, RegistryError> {
        let own = &self.own.record;
        let others = self.settler.registry.lock()?.others(&own.token)?;
        let mut records = others.iter().filter_map(|other| other.record.as_ref());
        Ok(records.any(|other| other.phase == Phase::Running && other.is_seen_by(own)))
    }

    /// Puts the policy's labels on the files that it matches; whether that changed any.
    fn label_matched(&self, before: &Before) -> Result<bool, RegistryError> {
        let mut changed = false;
        for (path, taint) in &before.to_label {
            let err = match marks::label_path(path, taint, self.settler.sight) {
                // Its directory is labelled by whoever made it, and its name is matched again.
                Err(Unlabelled::InDirectory) => continue,
                Err(err) => err,
                Ok(raised) => {
                    changed |= raised;
                    continue;
                }
            };
            let bind = self
                .scene
                .binds
                .iter()
                .find(|bind| path.starts_with(&bind.source));
            let mark = marks::Mark {
                trees: bind.map(|bind| bind.trees.clone()).unwrap_or_default(),
                taint: taint.clone(),
                files: std::fs::symlink_metadata(path)
                    .ok()
                    .map(|found| vec![super::mounts::FileId::of(&found)]),
                why: format!("{}: {err}", path.display()),
            };
            self.front.log.warn("cfc-mount-marked", &mark.why);
            marks::keep(&self.settler.registry.lock()?, &mark)?;
        }
        Ok(changed)
    }

    /// Under the lock: what others do now, and what this one does about it.
    fn start_or_wait(&mut self, before: &Before) -> Result<Step, Refusal> {
        let locked = self.settler.registry.lock()?;
        let mut own = self.own.record.clone();
        own.links = Some(Links::of(before.links.clone()));
        let others = locked.others(&own.token)?;
        if others
            .iter()
            .any(|other| touching_dead(other, &own).is_some())
        {
            return Ok(Step::Again);
        }
        let mut read = before.found.clone();
        // What those that ended during the look left us.
        if let Some(told) = locked.read(&own.token)? {
            read.label(&told.taint, || "a container beside it was labelled".into());
        }
        let links = own.links.clone().unwrap_or_default();
        read.join(marks::over(&locked, &self.scene.binds, &links)?);
        unreadable(&others, &mut read);

        let running: Vec<_> = others
            .iter()
            .filter_map(|other| other.record.as_ref())
            .filter(|other| other.phase == Phase::Running)
            .map(|other| (other, other.is_seen_by(&own), own.is_seen_by(other)))
            .filter(|(_, into, out_of)| *into || *out_of)
            .collect();
        let beside: Vec<_> = running
            .iter()
            .map(|(other, into, out_of)| Beside {
                taint: &other.taint,
                egress: other.egress.is_some(),
                into: *into,
                out_of: *out_of,
            })
            .collect();
        let starting = Starting {
            call: self.context.found.taint(),
            read: read.taint(),
            egress: own.egress.is_some(),
            enforcing: self.context.enforcing,
            call_labels: own.policy.egress.call_labels,
        };
        let decision = decide(&starting, &beside);
        for (other, _, _) in running.iter().filter(|(_, into, _)| *into) {
            let why = || format!("{} runs beside it and is labelled", other.container);
            read.label(&other.taint, why);
        }
        let egress = own.egress.clone().unwrap_or_default();
        match decision {
            Decision::Refuse { call: true } => Err(Refusal::CallEgress { egress }),
            Decision::Refuse { call: false } => Err(Refusal::Egress {
                why: read.why(),
                egress,
            }),
            Decision::Wait { beside, egress } => {
                let other = running[beside].0;
                let beside = other.container.clone();
                let why = whys(&read, &self.context.found);
                let refusal = if egress {
                    Refusal::EgressBeside { why, beside }
                } else {
                    Refusal::LowerBeside { why, beside }
                };
                Ok(Step::Wait {
                    on: other.token.clone(),
                    refusal,
                })
            }
            Decision::Start { read: taint } => {
                for doubt in read.doubts().iter().chain(self.context.found.doubts()) {
                    self.front.log.warn(doubt.code(), &doubt.to_string());
                }
                own.taint = taint.joined(self.context.found.taint());
                own.phase = Phase::Running;
                own.started = Moment::now()
                    .map_err(|source| self.front.registry_io(self.settler.registry, source))?;
                locked.write(&own)?;
                self.own.record = own;
                Ok(Step::Start)
            }
        }
    }

    /// Nothing of it ran.
    fn forget(&self) {
        let forgotten = self
            .settler
            .registry
            .lock()
            .and_then(|locked| locked.remove(&self.own.record.token));
        if let Err(err) = forgotten {
            // The next start finds it, and that it never ran or changed nothing.
            self.front
                .log
                .warn("cfc-registry-unavailable", &err.to_string());
        }
    }

    fn end(
        mut self,
        child: StandIn,
        mut before: Before,
        id: &str,
        result_fd: Option<OwnedFd>,
    ) -> Result<ExitCode, Refusal> {
        let started = Instant::now();
        let image = before.image.take().map(Verified::start);
        let status = child.wait();
        let mut taint = match self.gone() {
            Ok(()) => self.label(before, image, started),
            Err(err) => {
                // It may still write: the registration stays, and the next start settles it.
                self.front.log.warn("cfc-not-settled", &err.to_string());
                Taint::nobody()
            }
        };
        let status = status.unwrap_or_else(|err| {
            // It cannot be told how it ended, and so not what that tells.
            self.front
                .log
                .warn("cfc-doubt-unforeseen", &err.to_string());
            taint.join(&Taint::nobody());
            ExitStatus::from_raw(0)
        });
        if let Some(fd) = result_fd {
            let bytes = result(id, status.into_raw(), &taint);
            if let Err(err) = write_result(fd, &bytes) {
                self.front
                    .log
                    .warn("cfc-result-not-written", &err.to_string());
            }
        }
        Ok(end_as(status))
    }

    /// Sees that nothing of the sandbox is left, which outlives a runsc that was killed by moments.
    fn gone(&self) -> Result<(), Refusal> {
        let record = &self.own.record;
        // A runsc that came to its end has removed its state last.
        let known = !record.state_dir.as_os_str().is_empty();
        if known && state::files(&record.state_dir, &record.container).is_empty() {
            return Ok(());
        }
        await_processes(record)
    }

    /// Labels what changed, and tells the label. Where it cannot be told it is for no one.
    fn label(&mut self, mut before: Before, image: Option<Verified>, started: Instant) -> Taint {
        let limits = self.settler.bounds.limits();
        let mut found = Found::default();
        if let Err(err) = self.settler.look_beside(&self.own.record) {
            found.doubt(Doubt::Unforeseen(err.to_string()));
        }
        let settled = self.settler.dead_ones(&self.own.record, &self.table);
        if let Err(err) = settled {
            found.doubt(Doubt::Unforeseen(err.to_string()));
        }
        let tolerant = self.is_beside_a_writer().unwrap_or(false);
        let eyes = self.eyes(&limits, tolerant);
        if let Some(verified) = image {
            let root = verified.root.clone();
            match verified.finish(started) {
                Some(index) => before.image = Some(index),
                None => {
                    let images = self.settler.registry.images();
                    let index = Index::open_changed(&images, &root, eyes);
                    found.join(index.found().clone());
                    before.image = Some(index);
                }
            }
        }
        let (seen, changes) = self.scene.after(&self.own.record.policy, &before, eyes);
        found.join(seen);
        let links = self.own.record.links.clone().unwrap_or_default();
        let marked = self
            .settler
            .registry
            .lock()
            .and_then(|locked| marks::over(&locked, &self.scene.binds, &links));
        match marked {
            Ok(marked) => found.join(marked),
            Err(err) => found.doubt(Doubt::Unforeseen(err.to_string())),
        }
        for doubt in found.doubts() {
            self.front.log.warn(doubt.code(), &doubt.to_string());
        }
        found.label(&self.own.record.taint, || "before its start".into());
        match self
            .settler
            .finish(&self.own.record.token, &found, &changes)
        {
            Ok(taint) => taint,
            Err(err) => {
                // The registration stays, and the next start settles it.
                self.front.log.warn("cfc-not-settled", &err.to_string());
                found.taint().joined(&Taint::nobody())
            }
        }
    }
}

/// What is to be done after a look.
enum Step {
    Start,
    Again,
    Wait { on: String, refusal: Refusal },
}

/// Whoever asks for the end before the start gets it: nothing is started.
pub(super) fn interrupted(signals: &Signals) -> Result<(), Refusal> {
    match signals.came() {
        Some(signal) => Err(Refusal::Interrupted {
            signal: signal.as_str(),
        }),
        None => Ok(()),
    }
}

/// What cannot be read may see and write anything, under any label.
pub(super) fn unreadable(others: &[Other], found: &mut Found) {
    for other in others.iter().filter(|other| other.record.is_none()) {
        found.doubt(Doubt::UnreadableRegistration(other.token.clone()));
    }
}

fn whys(read: &Found, call: &Found) -> String {
    let whys = [read.why(), call.why()];
    let whys: Vec<_> = whys.into_iter().filter(|why| !why.is_empty()).collect();
    whys.join("; ")
}

/// An image whose every file is asked beside the container whether it is as it was.
struct Verified {
    root: PathBuf,
    running: Option<JoinHandle<(Index, bool)>>,
}

impl Verified {
    fn start(index: Index) -> Self {
        let root = index.root().to_owned();
        let check = move || {
            let same = index.is_as_it_was();
            (index, same)
        };
        let running = std::thread::Builder::new()
            .name("runsc-cfc-image".to_owned())
            .spawn(check)
            .ok();
        Self { root, running }
    }

    /// The index, where nothing in the image changed.
    fn finish(self, started: Instant) -> Option<Index> {
        let (index, same) = self.running?.join().ok()?;
        let same = same && (started.elapsed() < LONG || index.is_as_it_was());
        same.then_some(index)
    }
}
