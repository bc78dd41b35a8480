//! The OCI bundle's `config.json`.
//!
//! Every field is there on purpose: no capability, resource limit or variable comes from a
//! library's default, which is why the spec is written out here and not built with oci-spec's
//! builders. oci-spec's types check it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use oci_spec::runtime::Spec;
use serde_json::{Value, json};

use super::path::SandboxPath;
use super::{Link, PlanError, ReadOnly, Request};
use crate::config::{Mount, NetworkMode, SandboxConfig};

/// The hostname of every container.
pub const HOSTNAME: &str = "cf-harness";

/// The variables that every container has unless its call sets them otherwise.
pub const FIXED_ENV: [(&str, &str); 3] = [
    ("HOME", "/root"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TERM", "xterm"),
];

/// How much a container may keep in `/tmp`.
const TMP_SIZE: &str = "size=512m";

/// What a call runs in the container, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    args: Vec<String>,
    /// The call's own variables, over the fixed ones.
    env: BTreeMap<String, String>,
    /// Which of them the call set.
    set: BTreeSet<String>,
    cwd: SandboxPath,
}

impl Process {
    /// Checks a request.
    ///
    /// # Errors
    /// [`PlanError`] for what runsc would silently change or refuse.
    pub fn check(config: &SandboxConfig, request: Request<'_>) -> Result<Self, PlanError> {
        let mut args = Vec::with_capacity(request.argv.len());
        for (at, arg) in request.argv.iter().enumerate() {
            args.push(text(arg, || format!("argument {at} of the command"))?);
        }
        if args.first().is_none_or(String::is_empty) {
            return Err(PlanError::EmptyCommand);
        }
        let mut env: BTreeMap<_, _> = FIXED_ENV
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        let mut set = BTreeSet::new();
        for (name, value) in request.env {
            let bytes = name.as_bytes();
            if bytes.is_empty() || bytes.contains(&b'=') {
                return Err(PlanError::BadVariableName { name: name.clone() });
            }
            let name = text(name, || format!("the environment variable name {name:?}"))?;
            let value = text(value, || format!("the environment variable {name:?}"))?;
            set.insert(name.clone());
            env.insert(name, value);
        }
        if let Some(cwd) = request.cwd {
            text(cwd.as_os_str(), || format!("the working directory {cwd:?}"))?;
        }
        Ok(Self {
            args,
            env,
            set,
            cwd: SandboxPath::resolve(config, request.cwd)?,
        })
    }

    /// The program and its arguments.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// The variables that the call set, sorted, as `NAME=VALUE`.
    pub fn own_env(&self) -> impl Iterator<Item = String> + '_ {
        let own = self.env.iter().filter(|(name, _)| self.set.contains(*name));
        own.map(|(name, value)| format!("{name}={value}"))
    }

    /// All variables, sorted, as `NAME=VALUE`.
    #[must_use]
    pub fn whole_env(&self) -> Vec<String> {
        self.env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    /// The working directory.
    #[must_use]
    pub fn cwd(&self) -> &SandboxPath {
        &self.cwd
    }
}

/// A value as the text that JSON can carry unchanged.
fn text(value: &OsStr, what: impl Fn() -> String) -> Result<String, PlanError> {
    if value.as_bytes().contains(&0) {
        return Err(PlanError::Nul { what: what() });
    }
    match value.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(PlanError::NotUtf8 { what: what() }),
    }
}

/// The sources that the spec names, where they are not the mounts' own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Links that stand for paths which JSON cannot name.
    pub links: Vec<Link>,
    /// Mounts that the kernel keeps read-only, bound in the bundle.
    pub read_only: Vec<ReadOnly>,
}

impl Sources {
    /// Lays the sources of a configuration's mounts out in a bundle. `directories` says of each
    /// mount whether its source is one; without mounts of its own a child can keep none read-only.
    #[must_use]
    pub fn new(
        config: &SandboxConfig,
        directories: &[bool],
        bundle_dir: &Path,
        own_mounts: bool,
    ) -> Self {
        let mut sources = Self::default();
        for (at, (mount, directory)) in config.mounts.iter().zip(directories).enumerate() {
            let source = mount.host_path().to_owned();
            let at = bundle_dir.join(format!("source-{at}"));
            if mount.read_only() && own_mounts {
                sources.read_only.push(ReadOnly {
                    source,
                    at,
                    directory: *directory,
                });
            } else if source.to_str().is_none() {
                sources.links.push(Link { at, target: source });
            }
        }
        sources
    }

    fn of<'a>(&'a self, mount: &'a Mount) -> &'a Path {
        let path = mount.host_path();
        let bound = self
            .read_only
            .iter()
            .find(|bound| mount.read_only() && bound.source == path);
        let link = self.links.iter().find(|link| link.target == path);
        bound
            .map(|bound| &bound.at)
            .or(link.map(|link| &link.at))
            .map_or(path, PathBuf::as_path)
    }
}

/// What the spec is made from.
#[derive(Debug, Clone, Copy)]
pub struct SpecInput<'a> {
    /// The configuration.
    pub config: &'a SandboxConfig,
    /// The command.
    pub process: &'a Process,
    /// The image, or the overlay over it.
    pub rootfs: &'a Path,
    /// The sources of the mounts.
    pub sources: &'a Sources,
}

/// The bytes of `config.json`: the same for the same input, pretty-printed with a final newline.
///
/// # Errors
/// [`PlanError::PathNotUtf8`] for a path that JSON cannot name and no link can stand for.
pub fn config_json(input: &SpecInput<'_>) -> Result<Vec<u8>, PlanError> {
    let spec: Spec = serde_json::from_value(spec(input)?).map_err(spec_is_ours)?;
    let mut bytes = serde_json::to_vec_pretty(&spec).map_err(spec_is_ours)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Only a value of ours that is not a spec gets here; a golden test keeps that from happening.
fn spec_is_ours(err: serde_json::Error) -> PlanError {
    PlanError::NotUtf8 {
        what: format!("the bundle's configuration ({err})"),
    }
}

fn spec(input: &SpecInput<'_>) -> Result<Value, PlanError> {
    let SpecInput {
        config,
        process,
        rootfs,
        ..
    } = *input;
    Ok(json!({
        "ociVersion": "1.1.0",
        "process": {
            "terminal": false,
            "user": { "uid": config.user.uid, "gid": config.user.gid },
            "args": process.args,
            "env": process.whole_env(),
            "cwd": utf8("the working directory", process.cwd.as_path())?,
        },
        // Writable, so that writes land in the overlay that runsc keeps in memory.
        "root": { "path": utf8("the rootfs", rootfs)?, "readonly": false },
        "hostname": HOSTNAME,
        "mounts": mounts(input)?,
        "linux": { "namespaces": namespaces(config.network_of_runsc()) },
    }))
}

/// runsc given the host's network takes a network namespace in the spec as loopback alone.
fn namespaces(network: NetworkMode) -> Vec<Value> {
    ["pid", "network", "ipc", "uts", "mount"]
        .into_iter()
        .filter(|kind| *kind != "network" || network != NetworkMode::Host)
        .map(|kind| json!({ "type": kind }))
        .collect()
}

fn mounts(input: &SpecInput<'_>) -> Result<Vec<Value>, PlanError> {
    let tmp = ["nosuid", "nodev", "mode=1777", TMP_SIZE];
    let mut mounts = vec![
        system("/proc", "proc", "proc", &[]),
        system(
            "/dev",
            "tmpfs",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        system(
            "/dev/pts",
            "devpts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ],
        ),
        system(
            "/dev/shm",
            "tmpfs",
            "shm",
            &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
        ),
        system(
            "/sys",
            "sysfs",
            "sysfs",
            &["nosuid", "noexec", "nodev", "ro"],
        ),
        system("/tmp", "tmpfs", "tmpfs", &tmp),
    ];
    for mount in &input.config.mounts {
        mounts.push(bind(mount, input.sources)?);
    }
    Ok(mounts)
}

fn system(destination: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({ "destination": destination, "type": kind, "source": source, "options": options })
}

fn bind(mount: &Mount, sources: &Sources) -> Result<Value, PlanError> {
    Ok(json!({
        "destination": utf8("the mount point", mount.sandbox_path())?,
        "type": "bind",
        "source": utf8("the mount source", sources.of(mount))?,
        "options": ["rbind", if mount.read_only() { "ro" } else { "rw" }],
    }))
}

fn utf8<'a>(setting: &'static str, path: &'a Path) -> Result<&'a str, PlanError> {
    path.to_str().ok_or_else(|| PlanError::PathNotUtf8 {
        setting,
        path: path.to_owned(),
    })
}
