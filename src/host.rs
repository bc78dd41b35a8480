//! The machine, read once.
//!
//! Nothing else in the crate reads the environment, the user id or `/proc/sys`, so that every
//! platform's rules are tested on any platform and no test sets a process-wide variable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// An operating system, as far as the driver tells them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Platform {
    /// Linux: gVisor's own `runsc`.
    Linux,
    /// macOS: the darwin build of `runsc`, which forwards into a VM.
    MacOs,
    /// Anything else, by the name that Rust gives it. No runtime runs there.
    Other(String),
}

impl Platform {
    /// The platform this was built for.
    #[must_use]
    pub fn current() -> Self {
        match std::env::consts::OS {
            "linux" => Self::Linux,
            "macos" => Self::MacOs,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether two paths that differ in case alone name one file (macOS's usual volumes).
    #[must_use]
    pub fn folds_case(&self) -> bool {
        matches!(self, Self::MacOs)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
            Self::Other(name) => name,
        })
    }
}

/// One kernel parameter under `/proc/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sysctl {
    /// The kernel has no such parameter.
    Absent,
    /// Its value, trimmed.
    Value(String),
    /// It is there and could not be read; the reason.
    Unreadable(String),
}

/// The kernel parameters that decide whether an ordinary user may make a user namespace.
pub const USER_NAMESPACE_SYSCTLS: [&str; 3] = [
    "user.max_user_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
];

/// The variables that the driver reads, beside `HOME`, `PATH` and `TMPDIR`.
pub const VARIABLES: [&str; 6] = [
    "CF_HARNESS_SANDBOX_RUNTIME",
    "CF_HARNESS_SANDBOX_ROOTFS",
    "CF_HARNESS_RUNSC_CFC_POLICY",
    "CF_HARNESS_RUNSC_BINARY",
    "CF_HARNESS_DOCKER_NETWORK_MODE",
    "CFC_VM_HOME",
];

/// What the driver knows of the machine. Plain data: a test makes one up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The operating system.
    pub platform: Platform,
    /// The processor, by Rust's name for it (`x86_64`, `aarch64`).
    pub arch: String,
    /// The effective user id; none where it cannot be told.
    pub uid: Option<u32>,
    /// The effective group id; none where it cannot be told.
    pub gid: Option<u32>,
    /// `HOME`, where it is set and not empty.
    pub home: Option<PathBuf>,
    /// `PATH`, verbatim.
    pub path: Option<OsString>,
    /// `TMPDIR` without trailing slashes, or `/tmp`.
    pub temp_dir: PathBuf,
    /// The working directory; none where it is gone.
    pub cwd: Option<PathBuf>,
    /// The driver's own variables ([`VARIABLES`]) that are set, verbatim.
    pub variables: BTreeMap<String, OsString>,
    /// The parameters of [`USER_NAMESPACE_SYSCTLS`].
    pub sysctls: BTreeMap<String, Sysctl>,
}

impl Host {
    /// Reads this machine.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reader of the environment"
    )]
    pub fn read() -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            platform: Platform::current(),
            arch: std::env::consts::ARCH.to_owned(),
            uid: Some(nix::unistd::geteuid().as_raw()),
            gid: Some(nix::unistd::getegid().as_raw()),
            home: var("HOME").map(PathBuf::from),
            path: std::env::var_os("PATH"),
            temp_dir: temp_dir(var("TMPDIR").as_deref()),
            cwd: std::env::current_dir().ok(),
            variables: VARIABLES
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)))
                .collect(),
            sysctls: USER_NAMESPACE_SYSCTLS
                .iter()
                .map(|name| {
                    (
                        (*name).to_owned(),
                        read_sysctl(Path::new("/proc/sys"), name),
                    )
                })
                .collect(),
        }
    }

    /// The value of a kernel parameter; one that was not read is absent.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> &Sysctl {
        self.sysctls.get(name).unwrap_or(&Sysctl::Absent)
    }
}

/// The directory for temporary files, as `TMPDIR` names it: trailing slashes go, and where that
/// leaves nothing it is the root.
fn temp_dir(tmpdir: Option<&OsStr>) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let Some(named) = tmpdir else {
        return PathBuf::from("/tmp");
    };
    let bytes = named.as_bytes();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    match &bytes[..end] {
        [] => PathBuf::from("/"),
        kept => PathBuf::from(OsStr::from_bytes(kept)),
    }
}

/// Reads a parameter below `proc_sys`; dots in its name are directories.
fn read_sysctl(proc_sys: &Path, name: &str) -> Sysctl {
    match std::fs::read_to_string(proc_sys.join(name.replace('.', "/"))) {
        Ok(value) => Sysctl::Value(value.trim().to_owned()),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Sysctl::Absent,
        Err(err) => Sysctl::Unreadable(err.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temp_dir_has_no_trailing_slash() {
        let cases = [
            (None, "/tmp"),
            (Some("/var/tmp"), "/var/tmp"),
            (Some("/var/tmp///"), "/var/tmp"),
            (Some("///"), "/"),
            (Some("rel/"), "rel"),
        ];
        for (given, expected) in cases {
            assert_eq!(
                temp_dir(given.map(OsStr::new)),
                PathBuf::from(expected),
                "{given:?}"
            );
        }
    }

    #[test]
    fn a_parameter_is_a_value_absent_or_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("user/is_a_directory")).unwrap();
        std::fs::File::create(dir.path().join("user/empty")).unwrap();
        assert_eq!(
            read_sysctl(dir.path(), "user.empty"),
            Sysctl::Value(String::new())
        );
        assert_eq!(read_sysctl(dir.path(), "user.none"), Sysctl::Absent);
        assert!(matches!(
            read_sysctl(dir.path(), "user.is_a_directory"),
            Sysctl::Unreadable(_)
        ));
    }
}
