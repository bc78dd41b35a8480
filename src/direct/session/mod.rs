//! Sessions: containers that outlive a call.
//!
//! A session is an attached `runsc run` whose standard input we hold and never write to. Its first
//! process reads that input, so the container ends when we do, however we end.

mod command_line;
mod exec;
mod socket;
mod start;
mod stop;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::sync::watch;

use super::Shared;
use super::calls::lock;
use super::held::Container;
use super::proof;
use crate::driver::{
    Error, ExecVia, LostReason, SessionInfo, SessionRefusal, SessionState, is_session_name,
};
use crate::plan::id::ContainerId;

pub(super) use exec::run;

/// How many sessions a driver holds at most, those that start included.
const MOST: usize = 8;

/// A session's name: only the check makes one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SessionName(String);

impl SessionName {
    fn check(name: &str) -> Result<Self, SessionRefusal> {
        if is_session_name(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(SessionRefusal::InvalidName {
            name: name.to_owned(),
        })
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    name: SessionName,
    container: Container,
    started: SystemTime,
    state: watch::Sender<Start>,
    used: Mutex<Used>,
    /// How calls are started, once it was found out. It only ever falls back to the command line.
    via: Mutex<Option<ExecVia>>,
}

/// How far a session's start is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Start {
    Starting,
    Ready,
    Failed(SessionRefusal),
}

#[derive(Debug, Default)]
struct Used {
    last_call: Option<SystemTime>,
    calls: u64,
    running: u64,
}

impl Session {
    fn info(&self) -> SessionInfo {
        let used = lock(&self.used);
        let state = match &*self.state.borrow() {
            _ if self.container.has_ended() => SessionState::Ended,
            Start::Starting => SessionState::Starting,
            Start::Ready | Start::Failed(_) => SessionState::Running,
        };
        SessionInfo {
            name: self.name.0.clone(),
            container_id: self.container.id.to_string(),
            started: self.started,
            last_call: used.last_call,
            calls: used.calls,
            running: used.running,
            state,
            via: *lock(&self.via),
        }
    }

    /// How its calls are started.
    async fn via(&self, shared: &Shared) -> ExecVia {
        if let Some(via) = *lock(&self.via) {
            return via;
        }
        let via = proof::via(shared, &self.container.id).await;
        *lock(&self.via).get_or_insert(via)
    }

    /// Waits until the session takes calls.
    async fn ready(&self) -> Result<(), SessionRefusal> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|start| *start != Start::Starting).await;
        match settled.as_deref() {
            Ok(Start::Failed(refusal)) => Err(refusal.clone()),
            _ => Ok(()),
        }
    }
}

/// A driver's sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    registry: Mutex<Registry>,
    calls: AtomicU64,
}

#[derive(Debug, Default)]
struct Registry {
    closed: bool,
    held: HashMap<SessionName, Arc<Session>>,
    /// What ended a session since it was last named. Each is told once.
    lost: HashMap<SessionName, LostReason>,
    /// Never used again, also by a start that failed.
    numbers: u32,
}

impl Sessions {
    /// The session of this name, started where there is none.
    fn enter(&self, shared: &Arc<Shared>, name: &SessionName) -> Result<Arc<Session>, Error> {
        let mut registry = lock(&self.registry);
        let lost = |why| SessionRefusal::Lost {
            name: name.0.clone(),
            why,
        };
        if let Some(why) = registry.lost.remove(name) {
            return Err(lost(why).into());
        }
        if let Some(session) = registry.held.get(name) {
            if !session.container.has_ended() || *session.state.borrow() == Start::Starting {
                return Ok(Arc::clone(session));
            }
            if let Some(session) = registry.held.remove(name) {
                drop(session.container.take());
            }
            return Err(lost(LostReason::Exited).into());
        }
        if registry.closed {
            return Err(Error::Closed);
        }
        if registry.held.len() >= MOST {
            return Err(SessionRefusal::Limit {
                held: registry.held.len(),
            }
            .into());
        }
        registry.numbers += 1;
        let session = Arc::new(Session {
            name: name.clone(),
            container: Container::new(
                ContainerId::session(&shared.config.run_tag, registry.numbers),
                shared,
            ),
            started: SystemTime::now(),
            state: watch::Sender::new(Start::Starting),
            used: Mutex::default(),
            via: Mutex::default(),
        });
        registry.held.insert(name.clone(), Arc::clone(&session));
        drop(registry);
        start::begin(shared, &session);
        Ok(session)
    }

    /// Takes a session off the list, where it is still on it. Its next mention is told why.
    fn forget(&self, session: &Arc<Session>, why: Option<LostReason>) {
        let mut registry = lock(&self.registry);
        let held = registry.held.get(&session.name);
        if !held.is_some_and(|held| Arc::ptr_eq(held, session)) {
            return;
        }
        registry.held.remove(&session.name);
        if let Some(why) = why {
            registry.lost.insert(session.name.clone(), why);
        }
    }

    /// The sessions, by name.
    pub(super) fn list(&self) -> Vec<SessionInfo> {
        let mut held: Vec<_> = lock(&self.registry).held.values().cloned().collect();
        held.sort_by(|a, b| a.name.cmp(&b.name));
        held.iter().map(|session| session.info()).collect()
    }

    /// Refuses new sessions and takes every one down, those that start included.
    pub(super) fn end_all(&self) {
        let held: Vec<_> = {
            let mut registry = lock(&self.registry);
            registry.closed = true;
            registry.lost.clear();
            registry.held.drain().map(|(_, session)| session).collect()
        };
        for session in held {
            drop(session.container.take());
        }
    }

    fn number_of_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_32_of_a_few_characters() {
        let longest = "a".repeat(32);
        let good = ["a", "0", "A.b_c-D", "build2", longest.as_str()];
        let too_long = "a".repeat(33);
        let bad = [
            "", ".", "-a", "_a", ".a", "a b", "a/b", "/etc", "a\n", "\na", "ä", "a\0", &too_long,
        ];
        for name in good {
            assert_eq!(SessionName::check(name), Ok(SessionName(name.into())));
        }
        for name in bad {
            let refused = SessionRefusal::InvalidName { name: name.into() };
            assert_eq!(SessionName::check(name), Err(refused));
        }
    }
}
