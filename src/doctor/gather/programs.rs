//! The programs that a run uses, and what they say of themselves.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::ask::{Answer, Reading, ask};
use crate::doctor::{Name, Options};
use crate::host::{Host, Platform};
use crate::selection::store::RUNSC as STORE_RUNSC;
use crate::settings::Settings;
use crate::trust::path::{RUNSC, is_executable};
use crate::trust::{find_program, shown};

/// The runsc.
#[derive(Debug, Clone)]
pub(in crate::doctor) struct Runsc {
    /// Where it is, or why there is none.
    pub(in crate::doctor) at: Result<PathBuf, String>,
    pub(in crate::doctor) version: Reading<Answer>,
    pub(in crate::doctor) flags: Reading<Answer>,
    /// The version again, after `--cfc`: a runsc that does not know that flag fails.
    pub(in crate::doctor) cfc: Reading<Answer>,
}

/// The runsc that a run would take if nothing else were in the way.
pub(super) fn likely_runsc(settings: &Settings, store: Option<&Path>) -> Option<OsString> {
    match (&settings.binary, &settings.runtime) {
        (Some(binary), _) => Some(binary.value.clone()),
        (None, Some(_)) => Some(crate::selection::RUNSC.into()),
        (None, None) => Some(store?.join(STORE_RUNSC).into()),
    }
}

pub(super) fn runsc(name: Option<&OsStr>, host: &Host, options: &Options) -> Runsc {
    let at = match name {
        Some(name) => find_runsc(name, host),
        None => Err("there is no home for the store to be under".to_owned()),
    };
    // The macOS shim may start a VM to answer.
    let probes = |names: &[Name]| host.platform == Platform::Linux && options.probes(names);
    let version = question(
        &at,
        &["--version"],
        probes(&[Name::RunscVersion, Name::ControlSocket]),
    );
    let ask = |args: &[&str], names: &[Name]| match version {
        // A runsc that hangs would hang again.
        Reading::Known(Answer::TimedOut) => Reading::Unknown("runsc does not answer".to_owned()),
        _ => question(&at, args, probes(names)),
    };
    let flags = ask(&["flags"], &[Name::RunscPlatforms, Name::RunscFlags]);
    let cfc = ask(&["--cfc", "--version"], &[Name::RunscCfc, Name::Run]);
    Runsc {
        at,
        version,
        flags,
        cfc,
    }
}

fn find_runsc(name: &OsStr, host: &Host) -> Result<PathBuf, String> {
    let found = find_program(RUNSC, name, host).map_err(|err| err.to_string())?;
    let path = found.as_path();
    if is_executable(path) {
        return Ok(path.to_owned());
    }
    let what = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => "is a directory".to_owned(),
        Ok(found) if found.is_file() => "is a file that nobody may execute".to_owned(),
        Ok(_) => "is neither a file nor a directory".to_owned(),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(err) => format!("cannot be examined: {err}"),
    };
    Err(format!("{RUNSC} {} {what}", shown(path)))
}

fn question(at: &Result<PathBuf, String>, args: &[&str], wanted: bool) -> Reading<Answer> {
    match at {
        Err(_) => Reading::Unknown("there is no runsc to ask".to_owned()),
        Ok(_) if !wanted => Reading::Skipped,
        Ok(path) => Reading::Known(ask(path, args)),
    }
}

/// The programs on `PATH`.
#[derive(Debug, Clone)]
pub(in crate::doctor) struct Programs {
    pub(in crate::doctor) pasta: Option<PathBuf>,
    pub(in crate::doctor) pasta_version: Reading<Answer>,
    pub(in crate::doctor) setpriv: Option<PathBuf>,
    pub(in crate::doctor) unshare: Option<PathBuf>,
    pub(in crate::doctor) nft: Option<PathBuf>,
    /// Whether `/dev/net/tun` can be opened, or why not.
    pub(in crate::doctor) tun: Result<(), String>,
}

impl Programs {
    pub(super) fn find(host: &Host, options: &Options) -> Self {
        let find = |name| crate::selection::find_program(name, host);
        let pasta = find("pasta");
        let pasta_version = match &pasta {
            None => Reading::Unknown("there is no pasta to ask".to_owned()),
            Some(_) if !options.probes(&[Name::Pasta, Name::PastaProc]) => Reading::Skipped,
            Some(path) => Reading::Known(ask(path, &["--version"])),
        };
        Self {
            pasta,
            pasta_version,
            setpriv: find("setpriv"),
            unshare: find("unshare"),
            nft: crate::config::nft(host),
            tun: std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .map(drop)
                .map_err(|err| err.to_string()),
        }
    }
}
