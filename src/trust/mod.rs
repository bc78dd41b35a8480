//! What the sandbox could write decides nothing about the sandbox.
//!
//! A path that was checked has a type of its own, and only the check makes it.

use std::path::{Path, PathBuf};

/// A path that a walk resolved: the one that the filesystem leads to, which is compared with the
/// mounts and used from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedPath(PathBuf);

impl TrustedPath {
    /// The canonical path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}
