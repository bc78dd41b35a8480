//! The directory that a step sees: the broker's socket and the shim.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::{Gid, Uid, chown};
use tokio::net::UnixListener;

use crate::handoff::files::{FileError, create_new};

/// The shim, which stands for a child: a script for the Python 3 of the image.
pub const SHIM: &str = include_str!("../../../bundles/handoff/launch.py");
/// The shim's name beside the socket.
pub const SHIM_NAME: &str = "launch";
/// The socket's name.
pub const SOCKET_NAME: &str = "broker.sock";

/// Makes the directory ready and listens. Its modes let the container's user through; what keeps
/// others out is the directory above it.
pub(super) fn listen(dir: &Path, owner: Option<(u32, u32)>) -> Result<UnixListener, FileError> {
    let shim = dir.join(SHIM_NAME);
    create_new(&shim, 0o700)
        .and_then(|mut file| {
            file.write_all(SHIM.as_bytes())?;
            file.set_permissions(PermissionsExt::from_mode(0o555))
        })
        .map_err(FileError::of("write", &shim))?;
    let socket = dir.join(SOCKET_NAME);
    let listener = bind(dir).map_err(FileError::of("listen on", &socket))?;
    let ready = || -> io::Result<()> {
        match owner {
            Some((uid, gid)) => {
                std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o600))?;
                chown(&socket, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
            None => std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o600))?,
        }
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755))
    };
    ready().map_err(FileError::of("set the rights of", &socket))?;
    Ok(listener)
}

/// Binds by the directory's descriptor: a socket's address has room for 107 bytes, and a path
/// may be longer.
fn bind(dir: &Path) -> io::Result<UnixListener> {
    let held = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(dir)?;
    let address: PathBuf = match cfg!(target_os = "linux") {
        true => format!("/proc/self/fd/{}/{SOCKET_NAME}", held.as_raw_fd()).into(),
        false => dir.join(SOCKET_NAME),
    };
    UnixListener::bind(address)
}
