//! What a script is told that it may launch: `WORKFLOW_HOST`, version 1, and the numbers in it.
//!
//! The writer refuses to write a document that the reader would not take. The reader tells a
//! variable that is not there from one that is unusable; either way there is no context, and a
//! script that has none does its own work.
//!
//! How fields are treated where the contract leaves it open: a wrong `journal`, `events` or `cwd`
//! is an unset one, and so is a `deadline_ms` that is no number; a number is taken as it is or
//! not at all, so a fraction, a zero or more than 2^53 - 1 makes the document unusable.

mod document;
mod ledger;
mod template;

pub use document::{
    Context, DEFAULT_DEADLINE_MS, MAX_DOCUMENT, Reading, Unusable, VARIABLE, WriteError, Writer,
    read,
};
pub use ledger::{Allocator, LedgerError, Owner};
pub(crate) use template::is_name as is_plain_name;
pub use template::{Block, ChildTemplate, Kind, ordinals_of, substitute};
