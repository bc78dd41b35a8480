//! A call in a session: one `runsc exec`.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;

use super::super::Shared;
use super::super::attached::{Attached, Ends, Stop, Stops};
use super::super::calls::{Slot, lock};
use super::super::labels::{self, Seen};
use super::super::oneshot::raw_exit;
use super::stop::Command;
use super::{Session, SessionName};
use crate::classify::log::RunscLog;
use crate::classify::{self, Classified, RawExit};
use crate::driver::{
    Call, End, Error, Evidence, LostReason, OnOverrun, Outcome, Released, SessionRefusal,
    StartFailure,
};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::spawn::{self, Child, Pipes, SpawnRequest};
use crate::plan::exec::{ExecPlan, exec};
use crate::plan::id::call_dir_name;
use crate::plan::{Request, bundle::Process, path};

/// How long a container that may be ending is given to end, where a call's end looks like it.
const ENDING: Duration = Duration::from_secs(1);
/// The exit status that runsc gives its own failures.
const RUNSC_FAILED: i32 = 128;

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
    let request = Request {
        argv: &call.argv,
        cwd: call.cwd.as_deref(),
        env: &call.env,
        context: None,
        host_uds: false,
    };
    path::check_cwd(
        &shared.config,
        Process::check(&shared.config, request)?.cwd(),
    )?;
    let name = SessionName::check(name)?;
    shared
        .ready()
        .await
        .map_err(|err| start_failed(&name, err))?;
    let session = shared.sessions.enter(&shared, &name)?;

    let seen = tokio::select! {
        biased;
        stop = stops.any() => {
            Seen::whole(None, stop.end(), Released::default(), Evidence::default())
        }
        ready = session.ready() => {
            ready?;
            let running = begin(&shared, &session, call).await?;
            running.finish(&stops).await?
        }
    };
    Ok(seen.outcome(session.id.as_str(), started.elapsed()))
}

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

/// A call whose `runsc exec` was started. Dropped, its command is stopped.
struct Running {
    entered: Entered,
    slot: Arc<Slot<Command>>,
    plan_log: std::path::PathBuf,
    attached: Attached,
    on_overrun: OnOverrun,
}

/// Leaves the driver's list, and the session's count, whatever becomes of the call.
struct Entered {
    shared: Arc<Shared>,
    session: Arc<Session>,
    key: String,
}

impl Entered {
    fn new(shared: &Arc<Shared>, session: &Arc<Session>) -> Self {
        let mut used = lock(&session.used);
        used.calls += 1;
        used.running += 1;
        used.last_call = Some(SystemTime::now());
        drop(used);
        let key = format!("{}#{}", session.id, shared.sessions.number_of_call());
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

async fn begin(shared: &Arc<Shared>, session: &Arc<Session>, call: Call) -> Result<Running, Error> {
    let entered = Entered::new(shared, session);
    let slot = shared.calls.enter(&entered.key).ok_or(Error::Closed)?;
    let plan = lay_out(shared, session, &call)?;
    let dir = BundleDir::bare(&plan.dir)?;
    if let Some(process) = &plan.process_json {
        dir.write(&plan.process_file, process)?;
    }
    let on_overrun = call.on_overrun;
    let (ends, donations) = Ends::of(call, plan.context.as_deref(), false)?;
    let request = SpawnRequest {
        command: plan.command,
        user_namespace: plan.user_namespace,
        overlay: None,
        read_only: Vec::new(),
        stdin: ends.wants_stdin(),
        output: true,
        donations,
    };

    let (sender, receiver) = oneshot::channel();
    let token = Box::new((shared.calls.count(), Arc::clone(shared)));
    let (filled, owner) = (Arc::clone(&slot), Arc::clone(session));
    let (on_launcher, pid_file) = (Arc::clone(shared), plan.pid_file);
    let reply = move |started: Result<(Child, Pipes), LaunchError>| {
        let started = started.and_then(|(child, pipes)| {
            let end = child.end().map_err(LaunchError::Pipe)?;
            filled.fill(Command::new(
                child,
                dir,
                pid_file,
                owner,
                on_launcher,
                token,
            ));
            Ok((pipes, end))
        });
        let _ = sender.send(started);
    };
    spawn::submit(request, Box::new(reply));
    let started = receiver.await.map_err(|_| LaunchError::NoLauncher)?;
    let (pipes, end) = match started {
        Ok(started) => started,
        Err(err) => {
            // A command that could not be run takes the session with it.
            give_up(shared, session, Some(LostReason::NotStopped)).await?;
            return Err(err.into());
        }
    };
    Ok(Running {
        entered,
        slot,
        plan_log: plan.log,
        attached: Attached::join(ends, pipes, end)?,
        on_overrun,
    })
}

fn lay_out(shared: &Shared, session: &Session, call: &Call) -> Result<ExecPlan, Error> {
    let scratch = shared.scratch()?;
    let name = call_dir_name(&shared.config.run_tag).map_err(Error::NoRandomness)?;
    let context = labels::context(&shared.config, &shared.sequence, call)?;
    let request = Request {
        argv: &call.argv,
        cwd: call.cwd.as_deref(),
        env: &call.env,
        context: context.as_deref(),
        host_uds: false,
    };
    let dir = scratch.bundles_dir().join(name);
    let (config, host, state_dir) = (&shared.config, &shared.host, scratch.state_dir());
    Ok(exec(config, host, &state_dir, dir, &session.id, request)?)
}

impl Running {
    async fn finish(mut self, stops: &Stops) -> Result<Seen, Error> {
        let (shared, session) = (
            Arc::clone(&self.entered.shared),
            Arc::clone(&self.entered.session),
        );
        let (slot, log, on_overrun) = (&self.slot, &self.plan_log, self.on_overrun);
        let (stop, settled) = self
            .attached
            .wait(stops, async |stop| {
                settle(&shared, &session, slot, log, stop, on_overrun).await
            })
            .await?;
        // A background process is the session's and outlives the call.
        self.attached.keep_reading();
        let came_to = match settled {
            None => (stop.end(), None, Evidence::default()),
            Some((_, RunscLog::Refused { rule, message })) if self.attached.tracked() => {
                return Err(Error::LabelRule { rule, message });
            }
            Some((raw, log)) => {
                let Classified { end, exit } = classify::classify(raw, &log);
                let bytes = self.attached.stdout_bytes();
                look_at_container(&shared, &session, raw, end, bytes).await?;
                (end, exit, classify::evidence(raw, &log))
            }
        };
        let id = session.id.as_str();
        Ok(self
            .attached
            .see(id, stop == Stop::Ended, came_to, stops)
            .await)
    }
}

/// Sees whether the container is still there after a call that did not end well.
async fn look_at_container(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    raw: RawExit,
    end: End,
    stdout_bytes: u64,
) -> Result<(), Error> {
    if raw.status == Some(0) {
        return Ok(());
    }
    // runsc may hear of the end before the kernel has brought it about.
    let suspect = matches!(end, End::NotStarted(StartFailure::Unknown) | End::Lost);
    let limit = if suspect { ENDING } else { Duration::ZERO };
    let watched = Arc::clone(session);
    if !spawn::on_thread(move || watched.ends_within(limit)).await? {
        return Ok(());
    }
    let nothing_came = raw.status == Some(RUNSC_FAILED) && stdout_bytes == 0;
    give_up(
        shared,
        session,
        (!nothing_came).then_some(LostReason::Exited),
    )
    .await?;
    if nothing_came {
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
    log: &std::path::Path,
    stop: Stop,
    on_overrun: OnOverrun,
) -> Result<Option<(RawExit, RunscLog)>, Error> {
    let Some(mut command) = slot.take() else {
        return Ok(None);
    };
    match (stop, on_overrun) {
        (Stop::Ended, _) => {
            let status = command
                .finished()
                .unwrap_or_else(|| ExitStatusExt::from_raw(9));
            Ok(Some((raw_exit(status), RunscLog::read(log))))
        }
        (Stop::TimedOut, OnOverrun::EndSession) => {
            give_up(shared, session, Some(LostReason::TimedOut)).await?;
            spawn::on_thread(move || command.let_end()).await?;
            Ok(None)
        }
        (Stop::TimedOut | Stop::Cancelled, _) => {
            if !spawn::on_thread(move || command.stop()).await? {
                give_up(shared, session, Some(LostReason::NotStopped)).await?;
            }
            Ok(None)
        }
    }
}

/// Ends a session, and waits until it is gone.
async fn give_up(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    why: Option<LostReason>,
) -> Result<(), Error> {
    shared.sessions.forget(session, why);
    match session.slot.take() {
        Some(held) => super::super::oneshot::take_down(held.remains).await,
        None => Ok(()),
    }
}
