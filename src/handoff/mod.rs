//! What a sandboxed step may launch, what it needs, and what it hands back.
//!
//! Three contracts meet around one step that runs untrusted code. The host says which children
//! the step may start ([`host`]); a report that only reads says whether what the step needs is
//! there and unchanged; what it made leaves as a verified bundle in an envelope. The contracts
//! were written for code that is trusted to count its own children. In a sandbox the host counts.
//!
//! Everything here reaches gVisor through [`Driver`](crate::Driver) alone.

pub mod artifacts;
pub(crate) mod beneath;
pub mod broker;
pub mod child;
pub mod contract;
pub mod correlation;
pub mod diagnosis;
pub mod digest;
pub mod envelope;
pub mod events;
pub(crate) mod files;
pub mod host;
pub mod journal;
pub mod plan;
pub mod redact;
pub mod step;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod text;
pub(crate) mod time;

pub use files::FileError;
