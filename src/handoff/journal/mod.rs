//! The ledger of resolved calls: one JSON line each, read back for a replay.

mod entry;
mod file;
mod replay;

pub use entry::{Attempt, Call, Entry, EntryError, Failure, Outcome};
pub use file::{Journal, JournalError, LineError, MAX_JOURNAL, load, metadata_line, watch};
pub use replay::Replay;
