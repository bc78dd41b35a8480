//! The broker's end of one connection: bounded reads, and writes that never hold a deadline up.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::admission::Refusal;
use super::wire::{Frame, failure_line};
use crate::launch::deadline::Deadline;

/// How much of a refused script's bytes is read away, so that it can finish writing them.
const DRAIN: u64 = 8 * 1024 * 1024;

/// A connection of the shim's.
#[derive(Debug)]
pub(super) struct Client {
    from: BufReader<OwnedReadHalf>,
    to: OwnedWriteHalf,
    /// Nobody is there any more, or a frame was left half-written.
    gone: bool,
}

/// How the script let go of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letting {
    /// It wishes the child to end and still listens.
    Cancel,
    /// It is gone.
    Gone,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (from, to) = stream.into_split();
        Self {
            from: BufReader::new(from),
            to,
            gone: false,
        }
    }

    /// Reads a line of at most so many bytes, its end left out.
    pub(super) async fn line(
        &mut self,
        limit: usize,
        within: Deadline,
    ) -> Result<Vec<u8>, Refusal> {
        tokio::select! {
            biased;
            line = self.line_unbounded(limit) => line,
            () = within.passed() => Err(Refusal::Silent),
        }
    }

    async fn line_unbounded(&mut self, limit: usize) -> Result<Vec<u8>, Refusal> {
        let mut line = Vec::new();
        loop {
            let here = self.from.fill_buf().await.map_err(|_| Refusal::BadHello)?;
            if here.is_empty() {
                return Err(Refusal::BadHello);
            }
            let end = here.iter().position(|byte| *byte == b'\n');
            let piece = &here[..end.unwrap_or(here.len())];
            if line.len() + piece.len() > limit {
                return Err(Refusal::TooLarge);
            }
            line.extend_from_slice(piece);
            let taken = end.map_or(here.len(), |end| end + 1);
            self.from.consume(taken);
            if end.is_some() {
                return Ok(line);
            }
        }
    }

    /// Waits until the script lets go of the child. What it writes after the request is let pass.
    pub(super) async fn let_go(&mut self) -> Letting {
        loop {
            match self.from.fill_buf().await {
                Ok([]) => break,
                Ok(here) => {
                    let count = here.len();
                    self.from.consume(count);
                }
                Err(_) => return Letting::Gone,
            }
        }
        // A half that was closed is a wish; a connection that was closed is a script that went.
        match self.to.ready(Interest::WRITABLE).await {
            Ok(ready) if !ready.is_write_closed() => Letting::Cancel,
            _ => Letting::Gone,
        }
    }

    /// Sends a frame; whether there is still somebody to send to.
    pub(super) async fn send(&mut self, frame: Frame<'_>, stop: impl Future<Output = ()>) -> bool {
        if self.gone {
            return false;
        }
        let bytes = frame.bytes();
        let sent: io::Result<()> = tokio::select! {
            biased;
            sent = self.to.write_all(&bytes) => sent,
            () = stop => Err(io::ErrorKind::TimedOut.into()),
        };
        self.gone = sent.is_err();
        !self.gone
    }

    /// Tells that a launch was refused, as a child tells a failure.
    pub(super) async fn refuse(mut self, refusal: Refusal, patience: Duration) {
        let within = Deadline::after(Some(patience));
        let line = failure_line(&refusal.to_string());
        if !self.send(Frame::Output(&line), within.passed()).await
            || !self.send(Frame::Exit(0), within.passed()).await
        {
            return;
        }
        let _ = self.to.shutdown().await;
        let mut rest = self.from.take(DRAIN);
        let mut nowhere = tokio::io::sink();
        let drained = tokio::io::copy(&mut rest, &mut nowhere);
        tokio::select! {
            _ = drained => {}
            () = within.passed() => {}
        }
    }
}
