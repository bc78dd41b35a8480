//! The calls in flight, and who takes each down.
//!
//! A started container sits in its call's slot. Whoever takes it out of there takes it down: the
//! call itself at its end, the call's future as it is dropped, or the driver as it closes, which
//! waits for no future to be polled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::launch::teardown::{Remains, Token};
use crate::plan::id::ContainerId;

/// Every call of a driver.
#[derive(Debug)]
pub(super) struct Calls {
    state: Mutex<State>,
    /// How many containers are not known to be gone.
    alive: watch::Sender<usize>,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    slots: HashMap<ContainerId, Arc<Slot>>,
}

/// A call's container.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Contents>);

#[derive(Default)]
enum Contents {
    /// Not started yet.
    #[default]
    Empty,
    Full(Remains),
    /// Taken, or never to be started.
    Gone,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Full(_) => "Full",
            Self::Gone => "Gone",
        })
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            alive: watch::Sender::new(0),
            closing: CancellationToken::new(),
        }
    }
}

impl Calls {
    /// Opens a slot, unless the driver is closed.
    pub(super) fn enter(&self, id: &ContainerId) -> Option<Arc<Slot>> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let slot = Arc::<Slot>::default();
        state.slots.insert(id.clone(), Arc::clone(&slot));
        Some(slot)
    }

    /// Closes a slot; a container that is still in it is taken down.
    pub(super) fn leave(&self, id: &ContainerId) {
        let slot = lock(&self.state).slots.remove(id);
        if let Some(slot) = slot {
            drop(slot.take());
        }
    }

    /// Counts a container as alive until the token is dropped.
    pub(super) fn count(&self) -> Token {
        self.alive.send_modify(|alive| *alive += 1);
        Box::new(Counted(self.alive.clone()))
    }

    /// Comes true as the driver closes.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Refuses new calls and takes every container out of its slot.
    pub(super) fn end_all(&self) {
        let slots: Vec<_> = {
            let mut state = lock(&self.state);
            state.closed = true;
            state.slots.drain().map(|(_, slot)| slot).collect()
        };
        self.closing.cancel();
        for slot in slots {
            drop(slot.take());
        }
    }

    /// Ends all, and waits until every container is gone or was given up on.
    pub(super) async fn close(&self) {
        self.end_all();
        // The sender is ours, so it does not fail.
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }
}

impl Slot {
    /// Puts a started container in. Where the call is gone already, it is taken down.
    pub(super) fn fill(&self, remains: Remains) {
        let refused = {
            let mut contents = lock(&self.0);
            match *contents {
                Contents::Empty => {
                    *contents = Contents::Full(remains);
                    None
                }
                Contents::Full(_) | Contents::Gone => Some(remains),
            }
        };
        drop(refused);
    }

    /// Takes the container out; there is none where somebody else did.
    pub(super) fn take(&self) -> Option<Remains> {
        match std::mem::replace(&mut *lock(&self.0), Contents::Gone) {
            Contents::Full(remains) => Some(remains),
            Contents::Empty | Contents::Gone => None,
        }
    }
}

struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|alive| *alive -= 1);
    }
}

/// What is behind these locks stays whole whatever panicked while holding one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
