//! A call in a session, laid out: one `runsc exec`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::bundle::Process;
use super::id::ContainerId;
use super::{CommandLine, IdMap, PlanError, Request, path, runsc, user_namespace};
use crate::config::SandboxConfig;
use crate::host::Host;

/// The longest string that goes on runsc's command line: the kernel takes no longer one than
/// 128 KiB, its end included.
const LONGEST_STRING: usize = 128 * 1024 - 1;
/// The most that goes on it in all, well below what the kernel takes together.
const MOST_TOGETHER: usize = 1024 * 1024;

/// One `runsc exec`, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecPlan {
    /// The call's own directory.
    pub dir: PathBuf,
    /// runsc's log, which is empty exactly where the command really started.
    pub log: PathBuf,
    /// Where runsc writes the command's pid in the container, as it starts.
    pub pid_file: PathBuf,
    /// The process, for [`ExecPlan::process_file`], where it is too long for a command line.
    pub process_json: Option<Vec<u8>>,
    /// The file of it.
    pub process_file: PathBuf,
    /// The user namespace that the child makes for itself before it becomes runsc.
    pub user_namespace: Option<IdMap>,
    /// What runsc reads of the call on [`runsc::CONTEXT_FD`].
    pub context: Option<Vec<u8>>,
    /// What is executed.
    pub command: CommandLine,
}

/// Lays a call in the session `id` out, in a directory of its own.
///
/// # Errors
/// [`PlanError`] for what runsc would fail on or would silently change.
pub fn exec(
    config: &SandboxConfig,
    host: &Host,
    state_dir: &Path,
    dir: PathBuf,
    id: &ContainerId,
    request: Request<'_>,
) -> Result<ExecPlan, PlanError> {
    let process = Process::check(config, request)?;
    path::check_cwd(config, process.cwd())?;
    let (log, pid_file) = (dir.join("runsc.log"), dir.join("pid"));
    let process_file = dir.join("process.json");
    let long = is_long(&process);
    let command = runsc::exec(&runsc::Exec {
        config,
        state_dir,
        log: &log,
        pid_file: &pid_file,
        id,
        labelled: request.context.is_some(),
        process: &process,
        process_file: long.then_some(&process_file),
    });
    Ok(ExecPlan {
        user_namespace: user_namespace(config, host)?,
        process_json: long.then(|| process_json(config, &process)),
        context: request.context.map(<[u8]>::to_vec),
        dir,
        log,
        pid_file,
        process_file,
        command,
    })
}

fn is_long(process: &Process) -> bool {
    let args = process.args().iter().map(String::len);
    let env = process.own_env().map(|variable| variable.len());
    let mut together = 0;
    args.chain(env).any(|length| {
        together += length;
        length > LONGEST_STRING || together > MOST_TOGETHER
    })
}

/// The process as runsc reads it from a file. That stands for all of it, so the fixed variables
/// are in it too.
fn process_json(config: &SandboxConfig, process: &Process) -> Vec<u8> {
    let process = json!({
        "terminal": false,
        "user": { "uid": config.user.uid, "gid": config.user.gid },
        "args": process.args(),
        "env": process.whole_env(),
        "cwd": process.cwd().as_path().to_str(),
    });
    process.to_string().into_bytes()
}
