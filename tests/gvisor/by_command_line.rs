//! The suite of sessions, by a `runsc exec` for each call.

use std::path::Path;
use std::sync::Arc;

use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::ExecVia;

use crate::common::Place;

#[allow(clippy::duplicate_mod, reason = "one suite runs over both ways")]
#[path = "sessions.rs"]
mod sessions;

/// How the suite's calls are started.
const VIA: ExecVia = ExecVia::CommandLine;

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(crate::library::made(place).exec_via(VIA))
}

/// The same with another runsc.
fn over(place: &Place, runsc: &Path) -> Arc<DirectDriver> {
    let made = crate::library::made_with(place, |options| options.runsc = runsc.into());
    Arc::new(made.exec_via(VIA))
}
