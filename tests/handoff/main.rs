//! The handoff on real gVisor, and its host killed at any moment. A machine without gVisor fails
//! every test that needs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts the command and writes files"
)]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "another suite uses the rest")]
mod common;

mod checks;
mod crossing;
mod killed;
mod labels;
mod network;
mod session;
mod sizes;
mod verdicts;
