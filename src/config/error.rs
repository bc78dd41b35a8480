//! Why a configuration is refused.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::NetworkMode;
use super::writable::NotWritable;
use crate::trust::{MountError, PathError, shown};

/// What is at a path, where something else is needed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A directory.
    Directory,
    /// A regular file; for a program, one that nobody may execute.
    File,
    /// A device, a socket or a pipe.
    Special,
    /// Something that cannot be read or examined; the reason.
    Unreadable(io::Error),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("does not exist"),
            Self::Directory => f.write_str("is a directory"),
            Self::File => f.write_str("is a regular file"),
            Self::Special => f.write_str("is a device, a socket or a pipe"),
            Self::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A path does not lead anywhere that can be trusted.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A mount could reach what it must not.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A place in the sandbox is not text.
    #[error("{setting} is at {} in the sandbox, which is not UTF-8", shown(path))]
    SandboxPathNotUtf8 {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
    },
    /// A place in the sandbox has a NUL byte.
    #[error("{setting} is at {} in the sandbox, which has a NUL byte", shown(path))]
    SandboxPathNul {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
    },
    /// A place in the sandbox is relative.
    #[error(
        "{setting} is at {} in the sandbox, which is relative: give an absolute path",
        shown(path)
    )]
    SandboxPathNotAbsolute {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
    },
    /// A place in the sandbox is above its root.
    #[error(
        "{setting} is at {} in the sandbox, which leads above the root",
        shown(path)
    )]
    SandboxPathAboveRoot {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
    },
    /// A mount is in place of the sandbox's root.
    #[error(
        "{setting} is at {} in the sandbox, which is the root: mount it below",
        shown(path)
    )]
    SandboxPathIsRoot {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
    },
    /// A mount is where the sandbox has one of its own.
    #[error(
        "{setting} is at {} in the sandbox, where the sandbox mounts its own {own}: {}",
        shown(path),
        if *own == "/tmp" { "mount it elsewhere, or below" } else { "mount it elsewhere" }
    )]
    SandboxPathReserved {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
        /// The sandbox's own mount.
        own: &'static str,
    },
    /// A mount has no place in the sandbox.
    #[error(
        "{setting} {} has no place in the sandbox: give an absolute path for it there",
        shown(host_path)
    )]
    SandboxPathMissing {
        /// Which mount.
        setting: String,
        /// Its host path.
        host_path: PathBuf,
    },
    /// A further mount calls itself the workspace.
    #[error(
        "the mount of {} is asked for as a second workspace: mount it under a name",
        shown(host_path)
    )]
    SecondWorkspace {
        /// Its host path.
        host_path: PathBuf,
    },
    /// A mount has no name.
    #[error("the mount of {} has a blank name: name it", shown(host_path))]
    BlankMountName {
        /// Its host path.
        host_path: PathBuf,
    },
    /// A container user is not two numbers.
    #[error(
        "the container user {} is not a numeric UID or UID:GID of at most 4294967294",
        shown(Path::new(user))
    )]
    BadUser {
        /// The user as it was given.
        user: String,
    },
    /// A pool of no size, or of too large a one.
    #[error(
        "the pool cannot have {size} sandboxes: its size is 1 to {}; leave it out for none",
        super::Pool::LARGEST
    )]
    PoolSize {
        /// As it was asked for.
        size: usize,
    },
    /// A container user beside a user namespace that has none.
    #[error(
        "the container user {} cannot be used without root, since only 0:0 can write the mounts \
         there: leave it out",
        shown(Path::new(user))
    )]
    UserWhenRootless {
        /// The user as it was given.
        user: String,
    },
    /// The binary cannot be executed.
    #[error(
        "the runsc binary {} {found}{}: name an executable file with CF_HARNESS_RUNSC_BINARY",
        shown(path),
        if matches!(found, Found::File) { " that nobody may execute" } else { "" }
    )]
    RunscNotExecutable {
        /// Where it is.
        path: PathBuf,
        /// What is there.
        found: Found,
    },
    /// The rootfs is not a directory.
    #[error(
        "the rootfs {} {found}: name the directory of an unpacked image",
        shown(path)
    )]
    RootfsNotDirectory {
        /// Where it is.
        path: PathBuf,
        /// What is there.
        found: Found,
    },
    /// The policy cannot be read.
    #[error(
        "the CFC policy {} {found}: name a regular file that can be read",
        shown(path)
    )]
    PolicyNotReadable {
        /// Where it is.
        path: PathBuf,
        /// What is there.
        found: Found,
    },
    /// The workspace is not a directory.
    #[error(
        "the workspace {} {found}: name a directory with --workspace DIR",
        shown(path)
    )]
    WorkspaceNotDirectory {
        /// Where it is.
        path: PathBuf,
        /// What is there.
        found: Found,
    },
    /// A mount's source is neither a directory nor a regular file.
    #[error(
        "{setting} {} {found}: name a directory or a regular file",
        shown(path)
    )]
    MountSource {
        /// Which mount.
        setting: String,
        /// Where it is.
        path: PathBuf,
        /// What is there.
        found: Found,
    },
    /// The container could not write a writable mount.
    #[error(
        "{} {} belongs to {}:{} (mode {:04o}), so that a container without capabilities, which \
         is {}:{} here, cannot write it: {}",
        .0.setting, shown(&.0.path), .0.file.uid, .0.file.gid, .0.file.mode & 0o7777,
        .0.user.uid, .0.user.gid, .0.remedy
    )]
    NotWritable(Box<NotWritable>),
    /// A mount would take the place of a file that the network needs.
    #[error(
        "{setting} is at {} in the sandbox, over the {own} that the driver puts there for the \
         network: mount it elsewhere, or take the network none",
        shown(path)
    )]
    OverNetworkFile {
        /// Which mount.
        setting: String,
        /// Its place.
        path: PathBuf,
        /// The file.
        own: &'static str,
    },
    /// A policy of where to connect on a network that the driver does not make.
    #[error(
        "the egress policy {egress} cannot be kept on the network {}, which the driver does not \
         make: leave --egress out, or take the network sandbox of the default runtime",
        network.as_str()
    )]
    EgressElsewhere {
        /// The policy.
        egress: String,
        /// The network.
        network: NetworkMode,
    },
    /// A program that the layout needs is not there.
    #[error(
        "the network layout wrap needs {program}, which is not there: install {package}, or take \
         the layout holder"
    )]
    LayoutProgram {
        /// Which one.
        program: &'static str,
        /// Whose it is.
        package: &'static str,
    },
    /// The system gives no random bytes, so that there is no name for this run.
    #[error("the system gives no random bytes to name the run with: {0}")]
    NoRandomness(getrandom::Error),
}

impl ConfigError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Path(err) => err.code(),
            Self::Mount(err) => err.code(),
            Self::SandboxPathNotUtf8 { .. } => "sandbox-path-not-utf8",
            Self::SandboxPathNul { .. } => "sandbox-path-nul",
            Self::SandboxPathNotAbsolute { .. } => "sandbox-path-not-absolute",
            Self::SandboxPathAboveRoot { .. } => "sandbox-path-above-root",
            Self::SandboxPathIsRoot { .. } => "sandbox-path-is-root",
            Self::SandboxPathReserved { .. } => "sandbox-path-reserved",
            Self::SandboxPathMissing { .. } => "sandbox-path-missing",
            Self::SecondWorkspace { .. } => "second-workspace",
            Self::BlankMountName { .. } => "mount-name-blank",
            Self::BadUser { .. } => "user-invalid",
            Self::PoolSize { .. } => "pool-size-invalid",
            Self::UserWhenRootless { .. } => "user-when-rootless",
            Self::RunscNotExecutable { .. } => "runsc-not-executable",
            Self::RootfsNotDirectory { .. } => "rootfs-not-a-directory",
            Self::PolicyNotReadable { .. } => "policy-not-readable",
            Self::WorkspaceNotDirectory { .. } => "workspace-not-a-directory",
            Self::MountSource { .. } => "mount-source-unusable",
            Self::NotWritable(mount) if mount.workspace => "workspace-not-writable",
            Self::NotWritable(_) => "mount-not-writable",
            Self::OverNetworkFile { .. } => "sandbox-path-reserved",
            Self::EgressElsewhere { .. } => "egress-not-enforceable",
            Self::LayoutProgram { .. } => "network-layout-unavailable",
            Self::NoRandomness(_) => "no-randomness",
        }
    }
}
