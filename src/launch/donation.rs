//! What goes to a child and comes back on descriptors: never a path that the sandbox could open.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;

use crate::cfc::json::MAX_BYTES;

/// A file that the child can read and nobody can change.
pub(crate) fn sealed(name: &std::ffi::CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = anonymous(name)?;
    file.write_all(bytes)?;
    file.rewind()?;
    seal(&file)?;
    Ok(file.into())
}

/// A file that a child writes and we read.
#[derive(Debug)]
pub(crate) struct ResultFile(File);

impl ResultFile {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(anonymous(c"cfc-result")?))
    }

    /// A file that is there, which the child opens by its name.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        Ok(Self(options.open(path)?))
    }

    /// The child's end.
    pub(crate) fn donate(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// What was written, and one byte more than a result may have, so that a longer one shows.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MAX_BYTES + 1];
        let mut length = 0;
        while length < bytes.len() {
            match self.0.read_at(&mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

#[cfg(target_os = "linux")]
fn anonymous(name: &std::ffi::CStr) -> io::Result<File> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?.into())
}

#[cfg(target_os = "linux")]
fn seal(file: &File) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

/// Where there are no memory files: one that is private and has no name any more.
#[cfg(not(target_os = "linux"))]
fn anonymous(_name: &std::ffi::CStr) -> io::Result<File> {
    let mut path = crate::host::Host::read()
        .temp_dir
        .into_os_string()
        .into_encoded_bytes();
    path.extend_from_slice(b"/runsc-driver-XXXXXX");
    let template: std::path::PathBuf = {
        use std::os::unix::ffi::OsStringExt;
        std::ffi::OsString::from_vec(path).into()
    };
    let (fd, made) = nix::unistd::mkstemp(&template)?;
    std::fs::remove_file(made)?;
    Ok(fd.into())
}

#[cfg(not(target_os = "linux"))]
fn seal(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_sealed_file_is_read_from_its_start_and_cannot_be_changed() {
        let mut file = File::from(sealed(c"test", b"context").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "context");
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        assert!(file.write_at(b"x", 100).is_err());
    }

    #[test]
    fn a_result_is_read_up_to_one_byte_too_many() {
        let result = ResultFile::new().unwrap();
        assert_eq!(result.read().unwrap(), b"");
        let mut child = File::from(result.donate().unwrap());
        child.write_all(b"{}").unwrap();
        assert_eq!(result.read().unwrap(), b"{}");
        child.write_all(&vec![b' '; 3 * MAX_BYTES]).unwrap();
        assert_eq!(result.read().unwrap().len(), MAX_BYTES + 1);
    }
}
