//! What the sandbox of a step shows, and what shows less of it to the step's children.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::driver::Driver;
use crate::handoff::plan::{Input, Plan};

/// Where a step finds what it was given.
pub const INPUTS: &str = "/inputs";
/// Where a step puts what it makes.
pub const OUTPUTS: &str = "/outputs";
/// Where a step finds the shim and the broker's socket.
pub const BROKER: &str = "/run/handoff";
/// Where a step's own journal and sidecar go, which are claims.
pub const CLAIMS: &str = "/run/claims";

/// A directory or file of the host's that a sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What it is called where it is told of.
    pub name: String,
    /// On the host.
    pub host: PathBuf,
    /// In the sandbox.
    pub sandbox: PathBuf,
    /// Whether the sandbox cannot write it.
    pub read_only: bool,
}

/// What one sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The step's or the child's name.
    pub name: String,
    /// A private directory that its commands work in.
    pub workspace: PathBuf,
    /// What it shows beside that.
    pub shown: Vec<Shown>,
}

/// Why a sandbox cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotMade {
    /// The stable word that a harness branches on.
    pub code: String,
    /// One sentence, which may name paths of the host.
    pub message: String,
}

/// Makes the sandboxes of a session: each shows its view and nothing beside it.
pub trait MakeSandbox: Send + Sync {
    /// A driver whose calls see this.
    ///
    /// # Errors
    /// [`NotMade`].
    fn make(&self, view: &View) -> Result<Arc<dyn Driver>, NotMade>;

    /// Whether the calls of these drivers hold to their labels.
    fn enforces(&self) -> bool;
}

/// What of the plan's directory a step is shown: its inputs, each once, and nothing beside them.
pub(super) fn inputs(plan: &Plan, base: &Path) -> Vec<Shown> {
    let mut paths: Vec<_> = plan
        .inputs
        .iter()
        .flat_map(|input| match input {
            Input::PlanJson(pinned) => vec![&pinned.path],
            Input::FileManifest { root, manifest, .. } => vec![root, manifest],
        })
        .collect();
    paths.sort_by(|a, b| a.as_path().cmp(b.as_path()));
    paths.dedup();
    let mut shown: Vec<Shown> = Vec::new();
    for path in paths {
        let sandbox = Path::new(INPUTS).join(path.as_path());
        if !shown
            .iter()
            .any(|above| sandbox.starts_with(&above.sandbox))
        {
            shown.push(Shown {
                name: path.as_str().to_owned(),
                host: base.join(path.as_path()),
                sandbox,
                read_only: true,
            });
        }
    }
    shown
}

/// A child sees no more than what its step was given: no outputs, no broker, no claims.
pub(super) fn of_child(child: &str, workspace: PathBuf, inputs: &[Shown]) -> View {
    View {
        name: child.to_owned(),
        workspace,
        shown: inputs.to_vec(),
    }
}
