//! The lines of a shell: typed at a terminal, or read from whatever standard input is.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal};
use std::os::unix::ffi::OsStringExt;

use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A command text.
    Text(OsString),
    /// Ctrl-C at the prompt: what was typed is dropped.
    Dropped,
    /// There is no more.
    End,
}

/// Where lines come from.
pub(super) enum Lines {
    /// A terminal, with editing and a history that is kept in memory alone.
    Terminal(Box<DefaultEditor>),
    /// Anything else.
    Plain,
}

impl Lines {
    pub(super) fn open() -> io::Result<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::Plain);
        }
        let editor = DefaultEditor::new().map_err(io::Error::other)?;
        Ok(Self::Terminal(Box::new(editor)))
    }

    pub(super) fn at_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Reads a command text: a line, and those after it that a backslash at its end asks for.
    /// Blocks.
    pub(super) fn next(&mut self, prompt: &str) -> io::Result<Line> {
        match self {
            Self::Terminal(editor) => typed(editor, prompt),
            Self::Plain => plain(&mut io::stdin().lock()),
        }
    }
}

fn typed(editor: &mut DefaultEditor, prompt: &str) -> io::Result<Line> {
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { prompt } else { "> " };
        match editor.readline(prompt) {
            Ok(line) => text.push_str(&line),
            Err(ReadlineError::Interrupted) => return Ok(Line::Dropped),
            Err(ReadlineError::Eof) => return Ok(Line::End),
            Err(ReadlineError::Io(err)) => return Err(err),
            Err(err) => return Err(io::Error::other(err)),
        }
        if !goes_on(text.as_bytes()) {
            let _ = editor.add_history_entry(text.as_str());
            return Ok(Line::Text(text.into()));
        }
        text.push('\n');
    }
}

fn plain(from: &mut impl BufRead) -> io::Result<Line> {
    let mut text = Vec::new();
    loop {
        let count = from.read_until(b'\n', &mut text)?;
        if count == 0 && text.is_empty() {
            return Ok(Line::End);
        }
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        if count == 0 || !goes_on(line) {
            return Ok(Line::Text(OsString::from_vec(line.to_vec())));
        }
    }
}

/// Whether a line ends in a backslash that is not itself escaped.
fn goes_on(line: &[u8]) -> bool {
    let escapes = line.iter().rev().take_while(|byte| **byte == b'\\');
    escapes.count() % 2 == 1
}

/// The terminal as it was found, for a way out in the middle of a line.
pub(super) struct Terminal(Option<Termios>);

impl Terminal {
    pub(super) fn found() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    pub(super) fn restore(&self) {
        if let Some(found) = &self.0 {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_taken_one_by_one_to_the_last_byte() {
        let given = b"one\n\ntwo \\\n three\\\\\n\xff\nlast \\";
        let mut from = &given[..];
        let mut lines = Vec::new();
        while let Line::Text(line) = plain(&mut from).unwrap() {
            lines.push(line.into_vec());
        }
        let expected: [&[u8]; 5] = [b"one", b"", b"two \\\n three\\\\", b"\xff", b"last \\"];
        assert_eq!(lines, expected);
        assert_eq!(plain(&mut from).unwrap(), Line::End);
    }
}
