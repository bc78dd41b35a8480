//! The names of the checks, and what they are about.

use clap::ValueEnum;
use serde::Serialize;

/// A check's stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Name {
    /// The operating system
    Platform,
    /// The kernel's release
    Kernel,
    /// The processor
    Arch,
    /// Who this process is
    User,
    /// The parameter user.max_user_namespaces
    MaxUserNamespaces,
    /// The parameter kernel.unprivileged_userns_clone
    UnprivilegedUsernsClone,
    /// The parameter kernel.apparmor_restrict_unprivileged_userns
    ApparmorUserns,
    /// Whether a user namespace with a mount in it can be had, by making one
    UserNamespaces,
    /// The effective capabilities of a root that may have lost some
    Capabilities,
    /// Whether a seccomp filter is over this process
    Seccomp,
    /// Whether SELinux enforces
    Selinux,
    /// Yama's restriction of ptrace
    Yama,
    /// The runsc that runs the commands
    Runsc,
    /// Its release
    RunscVersion,
    /// The platforms that it was built with; none is tried
    RunscPlatforms,
    /// Whether it takes the flags that the driver gives it
    RunscFlags,
    /// Whether it knows --cfc
    RunscCfc,
    /// Whether its sandboxes' control sockets are private
    ControlSocket,
    /// The native store
    Store,
    /// The store's runsc
    StoreRunsc,
    /// The store's image
    StoreImage,
    /// The store's CFC policy
    StorePolicy,
    /// macOS: the store's VM daemon
    StoreVmDaemon,
    /// macOS: the VM's configuration
    StoreVmConfig,
    /// macOS: the block image behind the store's image
    StoreVmDisk,
    /// Whether the CFC policy is a JSON object
    Policy,
    /// Whether the image belongs to this user
    ImageOwner,
    /// Whether the image has the places that things are mounted at
    ImageMountPoints,
    /// passt's pasta, which gives the default network
    Pasta,
    /// Whether this pasta mounts a /proc of its own
    PastaProc,
    /// Whether /dev/net/tun can be opened
    Tun,
    /// util-linux's setpriv
    Setpriv,
    /// util-linux's unshare
    Unshare,
    /// nft, for rules about where a sandbox may connect to
    Nft,
    /// The parent of the private scratch directories
    Scratch,
    /// Free memory
    Memory,
    /// Free room for temporary files
    DiskTemp,
    /// Free room at the store
    DiskStore,
    /// The version of the control groups, and whether they are delegated
    Cgroups,
    /// Whether orphans are reaped in time
    Reaper,
    /// The default selection: nothing named
    Selection,
    /// Whether the default network can be had
    Network,
    /// A real call in a real sandbox
    Run,
    /// How a session's calls are started, by a real one
    SessionCalls,
}

impl Name {
    /// The name, as JSON and `--only` have it.
    #[must_use]
    pub fn text(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// What it is about.
    #[must_use]
    pub fn group(self) -> Group {
        match self {
            Self::Platform | Self::Kernel | Self::Arch => Group::Machine,
            name if name <= Self::Yama => Group::Rights,
            name if name <= Self::ControlSocket => Group::Runsc,
            name if name <= Self::ImageMountPoints => Group::Store,
            name if name <= Self::Nft => Group::Network,
            name if name <= Self::Reaper => Group::Resources,
            _ => Group::Run,
        }
    }
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Kernel and processor.
    Machine,
    /// What this process may do.
    Rights,
    /// The binary.
    Runsc,
    /// The files.
    Store,
    /// What gives a sandbox its network.
    Network,
    /// Room, memory, process 1.
    Resources,
    /// The default run itself.
    Run,
}

impl Group {
    /// Its heading.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Rights => "rights",
            Self::Runsc => "runsc",
            Self::Store => "store",
            Self::Network => "network",
            Self::Resources => "resources",
            Self::Run => "run",
        }
    }
}
