//! Whether the container could write what it is meant to. It has no capabilities, so that even its
//! root is held to the permission bits.

use std::path::PathBuf;

use super::ContainerUser;
use crate::host::{Host, Platform};

/// What decides over a write: who owns the file and what its mode allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its mode, with the file type.
    pub mode: u32,
}

const FILE_TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const WRITE: u32 = 0o2;
const SEARCH: u32 = 0o1;

/// Whether a process of this user, in no further group and without capabilities, may write.
pub(super) fn may_write(file: Ownership, user: ContainerUser) -> bool {
    // The first class that fits decides, even where a later one allows more.
    let class = if user.uid == file.uid {
        6
    } else if user.gid == file.gid {
        3
    } else {
        0
    };
    let needed = match file.mode & FILE_TYPE {
        DIRECTORY => WRITE | SEARCH,
        _ => WRITE,
    };
    (file.mode >> class) & needed == needed
}

/// Who the container's processes are on this host; none where that cannot be told, as on macOS,
/// where a VM is in between, and for a runsc that somebody named and that is started without
/// `--rootless` by a user who is not root.
pub(super) fn identity(host: &Host, rootless: bool, user: ContainerUser) -> Option<ContainerUser> {
    if host.platform != Platform::Linux {
        return None;
    }
    match (rootless, host.uid, host.gid) {
        // The one user of runsc's own namespace: the container's root is the caller.
        (true, Some(uid), Some(gid)) => Some(ContainerUser { uid, gid }),
        (false, Some(0), _) => Some(user),
        _ => None,
    }
}

/// What would make a mount writable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// The container can be given the owner's ids.
    User {
        /// The owner.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// The owner itself cannot write it.
    Mode,
    /// The container is the caller, and has to be given what the caller may write.
    Own {
        /// Whether it is the workspace, which cannot be made read-only.
        workspace: bool,
    },
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User { uid, gid } => write!(f, "run as its owner with --user {uid}:{gid}"),
            Self::Mode => f.write_str("give its owner write access"),
            Self::Own { workspace: true } => {
                f.write_str("name a directory of your own with --workspace DIR")
            }
            Self::Own { workspace: false } => {
                f.write_str("mount it read-only, or mount a directory of your own")
            }
        }
    }
}

/// A writable mount that the container could not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotWritable {
    /// Which mount.
    pub setting: String,
    /// Its host path as it was given.
    pub path: PathBuf,
    /// Whether it is the workspace.
    pub workspace: bool,
    /// Who owns it and what its mode allows.
    pub file: Ownership,
    /// Who the container's processes are on the host.
    pub user: ContainerUser,
    /// What would help.
    pub remedy: Remedy,
}

/// What would help a container that may not write a file.
pub(super) fn remedy(
    file: Ownership,
    user: ContainerUser,
    rootless: bool,
    workspace: bool,
) -> Remedy {
    let owner = ContainerUser {
        uid: file.uid,
        gid: file.gid,
    };
    if user.uid == file.uid {
        Remedy::Mode
    } else if rootless {
        Remedy::Own { workspace }
    } else if may_write(file, owner) {
        Remedy::User {
            uid: file.uid,
            gid: file.gid,
        }
    } else {
        Remedy::Mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: u32 = DIRECTORY;
    const FILE: u32 = 0o100_000;

    fn user(uid: u32, gid: u32) -> ContainerUser {
        ContainerUser { uid, gid }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let cases = [
            // owner
            (DIR | 0o700, user(7, 8), true),
            (DIR | 0o300, user(7, 0), true),
            (DIR | 0o600, user(7, 8), false),
            (DIR | 0o500, user(7, 8), false),
            (DIR | 0o077, user(7, 8), false),
            (FILE | 0o200, user(7, 8), true),
            (FILE | 0o400, user(7, 8), false),
            // group
            (DIR | 0o070, user(9, 8), true),
            (DIR | 0o060, user(9, 8), false),
            (DIR | 0o707, user(9, 8), false),
            (FILE | 0o020, user(9, 8), true),
            // others, root among them
            (DIR | 0o770, user(9, 9), false),
            (DIR | 0o775, user(9, 9), false),
            (DIR | 0o777, user(9, 9), true),
            (DIR | 0o755, user(0, 0), false),
            (DIR | 0o1777, user(0, 0), true),
            (FILE | 0o666, user(0, 0), true),
            (FILE | 0o664, user(0, 0), false),
        ];
        for (mode, user, expected) in cases {
            let file = Ownership {
                uid: 7,
                gid: 8,
                mode,
            };
            assert_eq!(may_write(file, user), expected, "{mode:o} {user:?}");
        }
    }

    #[test]
    fn what_helps_follows_from_who_is_kept_out() {
        let file = |mode| Ownership {
            uid: 7,
            gid: 8,
            mode: DIR | mode,
        };
        let cases = [
            (
                file(0o755),
                user(0, 0),
                false,
                true,
                Remedy::User { uid: 7, gid: 8 },
            ),
            (file(0o555), user(0, 0), false, true, Remedy::Mode),
            (file(0o555), user(7, 8), false, true, Remedy::Mode),
            (file(0o555), user(7, 8), true, true, Remedy::Mode),
            (
                file(0o755),
                user(9, 9),
                true,
                true,
                Remedy::Own { workspace: true },
            ),
            (
                file(0o755),
                user(9, 9),
                true,
                false,
                Remedy::Own { workspace: false },
            ),
        ];
        for (file, user, rootless, workspace, expected) in cases {
            assert_eq!(
                remedy(file, user, rootless, workspace),
                expected,
                "{file:?} {user:?}"
            );
        }
    }
}
