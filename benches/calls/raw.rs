//! The exchange over a sandbox's control socket with nothing around it: a start and the wait for
//! its end, by a client that blocks and checks next to nothing.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};

/// Runs `/bin/true` in a container.
pub fn run_true(state_dir: &Path, id: &str) -> Result<(), String> {
    let null = File::open("/dev/null").map_err(|err| err.to_string())?;
    let (reader, writer) = std::io::pipe().map_err(|err| err.to_string())?;
    let streams = [null.as_raw_fd(), writer.as_raw_fd(), writer.as_raw_fd()];
    let start = json!({
        "filename": "",
        "argv": ["/bin/true"],
        "envv": ["PATH=/usr/bin:/bin"],
        "wd": "/",
        "KUID": 0,
        "KGID": 0,
        "GuestFDs": [0, 1, 2],
        "ContainerID": id,
    });
    let pid = ask(state_dir, id, "ExecuteAsync", &start, &streams)?;
    drop(writer);
    let status = ask(
        state_dir,
        id,
        "WaitPID",
        &json!({ "PID": pid, "CID": id }),
        &[],
    )?;
    let _ = (&reader).read(&mut [0]);
    if status == json!(0) {
        Ok(())
    } else {
        Err(format!("the wait status is {status}"))
    }
}

fn ask(
    state_dir: &Path,
    id: &str,
    method: &str,
    arg: &Value,
    descriptors: &[i32],
) -> Result<Value, String> {
    let method = format!("containerManager.{method}");
    let request = json!({ "method": method, "arg": arg }).to_string();
    let reply = exchange(
        &state_dir.join(format!("runsc-{id}.sock")),
        request.as_bytes(),
        descriptors,
    );
    let reply = reply.map_err(|err| format!("{method}: {err}"))?;
    if reply["success"] == json!(true) {
        Ok(reply["result"].clone())
    } else {
        Err(format!("{method}: {}", reply["err"]))
    }
}

fn exchange(socket: &Path, request: &[u8], descriptors: &[i32]) -> std::io::Result<Value> {
    let mut socket = UnixStream::connect(socket)?;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let beside = if descriptors.is_empty() {
        &[][..]
    } else {
        &rights[..]
    };
    let iov = [IoSlice::new(request)];
    let sent = sendmsg::<()>(
        socket.as_raw_fd(),
        &iov,
        beside,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )?;
    socket.write_all(&request[sent..])?;
    let mut values = serde_json::Deserializer::from_reader(socket).into_iter();
    values
        .next()
        .unwrap_or_else(|| Ok(Value::Null))
        .map_err(Into::into)
}
