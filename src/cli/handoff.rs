//! `runsc-driver handoff`: what a step needs, may launch, and hands back.

mod run;
mod sandbox;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Subcommand;
use serde_json::{Value, json};

use super::clean::{clean, say};
use crate::handoff::artifacts::CaptureLimits;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::host::{Allocator, LedgerError, Owner};
use crate::handoff::step::{self, StepError};
use crate::host::Host;

/// What could not be done, or did not go well.
const FAILED: u8 = 1;
/// A report that blocks, where readiness was asked for.
const BLOCKED: u8 = 3;

/// Run a step that may launch children, and hand its outputs on as a verified bundle
///
/// A plan says what a step needs, what it may launch and what it is to make
/// (bundles/schemas/handoff/handoff-plan-v1.schema.json). Everything is printed as JSON.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  runsc-driver handoff run examples/handoff/plan.json"
)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(Check),
    Run(Box<run::Args>),
    Reserve(Reserve),
    Env(Env),
    Progress(Progress),
}

/// Report whether what a step needs is there and unchanged; nothing is written
///
/// A report that blocks was still retrieved: the exit status is 0, unless --require-ready makes it
/// 3. It is 1 where there is nothing to look at.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver handoff check examples/handoff/plan.json | jq .status")]
struct Check {
    /// The plan
    plan: PathBuf,
    /// The context digest of an earlier report: is it still the current one?
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    context: Option<Sha256Hex>,
    /// Exit with 3 where the report blocks
    #[arg(long)]
    require_ready: bool,
    #[command(flatten)]
    root: Root,
}

/// Set child ids aside that nobody else is or will be given
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  runsc-driver handoff reserve --count 4 --root session")]
struct Reserve {
    /// How many
    #[arg(long, value_name = "N")]
    count: u64,
    /// Whom they are for: the host's own children, or a script's
    #[arg(long, value_name = "engine|workflow", default_value = "engine")]
    owner: OwnerName,
    #[command(flatten)]
    root: Root,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum OwnerName {
    Engine,
    Workflow,
}

/// Print the WORKFLOW_HOST document that a plan's step would be given; nothing is set aside
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  runsc-driver handoff env examples/handoff/plan.json")]
struct Env {
    /// The plan
    plan: PathBuf,
    #[command(flatten)]
    root: Root,
}

/// Print where the children of a run are (wp-codebox/run-plan-progress/v1)
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  runsc-driver handoff progress example-1 | jq .counts")]
struct Progress {
    /// The run, as its plan names it
    run: String,
    /// The step; the one that was last attempted where none is named
    #[arg(long, value_name = "NAME")]
    step: Option<String>,
    #[command(flatten)]
    root: Root,
}

/// Where a session's records are.
#[derive(Debug, clap::Args)]
pub(super) struct Root {
    /// The session's directory: ledger, records and bundles
    /// [default: ~/.local/state/runsc-driver/handoff]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl Root {
    pub(super) fn path(&self, host: &Host) -> Result<PathBuf, Failure> {
        let cwd = || host.cwd.clone().ok_or(Failure::NoCwd);
        match &self.root {
            Some(root) => Ok(cwd()?.join(root)),
            None => {
                let home = host.home.as_deref().ok_or(Failure::NoHome)?;
                Ok(home.join(".local/state/runsc-driver/handoff"))
            }
        }
    }
}

pub(super) fn digest(text: &str) -> Result<Sha256Hex, String> {
    Sha256Hex::parse(text).ok_or_else(|| "it is 64 lower-case hexadecimal digits".to_owned())
}

/// Why a verb printed no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Sandbox(#[from] sandbox::Refused),
    #[error("the working directory is gone, so no relative path can be told: change to another")]
    NoCwd,
    #[error("there is no home directory to keep records in: name one with --root")]
    NoHome,
    #[error("the plan launches nothing, so its step is given no document")]
    NoLaunches,
    #[error("there is no run of this name: see --root")]
    NoRun,
    #[error("could not start ({0})")]
    Runtime(#[from] io::Error),
}

impl Failure {
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Step(err) => err.code(),
            Self::Ledger(err) => err.code(),
            Self::Sandbox(err) => err.code(),
            Self::NoCwd => "no-working-directory",
            Self::NoHome => "no-home",
            Self::NoLaunches => "no-launches",
            Self::NoRun => "no-such-run",
            Self::Runtime(_) => "no-runtime",
        }
    }
}

/// Runs the verb.
pub(super) fn main(args: Args) -> ExitCode {
    let host = Host::read();
    let done = match args.verb {
        Verb::Check(args) => check(&args, &host),
        Verb::Run(args) => run::run(&args, host),
        Verb::Reserve(args) => reserve(&args, &host),
        Verb::Env(args) => env(&args, &host),
        Verb::Progress(args) => progress(&args, &host),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            refuse(failure.code(), &failure.to_string());
            FAILED.into()
        }
    }
}

fn check(args: &Check, host: &Host) -> Result<ExitCode, Failure> {
    let report = step::check(
        &args.root.path(host)?,
        &here(host, &args.plan)?,
        args.context.as_ref(),
    )?;
    print(&report.to_value());
    Ok(match args.require_ready && !report.is_ready() {
        true => BLOCKED.into(),
        false => ExitCode::SUCCESS,
    })
}

fn reserve(args: &Reserve, host: &Host) -> Result<ExitCode, Failure> {
    let owner = match args.owner {
        OwnerName::Engine => Owner::Engine,
        OwnerName::Workflow => Owner::Workflow,
    };
    let block = Allocator::open(&args.root.path(host)?, 1)?.reserve(args.count, owner)?;
    print(&json!({ "first": block.first(), "count": block.count(), "last": block.last() }));
    Ok(ExitCode::SUCCESS)
}

fn env(args: &Env, host: &Host) -> Result<ExitCode, Failure> {
    let document = step::preview(&args.root.path(host)?, &here(host, &args.plan)?)?;
    let document = document.ok_or(Failure::NoLaunches)?;
    // Whoever closed our standard output does not want it.
    let _ = writeln!(io::stdout().lock(), "{document}");
    Ok(ExitCode::SUCCESS)
}

fn progress(args: &Progress, host: &Host) -> Result<ExitCode, Failure> {
    let root = args.root.path(host)?;
    let snapshot = step::progress(&root, &args.run, args.step.as_deref())?.ok_or(Failure::NoRun)?;
    print(&snapshot);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print(value: &Value) {
    // Whoever closed our standard output does not want it.
    let _ = writeln!(io::stdout().lock(), "{value:#}");
}

/// Tells why there is no result: an object where one was expected, and a line for people.
pub(super) fn refuse(code: &str, message: &str) {
    print(&json!({ "error": { "code": code, "message": clean(message) } }));
    say(&format!("{message} [{code}]"));
}

/// A path as it was named, from the working directory.
pub(super) fn here(host: &Host, path: &Path) -> Result<PathBuf, Failure> {
    Ok(host.cwd.as_deref().ok_or(Failure::NoCwd)?.join(path))
}

/// How much is captured at the most.
pub(super) fn capture_limits(most: Option<ByteSize>) -> CaptureLimits {
    let limits = CaptureLimits::default();
    match most {
        Some(most) => limits.up_to(most.as_u64()),
        None => limits,
    }
}
