//! The timers. Nothing else in the crate sleeps.

use std::time::Duration;

use tokio::time::Instant;

/// A call's deadline: the moment it is due, if ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Due after this long from now; never where there is none or it is beyond reckoning.
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Waits until it is due.
    pub(crate) async fn passed(self) {
        match self.0 {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}
