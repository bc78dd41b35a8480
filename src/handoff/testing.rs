//! A driver for tests: what a command does is a function of the test's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::cfc::label::LabelView;
use crate::driver::{
    BoxFuture, Call, CancellationToken, Captured, Cause, Driver, End, Error, Evidence, Exit,
    Observation, Outcome, Output, Released, SessionInfo, Stdin,
};
use crate::selection::description::{Description, Sandbox};

/// What a command has.
pub(crate) struct Inside {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) stdout: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) host_uds: bool,
    pub(crate) labels: LabelView,
}

impl Inside {
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdin.read_line(&mut line).await.unwrap();
        line
    }

    pub(crate) async fn say(&mut self, text: &str) {
        let _ = self.stdout.write_all(text.as_bytes()).await;
    }
}

type Behave = dyn Fn(Inside) -> BoxFuture<'static, u8> + Send + Sync;

/// Runs each call by a function.
pub(crate) struct FakeDriver {
    behave: Arc<Behave>,
    closing: CancellationToken,
    description: Description,
    observe: Observe,
    pub(crate) running: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) calls: AtomicUsize,
}

impl FakeDriver {
    pub(crate) fn new(
        behave: impl Fn(Inside) -> BoxFuture<'static, u8> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::described(nothing_shown(), behave))
    }

    /// One that says this of itself.
    pub(crate) fn described(
        description: Description,
        behave: impl Fn(Inside) -> BoxFuture<'static, u8> + Send + Sync + 'static,
    ) -> Self {
        Self {
            behave: Arc::new(behave),
            closing: CancellationToken::new(),
            description,
            observe: Arc::new(Observation::Untracked),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    /// One whose calls have this verdict.
    pub(crate) fn observing(
        mut self,
        observe: impl Fn(Released) -> Observation + Send + Sync + 'static,
    ) -> Self {
        self.observe = Arc::new(observe);
        self
    }
}

type Observe = Arc<dyn Fn(Released) -> Observation + Send + Sync>;

/// A description without mounts, of an image that is not there.
pub(crate) fn nothing_shown() -> Description {
    Description {
        kind: "fake",
        default_working_directory: "/workspace".into(),
        sessions: false,
        exec_via: None,
        cfc: Sandbox {
            runtime_requested: false,
            image: "/nonexistent".into(),
            workspace_mount_path: "/workspace".into(),
            mounts: Vec::new(),
            network_mode: "none",
            udp: None,
            invocation_context_transport: "fd",
            invocation_context_transport_readiness: "ready",
        },
        selection: None,
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn texts(values: impl IntoIterator<Item = std::ffi::OsString>) -> Vec<String> {
    values
        .into_iter()
        .map(|text| text.into_string().unwrap())
        .collect()
}

impl Driver for FakeDriver {
    fn run(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            let _counted = Counted(&self.running);
            self.most.fetch_max(now, Ordering::SeqCst);
            let stdin: Box<dyn AsyncRead + Send + Unpin> = match call.stdin {
                Stdin::Reader(reader) => reader,
                Stdin::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
                Stdin::Null => Box::new(tokio::io::empty()),
            };
            let stdout: Box<dyn AsyncWrite + Send + Unpin> = match call.stdout {
                Output::Stream(writer) => writer,
                Output::Keep => Box::new(tokio::io::sink()),
            };
            let inside = Inside {
                argv: texts(call.argv),
                env: texts(call.env.iter().map(|(name, _)| name.clone()))
                    .into_iter()
                    .zip(texts(call.env.iter().map(|(_, value)| value.clone())))
                    .collect(),
                stdin: BufReader::new(stdin),
                stdout,
                host_uds: call.host_uds,
                labels: call.labels,
            };
            let (end, code) = tokio::select! {
                biased;
                () = call.cancel.cancelled() => (End::Cancelled, None),
                () = self.closing.cancelled() => (End::Cancelled, None),
                code = (self.behave)(inside) => (End::Exited, Some(code)),
            };
            Ok(Outcome {
                container_id: "c-fake".into(),
                end,
                observation: (self.observe)(Released {
                    exit: code.map(|code| Exit {
                        code,
                        cause: Cause::Exit,
                    }),
                    stdout: Captured::default(),
                    stderr: Captured::default(),
                }),
                elapsed: Duration::ZERO,
                evidence: Evidence::default(),
                raw: None,
            })
        })
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn sessions(&self) -> Vec<SessionInfo> {
        Vec::new()
    }

    fn child(&self, _: &str) -> Result<Arc<dyn Driver>, Error> {
        Ok(Arc::new(Self {
            behave: Arc::clone(&self.behave),
            closing: CancellationToken::new(),
            description: self.description.clone(),
            observe: Arc::clone(&self.observe),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        }))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
