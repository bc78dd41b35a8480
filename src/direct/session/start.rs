//! A session's start, on a thread of its own: it depends on none of the calls that wait for it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::super::Shared;
use super::super::oneshot::raw_exit;
use super::{Held, Session, Start};
use crate::classify::log::RunscLog;
use crate::driver::{Error, SessionRefusal};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::spawn::{self, SpawnRequest};
use crate::launch::state::{self, First};
use crate::launch::teardown::Remains;
use crate::plan;

/// How long a session may take to say that it is running.
const LIMIT: Duration = Duration::from_secs(30);

/// Why a session did not come up, for an operator.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Driver(#[from] Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("runsc ended ({status}){log}")]
    Ended { status: String, log: String },
    #[error("runsc did not say within {} seconds that it is running", LIMIT.as_secs())]
    TimedOut,
    #[error("the driver was closed meanwhile")]
    Closed,
}

/// Starts a session. What comes of it is in its state.
pub(super) fn begin(shared: &Arc<Shared>, session: &Arc<Session>) {
    let (on_thread, owned) = (Arc::clone(shared), Arc::clone(session));
    let work = move || {
        let result = start(&on_thread, &owned);
        settle(&on_thread, &owned, result);
    };
    let name = "runsc-session".to_owned();
    if std::thread::Builder::new().name(name).spawn(work).is_err() {
        settle(shared, session, Err(LaunchError::NoLauncher.into()));
    }
}

fn settle(shared: &Shared, session: &Arc<Session>, result: Result<(), Fault>) {
    let state = match result {
        Ok(()) => Start::Ready,
        Err(fault) => {
            tracing::warn!(session = session.name.0, %fault, "a session could not start");
            // Off the list first, so that whoever hears of the failure can try again.
            shared.sessions.forget(session, None);
            if let Some(held) = session.slot.take()
                && let Err(err) = held.remains.take_down()
            {
                tracing::error!(%err, "a session's container was not taken down");
            }
            let name = session.name.0.clone();
            Start::Failed(SessionRefusal::StartFailed {
                name,
                why: fault.to_string(),
            })
        }
    };
    session.state.send_replace(state);
}

fn start(shared: &Arc<Shared>, session: &Session) -> Result<(), Fault> {
    let (config, host) = (&shared.config, &shared.host);
    let plan =
        plan::session(config, host, &shared.layout(), session.id.clone()).map_err(Error::from)?;
    let state_dir = shared.scratch()?.state_dir();
    let bundle = BundleDir::create(&plan)?;
    let request = SpawnRequest {
        command: plan.command,
        user_namespace: plan.user_namespace,
        overlay: plan.overlay,
        read_only: plan.read_only,
        stdin: true,
        output: false,
        donations: Vec::new(),
    };
    let token = Box::new((shared.calls.count(), Arc::clone(shared)));
    let (sender, started) = channel();
    spawn::submit(
        request,
        Box::new(move |result| {
            let _ = sender.send(result);
        }),
    );
    let (child, pipes) = started.recv().map_err(|_| LaunchError::NoLauncher)??;
    let end = child.end().map_err(LaunchError::Pipe)?;
    let id = session.id.clone();
    let config = Arc::clone(config);
    let remains = Remains::new(child, bundle, id, state_dir.clone(), config, token);
    let _ = session.end.set(end.try_clone().map_err(LaunchError::Pipe)?);
    session.slot.fill(Held {
        remains,
        _stdin: pipes.stdin,
    });

    match state::await_running(&state_dir, session.id.as_str(), &end, LIMIT) {
        First::Ready => Ok(()),
        First::Neither => Err(Fault::TimedOut),
        First::Ended => Err(ended(session, &plan.log, &end)),
    }
}

/// Says how runsc ended, from what it left.
fn ended(session: &Session, log: &std::path::Path, _end: &OwnedFd) -> Fault {
    let Some(mut held) = session.slot.take() else {
        return Fault::Closed;
    };
    let status = match held.remains.status() {
        Ok(Some(status)) => match raw_exit(status) {
            raw if raw.signal.is_some() => format!("signal {}", raw.signal.unwrap_or_default()),
            raw => format!("status {}", raw.status.unwrap_or_default()),
        },
        Ok(None) | Err(_) => "status unknown".to_owned(),
    };
    let log = match RunscLog::read(log) {
        RunscLog::Errors(messages) => format!(": {}", messages.join("; ")),
        RunscLog::Refused { message, .. } => format!(": {message}"),
        RunscLog::Absent | RunscLog::Clean => String::new(),
    };
    // Its bundle held the log.
    drop(held);
    Fault::Ended { status, log }
}
