//! `runsc-driver doctor`: would a run work here, and if not, what is there to do?

mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use super::clean::say;
use super::exit;
use super::signals::Signals;
use crate::doctor::{Diagnosis, Name, Options, diagnose};
use crate::driver::CancellationToken;
use crate::host::Host;
use crate::launch::sys;

const SCHEMA: &str = "runsc-driver/doctor/v1";

/// See whether a run would work here, and if not, what to do
///
/// Looks at what a run needs and makes the default's own call in a real sandbox, without labels or
/// without a network where those cannot be had. Exits with 0 where the default run works and with 1
/// where it does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    runsc-driver doctor\n  \
    runsc-driver doctor --json | jq '.problems'\n  \
    runsc-driver doctor --only store --only run")]
pub(super) struct Args {
    /// Print one JSON object, and nothing else
    #[arg(long)]
    json: bool,
    /// Look at this alone; can be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<Name>,
    /// Only read: start no process and write nothing
    #[arg(long)]
    no_probe: bool,
}

/// The object that `doctor --json` prints (bundles/schemas/doctor-v1.schema.json).
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> ExitCode {
    let runtime = super::runtime();
    let diagnosis = match runtime.and_then(|runtime| runtime.block_on(examine(args))) {
        Ok(diagnosis) => diagnosis,
        Err(err) => {
            say(&format!("could not start ({err})"));
            return exit::COULD_NOT.into();
        }
    };
    // Whoever closed our standard output does not want it.
    let _ = match args.json {
        true => print_json(&diagnosis),
        false => anstream::stdout().write_all(text::render(&diagnosis).as_bytes()),
    };
    u8::from(!diagnosis.ok).into()
}

/// Looks, and ends by the signal that came in between, once all is taken down again.
async fn examine(args: &Args) -> io::Result<Diagnosis> {
    let mut signals = Signals::listen()?;
    let options = Options {
        only: args.only.clone(),
        no_probe: args.no_probe,
        cancel: CancellationToken::new(),
    };
    let host = Host::read();
    let work = diagnose(&host, &options);
    tokio::pin!(work);
    let signal = tokio::select! {
        diagnosis = &mut work => return Ok(diagnosis),
        signal = signals.next() => signal,
    };
    options.cancel.cancel();
    let diagnosis = work.await;
    sys::die_by(signal);
    Ok(diagnosis)
}

fn print_json(diagnosis: &Diagnosis) -> io::Result<()> {
    let mut to = io::stdout().lock();
    let report = Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        diagnosis,
    };
    serde_json::to_writer_pretty(&mut to, &report)?;
    to.write_all(b"\n")
}
