//! What can be named: one table of settings, and where each value came from.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use crate::config::NetworkMode;
use crate::host::Host;

/// A setting: how it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// What it sets, for a message.
    pub what: &'static str,
    /// Its flag, where it has one.
    pub flag: Option<&'static str>,
    /// Its environment variable.
    pub variable: &'static str,
}

/// Which runtime runs the commands.
pub const RUNTIME: Setting = Setting {
    what: "runtime",
    flag: Some("--sandbox-runtime"),
    variable: "CF_HARNESS_SANDBOX_RUNTIME",
};
/// The unpacked image that each container starts from.
pub const ROOTFS: Setting = Setting {
    what: "rootfs",
    flag: Some("--sandbox-rootfs"),
    variable: "CF_HARNESS_SANDBOX_ROOTFS",
};
/// The CFC policy.
pub const POLICY: Setting = Setting {
    what: "CFC policy",
    flag: Some("--sandbox-cfc-policy"),
    variable: "CF_HARNESS_RUNSC_CFC_POLICY",
};
/// The `runsc` to execute.
pub const BINARY: Setting = Setting {
    what: "runsc binary",
    flag: None,
    variable: "CF_HARNESS_RUNSC_BINARY",
};
/// The network of each container. The flag is `runsc-driver`'s own and takes the driver's words;
/// the variable keeps Docker's (`none`, `bridge`, `host`).
pub const NETWORK: Setting = Setting {
    what: "network mode",
    flag: Some("--network"),
    variable: "CF_HARNESS_DOCKER_NETWORK_MODE",
};

/// Every setting there is.
pub const SETTINGS: [Setting; 5] = [RUNTIME, ROOTFS, POLICY, BINARY, NETWORK];

/// Where the macOS store is. Not a setting of ours: the macOS `runsc` reads it too, verbatim, and
/// so is it read here.
pub const VM_HOME: &str = "CFC_VM_HOME";

impl Setting {
    /// How an operator names it: the flag or the variable, or the variable alone where the
    /// entrypoint takes no flags.
    #[must_use]
    pub fn naming(self, takes_flags: bool) -> Naming {
        Naming {
            setting: self,
            takes_flags,
        }
    }

    /// The flag or the variable, whichever `source` is.
    #[must_use]
    pub fn named_by(self, source: Source) -> &'static str {
        match (source, self.flag) {
            (Source::Flag, Some(flag)) => flag,
            (Source::Flag, None) | (Source::Environment, _) => self.variable,
        }
    }
}

/// A setting's names, as text for an operator. See [`Setting::naming`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    setting: Setting,
    takes_flags: bool,
}

impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.setting.flag.filter(|_| self.takes_flags) {
            Some(flag) => write!(f, "{flag} or {}", self.setting.variable),
            None => f.write_str(self.setting.variable),
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A command-line flag.
    Flag,
    /// An environment variable.
    Environment,
}

/// A value that was named, without the white space around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Empty only where a flag was given so.
    pub value: OsString,
    /// Where it came from.
    pub source: Source,
}

/// A network that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNetwork {
    /// By the flag, in the driver's words.
    Flag(NetworkMode),
    /// By the variable, in Docker's words; not yet checked.
    Variable(OsString),
}

/// The flags of an entrypoint that takes any, as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--sandbox-runtime`.
    pub sandbox_runtime: Option<OsString>,
    /// `--sandbox-rootfs`.
    pub sandbox_rootfs: Option<OsString>,
    /// `--sandbox-cfc-policy`; `--no-cfc` is an empty one.
    pub sandbox_cfc_policy: Option<OsString>,
    /// `--network`.
    pub network: Option<NetworkMode>,
}

/// What was named, and by what. A flag wins over its variable, an empty one too; an empty
/// variable names nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// See [`RUNTIME`].
    pub runtime: Option<Named>,
    /// See [`ROOTFS`].
    pub rootfs: Option<Named>,
    /// See [`POLICY`].
    pub policy: Option<Named>,
    /// See [`BINARY`].
    pub binary: Option<Named>,
    /// See [`NETWORK`].
    pub network: Option<NamedNetwork>,
}

impl Settings {
    /// Joins the flags with the host's variables.
    #[must_use]
    pub fn new(flags: &Flags, host: &Host) -> Self {
        let variable = |setting: Setting| {
            let value = trimmed(host.variables.get(setting.variable)?);
            (!value.is_empty()).then_some(value)
        };
        let named = |flag: Option<&OsString>, setting: Setting| match flag {
            Some(value) => Some(Named {
                value: trimmed(value),
                source: Source::Flag,
            }),
            None => Some(Named {
                value: variable(setting)?,
                source: Source::Environment,
            }),
        };
        Self {
            runtime: named(flags.sandbox_runtime.as_ref(), RUNTIME),
            rootfs: named(flags.sandbox_rootfs.as_ref(), ROOTFS),
            policy: named(flags.sandbox_cfc_policy.as_ref(), POLICY),
            binary: named(None, BINARY),
            network: match flags.network {
                Some(mode) => Some(NamedNetwork::Flag(mode)),
                None => variable(NETWORK).map(NamedNetwork::Variable),
            },
        }
    }
}

/// A value without the ASCII white space around it; the bytes in between stay as they are.
fn trimmed(value: &OsStr) -> OsString {
    OsStr::from_bytes(value.as_bytes().trim_ascii()).to_owned()
}

/// What an entrypoint does where no runtime is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRule {
    /// It takes the platform's default.
    Platform,
    /// It refuses, on every platform.
    Refuse {
        /// Who has to name the runtime, for the message.
        who: &'static str,
    },
}

/// How entrypoints differ: in this data alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrypoint {
    /// Whether an operator can pass flags, so that refusals name them beside the variables.
    pub takes_flags: bool,
    /// What happens where no runtime is named.
    pub default: DefaultRule,
}

impl Entrypoint {
    /// The batch CLI, `runsc-driver run`.
    pub const BATCH: Self = Self {
        takes_flags: true,
        default: DefaultRule::Platform,
    };
    /// An entrypoint that is configured by the environment alone.
    pub const ENVIRONMENT: Self = Self {
        takes_flags: false,
        default: DefaultRule::Platform,
    };

    /// An entrypoint that takes no default: `who`, the program that starts it, names the runtime.
    #[must_use]
    pub const fn without_default(who: &'static str, takes_flags: bool) -> Self {
        Self {
            takes_flags,
            default: DefaultRule::Refuse { who },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
