//! The host's side of a sandboxed step's launches.
//!
//! The document's `exe` is [`SHIM`], which the step sees in a read-only mount beside the broker's
//! socket. A launch is a connection; who asks is told by which socket it came to, never by what
//! the peer says of itself. What may be launched is counted here. Each child is again
//! [`Driver::run`], in a sandbox that the host's record describes.

mod admission;
mod client;
mod record;
mod serve;
mod socket;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::files::FileError;
use super::host::{Block, ChildTemplate, Kind};
use super::journal::Entry;
use crate::cfc::label::LabelView;
use crate::driver::Driver;
pub use admission::{Admission, KindSpec, Refusal};
use client::Client;
use record::Recorder;
pub use record::{Notice, Records, Worker};
pub use socket::{SHIM, SHIM_NAME, SOCKET_NAME};
pub use wire::{Frame, Hello};

/// The bounds of one step's launches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a child may take.
    pub deadline: Duration,
    /// How long after that its report still counts.
    pub grace: Duration,
    /// How many children run at once.
    pub max_concurrent: usize,
    /// How many launches may wait or run at once.
    pub max_connections: usize,
    /// The longest request.
    pub max_request: usize,
    /// The most bytes that one child may print.
    pub max_output: u64,
    /// How long a script may take to say what it wants.
    pub hello: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(super::host::DEFAULT_DEADLINE_MS),
            grace: Duration::from_secs(5),
            max_concurrent: 4,
            max_connections: 512,
            max_request: 256 * 1024,
            max_output: 64 * 1024 * 1024,
            hello: serve::HELLO,
        }
    }
}

/// A child's sandbox: its driver, and what has to stay until it ended.
pub struct ChildPlace {
    /// Runs the child, and is closed after it.
    pub driver: Arc<dyn Driver>,
    /// Dropped after the driver is closed.
    pub keep: Box<dyn std::any::Any + Send + Sync>,
}

/// Makes a child's sandbox, no wider than its step's. The error is a sentence without paths.
pub type MakeChild = Arc<dyn Fn(&str) -> Result<ChildPlace, String> + Send + Sync>;

/// What a step may launch.
pub struct Grant {
    /// The ordinals, and with them how many children in all.
    pub block: Block,
    /// How its children are named.
    pub template: ChildTemplate,
    /// What is launched for each kind.
    pub kinds: BTreeMap<Kind, KindSpec>,
    /// The bounds.
    pub limits: Limits,
    /// The labels of the step, which are those of all that its children are given.
    pub labels: LabelView,
}

/// What became of a step's launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Launches {
    /// The children by ordinal, then those that were skipped, as they came.
    pub workers: Vec<Worker>,
    /// How many launches were refused, by the refusal's code.
    pub refusals: BTreeMap<&'static str, u64>,
    /// What else the caller should know.
    pub notices: Vec<Notice>,
}

struct Shared {
    admission: Mutex<Admission>,
    recorder: Recorder,
    limits: Limits,
    labels: LabelView,
    slots: Semaphore,
    closing: CancellationToken,
    make_child: MakeChild,
}

impl Shared {
    fn admit(&self, child: &str, kind: &str) -> Result<(u64, KindSpec), Refusal> {
        let mut admission = self
            .admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        admission.admit(child, kind)
    }
}

/// Listens for one step's launches. Dropped, it takes every child that runs down.
pub struct Broker {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<JoinSet<()>>>,
}

impl Broker {
    /// Listens in a directory that only this process can enter, which is made ready for the
    /// step's mount: the socket and the shim. `owner` is the container's user, where it is not
    /// this process's.
    ///
    /// # Errors
    /// [`FileError`] where the directory cannot be made ready.
    pub fn open(
        dir: &Path,
        owner: Option<(u32, u32)>,
        grant: Grant,
        records: Records,
        make_child: MakeChild,
    ) -> Result<Self, FileError> {
        let listener = socket::listen(dir, owner)?;
        let shared = Arc::new(Shared {
            slots: Semaphore::new(grant.limits.max_concurrent.max(1)),
            admission: Mutex::new(Admission::new(grant.block, grant.template, grant.kinds)),
            recorder: Recorder::new(records),
            limits: grant.limits,
            labels: grant.labels,
            closing: CancellationToken::new(),
            make_child,
        });
        shared.recorder.fanout("fanout.started", None);
        let accepting = tokio::spawn(accept(Arc::clone(&shared), listener));
        Ok(Self {
            shared,
            accepting: Some(accepting),
        })
    }

    /// Ends what still runs, sees every bracket closed, and tells what became of all launches.
    pub async fn close(mut self) -> Launches {
        self.shared.closing.cancel();
        if let Some(accepting) = self.accepting.take()
            && let Ok(mut connections) = accepting.await
        {
            while connections.join_next().await.is_some() {}
        }
        self.shared.recorder.fanout("fanout.completed", None);
        let (workers, refusals, notices) = self.shared.recorder.close();
        Launches {
            workers,
            refusals,
            notices,
        }
    }

    /// What was journalled so far.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.shared.recorder.entries()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Takes connections until the step ends, each on a task of its own.
async fn accept(shared: Arc<Shared>, listener: UnixListener) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = shared.closing.cancelled() => return connections,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(err) => {
                    // Too many files are open: those that are will go.
                    tracing::warn!(%err, "a launch could not be accepted");
                    tokio::select! {
                        () = shared.closing.cancelled() => return connections,
                        _ = connections.join_next(), if !connections.is_empty() => {}
                        () = crate::launch::deadline::Deadline::after(Some(serve::HELLO)).passed() => {}
                    }
                    continue;
                }
            },
        };
        let client = Client::new(stream);
        if connections.len() >= shared.limits.max_connections {
            shared.recorder.refused(Refusal::TooMany, None);
            // Told where it listens, and not waited for.
            drop(client);
            continue;
        }
        connections.spawn(serve::serve(Arc::clone(&shared), client));
    }
}

#[cfg(test)]
mod tests;
