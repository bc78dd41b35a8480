//! The suite of sessions, by the sandbox's control socket.

use std::sync::Arc;

use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::ExecVia;

use crate::common::Place;

#[allow(clippy::duplicate_mod, reason = "one suite runs over both ways")]
#[path = "sessions.rs"]
mod sessions;

/// How the suite's calls are started.
const VIA: ExecVia = ExecVia::ControlSocket;

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(crate::library::made(place).exec_via(VIA))
}
