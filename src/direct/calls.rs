//! The calls in flight, and who takes each down.
//!
//! What a call has started sits in its slot. Whoever takes it out of there takes it down: the call
//! itself at its end, the call's future as it is dropped, or the driver as it closes, which waits
//! for no future to be polled. What is taken out and dropped is taken down too, by its own `Drop`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::launch::teardown::Token;

/// Every call of a driver.
#[derive(Debug)]
pub(super) struct Calls {
    state: Mutex<State>,
    /// How many of the things that calls started are not known to be gone.
    alive: watch::Sender<usize>,
    closing: CancellationToken,
}

#[derive(Default)]
struct State {
    closed: bool,
    slots: HashMap<String, Arc<dyn Emptied>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("closed", &self.closed)
            .field("slots", &self.slots.keys())
            .finish()
    }
}

/// Something that can be emptied for good.
trait Emptied: Send + Sync {
    fn empty(&self);
}

/// What a call has started.
#[derive(Debug)]
pub(super) struct Slot<T>(Mutex<Contents<T>>);

enum Contents<T> {
    /// Not started yet.
    Empty,
    Full(T),
    /// Taken, or never to be started.
    Gone,
}

impl<T> fmt::Debug for Contents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    /// Opens a slot, unless the driver is closed. What comes into it is counted from now on, so
    /// that no close overlooks it.
    pub(super) fn enter<T: Send + 'static>(&self, key: &str) -> Option<(Arc<Slot<T>>, Token)> {
        let mut state = lock(&self.state);
        if state.closed {
            return None;
        }
        let slot = Arc::new(Slot::new());
        state
            .slots
            .insert(key.to_owned(), Arc::clone(&slot) as Arc<dyn Emptied>);
        Some((slot, self.count()))
    }

    /// Closes a slot; what is still in it is taken down.
    pub(super) fn leave(&self, key: &str) {
        let slot = lock(&self.state).slots.remove(key);
        if let Some(slot) = slot {
            slot.empty();
        }
    }

    /// Counts something as alive until the token is dropped.
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
            slot.empty();
        }
    }

    /// Waits until everything is gone or was given up on.
    pub(super) async fn gone(&self) {
        // The sender is ours, so it does not fail.
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }
}

impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Contents::Empty))
    }

    /// Puts in what was started. Where the call is gone already, it is taken down.
    pub(super) fn fill(&self, started: T) {
        let refused = {
            let mut contents = lock(&self.0);
            match *contents {
                Contents::Empty => {
                    *contents = Contents::Full(started);
                    None
                }
                Contents::Full(_) | Contents::Gone => Some(started),
            }
        };
        drop(refused);
    }

    /// Takes it out; there is nothing where somebody else did.
    pub(super) fn take(&self) -> Option<T> {
        match std::mem::replace(&mut *lock(&self.0), Contents::Gone) {
            Contents::Full(started) => Some(started),
            Contents::Empty | Contents::Gone => None,
        }
    }
}

impl<T: Send> Emptied for Slot<T> {
    fn empty(&self) {
        drop(self.take());
    }
}

struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|alive| *alive -= 1);
    }
}

/// What is behind these locks stays whole whatever panicked while holding one.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
