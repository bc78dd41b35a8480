//! `runsc-driver handoff run`.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};

use super::{FAILED, Failure, Root, capture_limits, digest, here, print, sandbox};
use crate::cli::clean::{clean, say};
use crate::cli::signals::Signals;
use crate::driver::CancellationToken;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::events::Tail;
use crate::handoff::step::{self, HandoffHost, StepError, StepOptions, StepRun};
use crate::host::Host;
use crate::launch::sys;

/// Run a step and hand its outputs on (wp-codebox/artifact-result-envelope/v1)
///
/// The step finds its inputs in /inputs, works in /workspace and puts what it makes into /outputs.
/// Where its plan lets it launch children, WORKFLOW_HOST tells it how. Exits with 0 where there is
/// a bundle and with 1 where there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver handoff run examples/handoff/plan.json | jq .artifactBundle")]
pub(super) struct Args {
    /// The plan
    plan: PathBuf,
    /// The context digest of a report: refuse where it is not the current one any more
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    context: Option<Sha256Hex>,
    /// Copy the inputs as they are checked, so that the step sees the bytes that were checked
    #[arg(long)]
    stage_inputs: bool,
    /// Let the journal of the last attempt answer the calls that it knows
    #[arg(long)]
    resume: bool,
    /// Keep the directories that the step worked in, below its record
    #[arg(long)]
    keep_work: bool,
    /// Take so much of outputs, in one file and in all [default: 64MiB in one file, 256MiB in all]
    #[arg(long, value_name = "SIZE")]
    max_output: Option<ByteSize>,
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    sandbox: sandbox::SandboxArgs,
}

pub(super) fn run(args: &Args, host: Host) -> Result<ExitCode, Failure> {
    let plan = here(&host, &args.plan)?;
    let options = StepOptions {
        root: args.root.path(&host)?,
        stage_inputs: args.stage_inputs,
        resume: args.resume,
        keep_work: args.keep_work,
        capture: capture_limits(args.max_output),
        owner: args.sandbox.owner(&host)?,
        ..StepOptions::default()
    };
    let no_cfc = step::read_plan(&plan)?.no_cfc;
    let native = args.sandbox.select(&host, no_cfc)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let handoff = HandoffHost::open(options, Arc::new(native))?;
    let (ran, signal) = runtime.block_on(drive(&handoff, args, &plan))?;
    runtime.shutdown_background();
    let ran = ran?;
    print(ran.envelope.value());
    if let Some(error) = ran.envelope.value().get("error") {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        say(&format!("{} [{}]", text("message"), text("code")));
    }
    if let Some(signal) = signal {
        sys::die_by(signal);
    }
    Ok(match ran.envelope.is_success() {
        true => ExitCode::SUCCESS,
        false => FAILED.into(),
    })
}

/// Runs the step to its end, whichever way that comes, and shows how it gets on.
async fn drive(
    handoff: &HandoffHost,
    args: &Args,
    plan: &std::path::Path,
) -> Result<(Result<StepRun, StepError>, Option<Signal>), Failure> {
    let mut signals = Signals::listen()?;
    let cancel = CancellationToken::new();
    let work = handoff.run_step(plan, args.context.as_ref(), cancel.clone());
    tokio::pin!(work);
    let mut shown = Progress::new();
    let mut ticks = interval(Duration::from_millis(500));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut asked = None;
    loop {
        tokio::select! {
            ran = &mut work => {
                shown.clear();
                return Ok((ran, asked));
            }
            signal = signals.next() => {
                // Asked twice, it goes at once: the kernel takes every child with it.
                if asked.is_some() {
                    sys::die_by(signal);
                }
                asked = Some(signal);
                cancel.cancel();
            }
            _ = ticks.tick(), if shown.wanted => shown.show(handoff),
        }
    }
}

/// One line on a terminal that says how many children there are.
struct Progress {
    wanted: bool,
    started: Instant,
    tail: Tail,
    last: Option<Value>,
}

impl Progress {
    fn new() -> Self {
        Self {
            wanted: io::stderr().is_terminal(),
            started: Instant::now(),
            tail: Tail::default(),
            last: None,
        }
    }

    fn show(&mut self, handoff: &HandoffHost) {
        if let Some(record) = handoff.under_way().first()
            && let Ok(lines) = self.tail.look(&record.join("fanout/events.jsonl"))
            && let Some(last) = lines.into_iter().next_back()
        {
            self.last = Some(last);
        }
        let seconds = self.started.elapsed().as_secs();
        let line = line(seconds, self.last.as_ref());
        let _ = write!(io::stderr().lock(), "\r\x1b[2K{}", clean(&line));
    }

    fn clear(&self) {
        if self.wanted {
            let _ = write!(io::stderr().lock(), "\r\x1b[2K");
        }
    }
}

fn line(seconds: u64, last: Option<&Value>) -> String {
    let time = format!("{}:{:02}", seconds / 60, seconds % 60);
    let Some(last) = last else {
        return format!("{time}  the step runs");
    };
    let count = |name: &str| last[name].as_u64().unwrap_or(0);
    let ended = count("failed") + count("timed_out") + count("cancelled");
    format!(
        "{time}  children: {} running, {} done, {ended} failed, {} skipped, {} at most",
        count("active"),
        count("completed"),
        count("skipped"),
        count("total"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        assert_eq!(line(61, None), "1:01  the step runs");
        let counts = json!({"active": 2, "completed": 1, "failed": 1, "timed_out": 1, "total": 9});
        assert_eq!(
            line(9, Some(&counts)),
            "0:09  children: 2 running, 1 done, 2 failed, 0 skipped, 9 at most"
        );
    }
}
