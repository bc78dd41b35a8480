//! What gives a sandbox the default network.

use std::path::Path;

use crate::doctor::Name;
use crate::doctor::gather::ask::{Answer, Reading};
use crate::doctor::gather::programs::Programs;
use crate::doctor::report::{Findings, Words};
use crate::host::Host;
use crate::selection::{Native, Obstacle};
use crate::trust::shown;

/// The newest release that is known to leave the host's `/proc` in place (measured).
const NO_PROC: u32 = 20_230_309;
/// The oldest release that is known to mount a `/proc` of its own (measured).
const OWN_PROC: u32 = 20_250_503;

pub(super) fn judge(to: &mut Findings, host: &Host, programs: &Programs, wanted: bool) {
    let root = host.uid == Some(0);
    pasta(to, programs, wanted);
    pasta_proc(to, &programs.pasta_version, wanted);
    tun(to, &programs.tun, wanted);
    program(
        to,
        Name::Setpriv,
        programs.setpriv.as_deref(),
        wanted.then_some(Obstacle::NoSetpriv),
    );
    program(
        to,
        Name::Unshare,
        programs.unshare.as_deref(),
        (wanted && root).then_some(Obstacle::NoUnshare),
    );
    nft(to, programs.nft.as_deref());
}

pub(super) fn pasta(to: &mut Findings, programs: &Programs, wanted: bool) {
    let at = programs.pasta.as_deref();
    let missing = wanted.then_some(Obstacle::NoPasta);
    let (Some(path), Some(answer)) = (at, programs.pasta_version.known()) else {
        return program(to, Name::Pasta, at, missing);
    };
    let path = shown(path);
    match version(answer) {
        // Debian 13's writes nothing.
        Ok("") => to.pass(
            Name::Pasta,
            format!("{path}, which does not tell its release"),
        ),
        Ok(version) => to.pass(Name::Pasta, format!("{path}, {version}")),
        Err(reason) => to.warn(
            Name::Pasta,
            path.to_string(),
            Words::new(
                format!("pasta does not tell its version: {reason}"),
                "install passt again",
            ),
        ),
    }
}

fn version(answer: &Answer) -> Result<&str, String> {
    let line = super::runsc::written(answer)?
        .lines()
        .next()
        .unwrap_or_default();
    Ok(line.strip_prefix("pasta ").unwrap_or(line))
}

/// The date in `0.0~git20230309.7c7625d-1` or `2025_05_03.587980c`.
fn date(version: &str) -> Option<u32> {
    let digits: String = version.chars().filter(|c| *c != '_').collect();
    digits
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| digits.len() == 8)
        .and_then(|digits| digits.parse().ok())
}

pub(super) fn pasta_proc(to: &mut Findings, answer: &Reading<Answer>, wanted: bool) {
    let name = Name::PastaProc;
    if !wanted {
        return to.info(name, NOT_NEEDED);
    }
    let Some(answer) = answer.known() else {
        return to.info(name, answer.why_not());
    };
    match version(answer).ok().and_then(date) {
        Some(date) if date >= OWN_PROC => to.pass(name, "mounts its own"),
        // runsc is not started by it, so it looks for its processes where they are.
        Some(date) if date <= NO_PROC => to.info(name, "leaves the host's, which does not matter"),
        _ => to.info(name, "not known: it depends on pasta's release"),
    }
}

pub(super) fn tun(to: &mut Findings, tun: &Result<(), String>, wanted: bool) {
    match tun {
        Ok(()) => to.pass(Name::Tun, "can be opened"),
        Err(_) if !wanted => to.info(Name::Tun, NOT_NEEDED),
        Err(reason) => to.fail(
            Name::Tun,
            reason,
            Words::new(
                format!("/dev/net/tun cannot be opened ({reason}), and pasta needs it"),
                "run `sudo modprobe tun && sudo chmod 0666 /dev/net/tun`, or run with --network \
                 none",
            ),
        ),
    }
}

pub(super) const NOT_NEEDED: &str = "not needed";

/// A program on `PATH`, and what it is in the way of where it is missing.
pub(super) fn program(to: &mut Findings, name: Name, at: Option<&Path>, missing: Option<Obstacle>) {
    match (at, missing) {
        (Some(path), _) => to.pass(name, shown(path).to_string()),
        (None, None) => to.info(name, format!("missing, and {NOT_NEEDED}")),
        (None, Some(obstacle)) => {
            to.fail(name, "missing", super::obstacle(Native::Linux, obstacle));
        }
    }
}

fn nft(to: &mut Findings, at: Option<&Path>) {
    match at {
        Some(path) => to.pass(Name::Nft, shown(path).to_string()),
        None => to.info(
            Name::Nft,
            "missing: only rules about where a sandbox may connect to need it",
        ),
    }
}
