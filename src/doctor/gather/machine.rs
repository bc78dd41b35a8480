//! The kernel's own files, and how much room there is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use nix::sys::statvfs::statvfs;

use crate::host::{Host, Platform};

/// What the kernel says.
#[derive(Debug, Clone, Default)]
pub(in crate::doctor) struct Machine {
    /// Its release.
    pub(in crate::doctor) kernel: Option<String>,
    /// The effective capabilities' names, or why they are not known.
    pub(in crate::doctor) capabilities: Option<Result<BTreeSet<String>, String>>,
    /// The mode of seccomp: 0 none, 1 strict, 2 a filter.
    pub(in crate::doctor) seccomp: Option<u8>,
    /// Yama's `ptrace_scope`; none without Yama.
    pub(in crate::doctor) ptrace_scope: Option<String>,
    /// SELinux's `enforce`; none without SELinux.
    pub(in crate::doctor) selinux: Option<String>,
    /// The memory that can be had without swapping, in bytes.
    pub(in crate::doctor) memory: Option<u64>,
    /// The room for temporary files.
    pub(in crate::doctor) temp: Option<Room>,
    /// The room at the store.
    pub(in crate::doctor) store: Option<Room>,
    pub(in crate::doctor) cgroups: Cgroups,
}

/// How much can be written to a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Room {
    pub(in crate::doctor) path: PathBuf,
    pub(in crate::doctor) bytes: u64,
}

/// The control groups of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::doctor) struct Cgroups {
    /// `/proc/self/cgroup`.
    pub(in crate::doctor) membership: String,
    /// Of version 2: whether this process may make groups below its own.
    pub(in crate::doctor) writable: bool,
    /// Of version 2: the controllers of its group.
    pub(in crate::doctor) controllers: String,
}

impl Machine {
    pub(in crate::doctor) fn read(host: &Host, store: Option<&Path>) -> Self {
        let mut machine = Self {
            kernel: nix::sys::utsname::uname()
                .ok()
                .map(|uname| uname.release().to_string_lossy().into_owned()),
            temp: room(&host.temp_dir),
            store: store.and_then(room),
            ..Self::default()
        };
        if host.platform == Platform::Linux {
            let capabilities = caps::read(None, CapSet::Effective);
            machine.capabilities = Some(match capabilities {
                Ok(held) => Ok(held.iter().map(Capability::to_string).collect()),
                Err(err) => Err(err.to_string()),
            });
            machine.seccomp = field("/proc/self/status", "Seccomp:").and_then(|n| n.parse().ok());
            machine.ptrace_scope = text("/proc/sys/kernel/yama/ptrace_scope");
            machine.selinux = text("/sys/fs/selinux/enforce");
            machine.memory = field("/proc/meminfo", "MemAvailable:")
                .and_then(|kib| kib.parse::<u64>().ok())
                .map(|kib| kib.saturating_mul(1024));
            machine.cgroups = cgroups();
        }
        machine
    }
}

fn text(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The first word of a line that starts with this name.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.split_whitespace().next()?.to_owned())
}

/// The room where a path is, or would be.
fn room(path: &Path) -> Option<Room> {
    let there = path.ancestors().find(|path| path.exists())?;
    let found = statvfs(there).ok()?;
    let blocks: u64 = found.blocks_available();
    Some(Room {
        path: there.to_owned(),
        bytes: blocks.saturating_mul(found.fragment_size()),
    })
}

fn cgroups() -> Cgroups {
    let membership = text("/proc/self/cgroup").unwrap_or_default();
    let own = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(|path| Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')));
    let access = |name: &str| {
        own.as_ref().is_some_and(|own| {
            nix::unistd::access(&own.join(name), nix::unistd::AccessFlags::W_OK).is_ok()
        })
    };
    Cgroups {
        writable: access("") && access("cgroup.procs"),
        controllers: own
            .as_ref()
            .and_then(|own| std::fs::read_to_string(own.join("cgroup.controllers")).ok())
            .map(|list| list.trim().to_owned())
            .unwrap_or_default(),
        membership,
    }
}
