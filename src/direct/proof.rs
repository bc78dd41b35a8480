//! Whether the control socket of the runsc at hand does what is wanted of it: proven by doing it,
//! once a binary, and remembered.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::OnceCell;

use super::calls::lock;
use super::control::{self, Control};
use super::{Shared, remote};
use crate::config::ContainerUser;
use crate::driver::ExecVia;
use crate::launch::deadline::Deadline;
use crate::plan::id::ContainerId;

/// How long the proof may take.
const LIMIT: Duration = Duration::from_secs(2);

/// A binary: another file, or another content of it, is another one.
type Binary = (u64, u64, i64, i64, u64);

/// How commands are started in a container that runs.
pub(super) async fn via(shared: &Shared, id: &ContainerId) -> ExecVia {
    if shared.may_use_socket() && proven(shared, id).await {
        ExecVia::ControlSocket
    } else {
        ExecVia::CommandLine
    }
}

/// The same, where no proof has to be made for it.
pub(super) fn known(shared: &Shared) -> Option<ExecVia> {
    if !shared.may_use_socket() {
        return Some(ExecVia::CommandLine);
    }
    match *cell(shared)?.get()? {
        true => Some(ExecVia::ControlSocket),
        false => Some(ExecVia::CommandLine),
    }
}

async fn proven(shared: &Shared, id: &ContainerId) -> bool {
    match cell(shared) {
        Some(cell) => *cell.get_or_init(|| prove(shared, id)).await,
        None => false,
    }
}

/// Where the proof of the binary at hand is remembered.
fn cell(shared: &Shared) -> Option<Arc<OnceCell<bool>>> {
    static PROVEN: Mutex<Option<HashMap<Binary, Arc<OnceCell<bool>>>>> = Mutex::new(None);
    let binary = identity(shared.config.runsc.as_path())?;
    let mut proven = lock(&PROVEN);
    Some(Arc::clone(
        proven.get_or_insert_default().entry(binary).or_default(),
    ))
}

fn identity(path: &Path) -> Option<Binary> {
    let found = std::fs::metadata(path).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.mtime(),
        found.mtime_nsec(),
        found.size(),
    ))
}

async fn prove(shared: &Shared, id: &ContainerId) -> bool {
    let Ok(scratch) = shared.scratch() else {
        return false;
    };
    let Ok(control) = Control::open(&scratch.state_dir(), id) else {
        return false;
    };
    let proof = tokio::select! {
        proof = works(&control) => proof,
        () = Deadline::after(Some(LIMIT)).passed() => None,
    };
    tracing::debug!(
        proven = proof.is_some(),
        "asked a control socket to prove itself"
    );
    proof.is_some()
}

/// Whether arguments, variables, directory, capabilities, all three streams, an exit status and a
/// signal come through.
async fn works(control: &Control) -> Option<()> {
    let script = "read x; echo \"$x|$0|$P|$PWD|$(grep ^CapEff: /proc/self/status | tr -d '\\t')\"; \
                  echo err >&2; exit 7";
    let told = run(control, &["/bin/sh", "-c", script, "a b"], b"in put\n").await?;
    let expected = b"in put|a b|x y|/tmp|CapEff:0000000000000000\n";
    let right = told.stdout == expected && told.stderr == b"err\n" && told.status == 7 << 8;
    let killed = run(control, &["/bin/sh", "-c", "kill -9 $$"], b"").await?;
    (right && killed.status == 9).then_some(())
}

struct Told {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: i32,
}

async fn run(control: &Control, args: &[&str], stdin: &[u8]) -> Option<Told> {
    let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let env = ["PATH=/usr/bin:/bin".to_owned(), "P=x y".to_owned()];
    let (theirs, pipes) = remote::streams(true).ok()?;
    let process = control::Process {
        args: &args,
        env: &env,
        cwd: Path::new("/tmp"),
        user: ContainerUser::default(),
        streams: [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()],
    };
    let pid = control.execute(&process).await.ok()?;
    drop(theirs);
    let mut to = pipe::Sender::from_owned_fd(pipes.stdin?).ok()?;
    // A command that does not read is no fault.
    let _ = to.write_all(stdin).await;
    drop(to);
    let (stdout, stderr) = tokio::join!(read(pipes.stdout?), read(pipes.stderr?));
    let status = control.wait(pid).await.ok()?;
    Some(Told {
        stdout: stdout?,
        stderr: stderr?,
        status,
    })
}

async fn read(pipe: OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe::Receiver::from_owned_fd(pipe)
        .ok()?
        .take(4096)
        .read_to_end(&mut bytes)
        .await
        .ok()?;
    Some(bytes)
}
