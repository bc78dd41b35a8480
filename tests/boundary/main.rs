//! The driver at its process boundary: a recording executable stands in for runsc, so that what it
//! is started with, and every way in which it may fail, can be compared whole and without gVisor.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts the command and writes files"
)]

#[allow(dead_code, reason = "shared with the suite on real gVisor")]
#[path = "../common/mod.rs"]
mod common;
mod fake;

mod bash;
mod cfc;
mod command;
mod ends;
mod gc;
mod scratch;
mod sessions;
mod start;
mod streams;
mod teardown;
mod version;
