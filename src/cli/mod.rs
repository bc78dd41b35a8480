//! The command: one verb per file, rendering apart.

mod clean;
mod exit;
mod json;
mod plan_json;
mod report;
mod run;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

/// Runs untrusted commands in gVisor: no Docker, no daemon, no root.
#[derive(Debug, Parser)]
#[command(
    name = "runsc-driver",
    version,
    about,
    after_help = "Set a machine up with scripts/quickstart.sh of the repository, then:\n  \
                  runsc-driver run --no-cfc -- uname -a"
)]
struct Cli {
    /// Show what the driver does, on standard error; more with each one
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::Args>),
}

/// Parses the arguments and does what they say.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(err) => {
            // Help and version are asked for, and go to standard output; a closed one is no error.
            let _ = err.print();
            return if err.use_stderr() {
                exit::USAGE.into()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    show_tracing(cli.verbose);
    match cli.verb {
        Verb::Run(args) => run::main(*args),
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
