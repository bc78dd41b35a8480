//! Prebooted sandboxes for one-shot calls: each is used for one call and thrown away.
//!
//! A sandbox is booted ahead with the driver's mounts, network and user, its first process the
//! loop of a session. A call takes a ready one and starts its command over the control socket;
//! where there is none, it boots its own. One thread refills, off the path of the calls.

mod call;
mod pressure;
mod rules;

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::watch;

use super::calls::lock;
use super::held::Container;
use super::{Shared, proof};
use crate::config::SandboxConfig;
use crate::driver::ExecVia;
use crate::plan::id::ContainerId;
pub(super) use call::{Asked, run};
use pressure::Pressure;
use rules::{HELD_OFF, Next, Seen};

/// A sandbox that waits for its call.
#[derive(Debug)]
struct Ready {
    container: Arc<Container>,
    /// What it was booted over.
    sources: Vec<Identity>,
}

/// A file's device and inode.
type Identity = (u64, u64);

/// A driver's prebooted sandboxes; empty until a call asks for one.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    /// The refiller's ear, once it runs.
    wake: OnceLock<Option<Wake>>,
    /// Counts what changes, for who waits for the pool to be full.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    ready: Vec<Ready>,
    booting: Vec<Arc<Container>>,
    last_call: Option<Instant>,
    /// Since when sandboxes have been missing.
    missing_since: Option<Instant>,
    /// Whether somebody waits for it to be full.
    in_a_hurry: bool,
    held_off_until: Option<Instant>,
    /// Why the last boot failed, where it did.
    failed: bool,
}

/// Makes the refiller look again.
#[derive(Debug)]
struct Wake(io::PipeWriter);

impl Wake {
    fn wake(&self) {
        // A full pipe wakes as well.
        let _ = (&self.0).write(&[0]);
    }
}

impl Pool {
    /// A ready sandbox, for the caller alone. The first caller starts the refiller.
    fn take(&self, shared: &Arc<Shared>) -> Option<Arc<Container>> {
        let wake = self.wake.get_or_init(|| start_refiller(shared));
        let sources = sources(&shared.config).ok();
        let (taken, stale) = {
            let mut state = lock(&self.state);
            let now = Instant::now();
            state.last_call = Some(now);
            let (fresh, stale): (Vec<_>, Vec<_>) = std::mem::take(&mut state.ready)
                .into_iter()
                .partition(|ready| {
                    Some(&ready.sources) == sources.as_ref() && !ready.container.has_ended()
                });
            state.ready = fresh;
            let taken = if state.closed || state.ready.is_empty() {
                None
            } else {
                Some(state.ready.remove(0).container)
            };
            state.missing_since.get_or_insert(now);
            (taken, stale)
        };
        // Outside the lock: each is taken down on a thread of its own.
        for ready in stale {
            drop(ready.container.take());
        }
        if let Some(wake) = wake {
            wake.wake();
        }
        taken
    }

    /// Fills the pool now; how many are ready once it is full, or as full as it gets.
    pub(super) async fn fill(&self, shared: &Arc<Shared>) -> usize {
        let Some(options) = shared.config.pool else {
            return 0;
        };
        let mut changes = self.changes.subscribe();
        let wake = self.wake.get_or_init(|| start_refiller(shared));
        {
            let mut state = lock(&self.state);
            let now = Instant::now();
            state.last_call = Some(now);
            state.missing_since.get_or_insert(now);
            state.in_a_hurry = true;
            state.failed = false;
        }
        let Some(wake) = wake else { return 0 };
        wake.wake();
        loop {
            {
                let state = lock(&self.state);
                let ready = state.ready.len();
                if ready >= options.size || state.failed || state.closed || state.is_held_off() {
                    return ready;
                }
            }
            if changes.changed().await.is_err() {
                return 0;
            }
        }
    }

    /// Takes every sandbox down, those that boot included, and takes no more calls.
    pub(super) fn end_all(&self) {
        let (ready, booting) = {
            let mut state = lock(&self.state);
            state.closed = true;
            (
                std::mem::take(&mut state.ready),
                std::mem::take(&mut state.booting),
            )
        };
        for container in ready.iter().map(|ready| &ready.container).chain(&booting) {
            drop(container.take());
        }
        if let Some(Some(wake)) = self.wake.get() {
            wake.wake();
        }
        self.changed();
    }

    fn changed(&self) {
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl State {
    fn is_held_off(&self) -> bool {
        self.held_off_until
            .is_some_and(|until| until > Instant::now())
    }
}

/// What a container is booted over, as the filesystem has it now.
fn sources(config: &SandboxConfig) -> io::Result<Vec<Identity>> {
    let mounts = config.mounts.iter().map(|mount| mount.host_path.as_path());
    std::iter::once(config.rootfs.as_path())
        .chain(mounts)
        .map(|path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())))
        .collect()
}

/// Starts the thread that refills; it ends with the driver.
fn start_refiller(shared: &Arc<Shared>) -> Option<Wake> {
    let (ear, wake) = io::pipe().ok()?;
    for end in [ear.as_fd(), wake.as_fd()] {
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok()?;
    }
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("runsc-pool".to_owned())
        .spawn(move || refill(&shared, &ear))
        .ok()?;
    Some(Wake(wake))
}

/// Boots what is missing and retires what is idle, until the driver closes.
fn refill(shared: &Arc<Shared>, ear: &io::PipeReader) {
    let Some(options) = shared.config.pool else {
        return;
    };
    let at_once = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
    let pressure = Pressure::watch();
    loop {
        let (next, retired, ends) = {
            let mut state = lock(&shared.pool.state);
            if state.closed {
                return;
            }
            let next = rules::next(
                Seen {
                    size: options.size,
                    idle_timeout: options.idle_timeout,
                    at_once,
                    ready: state.ready.len(),
                    booting: state.booting.len(),
                    last_call: state.last_call,
                    missing_since: state.missing_since,
                    in_a_hurry: state.in_a_hurry,
                    held_off_until: state.held_off_until,
                },
                Instant::now(),
            );
            let mut retired = Vec::new();
            match next {
                Next::Boot => begin_boot(shared, &mut state),
                Next::Full => {
                    state.missing_since = None;
                    state.in_a_hurry = false;
                }
                Next::Retire { .. } => {
                    state.in_a_hurry = false;
                    retired = std::mem::take(&mut state.ready);
                }
                Next::Wait { .. } => {}
            }
            let ended = |ready: &mut Ready| ready.container.has_ended();
            retired.extend(state.ready.extract_if(.., ended));
            if state.ready.len() + state.booting.len() < options.size {
                state.missing_since.get_or_insert(Instant::now());
            }
            let ends: Vec<OwnedFd> = state
                .ready
                .iter()
                .filter_map(|ready| ready.container.end()?.try_clone().ok())
                .collect();
            (next, retired, ends)
        };
        for ready in retired {
            drop(ready.container.take());
        }
        shared.pool.changed();
        if next == Next::Boot {
            continue;
        }
        if wait(ear, pressure.as_ref(), &ends, next.until()) {
            tracing::info!("memory is short: the idle sandboxes are ended");
            let mut state = lock(&shared.pool.state);
            state.held_off_until = Some(Instant::now() + HELD_OFF);
        }
    }
}

/// Waits for a wake, a sandbox's end, memory pressure, or the time; whether it was the pressure.
fn wait(
    ear: &io::PipeReader,
    pressure: Option<&Pressure>,
    ends: &[OwnedFd],
    until: Option<Instant>,
) -> bool {
    let mut fds = vec![PollFd::new(ear.as_fd(), PollFlags::POLLIN)];
    fds.extend(
        ends.iter()
            .map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN)),
    );
    fds.extend(pressure.map(|pressure| PollFd::new(pressure.as_fd(), PollFlags::POLLPRI)));
    let timeout = until.map_or(PollTimeout::NONE, |until| {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, so that the time has come when it is over.
        PollTimeout::try_from(left + std::time::Duration::from_millis(1))
            .unwrap_or(PollTimeout::MAX)
    });
    let _ = poll(&mut fds, timeout);
    let pressed = pressure.is_some()
        && fds
            .last()
            .and_then(PollFd::revents)
            .is_some_and(|events| events.contains(PollFlags::POLLPRI));
    drop(fds);
    let mut bytes = [0; 64];
    while io::Read::read(&mut &*ear, &mut bytes).is_ok_and(|count| count == bytes.len()) {}
    pressed
}

/// Boots one sandbox on a thread of its own.
fn begin_boot(shared: &Arc<Shared>, state: &mut State) {
    let Ok(id) = ContainerId::one_shot(&shared.config.run_tag) else {
        state.held_off_until = Some(Instant::now() + HELD_OFF);
        state.failed = true;
        return;
    };
    let container = Arc::new(Container::new(id, shared));
    state.booting.push(Arc::clone(&container));
    let (on_thread, booted) = (Arc::clone(shared), Arc::clone(&container));
    let work = move || {
        let made = boot(&on_thread, &booted);
        on_thread.pool.booted(&booted, made);
    };
    let name = "runsc-pool-boot".to_owned();
    if std::thread::Builder::new().name(name).spawn(work).is_err() {
        state
            .booting
            .retain(|booting| !Arc::ptr_eq(booting, &container));
        state.held_off_until = Some(Instant::now() + HELD_OFF);
        state.failed = true;
    }
}

/// Boots a sandbox; what it was booted over.
fn boot(shared: &Arc<Shared>, container: &Container) -> Option<Vec<Identity>> {
    let before = sources(&shared.config).ok()?;
    if let Err(fault) = container.boot(shared) {
        tracing::warn!(%fault, "a sandbox could not be booted ahead");
        return None;
    }
    // What was exchanged meanwhile may or may not be what it shows.
    (sources(&shared.config).ok()? == before).then_some(before)
}

impl Pool {
    /// Takes a booted sandbox in, or sees that a failed one is gone.
    fn booted(&self, container: &Arc<Container>, made: Option<Vec<Identity>>) {
        let failed = made.is_none();
        let unwanted = {
            let mut state = lock(&self.state);
            state
                .booting
                .retain(|booting| !Arc::ptr_eq(booting, container));
            match made {
                Some(sources) if !state.closed => {
                    state.ready.push(Ready {
                        container: Arc::clone(container),
                        sources,
                    });
                    false
                }
                Some(_) => true,
                None => {
                    state.failed = true;
                    state.held_off_until = Some(Instant::now() + HELD_OFF);
                    true
                }
            }
        };
        if unwanted || failed {
            drop(container.take());
        }
        if let Some(Some(wake)) = self.wake.get() {
            wake.wake();
        }
        self.changed();
    }
}

/// Whether calls of this driver can be started in prebooted sandboxes at all.
pub(super) fn is_on(shared: &Shared) -> bool {
    shared.config.pool.is_some() && shared.may_use_socket() && !shared.config.is_wrapped()
}

/// Whether the control socket of a booted sandbox can be used.
async fn usable(shared: &Shared, container: &Container) -> bool {
    proof::via(shared, &container.id).await == ExecVia::ControlSocket
}
