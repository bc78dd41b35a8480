//! Paths in a bundle: what every reader takes for the same file below the bundle.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// The longest path, in bytes.
pub const MAX_PATH: usize = 1024;
/// The most names in a path.
pub const MAX_DEPTH: usize = 32;

/// A relative path without anything odd in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PayloadPath(String);

/// Why a path is none of a bundle's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OddPath {
    /// Nothing at all.
    #[error("the path is empty")]
    Empty,
    /// Longer or deeper than a path may be.
    #[error("the path is longer than {MAX_PATH} bytes or has more than {MAX_DEPTH} names")]
    TooLong,
    /// Not UTF-8.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// Absolute, or with a name that stands for another place.
    #[error("the path does not stay below its directory")]
    Leaves,
    /// A character that some reader takes for something else.
    #[error("the path has a character that readers take differently")]
    Character,
}

impl PayloadPath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`OddPath`].
    pub fn new(path: &Path) -> Result<Self, OddPath> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.is_empty() {
            return Err(OddPath::Empty);
        }
        if bytes.len() > MAX_PATH || bytes.iter().filter(|b| **b == b'/').count() >= MAX_DEPTH {
            return Err(OddPath::TooLong);
        }
        let text = path.to_str().ok_or(OddPath::NotUtf8)?;
        if text.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(OddPath::Leaves);
        }
        let odd = |c: char| {
            c == '\\'
                || c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        };
        // Readers trim a path's ends, and take what comes before a colon for a scheme.
        if text.chars().any(odd) || text.trim() != text || has_scheme(text) {
            return Err(OddPath::Character);
        }
        Ok(Self(text.to_owned()))
    }

    /// The path below a directory of the bundle. Both were checked.
    #[must_use]
    pub fn below(&self, dir: &str) -> Self {
        Self(format!("{dir}/{}", self.0))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// Whether a reader of URLs would take the beginning for a scheme.
pub(crate) fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    let mut bytes = scheme.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
}

impl fmt::Display for PayloadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn odd_paths_are_told_apart() {
        let long = "a".repeat(MAX_PATH + 1);
        let deep = vec!["d"; MAX_DEPTH + 1].join("/");
        let just = vec!["d"; MAX_DEPTH].join("/");
        let rows: &[(&[u8], Option<OddPath>)] = &[
            (b"report.json", None),
            ("a b/ü.txt".as_bytes(), None),
            (b"...", None),
            (b"1:2", None),
            (just.as_bytes(), None),
            (b"", Some(OddPath::Empty)),
            (long.as_bytes(), Some(OddPath::TooLong)),
            (deep.as_bytes(), Some(OddPath::TooLong)),
            (b"a\xff", Some(OddPath::NotUtf8)),
            (b"/a", Some(OddPath::Leaves)),
            (b"a//b", Some(OddPath::Leaves)),
            (b"a/", Some(OddPath::Leaves)),
            (b"./a", Some(OddPath::Leaves)),
            (b"a/../b", Some(OddPath::Leaves)),
            (b"a\\b", Some(OddPath::Character)),
            (b"a\nb", Some(OddPath::Character)),
            (b" a", Some(OddPath::Character)),
            (b"a ", Some(OddPath::Character)),
            (b"c:a", Some(OddPath::Character)),
            ("a\u{202e}b".as_bytes(), Some(OddPath::Character)),
        ];
        for (bytes, expected) in rows {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(PayloadPath::new(path).err(), *expected, "{path:?}");
        }
    }
}
