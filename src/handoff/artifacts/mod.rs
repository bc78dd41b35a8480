//! What a step made: captured from its declared outputs, put into a bundle that its contents
//! name, verified, and kept.

mod bundle;
mod capture;
mod content;
mod labelled;
mod manifest;
mod path;
mod store;
mod verify;

pub use bundle::{BundleError, Sealed, seal};
pub use capture::{Capture, CaptureLimits, CapturedFile, Declared, OUTPUTS, capture};
pub(crate) use content::{copy as copy_up_to, hash_up_to, read_up_to};
pub(crate) use labelled::carry as carry_label;
pub use manifest::{BUNDLE_ID_PREFIX, Manifest, ManifestError, content_digest, self_digest};
pub use path::{OddPath, PayloadPath};
pub use store::{Aside, Expected, Import, ImportError, Store};
pub use verify::{Verification, Violation, ViolationCode, verify};

/// What a caller is told of beside a result.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Diagnostic {
    /// A stable word.
    pub code: &'static str,
    /// One sentence, without paths of the host.
    pub message: String,
    /// `info`, `warning` or `error`.
    pub severity: &'static str,
    /// Which step of the handoff it comes from.
    pub phase: &'static str,
    /// The output that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
