//! The native stores: where they are under a home, what they hold, and what is wrong with a piece.

use std::fmt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::look::{Kind, Look, Reason};
use crate::settings::{BINARY, ROOTFS, Setting};
use crate::trust::shown;

/// The Linux store, under the home.
pub const LINUX_STORE: &str = ".local/share/runsc-cfc";
/// The macOS store, under the home, unless `CFC_VM_HOME` names another place.
pub const MACOS_STORE: &str = "Library/Application Support/cfc-vm";
/// The image that each container starts from, in either store.
pub const IMAGE: &str = "images/kitchensink";
/// The `runsc` of either store.
pub const RUNSC: &str = "bin/runsc";
/// The policy in the Linux store; on macOS too it is the default policy of the home.
pub const HOME_POLICY: &str = "cfc-policy.json";
/// The policy in the macOS store.
pub const MACOS_POLICY: &str = "policy.json";

/// What a piece has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A regular file that this process can read and execute.
    Executable,
    /// A regular file that this process can read.
    File,
    /// A directory.
    Directory,
}

/// A piece that a store has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it is in the store.
    pub path: &'static str,
    /// What has to be there.
    pub want: Want,
    /// The setting that makes it unneeded where it is named.
    pub unless: Option<Setting>,
}

/// What the Linux store has to hold, beside a policy.
pub const LINUX_PIECES: [Piece; 2] = [
    Piece {
        path: RUNSC,
        want: Want::Executable,
        unless: Some(BINARY),
    },
    Piece {
        path: IMAGE,
        want: Want::Directory,
        unless: Some(ROOTFS),
    },
];

/// What the macOS store has to hold, beside a policy: the shim, the daemon that it starts from
/// beside itself, the VM's configuration, the image's marker, and the block image behind it.
pub const MACOS_PIECES: [Piece; 5] = [
    Piece {
        path: RUNSC,
        want: Want::Executable,
        unless: Some(BINARY),
    },
    Piece {
        path: "bin/cfc-vm",
        want: Want::Executable,
        unless: Some(BINARY),
    },
    Piece {
        path: "config.json",
        want: Want::File,
        unless: None,
    },
    Piece {
        path: IMAGE,
        want: Want::Directory,
        unless: Some(ROOTFS),
    },
    Piece {
        path: "ext4/kitchensink.ext4",
        want: Want::File,
        unless: Some(ROOTFS),
    },
];

/// What is wrong with a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is there.
    Missing,
    /// It cannot be told what is there.
    Unexaminable(Reason),
    /// Something else is there.
    NotThat,
    /// This process cannot open it to read.
    Unreadable(Reason),
    /// This process cannot execute it.
    NotExecutable,
    /// It is a link, or is reached through one.
    Link {
        /// The link's own path.
        link: PathBuf,
        /// Where it points, as it is written.
        target: PathBuf,
    },
}

/// One thing that a store lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreProblem {
    /// A piece is not as it has to be.
    Piece {
        /// The piece.
        piece: Piece,
        /// What is wrong with it.
        fault: Fault,
    },
    /// No policy is named, and none is in any place that a default is taken from.
    NoPolicy {
        /// Where one was looked for, in order.
        looked: Vec<PathBuf>,
    },
}

impl fmt::Display for StoreProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (piece, fault) = match self {
            Self::NoPolicy { looked } => {
                f.write_str("a CFC policy is missing")?;
                for (at, path) in looked.iter().enumerate() {
                    let joint = if at == 0 { ", looked for at" } else { " and" };
                    write!(f, "{joint} {}", shown(path))?;
                }
                return Ok(());
            }
            Self::Piece { piece, fault } => (piece, fault),
        };
        f.write_str(piece.path)?;
        match fault {
            Fault::Missing => f.write_str(" is missing"),
            Fault::Unexaminable(reason) => write!(f, " could not be examined ({reason})"),
            Fault::NotThat => f.write_str(match piece.want {
                Want::Executable => " is not an executable file",
                Want::File => " is not a file",
                Want::Directory => " is not a directory",
            }),
            Fault::Unreadable(reason) => write!(f, " could not be read ({reason})"),
            Fault::NotExecutable => f.write_str(" is not executable by this process"),
            Fault::Link { link, target } => write!(
                f,
                " is reached through a symbolic link, {} to {}",
                shown(link),
                shown(target)
            ),
        }
    }
}

/// Looks at a piece through links.
pub(super) fn look_through(look: &dyn Look, store: &Path, piece: Piece) -> Option<Fault> {
    let path = store.join(piece.path);
    fault_of(look, piece, &path, look.stat(&path))
}

/// Looks at a piece, and refuses a link at it or on the way to it from the store.
pub(super) fn look_at(look: &dyn Look, store: &Path, piece: Piece) -> Option<Fault> {
    let mut path = store.to_owned();
    let mut seen = Err(Errno::ENOENT);
    for name in Path::new(piece.path) {
        path.push(name);
        seen = look.lstat(&path);
        match seen {
            Ok(Kind::Link) => {
                return Some(match look.read_link(&path) {
                    Ok(target) => Fault::Link { link: path, target },
                    Err(err) => Fault::Unexaminable(Reason(err)),
                });
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    fault_of(look, piece, &path, seen)
}

fn fault_of(
    look: &dyn Look,
    piece: Piece,
    path: &Path,
    seen: Result<Kind, Errno>,
) -> Option<Fault> {
    let kind = match seen {
        Ok(kind) => kind,
        Err(Errno::ENOENT) => return Some(Fault::Missing),
        Err(err) => return Some(Fault::Unexaminable(Reason(err))),
    };
    let fits = match piece.want {
        Want::Executable => kind == Kind::File { executable: true },
        Want::File => matches!(kind, Kind::File { .. }),
        Want::Directory => return (kind != Kind::Directory).then_some(Fault::NotThat),
    };
    if !fits {
        return Some(Fault::NotThat);
    }
    if let Err(err) = look.readable(path) {
        return Some(Fault::Unreadable(Reason(err)));
    }
    if piece.want == Want::Executable && look.executable(path).is_err() {
        return Some(Fault::NotExecutable);
    }
    None
}
