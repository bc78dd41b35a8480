//! `runsc-driver run`: one command in a sandbox of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bytesize::ByteSize;
use nix::sys::signal::Signal;

use super::clean::say;
use super::sandbox_args::{SandboxArgs, SetupError};
use super::signals::Signals;
use super::{exit, json, plan_json, report};
use crate::cfc::context::{ContextError, InvocationContext};
use crate::cfc::json::MAX_BYTES;
use crate::cfc::label::{LabelError, LabelRoot, LabelView, confidentiality_from_arg};
use crate::direct::DirectDriver;
use crate::driver::{Call, CancellationToken, Driver, Error, Outcome, Output, Stdin};
use crate::host::Host;
use crate::launch::sys;

/// Run a command in a gVisor sandbox of its own
///
/// The command sees the image, a private /tmp, and the mounts; it has no capabilities. It may
/// connect to wherever --network and --egress let it, and nothing can connect to it. Where labels
/// are enforced, its output comes at its end, or is withheld; otherwise it passes through as it is
/// written. Its exit status is this command's: 124 stands for a time-out, 125 for what the driver
/// or runsc could not do or what is withheld, 126 for a program that is not executable, 127 for one
/// that is not there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    runsc-driver run -- make test\n  \
    runsc-driver run --ro-bind ~/data /data --egress none --timeout 30s -- python3 /data/check.py\n  \
    runsc-driver run --json -- sh -c 'echo out; echo err >&2; exit 7'")]
pub(super) struct Args {
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// What the caller says of this call: a CFC invocation context as JSON; - reads it from
    /// standard input
    #[arg(long, value_name = "FILE|-")]
    cfc_context: Option<PathBuf>,
    /// A confidentiality label of the command; text, or JSON where it starts with {
    #[arg(long, value_name = "CONF")]
    cfc_label: Vec<String>,
    /// Set a variable for the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<OsString>,
    /// The working directory in the sandbox, inside a mount
    #[arg(long, value_name = "PATH")]
    cwd: Option<PathBuf>,
    /// End the command and all that it started after this long: 30s, 5m, 1h 30m; a bare number
    /// is seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Keep at most this much of each output stream for --json, its first and its last half
    /// [default: 16MiB]
    #[arg(long, value_name = "SIZE")]
    output_limit: Option<ByteSize>,
    /// What the command reads: our standard input, or nothing
    #[arg(long, value_name = "inherit|null", default_value = "inherit")]
    stdin: StdinFrom,
    /// Print one JSON object with the output and how the command ended, and nothing else
    #[arg(long)]
    json: bool,
    /// Print what would be run, as JSON, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StdinFrom {
    Inherit,
    Null,
}

fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text).map_err(|err| err.to_string()),
    }
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Driver(#[from] Error),
    #[error(transparent)]
    Label(#[from] LabelError),
    #[error("--cfc-context {path:?} cannot be used ({source})")]
    Context { path: PathBuf, source: ContextError },
    #[error("--cfc-context {path:?} cannot be read ({source})")]
    ContextFile { path: PathBuf, source: io::Error },
    #[error("--env {0:?} names no value: write NAME=VALUE")]
    BadEnv(OsString),
    #[error("could not start ({0})")]
    Runtime(io::Error),
}

impl Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::Setup(err) => err.code(),
            Self::Driver(err) => err.code(),
            Self::Label(err) => err.code(),
            Self::Context { source, .. } => source.code(),
            Self::ContextFile { .. } => "context-unreadable",
            Self::BadEnv(_) => "bad-variable-name",
            Self::Runtime(_) => "no-runtime",
        }
    }
}

/// Runs the verb.
pub(super) fn main(args: Args) -> ExitCode {
    let wants_json = args.json;
    match run(args) {
        Ok(code) => code,
        Err(failure) => {
            if wants_json {
                let _ = json::refusal(io::stdout().lock(), failure.code(), &failure.to_string());
            }
            say(&format!("{failure} [{}]", failure.code()));
            exit::COULD_NOT.into()
        }
    }
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    let host = Host::read();
    let (selection, config) = args.sandbox.configure(&host)?;
    tracing::info!(runtime = %selection.describe(), "selected");
    let driver = DirectDriver::new(config, host);
    let call = call(&args)?;
    if args.dry_run {
        let plan = driver.plan(&call)?;
        let _ = plan_json::print(io::stdout().lock(), &plan);
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = super::runtime().map_err(Failure::Runtime)?;
    let (result, signal) = runtime.block_on(drive(&driver, call))?;
    // A read of standard input may never come back.
    runtime.shutdown_background();
    if let Some(signal) = signal {
        sys::die_by(signal);
    }
    let outcome = result?;
    if args.json {
        // Whoever closed our standard output does not want it.
        let _ = json::outcome(io::stdout().lock(), &outcome);
    }
    report::say_end(&args.argv[0], args.timeout, &outcome);
    Ok(exit::status(&outcome).into())
}

/// Runs the call and closes the driver, whichever way the call ends.
async fn drive(
    driver: &DirectDriver,
    mut call: Call,
) -> Result<(Result<Outcome, Error>, Option<Signal>), Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let cancel = CancellationToken::new();
    call.cancel = cancel.clone();
    let work = async {
        let result = driver.run(call).await;
        driver.close().await;
        result
    };
    tokio::pin!(work);
    let first = tokio::select! {
        result = &mut work => return Ok((result, None)),
        signal = signals.next() => signal,
    };
    cancel.cancel();
    tokio::select! {
        result = &mut work => Ok((result, Some(first))),
        // Asked twice, it goes at once: the kernel takes every child with it.
        again = signals.next() => {
            sys::die_by(again);
            Ok((Err(Error::Closed), Some(again)))
        }
    }
}

fn call(args: &Args) -> Result<Call, Failure> {
    let mut call = Call::new(args.argv.iter().cloned());
    call.cwd.clone_from(&args.cwd);
    call.deadline = args.timeout;
    for given in &args.env {
        let at = given.as_bytes().iter().position(|byte| *byte == b'=');
        let at = at.ok_or_else(|| Failure::BadEnv(given.clone()))?;
        let (name, value) = (&given.as_bytes()[..at], &given.as_bytes()[at + 1..]);
        call.env.push((
            OsString::from_vec(name.into()),
            OsStr::from_bytes(value).into(),
        ));
    }
    call.context = args.cfc_context.as_deref().map(context).transpose()?;
    call.labels = labels(&args.cfc_label)?;
    let stdin_is_free = args.cfc_context.as_deref() != Some(Path::new("-"));
    if args.stdin == StdinFrom::Inherit && stdin_is_free && readable_here() {
        call.stdin = Stdin::Reader(Box::new(tokio::io::stdin()));
    }
    if let Some(limit) = args.output_limit {
        call.output_cap = usize::try_from(limit.as_u64()).unwrap_or(usize::MAX);
    }
    if !args.json {
        // Where nothing is held back, nothing is gained by hiding the exit value.
        call.keep_raw = !enforces(args, call.context.as_ref());
        call.stdout = Output::Stream(Box::new(tokio::io::stdout()));
        call.stderr = Output::Stream(Box::new(tokio::io::stderr()));
    }
    Ok(call)
}

/// Whether labels are enforced: the stricter one of the flag and the context holds.
fn enforces(args: &Args, context: Option<&InvocationContext>) -> bool {
    args.sandbox.mode().enforces() || context.is_some_and(|context| context.mode().enforces())
}

/// Reads a context, no further than a context may be long.
fn context(path: &Path) -> Result<InvocationContext, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let path = path.to_owned();
    match read {
        Ok(_) => {
            InvocationContext::parse(&bytes).map_err(|source| Failure::Context { path, source })
        }
        Err(source) => Err(Failure::ContextFile { path, source }),
    }
}

fn labels(given: &[String]) -> Result<LabelView, Failure> {
    let atoms: Result<Vec<_>, _> = given
        .iter()
        .map(|text| confidentiality_from_arg(text))
        .collect();
    Ok(LabelView::of(LabelRoot::Command, atoms?)?)
}

/// A job in the background that read from its terminal would be stopped.
fn readable_here() -> bool {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return true;
    }
    nix::unistd::tcgetpgrp(&stdin).is_ok_and(|group| group == nix::unistd::getpgrp())
}
