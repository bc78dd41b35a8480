//! What is handed back, in the words of its contracts.
//!
//! Reading keeps what is absent absent: a document that was read is the same document again. What
//! is left out is put in by our own builders alone.

mod delegation;
mod fanout;
mod leak;
mod progress;
mod result;

pub use delegation::{Delegated, Delegation, DelegationIssue};
pub use fanout::fanout_result;
pub use leak::{Leak, check_leaks};
pub use progress::progress;
pub use result::{ArtifactRef, Builder, Envelope, EnvelopeError, Status};
