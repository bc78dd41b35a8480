//! runsc's command lines: one function each, in a fixed order of flags.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::CommandLine;
use super::bundle::Process;
use super::id::ContainerId;
use crate::config::{ContainerUser, SandboxConfig};

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
        format!("--network={}", config.network_of_runsc().as_str()).into(),
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
    } else if config.ignore_labels {
        args.push("--cfc-ignore-labels".into());
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
    args.extend(log_to(run.log));
    args.push("run".into());
    if run.labelled {
        args.extend(label_fds());
    }
    args.extend([
        "--bundle".into(),
        run.bundle_dir.into(),
        run.id.as_str().into(),
    ]);
    command(run.config, args)
}

/// What `exec` is told.
#[derive(Debug, Clone, Copy)]
pub struct Exec<'a> {
    /// The configuration.
    pub config: &'a SandboxConfig,
    /// runsc's `--root`.
    pub state_dir: &'a Path,
    /// runsc's log.
    pub log: &'a Path,
    /// Where to write the command's pid in the container.
    pub pid_file: &'a Path,
    /// The container's id.
    pub id: &'a ContainerId,
    /// Whether there is a context to read and a result to write.
    pub labelled: bool,
    /// The process.
    pub process: &'a Process,
    /// The file that holds it, where it is too long for the command line.
    pub process_file: Option<&'a PathBuf>,
}

/// `exec`, attached. What runsc is not told of here the container has: its variables.
#[must_use]
pub fn exec(exec: &Exec<'_>) -> CommandLine {
    let mut args = globals(exec.config, exec.state_dir);
    args.extend(log_to(exec.log));
    args.push("exec".into());
    if exec.labelled {
        args.extend(label_fds());
    }
    args.extend(["--internal-pid-file".into(), exec.pid_file.into()]);
    if let Some(file) = exec.process_file {
        args.extend(["--process".into(), file.into(), exec.id.as_str().into()]);
        return command(exec.config, args);
    }
    args.extend(["--cwd".into(), exec.process.cwd().as_path().into()]);
    for variable in exec.process.own_env() {
        args.extend(["--env".into(), variable.into()]);
    }
    let user = exec.config.user;
    if user != ContainerUser::default() {
        args.extend(["--user".into(), format!("{}:{}", user.uid, user.gid).into()]);
    }
    args.push(exec.id.as_str().into());
    args.extend(exec.process.args().iter().map(OsString::from));
    command(exec.config, args)
}

/// Lists a container's processes as a table: its JSON has no parents.
#[must_use]
pub fn ps(config: &SandboxConfig, state_dir: &Path, id: &ContainerId) -> CommandLine {
    control(config, state_dir, &["ps", id.as_str()])
}

/// Sends a signal (`KILL`) to one process of a container, by its pid there.
#[must_use]
pub fn signal_one(
    config: &SandboxConfig,
    state_dir: &Path,
    id: &ContainerId,
    pid: u32,
    signal: &str,
) -> CommandLine {
    control(
        config,
        state_dir,
        &["kill", "--pid", &pid.to_string(), id.as_str(), signal],
    )
}

/// A log file of JSON records.
fn log_to(log: &Path) -> [OsString; 2] {
    let mut flag = OsString::from("--log=");
    flag.push(log);
    [flag, "--log-format=json".into()]
}

/// The descriptors of the context and the result.
fn label_fds() -> [OsString; 4] {
    [
        "--cfc-invocation-context-fd".into(),
        CONTEXT_FD.to_string().into(),
        "--cfc-result-fd".into(),
        RESULT_FD.to_string().into(),
    ]
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
