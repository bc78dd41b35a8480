//! A private copy of what a step needs, hashed as it is made: the bytes that were checked are the
//! bytes that the step sees. A copy has the CFC labels of what it is a copy of, directories too.

use std::fs::File;
use std::path::Path;

use super::view::{INPUTS, Shown};
use crate::handoff::artifacts::{carry_label, copy_up_to};
use crate::handoff::beneath::Tree;
use crate::handoff::diagnosis::{FileManifest, ManifestProblem};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::files::{FileError, create_new, make_dirs};
use crate::handoff::plan::{Input, Plan};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStaged {
    #[error("an input changed after it was looked at: ask for a fresh report")]
    Changed,
    #[error(transparent)]
    File(#[from] FileError),
}

/// Copies what the plan names, and nothing beside it.
pub(super) fn stage(plan: &Plan, base: &Path, into: &Path) -> Result<Vec<Shown>, NotStaged> {
    let tree = Tree::open(base).map_err(FileError::of("read", base))?;
    make_dirs(into)?;
    for input in &plan.inputs {
        match input {
            Input::PlanJson(pinned) => {
                one(
                    &tree,
                    pinned.path.as_path(),
                    None,
                    Some(&pinned.sha256),
                    into,
                )?;
            }
            Input::FileManifest { root, manifest, .. } => {
                let listed = FileManifest::read(Some(&tree), manifest.as_path())
                    .map_err(|_: ManifestProblem| NotStaged::Changed)?;
                one(&tree, manifest.as_path(), None, None, into)?;
                dirs(&tree, root.as_path(), into)?;
                for file in &listed.files {
                    let at = file.path.below(root.as_str());
                    one(
                        &tree,
                        at.as_path(),
                        Some(file.bytes),
                        Some(&file.sha256),
                        into,
                    )?;
                }
            }
        }
    }
    Ok(vec![Shown {
        name: "inputs".to_owned(),
        host: into.to_owned(),
        sandbox: INPUTS.into(),
        read_only: true,
    }])
}

fn one(
    tree: &Tree,
    path: &Path,
    bytes: Option<u64>,
    sha256: Option<&Sha256Hex>,
    into: &Path,
) -> Result<(), NotStaged> {
    let mut from = tree
        .file_of_any_links(path)
        .map_err(|_| NotStaged::Changed)?;
    let target = into.join(path);
    if let Some(dir) = path.parent() {
        dirs(tree, dir, into)?;
    }
    let failed = |what| FileError::of(what, &target);
    let mut to = match create_new(&target, 0o600) {
        Ok(file) => file,
        // Two inputs may name one file.
        Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(err) => return Err(failed("write")(err).into()),
    };
    let limit = bytes.unwrap_or(crate::handoff::diagnosis::MAX_FILE);
    let copied = copy_up_to(&mut from, &mut to, limit).map_err(|_| NotStaged::Changed)?;
    carry_label(&from, &to).map_err(failed("label"))?;
    let same = sha256.is_none_or(|sha256| *sha256 == copied.sha256)
        && bytes.is_none_or(|bytes| bytes == copied.bytes);
    same.then_some(()).ok_or(NotStaged::Changed)
}

/// Makes a directory and those above it.
fn dirs(tree: &Tree, path: &Path, into: &Path) -> Result<(), NotStaged> {
    let target = into.join(path);
    make_dirs(&target)?;
    for dir in path.ancestors() {
        let from = tree.dir(dir).map_err(|_| NotStaged::Changed)?;
        let target = into.join(dir);
        File::open(&target)
            .and_then(|to| carry_label(&from, &to))
            .map_err(FileError::of("label", &target))?;
    }
    Ok(())
}
