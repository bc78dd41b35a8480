//! The store's pieces, the policy, the image and the scratch parent, as they lie there.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use serde_json::Value;

use crate::host::{Host, Platform};
use crate::plan::image::is_directory_in;
use crate::selection::Native;
pub(super) use crate::selection::store::IMAGE;
use crate::selection::store::{
    Fault, HOME_POLICY, LINUX_PIECES, LINUX_STORE, MACOS_PIECES, MACOS_POLICY, MACOS_STORE, Piece,
};
use crate::settings::{BINARY, ROOTFS, Setting, Settings, VM_HOME};
use crate::trust::scratch;

/// A native store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Store {
    pub(in crate::doctor) native: Native,
    pub(in crate::doctor) at: PathBuf,
    pub(in crate::doctor) pieces: Vec<PieceFound>,
}

/// A piece of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct PieceFound {
    pub(in crate::doctor) piece: Piece,
    /// What is named in its place.
    pub(in crate::doctor) instead: Option<Setting>,
    pub(in crate::doctor) fault: Option<Fault>,
}

/// Where the store is, or would be.
pub(super) fn store_at(host: &Host) -> Option<PathBuf> {
    let home = || host.home.as_ref().filter(|home| home.is_absolute());
    match host.platform {
        Platform::Linux => Some(home()?.join(LINUX_STORE)),
        Platform::MacOs => match host.variables.get(VM_HOME).filter(|at| !at.is_empty()) {
            Some(at) => Some(PathBuf::from(at)).filter(|at| at.is_absolute()),
            None => Some(home()?.join(MACOS_STORE)),
        },
        Platform::Other(_) => None,
    }
}

pub(super) fn store(at: &Path, settings: &Settings, platform: &Platform) -> Store {
    let (native, pieces): (_, &[Piece]) = match platform {
        Platform::MacOs => (Native::MacOs, &MACOS_PIECES),
        Platform::Linux | Platform::Other(_) => (Native::Linux, &LINUX_PIECES),
    };
    let named = |setting: &Setting| match *setting {
        // A named runtime takes its binary from PATH.
        BINARY => settings.binary.is_some() || settings.runtime.is_some(),
        ROOTFS => settings.rootfs.is_some(),
        _ => false,
    };
    let found = |piece: &Piece| PieceFound {
        piece: *piece,
        instead: piece.unless.filter(named),
        fault: crate::selection::piece_fault(native, at, *piece),
    };
    Store {
        native,
        at: at.to_owned(),
        pieces: pieces.iter().map(found).collect(),
    }
}

/// The CFC policy that a run would take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct PolicyFile {
    /// Whether it is named.
    pub(in crate::doctor) named: bool,
    /// Where it was looked for.
    pub(in crate::doctor) looked: Vec<PathBuf>,
    /// The first that is there, and what it holds.
    pub(in crate::doctor) found: Option<(PathBuf, PolicyText)>,
}

/// What a policy file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum PolicyText {
    Object,
    /// JSON of another kind.
    NoObject,
    NoJson(String),
    Unreadable(String),
}

/// More than any policy has.
const POLICY_LIMIT: u64 = 16 * 1024 * 1024;

pub(super) fn policy(settings: &Settings, host: &Host, store: Option<&Path>) -> PolicyFile {
    let named = settings.policy.as_ref();
    let looked = match named {
        Some(named) => vec![PathBuf::from(&named.value)],
        None => {
            let home = host.home.as_ref().map(|home| home.join(LINUX_STORE));
            let macos = store.filter(|_| host.platform == Platform::MacOs);
            let of_macos = macos.map(|store| store.join(MACOS_POLICY));
            let of_home = home.map(|store| store.join(HOME_POLICY));
            of_home.into_iter().chain(of_macos).collect()
        }
    };
    let absolute = |path: &PathBuf| match &host.cwd {
        Some(cwd) => cwd.join(path),
        None => path.clone(),
    };
    let looked: Vec<_> = looked.iter().map(absolute).collect();
    // What is in a default's place and is no file is passed over, as the selection does.
    let there = |path: &&PathBuf| {
        named.is_some() || std::fs::metadata(path).map_or(true, |found| found.is_file())
    };
    PolicyFile {
        found: looked
            .iter()
            .filter(there)
            .find_map(|path| Some((path.clone(), read_policy(path)?))),
        named: named.is_some(),
        looked,
    }
}

/// What a policy holds; none where nothing is there.
fn read_policy(path: &Path) -> Option<PolicyText> {
    let read = || {
        // Not blocking: it may be a FIFO.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is not a file"));
        }
        let mut bytes = Vec::new();
        file.take(POLICY_LIMIT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Some(match serde_json::from_slice::<Value>(&bytes) {
            Ok(Value::Object(_)) => PolicyText::Object,
            Ok(_) => PolicyText::NoObject,
            Err(err) => PolicyText::NoJson(err.to_string()),
        }),
        Err(err) => match err.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => None,
            _ => Some(PolicyText::Unreadable(err.to_string())),
        },
    }
}

/// The image that containers start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Image {
    pub(in crate::doctor) at: PathBuf,
    pub(in crate::doctor) owner: u32,
    pub(in crate::doctor) points: Vec<(MountPoint, Point)>,
}

/// A place that something is mounted at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::doctor) struct MountPoint {
    pub(in crate::doctor) at: &'static str,
    pub(in crate::doctor) directory: bool,
}

/// What is at such a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum Point {
    Directory,
    NoDirectory,
    Missing,
    Unknown(String),
}

const fn directory(at: &'static str) -> MountPoint {
    MountPoint {
        at,
        directory: true,
    }
}

const fn file(at: &'static str) -> MountPoint {
    MountPoint {
        at,
        directory: false,
    }
}

/// What runs mount something at: the spec's own mounts, the workspace and the fabric, and what
/// pasta's network brings.
pub(in crate::doctor) const MOUNT_POINTS: [MountPoint; 8] = [
    directory("/proc"),
    directory("/dev"),
    directory("/sys"),
    directory("/tmp"),
    directory(crate::config::WORKSPACE_MOUNT_PATH),
    directory(crate::config::FABRIC_MOUNT_PATH),
    file("/etc/hosts"),
    file("/etc/resolv.conf"),
];

/// The image; none where there is no directory.
pub(super) fn image(at: &Path) -> Option<Image> {
    let found = std::fs::metadata(at).ok().filter(|found| found.is_dir())?;
    let point = |point: &MountPoint| {
        let there = match is_directory_in(at, Path::new(point.at)) {
            Ok(true) => Point::Directory,
            Ok(false) => Point::NoDirectory,
            Err(nix::Error::ENOENT) => Point::Missing,
            Err(errno) => Point::Unknown(errno.desc().to_owned()),
        };
        (*point, there)
    };
    Some(Image {
        at: at.to_owned(),
        owner: found.uid(),
        points: MOUNT_POINTS.iter().map(point).collect(),
    })
}

/// The parent of the scratch directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct ScratchParent {
    pub(in crate::doctor) at: PathBuf,
    pub(in crate::doctor) found: ScratchFound,
}

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) enum ScratchFound {
    /// Nothing yet: it is made by the first run.
    Absent,
    Private,
    Wrong(scratch::Found),
    Unknown(String),
}

/// Looks, and makes nothing: a run is what verifies it by writing there.
pub(super) fn scratch_parent(host: &Host) -> ScratchParent {
    let at = host.temp_dir.join(scratch::PARENT_NAME);
    let found = match scratch::look_at_parent(&at, host.uid) {
        Ok(scratch::Parent::Absent) => ScratchFound::Absent,
        Ok(scratch::Parent::Private) => ScratchFound::Private,
        Ok(scratch::Parent::Wrong(found)) => ScratchFound::Wrong(found),
        Err(err) => ScratchFound::Unknown(err.to_string()),
    };
    ScratchParent { at, found }
}
