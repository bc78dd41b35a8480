//! The command: one verb per file, rendering apart.

mod bundle;
mod capabilities;
mod clean;
mod doctor;
mod exit;
mod gc;
mod handoff;
mod json;
mod plan_json;
mod report;
mod run;
mod sandbox_args;
mod shell;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

/// Runs untrusted commands in gVisor: no Docker, no daemon, no root.
#[derive(Debug, Parser)]
#[command(
    name = "runsc-driver",
    version,
    about,
    arg_required_else_help = true,
    after_help = "Set a machine up with scripts/quickstart.sh of the repository, then:\n  \
                  runsc-driver doctor\n  \
                  runsc-driver run -- uname -a"
)]
struct Cli {
    /// Show what the driver does, on standard error; more with each one
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    /// Print what this build takes, as JSON, and do nothing else
    #[arg(long)]
    describe_capabilities: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::Args>),
    Shell(Box<shell::Args>),
    Doctor(doctor::Args),
    Handoff(handoff::Args),
    Bundle(bundle::Args),
    Gc(gc::Args),
}

/// Parses the arguments and does what they say.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(err) => return refuse(&err),
    };
    show_tracing(cli.verbose);
    match (cli.verb, cli.describe_capabilities) {
        (Some(Verb::Run(args)), false) => run::main(*args),
        (Some(Verb::Shell(args)), false) => shell::main(&args),
        (Some(Verb::Doctor(args)), false) => doctor::main(&args),
        (Some(Verb::Handoff(args)), false) => handoff::main(args),
        (Some(Verb::Bundle(args)), false) => bundle::main(args),
        (Some(Verb::Gc(args)), false) => gc::main(&args),
        (None, true) => {
            // Whoever closed our standard output does not want it.
            let _ = capabilities::print(std::io::stdout().lock(), Cli::command());
            ExitCode::SUCCESS
        }
        (Some(_), true) => refuse(&Cli::command().error(
            ErrorKind::ArgumentConflict,
            "--describe-capabilities goes with no verb",
        )),
        (None, false) => refuse(&Cli::command().error(
            ErrorKind::MissingSubcommand,
            "a verb is missing: see --help",
        )),
    }
}

/// What a verb runs its one driver on.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn refuse(err: &clap::Error) -> ExitCode {
    // Help and version are asked for, and go to standard output; a closed one is no error.
    let _ = err.print();
    match err.use_stderr() {
        true => exit::USAGE.into(),
        false => ExitCode::SUCCESS,
    }
}

fn show_tracing(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        .init();
}
