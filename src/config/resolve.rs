//! The one way to a [`SandboxConfig`]: everything that was asked for, checked in a fixed order.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Found};
use super::network::{Egress, NetworkHelper, NetworkLayout, Pasta, Wrapping};
use super::writable::{NotWritable, Ownership, identity, may_write, remedy};
use super::{
    ContainerUser, FABRIC_MOUNT_PATH, Mount, MountKind, MountRequest, NetworkMode, Pool,
    SandboxConfig, SandboxOptions, Scratch,
};
use crate::host::{Host, Platform};
use crate::trust::mounts::{
    DefaultNote, MountName, Mounts, Readings, SCRATCH, Source, check_overlap, normalized,
};
use crate::trust::path::{RUNSC, is_executable};
use crate::trust::{TrustedPath, find_program, scratch, shown, walk};

const ROOTFS: &str = "the rootfs";
const POLICY: &str = "the CFC policy";
/// What is around runsc in the layout wrap, beside the helper's programs.
const SHELL: &str = crate::plan::network::wrap::SHELL;

/// Where the sandbox has mounts of its own, and whether a place below one is taken too.
const RESERVED: [(&str, bool); 4] = [
    ("/proc", true),
    ("/dev", true),
    ("/sys", true),
    ("/tmp", false),
];

impl SandboxConfig {
    /// Checks what was asked for and resolves its paths. Nothing is made or started.
    ///
    /// # Errors
    /// [`ConfigError`], for the first of the checks that refuses.
    pub fn resolve(options: SandboxOptions, host: &Host) -> Result<Self, ConfigError> {
        let pool = pool(options.pool)?;
        let wanted = wanted(&options)?;
        let user = container_user(options.user.as_deref(), options.rootless)?;
        let sources = wanted
            .iter()
            .map(Wanted::source)
            .collect::<Result<Vec<_>, _>>()?;
        let mounts = Mounts {
            sources: &sources,
            fold_case: host.platform.folds_case(),
            note: DefaultNote {
                defaulted: options.defaulted,
                store: options.native_store.clone(),
            },
        };
        let scratch = scratch_dir(&options, host, &mounts)?;
        let runsc = runsc(&options, host, &mounts)?;
        let rootfs = rootfs(&options, &mounts)?;
        let policy = policy(&options, &mounts)?;
        let pasta = pasta(&options, host, &mounts)?;
        if pasta.is_some() {
            for wanted in &wanted {
                wanted.clear_of_network_files()?;
            }
        }
        mounts.check_rootfs(&rootfs)?;
        native_store(&options, host, &mounts)?;
        let identity = identity(host, options.rootless, user);
        for (wanted, source) in wanted.iter().zip(&sources) {
            let found = wanted.usable(&source.readings.real)?;
            if let (Some(user), false) = (identity, wanted.read_only) {
                wanted.writable(&found, user, options.rootless)?;
            }
        }
        Ok(Self {
            runsc,
            rootfs,
            policy,
            ignore_labels: options.ignore_labels,
            mode: options.mode,
            network: options.network,
            pasta,
            rootless: options.rootless,
            mounts: wanted
                .into_iter()
                .zip(sources)
                .map(|(wanted, source)| Mount {
                    kind: wanted.kind,
                    host_path: source.readings.real,
                    sandbox_path: wanted.sandbox_path,
                    read_only: wanted.read_only,
                })
                .collect(),
            user,
            scratch,
            pool,
            run_tag: scratch::run_tag(&options.run_id).map_err(ConfigError::NoRandomness)?,
        })
    }
}

/// A mount whose request was looked at, before the filesystem is.
struct Wanted {
    name: MountName,
    kind: MountKind,
    sandbox_path: PathBuf,
    read_only: bool,
}

/// The workspace first, then the others as asked, at places apart.
fn wanted(options: &SandboxOptions) -> Result<Vec<Wanted>, ConfigError> {
    let workspace = "the workspace".to_owned();
    let mut all = vec![Wanted {
        sandbox_path: sandbox_path(&workspace, &options.workspace_mount_path)?,
        name: MountName {
            setting: workspace,
            path: options.workspace.clone(),
            workspace: true,
        },
        kind: MountKind::Workspace,
        read_only: false,
    }];
    for request in &options.mounts {
        all.push(further(request)?);
    }
    let places: Vec<_> = all
        .iter()
        .map(|wanted| (&wanted.name, wanted.sandbox_path.as_path()))
        .collect();
    check_overlap(&places)?;
    Ok(all)
}

fn further(request: &MountRequest) -> Result<Wanted, ConfigError> {
    let host_path = || request.host_path.clone();
    let (setting, default_path, default_read_only) = match &request.kind {
        MountKind::Workspace => {
            return Err(ConfigError::SecondWorkspace {
                host_path: host_path(),
            });
        }
        MountKind::FabricFuse => (
            "the fabric mount".to_owned(),
            Some(FABRIC_MOUNT_PATH),
            false,
        ),
        MountKind::HostBind { name } if name.trim().is_empty() => {
            return Err(ConfigError::BlankMountName {
                host_path: host_path(),
            });
        }
        MountKind::HostBind { name } => (
            format!("the mount \"{}\"", shown(Path::new(name))),
            None,
            true,
        ),
    };
    let place = request
        .sandbox_path
        .as_deref()
        .or(default_path.map(Path::new));
    let Some(place) = place else {
        return Err(ConfigError::SandboxPathMissing {
            setting,
            host_path: host_path(),
        });
    };
    Ok(Wanted {
        sandbox_path: sandbox_path(&setting, place)?,
        name: MountName {
            setting,
            path: host_path(),
            workspace: false,
        },
        kind: request.kind.clone(),
        read_only: request.read_only.unwrap_or(default_read_only),
    })
}

/// A place in the sandbox: text, since runsc reads it in JSON, and clear of the sandbox's own.
fn sandbox_path(setting: &str, path: &Path) -> Result<PathBuf, ConfigError> {
    let given = || (setting.to_owned(), path.to_owned());
    let Some(text) = path.to_str() else {
        let (setting, path) = given();
        return Err(ConfigError::SandboxPathNotUtf8 { setting, path });
    };
    if text.contains('\0') {
        let (setting, path) = given();
        return Err(ConfigError::SandboxPathNul { setting, path });
    }
    if !path.is_absolute() {
        let (setting, path) = given();
        return Err(ConfigError::SandboxPathNotAbsolute { setting, path });
    }
    let place = normalized(path);
    if place.starts_with("/..") {
        let (setting, path) = given();
        return Err(ConfigError::SandboxPathAboveRoot { setting, path });
    }
    if place == Path::new("/") {
        let (setting, path) = given();
        return Err(ConfigError::SandboxPathIsRoot { setting, path });
    }
    for (own, below) in RESERVED {
        if place == Path::new(own) || (below && place.starts_with(own)) {
            let (setting, path) = given();
            return Err(ConfigError::SandboxPathReserved { setting, path, own });
        }
    }
    Ok(place)
}

fn pool(asked: Option<Pool>) -> Result<Option<Pool>, ConfigError> {
    match asked {
        Some(Pool { size, .. }) if !(1..=Pool::LARGEST).contains(&size) => {
            Err(ConfigError::PoolSize { size })
        }
        pool => Ok(pool),
    }
}

fn container_user(user: Option<&str>, rootless: bool) -> Result<ContainerUser, ConfigError> {
    let Some(text) = user else {
        return Ok(ContainerUser::default());
    };
    let user = ContainerUser::parse(text).ok_or_else(|| ConfigError::BadUser {
        user: text.to_owned(),
    })?;
    if rootless && user != ContainerUser::default() {
        return Err(ConfigError::UserWhenRootless {
            user: text.to_owned(),
        });
    }
    Ok(user)
}

impl ContainerUser {
    /// `UID` or `UID:GID`, in digits; the group is 0 where it is not named.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (uid, gid) = match text.split_once(':') {
            Some((uid, gid)) => (id(uid)?, id(gid)?),
            None => (id(text)?, 0),
        };
        Some(Self { uid, gid })
    }
}

/// Digits alone (`parse` takes a sign), and not the number by which the kernel means "no change".
fn id(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten()?;
    (id != u32::MAX).then_some(id)
}

/// A scratch directory of the caller's is where it leads. Of the default one only the directory
/// for temporary files is resolved: a link in the parent's place must still be there to be seen
/// when the parent is verified.
fn scratch_dir(
    options: &SandboxOptions,
    host: &Host,
    mounts: &Mounts<'_>,
) -> Result<Scratch, ConfigError> {
    if let Some(dir) = &options.scratch {
        let readings = Readings::of(SCRATCH, dir)?;
        mounts.check_scratch(dir, &readings, &readings, false)?;
        return Ok(Scratch {
            dir: readings.real,
            verified_parent: None,
        });
    }
    let setting = "the scratch directory under TMPDIR";
    let name = scratch::dir_name(&options.run_id).map_err(ConfigError::NoRandomness)?;
    let given = host.temp_dir.join(scratch::PARENT_NAME);
    let home = Readings::of(setting, &given)?;
    let readings = Readings {
        real: home.real.join(&name),
        folded: home.folded.join(&name),
    };
    mounts.check_scratch(&given.join(&name), &readings, &home, true)?;
    let parent = walk(setting, &host.temp_dir)?
        .as_path()
        .join(scratch::PARENT_NAME);
    Ok(Scratch {
        dir: parent.join(name),
        verified_parent: Some(parent),
    })
}

fn runsc(
    options: &SandboxOptions,
    host: &Host,
    mounts: &Mounts<'_>,
) -> Result<TrustedPath, ConfigError> {
    let runsc = find_program(RUNSC, &options.runsc, host)?;
    mounts.check_trusted(RUNSC, Path::new(&options.runsc), &runsc)?;
    if is_executable(runsc.as_path()) {
        return Ok(runsc);
    }
    Err(ConfigError::RunscNotExecutable {
        found: at(runsc.as_path()).1,
        path: runsc.as_path().to_owned(),
    })
}

fn rootfs(options: &SandboxOptions, mounts: &Mounts<'_>) -> Result<TrustedPath, ConfigError> {
    let rootfs = walk(ROOTFS, &options.rootfs)?;
    mounts.check_trusted(ROOTFS, &options.rootfs, &rootfs)?;
    match at(rootfs.as_path()).1 {
        Found::Directory => Ok(rootfs),
        found => Err(ConfigError::RootfsNotDirectory {
            path: options.rootfs.clone(),
            found,
        }),
    }
}

fn policy(
    options: &SandboxOptions,
    mounts: &Mounts<'_>,
) -> Result<Option<TrustedPath>, ConfigError> {
    let Some(given) = &options.policy else {
        return Ok(None);
    };
    let policy = walk(POLICY, given)?;
    mounts.check_trusted(POLICY, given, &policy)?;
    let found = match at(policy.as_path()).1 {
        // Opened, since a mode does not tell what a process may read.
        Found::File => match File::open(policy.as_path()) {
            Ok(_) => return Ok(Some(policy)),
            Err(reason) => Found::Unreadable(reason),
        },
        found => found,
    };
    Err(ConfigError::PolicyNotReadable {
        path: given.clone(),
        found,
    })
}

/// The network that a helper gives. Its programs go by the names that they are called by, so each
/// stays as `PATH` has it; what it leads to is held apart from writable mounts.
fn pasta(
    options: &SandboxOptions,
    host: &Host,
    mounts: &Mounts<'_>,
) -> Result<Option<Pasta>, ConfigError> {
    let helper = match &options.network_helper {
        Some(helper) if options.network == NetworkMode::Sandbox => helper,
        _ if options.egress == Egress::All => return Ok(None),
        _ => {
            return Err(ConfigError::EgressElsewhere {
                egress: options.egress.to_string(),
                network: options.network,
            });
        }
    };
    let nft = nft(host);
    let wrapping = match options.network_layout {
        NetworkLayout::Holder => None,
        NetworkLayout::Wrap => Some(wrapping(helper, host)?),
    };
    let mut programs = vec![
        ("pasta", Some(helper.pasta.as_path())),
        ("nft", nft.as_deref()),
    ];
    if let Some(wrapping) = &wrapping {
        programs.extend([
            ("setpriv", Some(wrapping.setpriv.as_path())),
            ("mount", Some(wrapping.mount.as_path())),
            ("unshare", wrapping.unshare.as_deref()),
            ("the shell", Some(Path::new(SHELL))),
        ]);
    }
    for (setting, path) in programs {
        if let Some(path) = path {
            mounts.check_trusted(setting, path, &walk(setting, path)?)?;
        }
    }
    Ok(Some(Pasta {
        pasta: helper.pasta.clone(),
        nft,
        egress: options.egress.clone(),
        sessions: options.session_egress,
        wrapping,
    }))
}

fn wrapping(helper: &NetworkHelper, host: &Host) -> Result<Wrapping, ConfigError> {
    let missing = |program, package| ConfigError::LayoutProgram { program, package };
    // As it is called, and not what it leads to: it may be one of many that a single file serves.
    let mount = ["/usr/bin/mount", "/bin/mount"].map(PathBuf::from);
    let unshare = match host.uid {
        Some(0) => Some(
            helper
                .unshare
                .clone()
                .ok_or(missing("unshare", "util-linux"))?,
        ),
        _ => None,
    };
    Ok(Wrapping {
        setpriv: helper.setpriv.clone(),
        mount: mount
            .into_iter()
            .find(|path| is_executable(path))
            .ok_or(missing("mount", "mount"))?,
        unshare,
    })
}

/// `nft` is a system administrator's program, and often not on the `PATH` of anybody else.
pub(crate) fn nft(host: &Host) -> Option<PathBuf> {
    let elsewhere = ["/usr/sbin/nft", "/sbin/nft"].map(PathBuf::from);
    let there = |path: &PathBuf| is_executable(path);
    match find_program("nft", OsStr::new("nft"), host) {
        Ok(found) => Some(found.as_path().to_owned()),
        Err(_) => elsewhere.into_iter().find(there),
    }
}

fn native_store(
    options: &SandboxOptions,
    host: &Host,
    mounts: &Mounts<'_>,
) -> Result<(), ConfigError> {
    let Some(store) = &options.native_store else {
        return Ok(());
    };
    let setting = match host.platform {
        Platform::MacOs => "the cfc-vm store",
        _ => "the runsc-cfc store",
    };
    let real = walk(setting, store)?;
    Ok(mounts.check_store(setting, store, &real)?)
}

/// What is at a canonical path.
fn at(path: &Path) -> (Option<Metadata>, Found) {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => (Some(found), Found::Directory),
        Ok(found) if found.is_file() => (Some(found), Found::File),
        Ok(found) => (Some(found), Found::Special),
        Err(err) if err.kind() == io::ErrorKind::NotFound => (None, Found::Nothing),
        Err(err) => (None, Found::Unreadable(err)),
    }
}

/// What the driver itself puts into a container on the network that a helper gives.
const NETWORK_FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

impl Wanted {
    /// A mount at or over one of the driver's own files would take its place.
    fn clear_of_network_files(&self) -> Result<(), ConfigError> {
        let over = |own: &&&str| Path::new(own).starts_with(&self.sandbox_path);
        match NETWORK_FILES.iter().find(over) {
            Some(own) => Err(ConfigError::OverNetworkFile {
                setting: self.name.setting.clone(),
                path: self.sandbox_path.clone(),
                own,
            }),
            None => Ok(()),
        }
    }

    fn source(&self) -> Result<Source, ConfigError> {
        Ok(Source {
            readings: Readings::of(&self.name.setting, &self.name.path)?,
            name: self.name.clone(),
            read_only: self.read_only,
        })
    }

    /// The workspace is a directory; what else is mounted, a directory or a file.
    fn usable(&self, real: &Path) -> Result<Metadata, ConfigError> {
        let path = self.name.path.clone();
        match (at(real), self.name.workspace) {
            ((Some(file), Found::Directory), _) | ((Some(file), Found::File), false) => Ok(file),
            ((_, found), true) => Err(ConfigError::WorkspaceNotDirectory { path, found }),
            ((_, found), false) => Err(ConfigError::MountSource {
                setting: self.name.setting.clone(),
                path,
                found,
            }),
        }
    }

    fn writable(
        &self,
        found: &Metadata,
        user: ContainerUser,
        rootless: bool,
    ) -> Result<(), ConfigError> {
        let file = Ownership {
            uid: found.uid(),
            gid: found.gid(),
            mode: found.mode(),
        };
        if may_write(file, user) {
            return Ok(());
        }
        let workspace = self.name.workspace;
        Err(ConfigError::NotWritable(Box::new(NotWritable {
            setting: self.name.setting.clone(),
            path: self.name.path.clone(),
            workspace,
            file,
            user,
            remedy: remedy(file, user, rootless, workspace),
        })))
    }
}
