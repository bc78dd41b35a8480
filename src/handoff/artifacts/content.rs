//! Copying a file while it is counted and hashed, in bounded memory.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use crate::handoff::digest::Sha256Hex;

const CHUNK: usize = 64 * 1024;

/// What was copied.
#[derive(Debug)]
pub(crate) struct Copied {
    pub bytes: u64,
    pub sha256: Sha256Hex,
    /// Whether all of it is UTF-8 without NUL.
    pub text: bool,
}

/// Copies at most so many bytes; [`io::ErrorKind::FileTooLarge`] where there are more.
pub(crate) fn copy(from: &mut dyn Read, to: &mut dyn Write, limit: u64) -> io::Result<Copied> {
    let mut hash = Sha256::new();
    let mut bytes = 0_u64;
    let mut text = Text::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => return Err(err),
        };
        bytes += count as u64;
        if bytes > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hash.update(&chunk[..count]);
        text.hear(&chunk[..count]);
        to.write_all(&chunk[..count])?;
    }
    Ok(Copied {
        bytes,
        sha256: Sha256Hex::finish(hash),
        text: text.is_text(),
    })
}

/// Hashes at most so many bytes, and tells how many there were.
pub(crate) fn hash_up_to(from: &mut dyn Read, limit: u64) -> io::Result<(u64, Sha256Hex)> {
    let copied = copy(from, &mut io::sink(), limit)?;
    Ok((copied.bytes, copied.sha256))
}

/// Reads at most so many bytes.
pub(crate) fn read_up_to(from: &mut dyn Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    copy(from, &mut bytes, limit)?;
    Ok(bytes)
}

/// Tells text from other bytes as they come.
#[derive(Debug, Default)]
struct Text {
    wrong: bool,
    /// The beginning of a character that was cut.
    cut: Vec<u8>,
}

impl Text {
    fn hear(&mut self, bytes: &[u8]) {
        if self.wrong {
            return;
        }
        let joined;
        let bytes = if self.cut.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
            &joined
        };
        self.wrong = bytes.contains(&0);
        if let Err(err) = std::str::from_utf8(bytes) {
            match err.error_len() {
                Some(_) => self.wrong = true,
                None => self.cut = bytes[err.valid_up_to()..].to_vec(),
            }
        }
    }

    fn is_text(&self) -> bool {
        !self.wrong && self.cut.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(1);
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn what_is_copied_is_counted_hashed_and_told_to_be_text() {
        for (bytes, text) in [
            (&b""[..], true),
            ("hü\u{1f600}\n".as_bytes(), true),
            (b"a\0b", false),
            (b"a\xff", false),
            (b"a\xc3", false),
        ] {
            let mut copied_to = Vec::new();
            let copied = copy(&mut Slow(bytes), &mut copied_to, 100).unwrap();
            assert_eq!(copied_to, bytes);
            assert_eq!((copied.bytes, copied.text), (bytes.len() as u64, text));
            assert_eq!(copied.sha256, Sha256Hex::of(bytes));
        }
        let err = copy(&mut &b"1234"[..], &mut io::sink(), 3).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::FileTooLarge);
    }
}
