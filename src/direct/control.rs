//! A client for the control socket of a sandbox, in the runtime's private state directory.
//!
//! It saves the start of a `runsc exec` for every call in a session. The protocol is runsc's own
//! and has no version: one JSON value each way, descriptors beside the first one. So nothing here
//! is used before [`super::session`] has proven it on the very binary, and every reply is checked.
//! A connection serves one request and is closed as soon as its answer is read: one that stays
//! open delays the end of the sandbox by 15 s.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::signal::Signal;
use nix::sys::socket::sockopt::{ReceiveTimeout, SendTimeout};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg,
    setsockopt, socket,
};
use nix::sys::stat::Mode;
use nix::sys::time::TimeVal;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use crate::config::ContainerUser;
use crate::launch::spawn::on_thread;
use crate::plan::id::ContainerId;

/// The longest reply that is read. A list of processes is the longest there is.
const LONGEST: usize = 4 * 1024 * 1024;

/// How long a sandbox may take to accept a connection. Its queue has 16 places, so many calls at
/// once wait for each other.
const ACCEPTED: Duration = Duration::from_secs(10);

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ControlError {
    /// It was not sent: nothing has happened.
    #[error("the control socket could not be asked ({0})")]
    NotSent(io::Error),
    /// It was sent, and what became of it is not known.
    #[error("the control socket did not answer ({0})")]
    NoAnswer(io::Error),
    /// runsc refused.
    #[error("runsc refused: {0}")]
    Refused(String),
}

/// A process to start in a container.
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub args: &'a [String],
    /// All variables, `NAME=VALUE`.
    pub env: &'a [String],
    pub cwd: &'a Path,
    pub user: ContainerUser,
    /// Its standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
}

/// The control socket of one container.
#[derive(Debug, Clone)]
pub(super) struct Control {
    /// The state directory, held open: its path may be too long for a socket's address.
    state_dir: Arc<OwnedFd>,
    id: ContainerId,
}

#[derive(Deserialize)]
struct Reply {
    success: bool,
    #[serde(default)]
    err: String,
    #[serde(default)]
    result: Value,
}

/// A process in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Listed {
    pub pid: u32,
    pub ppid: u32,
}

impl Control {
    pub(super) fn open(state_dir: &Path, id: &ContainerId) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let state_dir = Arc::new(open(state_dir, flags, Mode::empty())?);
        Ok(Self {
            state_dir,
            id: id.clone(),
        })
    }

    fn socket(&self) -> PathBuf {
        format!(
            "/proc/self/fd/{}/runsc-{}.sock",
            self.state_dir.as_raw_fd(),
            self.id
        )
        .into()
    }

    /// Starts a process; its pid in the container. It has no capabilities, said in so many words:
    /// where none are said, the container's root would have all.
    pub(super) async fn execute(&self, process: &Process<'_>) -> Result<u32, ControlError> {
        let arg = json!({
            "filename": "",
            "argv": process.args,
            "envv": process.env,
            "wd": process.cwd.to_str(),
            "KUID": process.user.uid,
            "KGID": process.user.gid,
            "ExtraKGIDs": [],
            "Capabilities": {
                "PermittedCaps": 0,
                "InheritableCaps": 0,
                "EffectiveCaps": 0,
                "BoundingCaps": 0,
                "AmbientCaps": 0,
            },
            "StdioIsPty": false,
            "GuestFDs": [0, 1, 2],
            "ContainerID": self.id.as_str(),
        });
        let result = self.ask("ExecuteAsync", &arg, &process.streams).await?;
        number(&result)
    }

    /// Waits for a process's end; its wait status as the kernel has it.
    pub(super) async fn wait(&self, pid: u32) -> Result<i32, ControlError> {
        let arg = json!({ "PID": pid, "CID": self.id.as_str() });
        number(&self.ask("WaitPID", &arg, &[]).await?)
    }

    async fn ask(
        &self,
        method: &str,
        arg: &Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Value, ControlError> {
        let request = request(method, arg);
        let socket = self.connect().await.map_err(ControlError::NotSent)?;
        let sent = send(&socket, &request, descriptors)
            .await
            .map_err(ControlError::NotSent)?;
        let mut socket = socket;
        socket
            .write_all(&request[sent..])
            .await
            .map_err(ControlError::NoAnswer)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let count = socket
                .read(&mut chunk)
                .await
                .map_err(ControlError::NoAnswer)?;
            bytes.extend_from_slice(&chunk[..count]);
            if let Some(reply) = complete(&bytes, count == 0)? {
                return answer(reply);
            }
        }
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        match UnixStream::connect(self.socket()).await {
            // The queue is full, and only a connect that blocks is told when it no longer is.
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                let control = self.clone();
                let connected = on_thread(move || control.connect_blocking(ACCEPTED)).await;
                let socket = connected.map_err(io::Error::other)??;
                socket.set_nonblocking(true)?;
                UnixStream::from_std(socket)
            }
            connected => connected,
        }
    }

    /// Connects, within the limit, and sets it for each read and write as well.
    fn connect_blocking(&self, limit: Duration) -> io::Result<BlockingStream> {
        let socket = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        let limit = TimeVal::new(
            limit.as_secs().try_into().unwrap_or(i64::MAX),
            limit.subsec_micros().into(),
        );
        setsockopt(&socket, SendTimeout, &limit)?;
        setsockopt(&socket, ReceiveTimeout, &limit)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(&self.socket())?)?;
        Ok(socket.into())
    }

    /// Sends a signal to one process and no other. Blocks, for threads of our own.
    pub(super) fn signal(
        &self,
        pid: u32,
        signal: Signal,
        limit: Duration,
    ) -> Result<(), ControlError> {
        let arg = json!({
            "CID": self.id.as_str(),
            "Signo": signal as i32,
            "PID": pid,
            "Mode": 0,
        });
        self.ask_blocking("Signal", &arg, limit).map(|_| ())
    }

    /// Waits for a process's end, at most this long. Blocks.
    pub(super) fn wait_blocking(&self, pid: u32, limit: Duration) -> Result<i32, ControlError> {
        let arg = json!({ "PID": pid, "CID": self.id.as_str() });
        number(&self.ask_blocking("WaitPID", &arg, limit)?)
    }

    /// Lists the container's processes. Blocks.
    pub(super) fn processes(&self, limit: Duration) -> Result<Vec<Listed>, ControlError> {
        let result = self.ask_blocking("Processes", &self.id.as_str().into(), limit)?;
        serde_json::from_value(result).map_err(|err| ControlError::NoAnswer(err.into()))
    }

    fn ask_blocking(
        &self,
        method: &str,
        arg: &Value,
        limit: Duration,
    ) -> Result<Value, ControlError> {
        let mut socket = self
            .connect_blocking(limit)
            .map_err(ControlError::NotSent)?;
        socket
            .write_all(&request(method, arg))
            .map_err(ControlError::NoAnswer)?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let count = socket.read(&mut chunk).map_err(ControlError::NoAnswer)?;
            bytes.extend_from_slice(&chunk[..count]);
            if let Some(reply) = complete(&bytes, count == 0)? {
                return answer(reply);
            }
        }
    }
}

fn request(method: &str, arg: &Value) -> Vec<u8> {
    json!({ "method": format!("containerManager.{method}"), "arg": arg })
        .to_string()
        .into_bytes()
}

/// Sends as much of a request as goes at once, its descriptors with the first byte.
async fn send(
    socket: &UnixStream,
    request: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let beside = if numbers.is_empty() {
        &[][..]
    } else {
        &rights[..]
    };
    let iov = [IoSlice::new(request)];
    let send = || {
        let fd = socket.as_fd().as_raw_fd();
        Ok(sendmsg::<()>(
            fd,
            &iov,
            beside,
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?)
    };
    socket.async_io(Interest::WRITABLE, send).await
}

/// The reply, once it is whole. There is no length before it: a JSON value says where it ends.
fn complete(bytes: &[u8], ended: bool) -> Result<Option<Reply>, ControlError> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    match values.next() {
        Some(Ok(reply)) => Ok(Some(reply)),
        Some(Err(err)) if !err.is_eof() => Err(ControlError::NoAnswer(err.into())),
        _ if ended => Err(ControlError::NoAnswer(io::ErrorKind::UnexpectedEof.into())),
        _ if bytes.len() > LONGEST => {
            Err(ControlError::NoAnswer(io::ErrorKind::FileTooLarge.into()))
        }
        _ => Ok(None),
    }
}

fn answer(reply: Reply) -> Result<Value, ControlError> {
    if reply.success {
        Ok(reply.result)
    } else {
        Err(ControlError::Refused(reply.err))
    }
}

fn number<T: TryFrom<i64>>(value: &Value) -> Result<T, ControlError> {
    value
        .as_i64()
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| ControlError::NoAnswer(io::ErrorKind::InvalidData.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nix::sys::socket::{Backlog, bind, listen};

    use super::*;

    #[test]
    fn a_reply_is_whole_when_its_value_is() {
        let told = |bytes: &str, ended| match complete(bytes.as_bytes(), ended) {
            Ok(Some(reply)) => match answer(reply) {
                Ok(value) => format!("value {value}"),
                Err(ControlError::Refused(why)) => format!("refused {why}"),
                Err(other) => format!("{other:?}"),
            },
            Ok(None) => "more".to_owned(),
            Err(_) => "broken".to_owned(),
        };
        let cases = [
            (r#"{"success":true,"err":"","result":7}"#, false, "value 7"),
            (
                r#"{"success":true,"err":"","result":{}}"#,
                false,
                "value {}",
            ),
            (r#"{"success":true}"#, false, "value null"),
            (
                r#"{"success":false,"err":"no such","result":null}"#,
                false,
                "refused no such",
            ),
            (r#"{"success":tr"#, false, "more"),
            ("", false, "more"),
            (r#"{"success":tr"#, true, "broken"),
            ("", true, "broken"),
            (r#"{"success":1}"#, false, "broken"),
            ("nonsense", false, "broken"),
        ];
        for (bytes, ended, expected) in cases {
            assert_eq!(told(bytes, ended), expected, "{bytes}");
        }
    }

    /// A sandbox that lets nobody in until as many have asked as its queue cannot hold.
    #[tokio::test]
    async fn a_full_queue_is_waited_for() {
        const ASKED: usize = 8;
        let dir = tempfile::tempdir().unwrap();
        let id = ContainerId::one_shot("control").unwrap();
        let at = dir.path().join(format!("runsc-{id}.sock"));
        let stream = SockType::Stream;
        let listener = socket(AddressFamily::Unix, stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&at).unwrap()).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let listener = UnixListener::from(listener);

        // The control: one that does not wait is turned away.
        let full: Vec<_> = (0..2)
            .map(|_| BlockingStream::connect(&at).unwrap())
            .collect();
        let turned_away = UnixStream::connect(&at).await.unwrap_err();
        assert_eq!(turned_away.kind(), io::ErrorKind::WouldBlock);

        let control = Control::open(dir.path(), &id).unwrap();
        let asked: Vec<_> = (0..ASKED)
            .map(|pid| {
                let control = control.clone();
                tokio::spawn(async move { control.wait(u32::try_from(pid).unwrap()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let serve = std::thread::spawn(move || {
            for _ in 0..full.len() {
                drop(listener.accept().unwrap());
            }
            for _ in 0..ASKED {
                let (mut peer, _) = listener.accept().unwrap();
                let _ = peer.read(&mut [0; 4096]).unwrap();
                peer.write_all(br#"{"success":true,"err":"","result":7}"#)
                    .unwrap();
            }
        });
        for answer in asked {
            assert_eq!(answer.await.unwrap().unwrap(), 7);
        }
        serve.join().unwrap();
    }

    #[test]
    fn a_number_is_of_its_kind() {
        assert_eq!(number::<u32>(&json!(7)).ok(), Some(7));
        assert_eq!(number::<i32>(&json!(35072)).ok(), Some(35072));
        for wrong in [
            json!(-1),
            json!("7"),
            json!(null),
            json!(1.5),
            json!(1_u64 << 40),
        ] {
            assert!(number::<u32>(&wrong).is_err(), "{wrong}");
        }
    }
}
