//! What the driver costs beside bare `runsc` and beside its peers: `scripts/bench.sh` runs this.
//!
//! Neither criterion nor divan measures in pairs, and what is wanted here are ratios that hold on
//! a machine whose speed drifts: so the rounds are our own (`measure`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark fails by panicking, starts programs itself and prints"
)]

mod bursts;
mod labels;
mod machine;
mod measure;
mod network;
mod peers;
mod place;
mod raw;
mod report;
mod resources;
mod run;
mod stop;
mod subjects;
mod whole;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use stop::Stop;

/// Measures what the driver costs beside bare runsc and beside its peers, in rounds in which each
/// is called once. Prints a Markdown table. Run it on a quiet machine.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench.sh")]
struct Args {
    /// How many rounds each ratio has; 200, or as many as a minute allows with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Measures the ratios alone, within a minute.
    #[arg(long)]
    quick: bool,
    /// Prints one JSON object instead.
    #[arg(long)]
    json: bool,
    /// Draws the picture into this file as well.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    stop::listen();
    let report = match run::run(args.pairs.map(|pairs| pairs as usize), args.quick) {
        Ok(report) => report,
        Err(Stop::Signal) => {
            eprintln!("stopped; nothing was left behind");
            return ExitCode::from(130);
        }
        Err(Stop::Failed(why)) => {
            eprintln!("bench: {why}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(file) = &args.svg
        && let Err(err) = std::fs::write(file, report::svg::draw(&report))
    {
        eprintln!("bench: {} could not be written: {err}", file.display());
        return ExitCode::FAILURE;
    }
    if args.json {
        println!("{}", report::json(&report));
    } else {
        print!("{}", report::markdown::table(&report));
    }
    ExitCode::SUCCESS
}
