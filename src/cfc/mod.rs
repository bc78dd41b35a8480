//! CFC, contextual flow control: the contract between a harness, this driver and a `runsc` that
//! tracks labels.
//!
//! A call goes in with an [`InvocationContext`] on one descriptor; a result comes out on another
//! and is read by [`result::parse`], which says whether what the command wrote may be seen.
//! Everything here is pure: descriptors, files and processes are other modules' matter.

pub mod context;
pub mod json;
pub mod label;
pub mod mode;
pub mod result;
pub mod summary;
pub(crate) mod time;

pub use context::{ContextError, ContextFields, InvocationContext, MinimalContext};
pub use json::JsonError;
pub use label::{Label, LabelEntry, LabelError, LabelPath, LabelRoot, LabelView};
pub use mode::{EnforcementMode, ModeError};
pub use result::{Diagnostic, DiagnosticCode, Policy, Unreadable, Verdict};
