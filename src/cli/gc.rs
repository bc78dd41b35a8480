//! `runsc-driver gc`: what killed drivers left, found and taken away.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::clean::{clean, say};
use super::exit;
use crate::host::Host;
use crate::leftovers::{self, Fate, Leftover, Options, Report};
use crate::trust::ScratchError;
use crate::trust::path::PathError;
use crate::trust::scratch::Owner;

const SCHEMA: &str = "runsc-driver/gc/v1";
/// How long it may take: nobody waits for it but who asked for it.
const LIMIT: Duration = Duration::from_secs(60);

/// Take away what killed drivers left
///
/// A driver that ends cleans up, and one that is killed takes its sandboxes with it; its files stay
/// until the next one starts here, or until this. Only what is known to be a dead driver's is
/// stopped and removed. Exits with 0 where nothing of that kind is left, and with 1 where some is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    runsc-driver gc --dry-run\n  \
    runsc-driver gc\n  \
    runsc-driver gc --json | jq '.found[] | select(.fate == \"left\")'")]
pub(super) struct Args {
    /// Only say what would be stopped and removed
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object, and nothing else
    #[arg(long)]
    json: bool,
}

/// Why nothing was looked at.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

impl Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Path(err) => err.code(),
            Self::Scratch(err) => err.code(),
        }
    }
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> ExitCode {
    let host = Host::read();
    let parent = leftovers::parent(&host);
    let known = parent.as_ref().ok().cloned();
    let options = Options {
        dry_run: args.dry_run,
        limit: LIMIT,
    };
    let swept = parent
        .map_err(Refusal::from)
        .and_then(|parent| Ok(leftovers::sweep(&parent, host.uid, options)?));
    // Whoever closed our standard output does not want it.
    let _ = match (&swept, args.json) {
        (Ok(report), false) => io::stdout().write_all(text(report).as_bytes()),
        (Err(refusal), false) => {
            say(&refusal.to_string());
            Ok(())
        }
        (swept, true) => print_json(&Printed::of(swept.as_ref(), known.as_deref(), args.dry_run)),
    };
    match swept {
        Ok(report) => u8::from(!report.is_complete()).into(),
        Err(_) => exit::COULD_NOT.into(),
    }
}

/// A line for each thing, and their number.
fn text(report: &Report) -> String {
    let mut text = String::new();
    let (mut removed, mut left) = (0, 0);
    for found in &report.leftovers {
        match found.fate {
            Fate::Removed => removed += 1,
            Fate::Left(_) => left += 1,
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", clean(&line(found, report.dry_run)));
    }
    let verb = if report.dry_run {
        "to remove"
    } else {
        "removed"
    };
    let at = clean(&report.parent.to_string_lossy());
    let _ = writeln!(text, "{removed} {verb}, {left} left in {at}");
    text
}

fn line(found: &Leftover, dry_run: bool) -> String {
    let path = found.path.to_string_lossy();
    let whose = match &found.owner {
        Some(owner) => format!(" (pid {})", owner.pid),
        None => String::new(),
    };
    let stopped = match (found.stopped.as_slice(), dry_run) {
        ([], _) => String::new(),
        (pids, false) => format!("; stopped its processes {}", leftovers::list(pids)),
        (pids, true) => format!("; its processes {} would be stopped", leftovers::list(pids)),
    };
    match &found.fate {
        Fate::Removed if dry_run => {
            format!("would remove {path}{whose}: its owner is gone{stopped}")
        }
        Fate::Removed => format!("removed {path}{whose}: its owner is gone{stopped}"),
        Fate::Left(why) => format!("left {path}{whose}: {why}{stopped}"),
    }
}

/// The object that `gc --json` prints (bundles/schemas/gc-v1.schema.json).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    schema: &'static str,
    version: &'static str,
    parent: Option<String>,
    dry_run: bool,
    complete: bool,
    code: Option<&'static str>,
    message: Option<String>,
    found: Vec<PrintedLeftover>,
}

#[derive(Serialize)]
struct PrintedLeftover {
    path: String,
    owner: Option<PrintedOwner>,
    stopped: Vec<u32>,
    fate: &'static str,
    code: Option<&'static str>,
    reason: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrintedOwner {
    pid: u32,
    start_time: u64,
    boot_id: String,
    pid_namespace: String,
}

impl Printed {
    fn of(swept: Result<&Report, &Refusal>, parent: Option<&Path>, dry_run: bool) -> Self {
        let report = swept.ok();
        let refusal = swept.err();
        let found = report.map_or(&[][..], |report| &report.leftovers);
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            parent: parent.map(|parent| parent.to_string_lossy().into_owned()),
            dry_run,
            complete: report.is_some_and(Report::is_complete),
            code: refusal.map(Refusal::code),
            message: refusal.map(ToString::to_string),
            found: found
                .iter()
                .map(|found| PrintedLeftover::of(found, dry_run))
                .collect(),
        }
    }
}

impl PrintedLeftover {
    fn of(found: &Leftover, dry_run: bool) -> Self {
        let why = match &found.fate {
            Fate::Removed => None,
            Fate::Left(why) => Some(why),
        };
        Self {
            path: found.path.to_string_lossy().into_owned(),
            owner: found.owner.as_ref().map(PrintedOwner::of),
            stopped: found.stopped.clone(),
            fate: match (why, dry_run) {
                (Some(_), _) => "left",
                (None, true) => "would-remove",
                (None, false) => "removed",
            },
            code: why.map(leftovers::Why::code),
            reason: why.map(ToString::to_string),
        }
    }
}

impl PrintedOwner {
    fn of(owner: &Owner) -> Self {
        Self {
            pid: owner.pid,
            start_time: owner.start_time,
            boot_id: owner.boot_id.clone(),
            pid_namespace: owner.pid_namespace.clone(),
        }
    }
}

fn print_json(printed: &Printed) -> io::Result<()> {
    let mut to = io::stdout().lock();
    serde_json::to_writer_pretty(&mut to, printed)?;
    to.write_all(b"\n")
}
