//! A user namespace of our own, for everybody but root: its root may read and label files of the
//! caller's own whatever their mode is, as the container could once it changed the mode.

use std::fs::OpenOptions;
use std::io::{self, Write};

use caps::{CapSet, Capability};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{getegid, geteuid, getppid};

/// Enters one, unless this process may do all that already. It has to be its only thread. Where
/// the system allows none, what cannot be read is in doubt.
///
/// # Errors
/// It was entered and could not be finished, or the caller is gone: nothing is to be started.
pub fn enter() -> io::Result<()> {
    let may = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    if may(Capability::CAP_DAC_OVERRIDE) && may(Capability::CAP_FOWNER) {
        return Ok(());
    }
    let (uid, gid, parent) = (geteuid(), getegid(), getppid());
    let death = prctl::get_pdeathsig()?;
    if unshare(CloneFlags::CLONE_NEWUSER).is_err() {
        return Ok(());
    }
    put("/proc/self/setgroups", "deny")?;
    put("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    put("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    // The change of credentials cleared it: we would outlive whoever started us.
    prctl::set_pdeathsig(death)?;
    if death.is_some() && getppid() != parent {
        return Err(io::Error::other("whoever started this is gone"));
    }
    Ok(())
}

fn put(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}
