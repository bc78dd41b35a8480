//! `runsc-driver shell`: commands one after another in one session, for trying things.

mod lines;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::clean::{clean, say};
use super::sandbox_args::{SandboxArgs, SetupError};
use super::signals::Signals;
use super::{exit, report};
use crate::cfc::mode::EnforcementMode;
use crate::direct::DirectDriver;
use crate::driver::{Call, Driver, End, Error, Outcome, Output};
use crate::host::Host;
use crate::launch::sys;
use crate::plan::PlanError;
use crate::tools::cwd::{self, Mark};
use lines::{Line, Lines, Terminal};

/// The exit status of a command that Ctrl-C stopped, as the shells have it.
const INTERRUPTED: u8 = 130;

/// Try commands in one sandbox that stays, one after another
///
/// Each line runs in a shell of its own, and all of them in one session: files outside the mounts,
/// processes in the background and the working directory stay from one line to the next. Variables
/// do not. Commands have no standard input. Ctrl-C stops a command and what it started, and keeps
/// the session; `exit` or the end of the input ends it, with the status of the last command. A
/// backslash at the end of a line takes the next one to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    runsc-driver shell --no-cfc\n  \
    printf 'cd src\\nmake\\n' | runsc-driver shell --no-cfc --workspace ~/checkout")]
pub(super) struct Args {
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// What to call the session
    #[arg(long, value_name = "NAME", default_value = "shell")]
    session: String,
}

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Driver(#[from] Error),
    #[error(
        "a shell is a session, and none runs in the mode {0}, which enforces labels: use --no-cfc, \
         or --cfc-enforcement-mode observe"
    )]
    Enforcing(EnforcementMode),
    #[error("this sandbox has no sessions: use --network none or --network host")]
    NoSessions,
    #[error("the lines could not be read ({0})")]
    Lines(io::Error),
    #[error("could not start ({0})")]
    Runtime(io::Error),
}

impl Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::Setup(err) => err.code(),
            Self::Driver(err) => err.code(),
            Self::Enforcing(_) => "enforcing-mode",
            Self::NoSessions => "no-sessions",
            Self::Lines(_) => "input-unreadable",
            Self::Runtime(_) => "no-runtime",
        }
    }
}

/// Runs the verb.
pub(super) fn main(args: &Args) -> ExitCode {
    run(args).unwrap_or_else(|failure| {
        say(&format!("{failure} [{}]", failure.code()));
        exit::COULD_NOT.into()
    })
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mode = args.sandbox.mode();
    if !mode.allows_sessions() {
        return Err(Failure::Enforcing(mode));
    }
    let host = Host::read();
    let (selection, config) = args.sandbox.configure(&host)?;
    tracing::info!(runtime = %selection.describe(), "selected");
    let driver = DirectDriver::new(config, host);
    if !driver.describe().sessions {
        return Err(Failure::NoSessions);
    }
    let runtime = super::runtime().map_err(Failure::Runtime)?;
    let terminal = Terminal::found();
    let ended = runtime.block_on(drive(&driver, &args.session));
    // A read of standard input may never come back.
    runtime.shutdown_background();
    match ended? {
        Ended::With(status) => Ok(status.into()),
        Ended::By(signal) => {
            terminal.restore();
            sys::die_by(signal);
            Ok(exit::COULD_NOT.into())
        }
    }
}

/// How a shell ends.
enum Ended {
    With(u8),
    By(Signal),
}

/// Runs the lines and closes the driver, whichever way they end.
async fn drive(driver: &DirectDriver, session: &str) -> Result<Ended, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut shell = Shell {
        driver,
        session,
        cwd: driver.describe().default_working_directory,
        status: 0,
    };
    let mut ended = shell.run(&mut signals).await;
    let close = driver.close();
    tokio::pin!(close);
    loop {
        let signal = tokio::select! {
            biased;
            () = &mut close => return ended,
            signal = signals.next() => signal,
        };
        // Asked twice, it goes at once: the kernel takes every child with it.
        if let Ok(Ended::By(first)) = ended {
            return Ok(Ended::By(first));
        }
        ended = Ok(Ended::By(signal));
    }
}

struct Shell<'a> {
    driver: &'a DirectDriver,
    session: &'a str,
    cwd: PathBuf,
    /// The last command's.
    status: u8,
}

impl Shell<'_> {
    async fn run(&mut self, signals: &mut Signals) -> Result<Ended, Failure> {
        // What keeps the session from starting is said before anyone has typed.
        let mut first = Call::new(["/bin/sh", "-c", ":"]);
        first.session = Some(self.session.to_owned());
        let started = tokio::select! {
            started = self.driver.run(first) => started?,
            signal = signals.next() => return Ok(Ended::By(signal)),
        };
        if started.end != End::Exited {
            report::say_end(OsStr::new("/bin/sh"), None, &started);
            return Ok(Ended::With(exit::status(&started)));
        }
        let mut lines = Lines::open().map_err(Failure::Lines)?;
        if lines.at_terminal() {
            say("Ctrl-C stops a command; exit or Ctrl-D ends the session");
        }
        loop {
            let prompt = format!("{} {}$ ", self.session, clean(&self.cwd.to_string_lossy()));
            let at_terminal = lines.at_terminal();
            let mut reading = tokio::task::spawn_blocking(move || {
                let line = lines.next(&prompt);
                (lines, line)
            });
            let read = loop {
                let signal = tokio::select! {
                    read = &mut reading => break read,
                    signal = signals.next() => signal,
                };
                // One that came too late for its command; at the prompt Ctrl-C is a key.
                if signal != Signal::SIGINT || !at_terminal {
                    return Ok(Ended::By(signal));
                }
            };
            let (given_back, line) = read.map_err(|err| Failure::Lines(err.into()))?;
            lines = given_back;
            let text = match line.map_err(Failure::Lines)? {
                Line::Text(text) => text,
                Line::Dropped => continue,
                Line::End => return Ok(Ended::With(self.status)),
            };
            match exits(&text) {
                Some(status) => return Ok(Ended::With(status.unwrap_or(self.status))),
                None if is_blank(&text) => continue,
                None => {}
            }
            if let Some(signal) = self.command(&text, signals).await? {
                return Ok(Ended::By(signal));
            }
        }
    }

    /// Runs one command; the signal that the shell is to end by, where one came.
    async fn command(
        &mut self,
        text: &OsStr,
        signals: &mut Signals,
    ) -> Result<Option<Signal>, Failure> {
        let mark = Mark::new().map_err(Error::NoRandomness)?;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut call = Call::new(mark.argv(text));
        call.cwd = Some(self.cwd.clone());
        call.session = Some(self.session.to_owned());
        call.stdout = Output::Stream(Box::new(ours));
        call.stderr = Output::Stream(Box::new(tokio::io::stderr()));
        // No mode that has sessions holds anything back.
        call.keep_raw = true;
        let cancel = call.cancel.clone();
        let work = async { tokio::join!(self.driver.run(call), show(&mark, theirs)) };
        tokio::pin!(work);
        let mut ends = None;
        let (result, told) = loop {
            let signal = tokio::select! {
                biased;
                done = &mut work => break done,
                signal = signals.next() => signal,
            };
            cancel.cancel();
            match (signal, ends) {
                (Signal::SIGINT, _) => {}
                (_, None) => ends = Some(signal),
                // Asked twice, it does not wait.
                (_, Some(first)) => return Ok(Some(first)),
            }
        };
        self.ended(result, told);
        Ok(ends)
    }

    fn ended(&mut self, result: Result<Outcome, Error>, told: Option<PathBuf>) {
        match result {
            Ok(outcome) if outcome.end == End::Cancelled => {
                say("stopped");
                self.status = INTERRUPTED;
            }
            Ok(outcome) => {
                report::say_end(OsStr::new("/bin/sh"), None, &outcome);
                self.status = exit::status(&outcome);
            }
            Err(err) => {
                say(&format!("{err} [{}]", err.code()));
                self.status = exit::COULD_NOT;
                if let Error::Plan(PlanError::BadCwd { .. }) = err {
                    self.cwd = self.driver.describe().default_working_directory;
                    say(&format!("now in {}", self.cwd.display()));
                }
            }
        }
        let Some(told) = told else { return };
        match cwd::resolve(&self.driver.describe(), Path::new("/"), &told) {
            Some(cwd) => self.cwd = cwd,
            None => say(&format!(
                "{} lies in no mount, so the next command starts in {}",
                told.display(),
                self.cwd.display()
            )),
        }
    }
}

/// Writes a command's standard output on as it comes; where the command ended.
async fn show(mark: &Mark, mut from: DuplexStream) -> Option<PathBuf> {
    let mut to = tokio::io::stdout();
    let mut filter = mark.filter();
    let mut piece = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let out = filter.push(&piece[..count]);
        // Whoever closed our standard output ends the command's with it.
        if to.write_all(&out).await.is_err() || to.flush().await.is_err() {
            return None;
        }
    }
    let (rest, told) = filter.finish();
    let _ = to.write_all(&rest).await;
    let _ = to.flush().await;
    told
}

/// Whether a line ends the shell, and the status that it names.
fn exits(text: &OsStr) -> Option<Option<u8>> {
    let mut words = text.to_str()?.split_whitespace();
    let status = match (words.next()?, words.next(), words.next()) {
        ("exit", None, _) => None,
        ("exit", Some(status), None) => Some(status.parse().ok()?),
        _ => return None,
    };
    Some(status)
}

fn is_blank(text: &OsString) -> bool {
    text.to_str().is_some_and(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_ends_the_shell_and_what_looks_like_it_does_not() {
        let cases = [
            ("exit", Some(None)),
            ("  exit ", Some(None)),
            ("exit 0", Some(Some(0))),
            ("exit 255", Some(Some(255))),
            ("exit 256", None),
            ("exit x", None),
            ("exit 1 2", None),
            ("exit; ls", None),
            ("exits", None),
            ("", None),
        ];
        for (line, ends) in cases {
            assert_eq!(exits(OsStr::new(line)), ends, "{line}");
        }
    }
}
