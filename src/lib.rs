//! Runs untrusted commands in gVisor: no Docker, no daemon, no root.
//!
//! A harness holds an `Arc<dyn Driver>` and calls [`Driver::run`] with a [`Call`]; it gets an
//! [`Outcome`] that claims no more than its evidence.
//!
//! Data flows one way. Everything left of *launch* is pure or only reads:
//!
//! ```text
//! flags, environment ─▶ Settings ─┐
//! the machine ────────▶ Host ─────┼─▶ selection ─▶ trust ─▶ SandboxConfig
//!                                                               │
//! Call ─────────────────────────────────────────────────────────┼─▶ plan ─▶ Plan
//!                                                               │            │ effects
//!                                                               │            ▼
//!                                                               │         launch ─▶ RawExit
//!                                                               │                      │ pure
//!                                                               └────────────────▶ classify ─▶ Outcome
//! ```
//!
//! ARCHITECTURE.md in the repository says what each module is for and what none of them does.

pub mod cfc;
pub mod classify;
pub mod cli;
pub mod config;
pub mod direct;
pub mod doctor;
pub mod driver;
#[cfg(target_os = "linux")]
pub mod front;
pub mod handoff;
pub mod host;
pub mod launch;
pub mod leftovers;
pub mod plan;
pub mod selection;
pub mod settings;
pub mod tools;
pub mod trust;

pub use config::{NetworkMode, Pool, SandboxConfig, SandboxOptions};
pub use driver::{Call, Driver, Error, Outcome};
pub use host::Host;

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
