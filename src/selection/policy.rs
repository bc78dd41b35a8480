//! Which CFC policy a run takes.

use std::path::PathBuf;

use nix::errno::Errno;

use super::look::{Kind, Reason};
use super::order::Asked;
use super::refusal::{Obstacle, Refusal};
use crate::settings::POLICY;

/// The policy that a run takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// One that was named, or the first default that is there.
    At(PathBuf),
    /// None: an empty one was named.
    NamedNone,
    /// None: nothing was named, and nothing is at any of these.
    Absent(Vec<PathBuf>),
}

impl Policy {
    pub(super) fn path(self) -> Option<PathBuf> {
        match self {
            Self::At(path) => Some(path),
            Self::NamedNone | Self::Absent(_) => None,
        }
    }
}

/// The policy that was named, or the first of `defaults` that is there.
///
/// A default that might be there and cannot be read refuses the run: a later one would stand in
/// for it.
pub(super) fn choose(asked: &Asked<'_>, defaults: Vec<PathBuf>) -> Result<Policy, Refusal> {
    if let Some(named) = &asked.settings.policy {
        return Ok(match named.value.is_empty() {
            true => Policy::NamedNone,
            false => Policy::At(asked.absolute(POLICY, &named.value)?),
        });
    }
    for path in &defaults {
        let found = match asked.look.stat(path) {
            // Nothing can be at a path that runs through a file.
            Err(Errno::ENOENT | Errno::ENOTDIR) => continue,
            Ok(Kind::File { .. }) => asked.look.readable(path),
            Ok(_) => continue,
            Err(err) => Err(err),
        };
        return match found {
            Ok(()) => Ok(Policy::At(path.clone())),
            Err(err) => Err(asked.stop(Obstacle::PolicyUnreadable {
                path: path.clone(),
                reason: Reason(err),
            })),
        };
    }
    Ok(Policy::Absent(defaults))
}
