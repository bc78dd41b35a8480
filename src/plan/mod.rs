//! A call, laid out: the bundle, the command line and the descriptors, as plain data.
//!
//! Nothing here writes or starts anything. What the filesystem has to be asked (is the working
//! directory there, does the image have this mount point) is read by [`image`] and [`path`].

pub mod bundle;
pub mod exec;
pub mod id;
pub mod image;
pub mod network;
pub mod path;
pub mod runsc;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::SandboxConfig;
use crate::host::{Host, Platform};
use bundle::{Process, SpecInput};
use id::ContainerId;
use network::NetworkPlan;
use network::wrap::{self, Meeting};

/// Why a call cannot be laid out. Nothing was written and nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No program.
    #[error("the command is empty: name a program to run")]
    EmptyCommand,
    /// A value has a NUL, where runsc would cut it off silently.
    #[error("{what} has a NUL byte, which no command line can carry: remove it")]
    Nul {
        /// Which value.
        what: String,
    },
    /// A value is not UTF-8, where runsc would change its bytes silently.
    #[error(
        "{what} is not UTF-8, and runsc would change its bytes: pass such bytes on standard input"
    )]
    NotUtf8 {
        /// Which value.
        what: String,
    },
    /// A variable's name is empty or has an equals sign.
    #[error("the environment variable name {name:?} is not one: it must be non-empty without '='")]
    BadVariableName {
        /// The name.
        name: OsString,
    },
    /// A path in the sandbox that lies in no mount.
    #[error(
        "the working directory {path:?} lies in no mount of the sandbox: choose one below {mounts}"
    )]
    CwdOutsideMounts {
        /// As given, made absolute.
        path: PathBuf,
        /// The sandbox paths of the mounts.
        mounts: String,
    },
    /// A working directory that cannot be entered; runsc would make one that is missing.
    #[error(
        "the working directory {path:?} cannot be used, since {reason}: create it in {host_path:?}"
    )]
    BadCwd {
        /// In the sandbox.
        path: PathBuf,
        /// The mount's source on the host.
        host_path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The image is not a directory any more.
    #[error("the rootfs {path:?} cannot be used, since {reason}: install the image again")]
    BadRootfs {
        /// On the host.
        path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// The image belongs to somebody else, so the container's root could not use its own files.
    #[error(
        "the rootfs {path:?} belongs to uid {owner} and this process is uid {uid}, so the \
         container's root could neither enter /root nor write its files: unpack an image of your own"
    )]
    ForeignRootfs {
        /// On the host.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// Who would run it.
        uid: u32,
    },
    /// A mount's source went away or cannot be examined.
    #[error(
        "the mount source {path:?} for {sandbox_path:?} cannot be used, since {reason}: \
         bring it back, or leave the mount out"
    )]
    BadMountSource {
        /// On the host.
        path: PathBuf,
        /// In the sandbox.
        sandbox_path: PathBuf,
        /// What is in the way.
        reason: String,
    },
    /// A mount point that the image has as something else.
    #[error(
        "the mount point {sandbox_path:?} cannot be used, since the image {rootfs:?} has {found} \
         there: choose another path in the sandbox"
    )]
    BadMountPoint {
        /// In the sandbox.
        sandbox_path: PathBuf,
        /// The image.
        rootfs: PathBuf,
        /// What is there.
        found: String,
    },
    /// A path that the bundle must name and JSON cannot.
    #[error("{setting} {path:?} is not UTF-8, which an OCI bundle cannot name: use another path")]
    PathNotUtf8 {
        /// Which setting.
        setting: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The caller's user cannot be told, so no user namespace can be mapped.
    #[error(
        "the user id of this process cannot be told, so it cannot run runsc rootless: name a \
         runsc, which is run as it is"
    )]
    UnknownUser,
}

impl PlanError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyCommand => "empty-command",
            Self::Nul { .. } => "nul-byte",
            Self::NotUtf8 { .. } => "not-utf8",
            Self::BadVariableName { .. } => "bad-variable-name",
            Self::CwdOutsideMounts { .. } => "cwd-outside-mounts",
            Self::BadCwd { .. } => "bad-cwd",
            Self::BadRootfs { .. } => "bad-rootfs",
            Self::ForeignRootfs { .. } => "foreign-rootfs",
            Self::BadMountSource { .. } => "bad-mount-source",
            Self::BadMountPoint { .. } => "bad-mount-point",
            Self::PathNotUtf8 { .. } => "path-not-utf8",
            Self::UnknownUser => "unknown-user",
        }
    }
}

/// What a call asks of the container, before it was checked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The program and its arguments.
    pub argv: &'a [OsString],
    /// The working directory, as given.
    pub cwd: Option<&'a Path>,
    /// Variables beside the fixed ones.
    pub env: &'a [(OsString, OsString)],
    /// What runsc is told of the call, where it tracks labels.
    pub context: Option<&'a [u8]>,
    /// Whether it may connect to the Unix sockets that it sees.
    pub host_uds: bool,
}

/// The directories of a runtime that a plan lays its paths out in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// runsc's `--root`.
    pub state_dir: PathBuf,
    /// Where each call has a directory of its own.
    pub bundles_dir: PathBuf,
}

/// A link that stands for a mount source which JSON cannot name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The link, in the bundle.
    pub at: PathBuf,
    /// What it leads to.
    pub target: PathBuf,
}

/// A mount that the sandbox may not write, made read-only by the kernel in the child's own mount
/// namespace. runsc's own `ro` is not enough: with directfs, opening a file of such a mount for
/// writing empties it before the open is refused (measured with 20240729).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnly {
    /// The mount's source.
    pub source: PathBuf,
    /// Where it is bound, in the bundle; the spec names this as the source.
    pub at: PathBuf,
    /// Whether it is a directory.
    pub directory: bool,
}

/// An overlay over the image, mounted in the child's own mount namespace, that takes the mount
/// points which the image lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The image.
    pub lower: PathBuf,
    /// Takes what is made.
    pub upper: PathBuf,
    /// The filesystem's own.
    pub work: PathBuf,
    /// Where it is mounted: the bundle's rootfs.
    pub merged: PathBuf,
    /// The mount points that are missing, for the explanation where no overlay can be had.
    pub missing: Vec<PathBuf>,
}

/// The one id of a user namespace's map: the caller is root in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMap {
    /// The caller's user id on the host.
    pub uid: u32,
    /// The caller's group id on the host.
    pub gid: u32,
}

/// A command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// The canonical path of what is executed.
    pub program: PathBuf,
    /// Its arguments, without the program's name.
    pub args: Vec<OsString>,
}

/// One call, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The container's id.
    pub id: ContainerId,
    /// The call's own directory.
    pub bundle_dir: PathBuf,
    /// The bytes of `config.json`.
    pub config_json: Vec<u8>,
    /// Links to make in the bundle.
    pub links: Vec<Link>,
    /// Mounts to make read-only.
    pub read_only: Vec<ReadOnly>,
    /// The overlay, where the image lacks a mount point.
    pub overlay: Option<Overlay>,
    /// The user namespace that the child makes for itself before it becomes runsc; none where it
    /// enters the network's.
    pub user_namespace: Option<IdMap>,
    /// The network that is made for the container, where the driver makes it.
    pub network: Option<NetworkPlan>,
    /// Where to meet what is between pasta and runsc, where pasta is around it.
    pub meeting: Option<Meeting>,
    /// runsc's `--root`.
    pub state_dir: PathBuf,
    /// What runsc reads of the call on [`runsc::CONTEXT_FD`]; it then writes a result on
    /// [`runsc::RESULT_FD`]. To runsc, neither is ever a path.
    pub context: Option<Vec<u8>>,
    /// runsc's log, which is empty exactly where the command really started.
    pub log: PathBuf,
    /// What is executed.
    pub command: CommandLine,
}

/// The whole environment of a runsc process: what the caller's holds is none of its business.
pub const RUNSC_ENV: [(&str, &str); 1] = [(
    "PATH",
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
)];

/// Lays a one-shot call out.
///
/// # Errors
/// [`PlanError`] for whatever runsc would fail on or would silently change.
pub fn plan(
    config: &SandboxConfig,
    host: &Host,
    layout: &Layout,
    id: ContainerId,
    request: Request<'_>,
) -> Result<Plan, PlanError> {
    let process = Process::check(config, request)?;
    path::check_cwd(config, process.cwd())?;
    image::check_owner(config, host)?;
    let mut kinds = image::source_kinds(config)?;

    let bundle_dir = layout.bundles_dir.join(id.as_str());
    let network = config
        .pasta
        .as_ref()
        .map(|pasta| network::lay_out(pasta, host, &bundle_dir))
        .transpose()?;
    let mut config = Cow::Borrowed(config);
    if let Some(network) = &network {
        // Files of the call's own, mounted as any other.
        let mounts = network.mounts();
        kinds.extend(mounts.iter().map(|_| false));
        config.to_mut().mounts.extend(mounts);
    }
    let config = config.as_ref();
    let missing = image::missing_mount_points(config, host, &kinds)?;
    let overlay = (!missing.is_empty()).then(|| Overlay {
        lower: config.rootfs.as_path().to_owned(),
        upper: bundle_dir.join("upper"),
        work: bundle_dir.join("work"),
        merged: bundle_dir.join("rootfs"),
        missing,
    });
    let rootfs = overlay
        .as_ref()
        .map_or(config.rootfs.as_path(), |overlay| &overlay.merged);

    let user_namespace = match &network {
        Some(NetworkPlan {
            beside: Some(_), ..
        }) => None,
        Some(network) => network.user_namespace,
        None => user_namespace(config, host)?,
    };
    let wrapping = config
        .pasta
        .as_ref()
        .and_then(|pasta| Some((pasta, pasta.wrapping.as_ref()?)));
    let meeting = wrapping.map(|_| Meeting::new(&bundle_dir));
    let state_dir = match &meeting {
        Some(meeting) => meeting.state_dir(),
        None => layout.state_dir.clone(),
    };
    let sources = bundle::Sources::new(config, &kinds, &bundle_dir, own_mounts(config, host));
    let config_json = bundle::config_json(&SpecInput {
        config,
        process: &process,
        rootfs,
        sources: &sources,
    })?;
    let log = bundle_dir.join("runsc.log");
    let command = runsc::run(&runsc::Run {
        config,
        state_dir: &state_dir,
        log: &log,
        bundle_dir: &bundle_dir,
        id: &id,
        labelled: request.context.is_some(),
        // Where the kernel cannot keep a mount read-only, the gofer can, without directfs.
        directfs: config
            .mounts
            .iter()
            .filter(|mount| mount.read_only())
            .count()
            == sources.read_only.len(),
        host_uds: request.host_uds,
    });
    let command = match (wrapping, &meeting) {
        (Some((pasta, wrapping)), Some(meeting)) => {
            wrap::around(pasta, wrapping, &bundle_dir, meeting, command)
        }
        _ => command,
    };
    Ok(Plan {
        user_namespace,
        network,
        meeting,
        state_dir,
        id,
        bundle_dir,
        config_json,
        links: sources.links,
        read_only: sources.read_only,
        overlay,
        context: request.context.map(<[u8]>::to_vec),
        log,
        command,
    })
}

/// The first process of a session: it reads until its input ends, and writes nothing. The reading
/// is a child's, since a shell that waits for a child also reaps what calls leave behind.
const SESSION_LOOP: [&str; 3] = ["/bin/sh", "-c", "(while read -r _; do :; done); :"];

/// Lays a session's container out. Nothing seeds its labels.
///
/// # Errors
/// As [`plan`].
pub fn session(
    config: &SandboxConfig,
    host: &Host,
    layout: &Layout,
    id: ContainerId,
) -> Result<Plan, PlanError> {
    let argv = SESSION_LOOP.map(OsString::from);
    let request = Request {
        argv: &argv,
        cwd: None,
        env: &[],
        context: None,
        host_uds: false,
    };
    plan(config, host, layout, id, request)
}

/// Whether the child can have a mount namespace of its own: as root, or as the root of a user
/// namespace.
fn own_mounts(config: &SandboxConfig, host: &Host) -> bool {
    let namespace = config.rootless || config.pasta.is_some();
    host.platform == Platform::Linux && (namespace || host.uid == Some(0))
}

/// Rootless, the child enters the namespace itself: runsc then need not start itself again in one.
pub(crate) fn user_namespace(
    config: &SandboxConfig,
    host: &Host,
) -> Result<Option<IdMap>, PlanError> {
    if !config.rootless {
        return Ok(None);
    }
    match (host.uid, host.gid) {
        (Some(uid), Some(gid)) => Ok(Some(IdMap { uid, gid })),
        _ => Err(PlanError::UnknownUser),
    }
}

#[cfg(test)]
mod tests;
