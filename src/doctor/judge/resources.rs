//! Room, memory, groups and process 1.

use bytesize::ByteSize;

use crate::doctor::Name;
use crate::doctor::gather::ask::Reading;
use crate::doctor::gather::files::{ScratchFound, ScratchParent};
use crate::doctor::gather::machine::{Cgroups, Machine, Room};
use crate::doctor::report::{Findings, Words};
use crate::trust::shown;

/// What a sandbox with a small command takes, many times over.
const MEMORY: u64 = 256 * 1024 * 1024;
/// What bundles and logs take, many times over.
const TEMP: u64 = 64 * 1024 * 1024;
/// What another image takes, unpacked.
const STORE: u64 = 1024 * 1024 * 1024;

pub(super) fn judge(to: &mut Findings, machine: &Machine, reaped: &Reading<bool>) {
    memory(to, machine.memory);
    let temp = "set TMPDIR to a directory with more room";
    room(to, Name::DiskTemp, machine.temp.as_ref(), TEMP, temp);
    let store = "make room: an image takes about 600 MB";
    room(to, Name::DiskStore, machine.store.as_ref(), STORE, store);
    cgroups(to, &machine.cgroups);
    reaper(to, reaped);
}

pub(super) fn scratch(to: &mut Findings, scratch: &ScratchParent) {
    let name = Name::Scratch;
    let at = shown(&scratch.at);
    let words = |what: String| {
        Words::new(
            format!("the scratch parent {at} {what}"),
            "remove it, or set TMPDIR to a directory of your own",
        )
    };
    match &scratch.found {
        ScratchFound::Absent => to.pass(name, format!("{at}, to be made")),
        ScratchFound::Private => to.pass(name, at.to_string()),
        ScratchFound::Wrong(found) => to.fail(name, at.to_string(), words(found.to_string())),
        ScratchFound::Unknown(reason) => {
            let what = format!("cannot be examined: {reason}");
            to.fail(name, at.to_string(), words(what));
        }
    }
}

pub(super) fn memory(to: &mut Findings, available: Option<u64>) {
    let Some(bytes) = available else {
        return to.info(Name::Memory, "not known");
    };
    let value = format!("{} available", ByteSize(bytes));
    match bytes < MEMORY {
        false => to.pass(Name::Memory, value),
        true => to.warn(
            Name::Memory,
            value.clone(),
            Words::new(
                format!("memory is short: {value}, and a sandbox keeps what it writes in memory"),
                "end what is not needed",
            ),
        ),
    }
}

pub(super) fn room(to: &mut Findings, name: Name, room: Option<&Room>, least: u64, fix: &str) {
    let Some(room) = room else {
        return to.info(name, "not known");
    };
    let value = format!("{} free at {}", ByteSize(room.bytes), shown(&room.path));
    match room.bytes < least {
        false => to.pass(name, value),
        true => {
            let words = Words::new(format!("room is short: {value}"), fix);
            to.warn(name, value, words);
        }
    }
}

/// The driver tells runsc to leave them alone, so nothing here is in the way of a run.
pub(super) fn cgroups(to: &mut Findings, found: &Cgroups) {
    let lines = || found.membership.lines();
    let second = lines().any(|line| line.starts_with("0::"));
    let first = lines().any(|line| !line.starts_with("0::"));
    let value = match (first, second) {
        (false, false) => "not known".to_owned(),
        (true, false) => "version 1; no run is limited by them".to_owned(),
        (true, true) => "versions 1 and 2; no run is limited by them".to_owned(),
        (false, true) if found.writable => format!(
            "version 2, delegated ({}); no run is limited by them",
            found.controllers
        ),
        (false, true) => "version 2, not delegated; no run is limited by them".to_owned(),
    };
    to.info(Name::Cgroups, value);
}

pub(super) fn reaper(to: &mut Findings, reaped: &Reading<bool>) {
    let name = Name::Reaper;
    match reaped {
        Reading::Known(true) => to.pass(name, "an orphan was reaped within 0.3 s"),
        Reading::Known(false) => to.warn(
            name,
            "an orphan was not reaped within 0.3 s",
            Words::new(
                "process 1 reaps orphans slowly or never, so the dead of a killed sandbox stay \
                 in the process table for a while",
                "start the container with an init that reaps (Docker: --init)",
            ),
        ),
        other => to.info(name, other.why_not()),
    }
}
