//! The rules, on made-up machines.

mod linux;
mod macos;
mod named;
pub(crate) mod support;
mod words;
