//! runsc's command lines: one function each, in a fixed order of flags.

use std::ffi::OsString;
use std::path::Path;

use super::CommandLine;
use super::id::ContainerId;
use crate::config::SandboxConfig;

/// The descriptor on which runsc reads what the caller says of a call.
pub const CONTEXT_FD: i32 = 3;
/// The descriptor on which runsc writes what it tracked.
pub const RESULT_FD: i32 = 4;

/// The flags before every subcommand.
fn globals(config: &SandboxConfig, state_dir: &Path) -> Vec<OsString> {
    let mut args = vec![
        "--root".into(),
        state_dir.into(),
        "--ignore-cgroups".into(),
        format!("--network={}", config.network.as_str()).into(),
        "--overlay2=root:memory".into(),
    ];
    if config.rootless {
        args.push("--rootless".into());
    }
    if let Some(policy) = &config.policy {
        args.extend([
            "--cfc".into(),
            "--cfc-policy".into(),
            policy.as_path().into(),
        ]);
    }
    args
}

/// What `run` is told.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The configuration.
    pub config: &'a SandboxConfig,
    /// runsc's `--root`.
    pub state_dir: &'a Path,
    /// runsc's log.
    pub log: &'a Path,
    /// The bundle.
    pub bundle_dir: &'a Path,
    /// The container's id.
    pub id: &'a ContainerId,
    /// Whether there is a context to read and a result to write.
    pub labelled: bool,
    /// Whether the sandbox may open the host's files itself, as runsc's default has it.
    pub directfs: bool,
    /// Whether the sandbox may connect to the host's Unix sockets that it sees.
    pub host_uds: bool,
}

/// `run`, attached. The log is a file: given a descriptor, only runsc's client would write to it,
/// and the causes that gofer and sandbox meet would be lost.
#[must_use]
pub fn run(run: &Run<'_>) -> CommandLine {
    let mut args = globals(run.config, run.state_dir);
    if !run.directfs {
        args.push("--directfs=false".into());
    }
    if run.host_uds {
        args.push("--host-uds=open".into());
    }
    let mut log_flag = OsString::from("--log=");
    log_flag.push(run.log);
    args.extend([log_flag, "--log-format=json".into()]);
    args.extend([
        "run".into(),
        "--bundle".into(),
        run.bundle_dir.into(),
        run.id.as_str().into(),
    ]);
    command(run.config, args)
}

/// Ends every process of a container.
#[must_use]
pub fn kill(config: &SandboxConfig, state_dir: &Path, id: &ContainerId) -> CommandLine {
    control(config, state_dir, &["kill", "--all", id.as_str(), "KILL"])
}

/// Removes what runsc keeps of a container.
#[must_use]
pub fn delete(config: &SandboxConfig, state_dir: &Path, id: &ContainerId) -> CommandLine {
    control(config, state_dir, &["delete", "--force", id.as_str()])
}

/// Fails where runsc knows no such container.
#[must_use]
pub fn state(config: &SandboxConfig, state_dir: &Path, id: &ContainerId) -> CommandLine {
    control(config, state_dir, &["state", id.as_str()])
}

/// Prints the version, needing nothing; with `--cfc` before it, only where runsc knows that.
#[must_use]
pub fn version(config: &SandboxConfig, cfc: bool) -> CommandLine {
    let flags = cfc.then_some("--cfc").into_iter().chain(["--version"]);
    command(config, flags.map(OsString::from).collect())
}

fn control(config: &SandboxConfig, state_dir: &Path, words: &[&str]) -> CommandLine {
    let mut args = globals(config, state_dir);
    args.extend(words.iter().map(OsString::from));
    command(config, args)
}

fn command(config: &SandboxConfig, args: Vec<OsString>) -> CommandLine {
    CommandLine {
        program: config.runsc.as_path().to_owned(),
        args,
    }
}
