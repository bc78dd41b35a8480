//! Where a shell's command ended: told on its standard output, and taken out of it again.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::driver::{Captured, Description};
use crate::trust::mounts::normalized;

/// The longest that is told of a directory: no path is longer on Linux.
const LONGEST: usize = 4096;

/// A mark that no command knew before it was written down, around the directory.
#[derive(Debug)]
pub(crate) struct Mark {
    before: Vec<u8>,
    after: Vec<u8>,
    word: String,
}

impl Mark {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        Ok(Self::of(
            random.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    fn of(word: String) -> Self {
        Self {
            before: format!("\u{1e}{word}:").into_bytes(),
            after: format!(":{word}\u{1e}").into_bytes(),
            word,
        }
    }

    /// The argv of a shell that runs a command text and tells where it ended.
    ///
    /// It tells nothing where its standard output leads elsewhere by then: into a file of the
    /// command's own, say. The text begins on the first line, so that a shell counts lines right.
    pub(crate) fn argv(&self, command: &OsStr) -> [OsString; 4] {
        let word = &self.word;
        let mut text = OsString::from(format!(
            "trap '{{ set +x; }} 2>/dev/null; [ -p /proc/self/fd/1 ] && {{ \
             printf \"\\036{word}:\"; pwd -P; printf \":{word}\\036\"; }} 2>/dev/null' EXIT; "
        ));
        text.push(command);
        ["/bin/sh".into(), "-lc".into(), text, "/bin/sh".into()]
    }

    /// Takes what was told out of a stream.
    pub(crate) fn take(&self, stream: &mut Captured) -> Option<PathBuf> {
        let (at, length, path) = [&stream.tail, &stream.head]
            .into_iter()
            .find_map(|part| self.find(part))?;
        let part = match self.find(&stream.tail) {
            Some(_) => &mut stream.tail,
            None => &mut stream.head,
        };
        part.drain(at..at + length);
        stream.bytes -= length as u64;
        path
    }

    /// Where it is, how long it is, and what it tells.
    fn find(&self, bytes: &[u8]) -> Option<(usize, usize, Option<PathBuf>)> {
        let at = position(bytes, &self.before)?;
        let told = &bytes[at + self.before.len()..];
        let end = position(told, &self.after)?;
        let path = told[..end].strip_suffix(b"\n").filter(|path| {
            // Where a shell could not tell, there is nothing.
            path.starts_with(b"/")
        });
        let length = self.before.len() + end + self.after.len();
        let path = path.map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
        Some((at, length, path))
    }

    /// A reader of a stream that is written on as it comes.
    pub(crate) fn filter(&self) -> Filter<'_> {
        Filter {
            mark: self,
            held: Vec::new(),
            path: None,
        }
    }
}

/// Takes what was told out of a stream that comes in pieces.
pub(crate) struct Filter<'a> {
    mark: &'a Mark,
    /// What may be the beginning of the mark.
    held: Vec<u8>,
    path: Option<PathBuf>,
}

impl Filter<'_> {
    /// Takes the next piece; gives what may be written on.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        if let Some((at, length, path)) = self.mark.find(&self.held) {
            self.held.drain(at..at + length);
            self.path = path.or(self.path.take());
            return std::mem::take(&mut self.held);
        }
        let begins = match position(&self.held, &self.mark.before) {
            Some(at) if self.held.len() - at <= LONGEST + 3 * self.mark.before.len() => at,
            // It is no directory's name that goes on for so long.
            Some(_) => self.held.len(),
            None => self.held.len() - overlap(&self.held, &self.mark.before),
        };
        self.held.drain(..begins).collect()
    }

    /// What is left at the stream's end, and what was told.
    pub(crate) fn finish(self) -> (Vec<u8>, Option<PathBuf>) {
        (self.held, self.path)
    }
}

fn position(bytes: &[u8], of: &[u8]) -> Option<usize> {
    bytes.windows(of.len()).position(|window| window == of)
}

/// How many of the last bytes are the first ones of another text.
fn overlap(bytes: &[u8], of: &[u8]) -> usize {
    (1..of.len())
        .rev()
        .find(|length| bytes.ends_with(&of[..*length]))
        .unwrap_or(0)
}

/// A directory as a call names it: against the last one where it is relative, and only where it
/// lies in a mount.
pub(crate) fn resolve(description: &Description, last: &Path, path: &Path) -> Option<PathBuf> {
    let resolved = normalized(&last.join(path));
    let mut mounts = description.cfc.mounts.iter();
    mounts
        .any(|mount| resolved.starts_with(&mount.sandbox_path))
        .then_some(resolved)
}

#[cfg(test)]
mod tests;
