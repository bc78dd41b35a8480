//! The binary, and what it said of itself.

use std::collections::BTreeSet;

use crate::direct::{OLDEST, release_date};
use crate::doctor::Name;
use crate::doctor::gather::ask::{Answer, LIMIT, Reading};
use crate::doctor::gather::files::{ScratchFound, ScratchParent};
use crate::doctor::gather::programs::Runsc;
use crate::doctor::report::{Findings, Words};
use crate::trust::shown;

/// The flags that the driver gives.
pub(super) const GIVEN: [&str; 9] = [
    "root",
    "ignore-cgroups",
    "network",
    "overlay2",
    "rootless",
    "directfs",
    "host-uds",
    "log",
    "log-format",
];
/// A flag of `runsc-cfc` alone.
const FRONTS: &str = "cfc-walk-limit";
const INSTALL: &str = "install release 20240729 or newer: scripts/install-store.sh fetches one";

pub(super) fn judge(to: &mut Findings, runsc: &Runsc, scratch: &ScratchParent) {
    found(to, runsc);
    let date = version(to, &runsc.version);
    flags(to, &runsc.flags);
    cfc(to, &runsc.cfc, &runsc.flags);
    control_socket(to, date, scratch);
}

pub(super) fn found(to: &mut Findings, runsc: &Runsc) {
    match &runsc.at {
        Ok(path) => to.pass(Name::Runsc, shown(path).to_string()),
        Err(reason) => to.fail_covered(
            Name::Runsc,
            "none",
            Words::new(reason, INSTALL),
            &[Name::Store],
        ),
    }
}

/// The release's date, where it is told.
pub(super) fn version(to: &mut Findings, answer: &Reading<Answer>) -> Option<u32> {
    let name = Name::RunscVersion;
    let Some(answer) = answer.known() else {
        to.info(name, answer.why_not());
        return None;
    };
    let text = match written(answer) {
        Ok(text) => text,
        Err(reason) => {
            let words = Words::new(
                format!("runsc does not tell its version: {reason}"),
                INSTALL,
            );
            to.fail(name, "not told", words);
            return None;
        }
    };
    let line = text.lines().next().unwrap_or_default();
    let version = line.strip_prefix("runsc version ").unwrap_or(line);
    let date = release_date(text.as_bytes());
    match date {
        Some(date) if date >= OLDEST => to.pass(name, version),
        Some(date) => to.fail(
            name,
            version,
            Words::new(
                format!(
                    "this runsc of {date} is too old: newer images fail on its statx, and others \
                     can control its sandboxes"
                ),
                INSTALL,
            ),
        ),
        None => to.fail(
            name,
            version,
            Words::new(
                "this runsc does not say which release it is, so it cannot be told to be new enough",
                INSTALL,
            ),
        ),
    }
    date
}

pub(super) fn flags(to: &mut Findings, answer: &Reading<Answer>) {
    let names = [Name::RunscPlatforms, Name::RunscFlags];
    let Some(answer) = answer.known() else {
        for name in names {
            to.info(name, answer.why_not());
        }
        return;
    };
    let text = match written(answer) {
        Ok(text) => text,
        Err(reason) => {
            for name in names {
                to.info(name, format!("not known: {reason}"));
            }
            return;
        }
    };
    let known: BTreeSet<_> = text.lines().filter_map(flag).collect();
    match platforms(text) {
        Some(platforms) => to.pass(Name::RunscPlatforms, platforms),
        None => to.info(Name::RunscPlatforms, "not told"),
    }
    let lacking: Vec<_> = GIVEN
        .iter()
        .filter(|flag| !known.contains(**flag))
        .collect();
    match lacking.as_slice() {
        [] => to.pass(Name::RunscFlags, format!("{} known", known.len())),
        lacking => {
            let lacking: Vec<_> = lacking.iter().map(|flag| format!("--{flag}")).collect();
            let lacking = lacking.join(", ");
            let words = Words::new(
                format!("this runsc does not know {lacking}, which the driver gives it"),
                INSTALL,
            );
            to.fail(Name::RunscFlags, format!("without {lacking}"), words);
        }
    }
}

/// Whether it keeps labels, by whether it knows the flag that asks for it, and which kind it is:
/// the project's own front lists flags that no other has.
pub(super) fn cfc(to: &mut Findings, answer: &Reading<Answer>, flags: &Reading<Answer>) {
    let name = Name::RunscCfc;
    match answer {
        Reading::Known(Answer::Wrote(_)) => {
            let listed = flags.known().and_then(|answer| written(answer).ok());
            let kind = listed.map(|text| text.lines().any(|line| flag(line) == Some(FRONTS)));
            let kind = match kind {
                Some(true) => "runsc-cfc before a stock runsc: labels by container",
                Some(false) => "its own: labels as it tracks them",
                None => "known",
            };
            to.pass(name, kind);
        }
        Reading::Known(Answer::Failed(_)) => to.fail(
            name,
            "unknown",
            Words::new(
                "this runsc does not know --cfc, so it tracks no labels, and the default mode \
                 enforces them",
                "let scripts/install-store.sh put runsc-cfc before it, or run with --no-cfc, which \
                 says that the run wants no policy and that no output is withheld",
            ),
        ),
        Reading::Known(Answer::TimedOut | Answer::NotStarted(_)) => {
            to.info(name, "not known: it does not answer");
        }
        Reading::Skipped | Reading::Unknown(_) => to.info(name, answer.why_not()),
    }
}

/// The flag that a line of `runsc flags` opens with.
fn flag(line: &str) -> Option<&str> {
    line.strip_prefix("  -")?.split(' ').next()
}

/// The platforms, as the flag for one lists them.
fn platforms(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find(|line| flag(line) == Some("platform"))?;
    let told = lines.next()?.split_once("use: ")?.1;
    told.split_once(". ").map(|(list, _)| list)
}

/// A new enough runsc has its socket in the state directory, which is private with the scratch
/// parent; an older one's is open to everybody.
pub(super) fn control_socket(to: &mut Findings, date: Option<u32>, scratch: &ScratchParent) {
    let name = Name::ControlSocket;
    match (date, &scratch.found) {
        (None, _) => to.info(name, "not known: it depends on runsc's release"),
        (Some(date), _) if date < OLDEST => to.fail_covered(
            name,
            "open to every user",
            Words::new(
                "every user of this machine can control the sandboxes of a runsc this old",
                INSTALL,
            ),
            &[Name::RunscVersion],
        ),
        (Some(_), ScratchFound::Absent | ScratchFound::Private) => {
            to.pass(name, "a file in a private directory");
        }
        (Some(_), ScratchFound::Wrong(_) | ScratchFound::Unknown(_)) => to.fail_covered(
            name,
            "in a directory that is not private",
            Words::whole("the state directory, where the control sockets are, is not private"),
            &[Name::Scratch],
        ),
    }
}

pub(super) fn written(answer: &Answer) -> Result<&str, String> {
    match answer {
        Answer::Wrote(text) => Ok(text),
        Answer::Failed(status) => Err(format!("it failed ({status})")),
        Answer::TimedOut => Err(format!("it did not answer within {} s", LIMIT.as_secs())),
        Answer::NotStarted(reason) => Err(reason.clone()),
    }
}
