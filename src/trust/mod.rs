//! What the sandbox could write decides nothing about the sandbox.
//!
//! A path that was checked has a type of its own, and only the check makes it.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

pub mod mounts;
pub mod path;
pub mod scratch;
#[cfg(test)]
pub(crate) mod testing;

pub use mounts::MountError;
pub use path::{Fault, PathError, find_program, program_on_path, walk};
pub use scratch::{ScratchError, ScratchTree, verify_parent};

/// A path that a walk resolved: the one that the filesystem leads to, which is compared with the
/// mounts and used from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedPath(PathBuf);

impl TrustedPath {
    /// The canonical path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// A path that nothing checked, for tests of what is built from checked ones.
    #[cfg(test)]
    pub(crate) fn made_up(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// A path or a name for a person's eyes: what a terminal would act on, or what would break the
/// line or turn its direction, is escaped. Nothing at all is shown as `""`.
pub(crate) fn shown(path: &Path) -> impl fmt::Display + '_ {
    Shown(path)
}

struct Shown<'a>(&'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.as_os_str().is_empty() {
            return f.write_str("\"\"");
        }
        write!(Escaping(f), "{}", self.0.display())
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(self.0, "{}", c.escape_unicode())?;
                }
                _ if c.is_control() => write!(self.0, "{}", c.escape_default())?,
                _ => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_shown_path_cannot_steer_a_terminal() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "\"\""),
            (b"/a b/\xc3\xa9", "/a b/é"),
            (b"/a\nb\x1b[2J\x7f", "/a\\nb\\u{1b}[2J\\u{7f}"),
            (b"/a\xc2\x9bb", "/a\\u{9b}b"),
            ("/a\u{202e}b\u{2028}".as_bytes(), "/a\\u{202e}b\\u{2028}"),
            (b"/a\xffb", "/a\u{fffd}b"),
        ];
        for (bytes, expected) in cases {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(shown(path).to_string(), expected);
        }
    }
}
