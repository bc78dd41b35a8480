//! A call in a session, however it is started.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::super::Shared;
use super::super::attached::{Attached, Stop, Stops};
use super::super::calls::{Slot, lock};
use super::super::labels::{self, Seen};
use super::super::oneshot::take_down;
use super::super::remote::{self, Answer};
use super::stop::Command;
use super::{Session, SessionName, command_line, socket};
use crate::classify::log::RunscLog;
use crate::classify::{self, Classified};
use crate::driver::{
    Call, End, Error, Evidence, ExecVia, Exit, LostReason, OnOverrun, Outcome, Released,
    SessionRefusal, StartFailure,
};
use crate::launch::spawn;
use crate::plan::bundle::Process;

/// How long a container that may be ending is given to end, where a call's end looks like it.
const ENDING: Duration = Duration::from_secs(1);
/// The exit status that runsc gives its own failures.
const RUNSC_FAILED: u8 = 128;

/// Runs a call in the session that it names.
pub(in crate::direct) async fn run(
    shared: Arc<Shared>,
    call: Call,
    name: &str,
) -> Result<Outcome, Error> {
    let started = Instant::now();
    let stops = Stops::of(&call, shared.calls.closing());
    let mode = labels::mode(&shared.config, &call);
    if mode.enforces() {
        return Err(SessionRefusal::EnforcingMode { mode }.into());
    }
    let process = shared.process(&call)?;
    let name = SessionName::check(name)?;
    if !shared.config.has_sessions() {
        let why = NO_SESSIONS.to_owned();
        return Err(SessionRefusal::StartFailed { name: name.0, why }.into());
    }
    let ready = shared.ready().await;
    ready.map_err(|err| start_failed(&name, err))?;
    let session = shared.sessions.enter(&shared, &name)?;

    let seen = tokio::select! {
        biased;
        stop = stops.any() => nothing_ran(stop.end()),
        ready = session.ready() => {
            ready?;
            begin(&shared, &session, call, &process, &stops).await?
        }
    };
    Ok(seen.outcome(session.container.id.as_str(), started.elapsed()))
}

/// The library's default.
const NO_SESSIONS: &str = "sessions are not on under pasta's network: set session_egress, with the \
                           network layout holder, or take another network";

/// What keeps every call from running keeps a session from starting.
fn start_failed(name: &SessionName, err: Error) -> Error {
    match err {
        Error::Closed => Error::Closed,
        err => SessionRefusal::StartFailed {
            name: name.0.clone(),
            why: err.to_string(),
        }
        .into(),
    }
}

fn nothing_ran(end: End) -> Seen {
    Seen::whole(None, end, Released::default(), Evidence::default())
}

/// Starts the command, over the control socket where that can be had, and sees it to its end.
async fn begin(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    call: Call,
    process: &Process,
    stops: &Stops,
) -> Result<Seen, Error> {
    let entered = Entered::new(shared, session);
    let via = session.via(shared).await;
    let running = match via {
        ExecVia::CommandLine => command_line::begin(entered, call).await?,
        ExecVia::ControlSocket => match socket::begin(entered, call, process, stops).await? {
            socket::Began::Running(running) => *running,
            socket::Began::NotStarted(failure) => {
                let end = End::NotStarted(failure);
                look_at_container(shared, session, end, None, 0).await?;
                return Ok(nothing_ran(end));
            }
            socket::Began::Stopped(end) => return Ok(nothing_ran(end)),
            // Nothing was sent, so nothing runs twice.
            socket::Began::Unasked(entered, call) => command_line::begin(entered, *call).await?,
        },
    };
    running.finish(stops).await
}

/// A call whose command was started. Dropped, the command is stopped.
pub(super) struct Running {
    pub entered: Entered,
    pub slot: Arc<Slot<Command>>,
    pub attached: Attached,
    pub on_overrun: OnOverrun,
    pub ended: HowEnded,
}

/// Where the command's end is told.
pub(super) enum HowEnded {
    /// By the status of `runsc exec` and its log.
    Client {
        /// The log.
        log: PathBuf,
    },
    /// By the answer to a wait for it: its wait status.
    Answer(Answer),
}

/// Leaves the driver's list, and the session's count, whatever becomes of the call.
pub(super) struct Entered {
    pub shared: Arc<Shared>,
    pub session: Arc<Session>,
    pub key: String,
}

impl Entered {
    fn new(shared: &Arc<Shared>, session: &Arc<Session>) -> Self {
        let mut used = lock(&session.used);
        used.calls += 1;
        used.running += 1;
        used.last_call = Some(SystemTime::now());
        drop(used);
        let key = format!(
            "{}#{}",
            session.container.id,
            shared.sessions.number_of_call()
        );
        Self {
            shared: Arc::clone(shared),
            session: Arc::clone(session),
            key,
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        lock(&self.session.used).running -= 1;
        self.shared.calls.leave(&self.key);
    }
}

/// How a command came to its end.
enum CameTo {
    /// It was taken down.
    Taken,
    /// `runsc exec` ended.
    Client(ExitStatus, RunscLog),
    /// The container told its wait status.
    Status(i32),
    /// The container told nothing.
    Silence,
}

impl Running {
    async fn finish(mut self, stops: &Stops) -> Result<Seen, Error> {
        let (shared, session) = (
            Arc::clone(&self.entered.shared),
            Arc::clone(&self.entered.session),
        );
        let (slot, ended, on_overrun) = (&self.slot, &self.ended, self.on_overrun);
        let settle = async |stop| settle(&shared, &session, slot, ended, stop, on_overrun).await;
        let (stop, came_to) = self.attached.wait(stops, settle).await?;
        // A background process is the session's and outlives the call.
        self.attached.keep_reading();
        let bytes = self.attached.stdout_bytes();
        let told = match came_to {
            CameTo::Taken => (stop.end(), None, Evidence::default()),
            CameTo::Client(_, RunscLog::Refused { rule, message }) => {
                let end = End::NotStarted(StartFailure::Withheld);
                look_at_container(&shared, &session, end, None, bytes).await?;
                return Err(Error::LabelRule { rule, message });
            }
            CameTo::Client(status, log) => {
                let raw = status.into();
                let Classified { end, exit } = classify::classify(raw, &log);
                look_at_container(&shared, &session, end, exit, bytes).await?;
                (end, exit, classify::evidence(raw, &log))
            }
            CameTo::Status(status) => {
                let exit = Some(remote::exit_of(status));
                look_at_container(&shared, &session, End::Exited, exit, bytes).await?;
                (End::Exited, exit, Evidence::default())
            }
            CameTo::Silence => {
                look_at_container(&shared, &session, End::Lost, None, bytes).await?;
                // The container is there and has lost track of the command.
                give_up(&shared, &session, None).await?;
                let name = session.name.0.clone();
                return Err(SessionRefusal::EndedDuringCall { name }.into());
            }
        };
        let id = session.container.id.as_str();
        Ok(self
            .attached
            .see(id, stop == Stop::Ended, told, stops)
            .await)
    }
}

/// Sees whether the container is still there after a call that did not end well.
async fn look_at_container(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    end: End,
    exit: Option<Exit>,
    stdout_bytes: u64,
) -> Result<(), Error> {
    if exit.is_some_and(|exit| exit.code == 0) {
        return Ok(());
    }
    // runsc may hear of the end before the kernel has brought it about.
    let suspect = matches!(end, End::NotStarted(StartFailure::Unknown) | End::Lost);
    let limit = if suspect { ENDING } else { Duration::ZERO };
    let watched = Arc::clone(session);
    if !spawn::on_thread(move || watched.container.ends_within(limit)).await? {
        return Ok(());
    }
    let told_nothing = exit.is_none_or(|exit| exit.code == RUNSC_FAILED) && stdout_bytes == 0;
    give_up(
        shared,
        session,
        (!told_nothing).then_some(LostReason::Exited),
    )
    .await?;
    if told_nothing {
        let name = session.name.0.clone();
        return Err(SessionRefusal::EndedDuringCall { name }.into());
    }
    Ok(())
}

/// Sees to the command of a call that ended or is to end.
async fn settle(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    slot: &Slot<Command>,
    ended: &HowEnded,
    stop: Stop,
    on_overrun: OnOverrun,
) -> Result<CameTo, Error> {
    let Some(mut command) = slot.take() else {
        return Ok(CameTo::Taken);
    };
    match (stop, on_overrun) {
        (Stop::Ended, _) => Ok(match ended {
            HowEnded::Client { log } => match command.finished() {
                Some(status) => CameTo::Client(status, RunscLog::read(log)),
                None => CameTo::Silence,
            },
            HowEnded::Answer(answer) => match answer.get() {
                Some(Ok(status)) => CameTo::Status(*status),
                _ => CameTo::Silence,
            },
        }),
        (Stop::TimedOut, OnOverrun::EndSession) => {
            give_up(shared, session, Some(LostReason::TimedOut)).await?;
            spawn::on_thread(move || command.let_end()).await?;
            Ok(CameTo::Taken)
        }
        (Stop::TimedOut | Stop::Cancelled, _) => {
            if !spawn::on_thread(move || command.stop()).await? {
                give_up(shared, session, Some(LostReason::NotStopped)).await?;
            }
            Ok(CameTo::Taken)
        }
    }
}

/// Ends a session, and waits until it is gone.
pub(super) async fn give_up(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    why: Option<LostReason>,
) -> Result<(), Error> {
    shared.sessions.forget(session, why);
    match session.container.take() {
        Some(held) => take_down(held.remains).await,
        None => Ok(()),
    }
}
