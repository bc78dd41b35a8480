//! The exit statuses of `runsc-driver run`, beside the command's own. They overlap with what a
//! command may exit with: `--json` is what tells them apart.

use crate::driver::{End, Outcome, StartFailure};

/// The call's deadline came first, as timeout(1) has it.
pub(super) const TIMED_OUT: u8 = 124;
/// The driver or runsc could not run the command.
pub(super) const COULD_NOT: u8 = 125;
/// The program is there and cannot be executed, as the shells have it.
pub(super) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program, as the shells have it.
pub(super) const NOT_FOUND: u8 = 127;
/// The arguments are wrong.
pub(super) const USAGE: u8 = 2;

/// The exit status for a call's outcome. Of a call whose output is withheld, the exit value is as
/// much as the text is, unless the caller took the raw record for himself.
pub(super) fn status(outcome: &Outcome) -> u8 {
    let Some(released) = outcome
        .released()
        .or(outcome.raw.as_ref().map(|raw| &raw.released))
    else {
        return COULD_NOT;
    };
    match outcome.end {
        End::Exited => released.exit.map_or(COULD_NOT, |exit| exit.code),
        End::TimedOut => TIMED_OUT,
        End::NotStarted(StartFailure::NoSuchCommand) => NOT_FOUND,
        End::NotStarted(StartFailure::NotExecutable) => NOT_EXECUTABLE,
        End::NotStarted(_) | End::Cancelled | End::Lost => COULD_NOT,
    }
}

/// Why a command did not start, and what to do, for a person.
pub(super) fn describe(failure: StartFailure) -> &'static str {
    match failure {
        StartFailure::NoSuchCommand => {
            "the image has no such program, or lacks the interpreter that its first line names"
        }
        StartFailure::NotExecutable => "it is there and cannot be executed: see its mode and kind",
        StartFailure::BadRootfs => "the image could not be mounted: see -v",
        StartFailure::BadMount => "a mount could not be made: see -v",
        StartFailure::BadCwd => "the working directory could not be entered: see -v",
        StartFailure::BadBundle => "runsc could not read its bundle: see -v",
        StartFailure::NetworkUnavailable => {
            "this runsc cannot give the network that was asked for: name --network none or host"
        }
        StartFailure::UnsupportedFlag => {
            "this runsc does not know a flag that the driver gives it: use release 20240729 or newer"
        }
        StartFailure::Withheld => "why is withheld: it may tell of labelled data",
        StartFailure::Unknown => "runsc failed in a way that is not known: see -v for what it said",
    }
}
