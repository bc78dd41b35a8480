//! The front on real gVisor, as whoever runs this: CI does so as root and as an ordinary user.
//!
//! Each attack is its own control: what it prints is looked at, and it did get hold of the secret.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts the command and writes files"
)]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "the other suites use the rest")]
mod common;

mod bare;
mod beside;
mod doubt;
mod driver;
mod egress;
mod exec;
mod killed;
mod lab;
mod label_command;
mod labels;
mod random;
