//! What is mounted below a path.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A mount point of this thread's at a directory or below it, where there is one. What is there
/// is another's, however it looks.
pub(super) fn below(dir: &Path) -> io::Result<Option<PathBuf>> {
    let table = std::fs::read("/proc/thread-self/mountinfo")?;
    Ok(points(&table).find(|point| point.starts_with(dir)))
}

/// The fifth field of each line.
fn points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let fields = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields.map(|field| PathBuf::from(OsStr::from_bytes(&unescaped(field))))
}

/// The kernel writes a blank, a tab, a newline and a backslash as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = &after[if escaped.is_some() { 3 } else { 0 }..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        let table = b"22 1 0:5 / / rw - ext4 /dev/vda rw\n\
                      23 22 0:6 / /a\\040b\\134c rw shared:1 - tmpfs none rw\n";
        let found: Vec<_> = points(table).collect();
        assert_eq!(found, [PathBuf::from("/"), PathBuf::from("/a b\\c")]);
    }

    #[test]
    fn this_process_has_something_mounted() {
        assert_eq!(below(Path::new("/proc")).unwrap(), Some("/proc".into()));
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(below(dir.path()).unwrap(), None);
    }
}
