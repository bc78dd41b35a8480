//! `runsc-cfc`: a front for the stock `runsc` that keeps the CFC contract, conservatively and at
//! the granularity of a container. What a container *could* read, it is taken to have read.
//!
//! docs/labels.md has the rules, the argument for each, and what they do not cover.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub mod args;
pub mod attributes;
pub mod bare;
pub mod context;
pub mod decide;
pub mod doubt;
pub mod egress;
pub mod exec;
pub mod image;
mod label_cli;
pub mod look;
pub mod marks;
#[cfg(test)]
mod model;
pub mod mounts;
mod namespace;
pub mod owner;
mod path_text;
pub mod paths;
pub mod pattern;
pub mod policy;
pub mod refusal;
pub mod registry;
pub mod report;
pub mod run;
pub mod scene;
pub mod settle;
pub mod spec;
pub mod taint;
pub mod view;
pub mod walk;

use args::{Args, Command, is_true};
use refusal::{EXIT, Refusal};
use report::Log;
use run::Front;

use crate::launch::{LaunchError, stand_in};

/// The stock runsc's name, beside the front.
const STOCK: &str = "runsc-gvisor";

/// What `flags` has of the front's own.
const FLAGS: &str = "  -cfc\n    \tkeep labels\n  -cfc-ignore-labels\n    \trun without a policy over \
                     what is labelled\n  -cfc-policy string\n    \tpath of the CFC policy\n  \
                     -cfc-wait seconds\n    \thow long to wait for containers beside this one \
                     (default 10)\n  -cfc-walk-limit entries\n    \thow much a look may see\n";

/// Takes the command line, the program's name left out, and does what it says.
#[must_use]
pub fn main(words: Vec<OsString>) -> ExitCode {
    let args = match Args::parse(words.clone()) {
        Ok(args) => args,
        Err(err) => return refuse(&Log::default(), &err.into()),
    };
    let cwd = std::env::current_dir().unwrap_or_default();
    let log = args.global("log").filter(|log| !log.is_empty());
    let log = Log(log.map(|log| cwd.join(log)));
    match dispatch(args, words, cwd, &log) {
        Ok(code) => code,
        Err(refusal) => refuse(&log, &refusal),
    }
}

fn refuse(log: &Log, refusal: &Refusal) -> ExitCode {
    log.refuse(refusal);
    ExitCode::from(EXIT)
}

fn dispatch(
    args: Args,
    words: Vec<OsString>,
    cwd: PathBuf,
    log: &Log,
) -> Result<ExitCode, Refusal> {
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let bin = own.parent().unwrap_or(Path::new("/"));
    let front = Front {
        args: &args,
        stock: bin.join(STOCK),
        store: bin.parent().unwrap_or(bin).to_owned(),
        cwd,
        log: log.clone(),
    };
    let command = args.command.as_ref();
    if let Some(label) = command.filter(|command| command.name == b"label") {
        return Ok(label_cli::main(&front.store, &front.cwd, &label.operands));
    }
    if !front.stock.exists() {
        return Err(Refusal::NoStock { path: front.stock });
    }
    let Some(command) = command.filter(|_| args.cfc) else {
        if let Some(command) = command {
            bare::check(&front, &args, command)?;
            if command.name == b"flags" {
                let _ = std::io::Write::write_all(&mut std::io::stdout(), FLAGS.as_bytes());
            }
        }
        // Untouched, unless a flag that the stock runsc does not know is among them.
        let words = if args.own { &args.stock } else { &words };
        return Err(stand_in::replace(&front.stock, words).into());
    };
    with_labels(&front, command)
}

fn with_labels(front: &Front<'_>, command: &Command) -> Result<ExitCode, Refusal> {
    let operands = !command.operands.is_empty();
    match command.name.as_slice() {
        b"run" | b"exec" if operands && !is_true(command.flag("detach")) => {
            namespace::enter().map_err(|source| LaunchError::UserNamespace { source })?;
            if command.name == b"run" {
                run::run(front, command)
            } else {
                exec::exec(front, command)
            }
        }
        // They start nothing, and write nothing of a container to a file.
        b"delete" | b"flags" | b"help" | b"kill" | b"list" | b"pause" | b"ps" | b"resume"
        | b"spec" | b"state" | b"wait" | b"events" => {
            Err(stand_in::replace(&front.stock, &front.args.stock).into())
        }
        // Without its operands it fails by itself.
        b"run" | b"exec" if !operands => {
            Err(stand_in::replace(&front.stock, &front.args.stock).into())
        }
        name => Err(Refusal::Unsupported {
            command: String::from_utf8_lossy(name).into_owned(),
        }),
    }
}
