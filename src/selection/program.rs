//! Whether `PATH` holds a program.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::look::{Kind, Look};
use crate::host::Host;

/// The first entry of `PATH` that holds an executable file of this name, joined with it. An empty
/// entry is the working directory, and a relative one is below it.
pub(crate) fn on_path(name: &str, host: &Host, look: &dyn Look) -> Option<PathBuf> {
    host.path
        .as_ref()?
        .as_bytes()
        .split(|byte| *byte == b':')
        .filter_map(|entry| {
            let entry = Path::new(std::ffi::OsStr::from_bytes(entry));
            match entry.is_absolute() {
                true => Some(entry.join(name)),
                false => Some(host.cwd.as_ref()?.join(entry).join(name)),
            }
        })
        .find(|candidate| {
            look.stat(candidate) == Ok(Kind::File { executable: true })
                && look.executable(candidate).is_ok()
        })
}
