//! Output cut to what a model is given: its beginning and its end.

use crate::driver::Captured;

/// How many characters of an output's beginning are given.
const FIRST: usize = 60_000;
/// How many characters of its end.
const LAST: usize = 20_000;
/// How many bytes a driver has to keep, so that there are as many characters in each half as may be
/// given, whatever they are, and what is taken out of it before.
pub(super) const OUTPUT_CAP: usize = 2 * (4 * FIRST) + 32 * 1024;

/// A character of bytes that need not be text, and how many bytes stand for it.
type Read = (char, usize);

/// Reads bytes as text; what is no text is one replacement character for each broken sequence.
fn read(bytes: &[u8]) -> impl Iterator<Item = Read> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let broken = chunk.invalid().len();
        let replaced = (broken > 0).then_some((char::REPLACEMENT_CHARACTER, broken));
        chunk
            .valid()
            .chars()
            .map(|c| (c, c.len_utf8()))
            .chain(replaced)
    })
}

/// The text of a stream, as a model is given it.
pub(super) fn text(captured: &Captured) -> String {
    let kept = captured.head.len() + captured.tail.len();
    if !captured.truncated {
        let whole = [captured.head.as_slice(), &captured.tail].concat();
        let count = read(&whole).count();
        if count <= FIRST + LAST {
            return read(&whole).map(|(c, _)| c).collect();
        }
        let last = read(&whole).skip(count - LAST);
        return join(read(&whole).take(FIRST), last, whole.len() as u64);
    }
    // A character that the cut went through belongs to what is left out.
    let head = &captured.head[..captured.head.len() - open_end(&captured.head)];
    let tail = &captured.tail[loose_start(&captured.tail)..];
    let skip = read(tail).count().saturating_sub(LAST);
    let bytes = captured.bytes.max(kept as u64);
    join(read(head).take(FIRST), read(tail).skip(skip), bytes)
}

fn join(first: impl Iterator<Item = Read>, last: impl Iterator<Item = Read>, bytes: u64) -> String {
    let mut shown = 0;
    let mut take = |(c, bytes): Read| {
        shown += bytes as u64;
        c
    };
    let first: String = first.map(&mut take).collect();
    let last: String = last.map(&mut take).collect();
    let left_out = bytes.saturating_sub(shown);
    format!("{first}\n[… {left_out} bytes of output are left out here …]\n{last}")
}

/// How many bytes at the end are the beginning of a character that does not end there.
fn open_end(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        Some(chunk)
            if std::str::from_utf8(chunk.invalid()).is_err_and(|err| err.error_len().is_none()) =>
        {
            chunk.invalid().len()
        }
        _ => 0,
    }
}

/// How many bytes at the start can only belong to a character that begins before it.
fn loose_start(bytes: &[u8]) -> usize {
    let loose = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    bytes.iter().take(3).take_while(loose).count()
}

#[cfg(test)]
mod tests;
