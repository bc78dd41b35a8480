//! The kernel's word that memory is short (pressure stall information).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Where the kernel tells it.
const PSI: &str = "/proc/pressure/memory";
/// 200 ms of some task waiting for memory within 2 s: the only window that a user may ask for is
/// a multiple of 2 s.
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// A trigger: the descriptor has an exceptional condition whenever memory was short for so long.
#[derive(Debug)]
pub(super) struct Pressure(File);

impl Pressure {
    /// None where the kernel does not tell.
    pub(super) fn watch() -> Option<Self> {
        Self::watch_at(Path::new(PSI))
    }

    fn watch_at(path: &Path) -> Option<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        file.write_all(TRIGGER).ok()?;
        Some(Self(file))
    }
}

impl AsFd for Pressure {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_tells_takes_the_trigger_and_another_is_no_fault() {
        assert_eq!(Pressure::watch().is_some(), Path::new(PSI).exists());
        assert!(Pressure::watch_at(Path::new("/nonexistent/memory")).is_none());
    }
}
