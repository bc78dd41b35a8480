//! What a refusal over the mounts says.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::trust::shown;

/// A mount, as a refusal names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountName {
    /// Which mount: `the workspace`, `the mount "data"`.
    pub setting: String,
    /// The host path as it was given.
    pub path: PathBuf,
    /// Whether it is the workspace, which cannot be made read-only.
    pub workspace: bool,
}

impl fmt::Display for MountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, path, .. } = self;
        write!(f, "{setting} {}", shown(path))
    }
}

impl MountName {
    /// What helps where the mount holds what it must not.
    fn hold_less(&self) -> &'static str {
        if self.workspace {
            "name a workspace that does not hold it with --workspace DIR"
        } else {
            "mount it read-only, or mount a directory that does not hold it"
        }
    }

    /// What helps where the mount is inside what it must not touch.
    fn move_out(&self) -> &'static str {
        if self.workspace {
            "name a workspace outside it with --workspace DIR"
        } else {
            "mount it read-only, or mount a directory outside it"
        }
    }
}

/// What a refusal adds where nobody named a runtime, so that the files are not ones that the
/// reader knows of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefaultNote {
    /// Whether no runtime was named.
    pub defaulted: bool,
    /// The native store.
    pub store: Option<PathBuf>,
}

impl fmt::Display for DefaultNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.store, self.defaulted) {
            (_, false) => Ok(()),
            (None, true) => {
                f.write_str("; no runtime was named, so the platform's default applies")
            }
            (Some(store), true) => write!(
                f,
                "; no runtime was named, so the native store at {} is used",
                shown(store)
            ),
        }
    }
}

/// Why the mounts cannot be what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Two mounts are at one place in the sandbox, or one is below the other.
    #[error(
        "{first} and {second} overlap in the sandbox, at {} and {}: mount them at places apart",
        shown(first_at),
        shown(second_at)
    )]
    Overlap {
        /// One mount.
        first: Box<MountName>,
        /// Its place in the sandbox.
        first_at: PathBuf,
        /// The other.
        second: Box<MountName>,
        /// Its place in the sandbox.
        second_at: PathBuf,
    },
    /// The scratch directory is inside a mount.
    #[error(
        "the scratch directory {} is inside {mount}, through which the sandbox could reach the \
         bundles and results of its own calls: {}",
        shown(scratch),
        match (mount.workspace, default_scratch) {
            (true, true) =>
                "name a workspace that does not hold it with --workspace DIR, or set TMPDIR to a \
                 directory outside",
            (true, false) => "name a workspace that does not hold it with --workspace DIR",
            (false, true) =>
                "mount a directory that does not hold it, or set TMPDIR to a directory outside",
            (false, false) => "mount a directory that does not hold it",
        }
    )]
    ScratchInMount {
        /// The scratch directory as it was given.
        scratch: PathBuf,
        /// Whether it is the default one.
        default_scratch: bool,
        /// The mount.
        mount: Box<MountName>,
    },
    /// A writable mount is inside the scratch directory, or the default one's parent.
    #[error(
        "{mount} is writable and inside the scratch directory {}, where bundles and results are \
         kept: {}",
        shown(scratch),
        mount.move_out()
    )]
    MountInScratch {
        /// The mount.
        mount: Box<MountName>,
        /// The scratch directory, or the parent of the default ones.
        scratch: PathBuf,
    },
    /// A file that decides over the sandbox is inside a writable mount.
    #[error(
        "{setting} {}{} is inside {mount}, which the sandbox can write, so that it could replace \
         it: {}{note}",
        shown(path),
        Leads(real.as_deref()),
        mount.hold_less()
    )]
    TrustedInMount {
        /// What the file is for.
        setting: String,
        /// Its path as it was given.
        path: PathBuf,
        /// Where that leads, where it is another path.
        real: Option<PathBuf>,
        /// The mount.
        mount: Box<MountName>,
        /// What a default adds.
        note: DefaultNote,
    },
    /// A writable mount is inside the rootfs.
    #[error(
        "{mount} is writable and inside the rootfs {}, so that the sandbox could change the image \
         that later containers start from: {}{note}",
        shown(rootfs),
        mount.move_out()
    )]
    MountInRootfs {
        /// The mount.
        mount: Box<MountName>,
        /// The rootfs.
        rootfs: PathBuf,
        /// What a default adds.
        note: DefaultNote,
    },
    /// The native store is inside a writable mount.
    #[error(
        "{setting} {}{} is inside {mount}, which the sandbox can write, so that it could replace \
         the runtime of later runs: {}{note}",
        shown(store),
        Leads(real.as_deref()),
        mount.hold_less()
    )]
    StoreInMount {
        /// Which store.
        setting: &'static str,
        /// Its path as it was given.
        store: PathBuf,
        /// Where that leads, where it is another path.
        real: Option<PathBuf>,
        /// The mount.
        mount: Box<MountName>,
        /// What a default adds.
        note: DefaultNote,
    },
    /// A writable mount is inside the native store.
    #[error(
        "{mount} is writable and inside {setting} {}, so that the sandbox could replace the \
         runtime of later runs: {}{note}",
        shown(store),
        mount.move_out()
    )]
    MountInStore {
        /// Which store.
        setting: &'static str,
        /// The mount.
        mount: Box<MountName>,
        /// The store.
        store: PathBuf,
        /// What a default adds.
        note: DefaultNote,
    },
}

impl MountError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overlap { .. } => "mounts-overlap",
            Self::ScratchInMount { .. } => "scratch-in-mount",
            Self::MountInScratch { .. } => "mount-in-scratch",
            Self::TrustedInMount { .. } => "trusted-file-in-mount",
            Self::MountInRootfs { .. } => "mount-in-rootfs",
            Self::StoreInMount { .. } => "store-in-mount",
            Self::MountInStore { .. } => "mount-in-store",
        }
    }
}

/// ", which leads to", where a path leads to another one.
struct Leads<'a>(Option<&'a Path>);

impl fmt::Display for Leads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(real) => write!(f, ", which leads to {},", shown(real)),
            None => Ok(()),
        }
    }
}
