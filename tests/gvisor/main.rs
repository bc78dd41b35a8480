//! The driver on real gVisor, as whoever runs this: CI does so as root and as an ordinary user.
//! A machine without gVisor fails every test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, starts the command and writes files"
)]

#[path = "../common/mod.rs"]
mod common;

mod bash;
mod by_command_line;
mod by_control_socket;
mod doctor;
mod ends;
mod killed;
mod killed_harness;
mod library;
mod mounts;
mod network;
mod pool;
mod shell;
mod streams;
