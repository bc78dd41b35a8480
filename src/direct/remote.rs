//! A command that is started in a running container over its control socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};

use super::attached::Ending;
use super::control::{self, Control, ControlError};
use crate::config::SandboxConfig;
use crate::driver::{Cause, Exit};
use crate::launch::spawn::Pipes;
use crate::plan::bundle::Process;

/// The wait status of a command, once the container told it.
pub(super) type Answer = Arc<OnceLock<Result<i32, ControlError>>>;

/// Starts a command; its pid in the container, and our ends of its streams.
pub(super) async fn start(
    control: &Control,
    config: &SandboxConfig,
    process: &Process,
    wants_stdin: bool,
) -> Result<(u32, Pipes), ControlError> {
    let (theirs, pipes) = streams(wants_stdin).map_err(ControlError::NotSent)?;
    let env = process.whole_env();
    let start = control::Process {
        args: process.args(),
        env: &env,
        cwd: process.cwd().as_path(),
        user: config.user,
        streams: [theirs[0].as_fd(), theirs[1].as_fd(), theirs[2].as_fd()],
    };
    let pid = control.execute(&start).await?;
    Ok((pid, pipes))
}

/// How the end of a command is heard of, and where it is told.
pub(super) fn ending(control: Control, pid: u32) -> (Ending, Answer) {
    let answer = Answer::default();
    let told = Arc::clone(&answer);
    let end = Ending::Answer(Box::pin(async move {
        let _ = told.set(control.wait(pid).await);
    }));
    (end, answer)
}

/// A command's ends of its streams, and ours.
pub(super) fn streams(wants_stdin: bool) -> io::Result<([OwnedFd; 3], Pipes)> {
    let (stdin, to) = if wants_stdin {
        let (reader, writer) = io::pipe()?;
        (reader.into(), Some(writer.into()))
    } else {
        (File::open("/dev/null")?.into(), None)
    };
    let (from_stdout, stdout) = io::pipe()?;
    let (from_stderr, stderr) = io::pipe()?;
    let pipes = Pipes {
        stdin: to,
        stdout: Some(from_stdout.into()),
        stderr: Some(from_stderr.into()),
    };
    Ok(([stdin, stdout.into(), stderr.into()], pipes))
}

/// The exit value in a wait status.
pub(super) fn exit_of(status: i32) -> Exit {
    let status = ExitStatus::from_raw(status);
    let (value, cause) = match (status.code(), status.signal()) {
        (Some(code), _) => (code, Cause::Exit),
        (None, signal) => (128 + signal.unwrap_or_default(), Cause::Signal),
    };
    Exit {
        code: u8::try_from(value).unwrap_or(u8::MAX),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_tells_exit_and_signal_apart() {
        let exit = |code, cause| Exit { code, cause };
        let cases = [
            (0, exit(0, Cause::Exit)),
            (7 << 8, exit(7, Cause::Exit)),
            (137 << 8, exit(137, Cause::Exit)),
            (255 << 8, exit(255, Cause::Exit)),
            (9, exit(137, Cause::Signal)),
            (15, exit(143, Cause::Signal)),
            (11 | 0x80, exit(139, Cause::Signal)),
        ];
        for (status, expected) in cases {
            assert_eq!(exit_of(status), expected, "{status}");
        }
    }
}
