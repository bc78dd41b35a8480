//! A command's output: read as it comes, kept up to a cap or written on, never in the way of the
//! call's end.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::deadline::Deadline;
use crate::driver::{Captured, Output, Stdin};

/// How long to wait for more once the command has ended and the pipe is quiet.
const DRAIN_QUIET: Duration = Duration::from_millis(100);
/// How long to go on reading once the command has ended, where something keeps writing.
const DRAIN_TOTAL: Duration = Duration::from_millis(400);
/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// What was kept of a stream so far: its first bytes, and a ring of its last ones.
#[derive(Debug)]
pub(crate) struct Collector {
    cap: usize,
    head: Vec<u8>,
    ring: Vec<u8>,
    /// Where the ring's oldest byte is, once it is full.
    oldest: usize,
    bytes: u64,
    open: bool,
    stream_error: Option<io::ErrorKind>,
}

impl Collector {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            cap,
            head: Vec::new(),
            ring: Vec::new(),
            oldest: 0,
            bytes: 0,
            open: true,
            stream_error: None,
        }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let head_room = self.cap.div_ceil(2) - self.head.len();
        let (first, rest) = chunk.split_at(head_room.min(chunk.len()));
        self.head.extend_from_slice(first);
        chunk = rest;

        let ring_cap = self.cap / 2;
        chunk = &chunk[chunk.len().saturating_sub(ring_cap)..];
        let (grow, mut over) = chunk.split_at((ring_cap - self.ring.len()).min(chunk.len()));
        self.ring.extend_from_slice(grow);
        while !over.is_empty() {
            let (now, later) = over.split_at(over.len().min(ring_cap - self.oldest));
            self.ring[self.oldest..self.oldest + now.len()].copy_from_slice(now);
            self.oldest = (self.oldest + now.len()) % ring_cap;
            over = later;
        }
    }

    pub(crate) fn finish(mut self, streamed: bool) -> Captured {
        self.ring.rotate_left(self.oldest);
        let kept = (self.head.len() + self.ring.len()) as u64;
        let truncated = !streamed && kept < self.bytes;
        if !truncated {
            self.head.append(&mut self.ring);
        }
        Captured {
            head: self.head,
            tail: self.ring,
            bytes: self.bytes,
            truncated,
            open: self.open,
            stream_error: self.stream_error,
        }
    }
}

/// An output stream of a command: our end of its pipe, where it goes, and what was kept of it.
/// Dropping a pump in the middle of a write loses nothing that was kept.
pub(crate) struct Channel {
    pipe: Option<pipe::Receiver>,
    to: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Whether the bytes wait for [`Channel::release`].
    held: bool,
    kept: Collector,
}

impl Channel {
    /// A stream of which at most `cap` bytes are kept; held back where a verdict is to come first.
    pub(crate) fn new(pipe: OwnedFd, output: Output, cap: usize, hold: bool) -> io::Result<Self> {
        let (to, cap) = match output {
            Output::Stream(writer) => (Some(writer), if hold { cap } else { 0 }),
            Output::Keep => (None, cap),
        };
        let pipe = Some(pipe::Receiver::from_owned_fd(pipe)?);
        Ok(Self {
            pipe,
            to,
            held: hold,
            kept: Collector::new(cap),
        })
    }

    /// Reads the stream to its end, or until a short while after `ended`. Time spent on a slow
    /// reader does not count: what the command wrote reaches it.
    pub(crate) async fn pump(&mut self, ended: &CancellationToken) {
        let Some(mut pipe) = self.pipe.take() else {
            return;
        };
        let kept = &mut self.kept;
        let mut to = self.to.as_mut().filter(|_| !self.held);
        let mut chunk = vec![0; CHUNK];
        let mut drain = None;
        loop {
            let read = tokio::select! {
                biased;
                read = pipe.read(&mut chunk) => read,
                () = drained(ended, &mut drain) => {
                    self.pipe = Some(pipe);
                    return;
                }
            };
            let count = match read {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            kept.push(&chunk[..count]);
            if let Some(writer) = &mut to
                && let Err(err) = writer.write_all(&chunk[..count]).await
            {
                // The pipe is dropped: the command's next write fails, as it would have directly.
                kept.stream_error = Some(err.kind());
                break;
            }
        }
        kept.open = false;
        if let Some(writer) = to
            && let Err(err) = writer.flush().await
        {
            kept.stream_error.get_or_insert(err.kind());
        }
    }

    /// Goes on reading a stream that was left open, for nobody: what still writes to it would
    /// otherwise be ended by its next write.
    pub(crate) fn keep_reading(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            tokio::spawn(async move { tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await });
        }
    }

    /// Writes on what was held back.
    pub(crate) async fn release(&mut self) {
        let Some(writer) = self.to.as_mut().filter(|_| self.held) else {
            return;
        };
        let kept = &self.kept;
        let written = async {
            writer.write_all(&kept.head).await?;
            // A ring that is full starts at its oldest byte.
            writer.write_all(&kept.ring[kept.oldest..]).await?;
            writer.write_all(&kept.ring[..kept.oldest]).await?;
            writer.flush().await
        };
        if let Err(err) = written.await {
            self.kept.stream_error = Some(err.kind());
        }
    }

    /// How many bytes came.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept.bytes
    }

    /// What was kept. Of a stream that was written on, that is nothing.
    pub(crate) fn finish(self) -> Captured {
        let streamed = self.to.is_some();
        let captured = self.kept.finish(streamed && !self.held);
        if !streamed {
            return captured;
        }
        Captured {
            head: Vec::new(),
            tail: Vec::new(),
            ..captured
        }
    }

    /// What was kept, also of a stream that was held back and never written on.
    pub(crate) fn finish_raw(self) -> Captured {
        self.kept.finish(self.to.is_some() && !self.held)
    }
}

/// Comes true when the command has ended and its pipe was quiet for a while, or has gone on for
/// too long.
async fn drained(ended: &CancellationToken, total: &mut Option<Deadline>) {
    ended.cancelled().await;
    let total = *total.get_or_insert_with(|| Deadline::after(Some(DRAIN_TOTAL)));
    tokio::select! {
        () = Deadline::after(Some(DRAIN_QUIET)).passed() => {}
        () = total.passed() => {}
    }
}

/// Writes a command's standard input and closes it. A command that reads no more is no error.
pub(crate) async fn feed(stdin: Stdin, to: Option<pipe::Sender>) {
    let Some(mut to) = to else { return };
    match stdin {
        Stdin::Null => {}
        Stdin::Bytes(bytes) => {
            let _ = to.write_all(&bytes).await;
        }
        Stdin::Reader(mut reader) => {
            let mut chunk = vec![0; CHUNK];
            while let Ok(count @ 1..) = reader.read(&mut chunk).await {
                if to.write_all(&chunk[..count]).await.is_err() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(cap: usize, chunks: &[&[u8]]) -> Captured {
        let mut collector = Collector::new(cap);
        for chunk in chunks {
            collector.push(chunk);
        }
        collector.open = false;
        collector.finish(false)
    }

    fn captured(head: &[u8], tail: &[u8], bytes: u64, truncated: bool) -> Captured {
        Captured {
            head: head.into(),
            tail: tail.into(),
            bytes,
            truncated,
            ..Captured::default()
        }
    }

    #[test]
    fn head_and_tail_are_kept_and_the_count_is_true() {
        let cases: [(usize, &[&[u8]], Captured); 9] = [
            (8, &[], captured(b"", b"", 0, false)),
            (8, &[b"abc"], captured(b"abc", b"", 3, false)),
            (8, &[b"abcdefgh"], captured(b"abcdefgh", b"", 8, false)),
            (8, &[b"abcdefghi"], captured(b"abcd", b"fghi", 9, true)),
            (
                8,
                &[b"abcde", b"fg", b"hijklmnop"],
                captured(b"abcd", b"mnop", 16, true),
            ),
            (
                8,
                &[b"abcdef", b"g", b"h", b"i", b"j"],
                captured(b"abcd", b"ghij", 10, true),
            ),
            (7, &[b"abcdefgh"], captured(b"abcd", b"fgh", 8, true)),
            (1, &[b"ab", b"c"], captured(b"a", b"", 3, true)),
            (0, &[b"ab"], captured(b"", b"", 2, true)),
        ];
        for (cap, chunks, expected) in cases {
            assert_eq!(collect(cap, chunks), expected, "cap {cap}, {chunks:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_chunks_the_ends_are_the_streams(
            cap in 0usize..64,
            chunks in proptest::collection::vec(proptest::collection::vec(0u8.., 0..40), 0..20),
        ) {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let whole = chunks.concat();
            let got = collect(cap, &chunks);
            let expected = if whole.len() <= cap {
                captured(&whole, b"", whole.len() as u64, false)
            } else {
                let (head, tail) = (cap.div_ceil(2), cap / 2);
                captured(&whole[..head], &whole[whole.len() - tail..], whole.len() as u64, true)
            };
            proptest::prop_assert_eq!(got, expected);
        }
    }
}
