//! A session's start, on a thread of its own: it depends on none of the calls that wait for it.

use std::sync::Arc;

use super::super::Shared;
use super::super::held::Fault;
use super::{Session, Start};
use crate::driver::SessionRefusal;
use crate::launch::LaunchError;

/// Starts a session. What comes of it is in its state.
pub(super) fn begin(shared: &Arc<Shared>, session: &Arc<Session>) {
    let (on_thread, owned) = (Arc::clone(shared), Arc::clone(session));
    let work = move || {
        let result = owned.container.boot(&on_thread);
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
            session.container.take_down();
            let name = session.name.0.clone();
            Start::Failed(SessionRefusal::StartFailed {
                name,
                why: fault.to_string(),
            })
        }
    };
    session.state.send_replace(state);
}
