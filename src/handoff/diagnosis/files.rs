//! Comparing one file with what was expected of it.

use std::io;
use std::path::Path;

use super::report::{CheckStatus, Content};
use crate::handoff::artifacts::hash_up_to;
use crate::handoff::beneath::{NotRead, Stamp, Tree};
use crate::handoff::digest::Sha256Hex;

/// The largest file that is looked at.
pub(crate) const MAX_FILE: u64 = 1024 * 1024 * 1024;

pub(super) struct Looked {
    pub status: CheckStatus,
    pub observed: Option<Content>,
}

/// Looks at a file beneath a tree. It is read no further than it may be long.
pub(super) fn look(
    tree: Option<&Tree>,
    path: &Path,
    bytes: Option<u64>,
    sha256: &Sha256Hex,
) -> Looked {
    let without = |status| Looked {
        status,
        observed: None,
    };
    let Some(tree) = tree else {
        return without(CheckStatus::Unavailable);
    };
    let mut file = match tree.file_of_any_links(path) {
        Ok(file) => file,
        Err(NotRead::Missing) => return without(CheckStatus::Missing),
        Err(NotRead::Unavailable) => return without(CheckStatus::Unavailable),
        Err(_) => return without(CheckStatus::Incompatible),
    };
    let Ok(before) = Stamp::of(&file) else {
        return without(CheckStatus::Unavailable);
    };
    if bytes.is_some_and(|bytes| bytes != before.size) {
        return Looked {
            status: CheckStatus::Changed,
            observed: Some((None, Some(before.size))),
        };
    }
    if before.size > MAX_FILE {
        return without(CheckStatus::Incompatible);
    }
    let hashed = hash_up_to(&mut file, before.size);
    let same = Stamp::of(&file).ok() == Some(before);
    match hashed {
        Ok((read, observed)) if same && read == before.size => Looked {
            status: if observed == *sha256 {
                CheckStatus::Satisfied
            } else {
                CheckStatus::Changed
            },
            observed: Some((Some(observed), Some(read))),
        },
        // Somebody writes it at this moment.
        Err(err) if err.kind() == io::ErrorKind::FileTooLarge => without(CheckStatus::Unavailable),
        _ => without(CheckStatus::Unavailable),
    }
}
