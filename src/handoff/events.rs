//! The sidecar of launches: two lines a child, so that whoever watches can follow it from its
//! start. Best effort: a line that cannot be written fails nothing.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::files::{self, FileError};
use super::text::flat;
use crate::cfc::json as strict;

/// The most bytes that a watcher takes at once.
const READ_AT_ONCE: u64 = 128 * 1024;
/// The longest label that is written.
const LABEL: usize = 72;

/// How a child ended, for the sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<'a> {
    /// The child's id.
    pub child: &'a str,
    /// The word for it: `captured`, `failed`, `cancelled`, …
    pub status: &'a str,
    /// The highest step that it told.
    pub steps: u64,
    /// Its tokens, of prompts and answers together.
    pub tokens: u64,
    /// Why the counters fall short, where they do.
    pub unaccounted: Option<&'a str>,
}

/// A file that lines of JSON are appended to, or none. Best effort.
#[derive(Debug, Default)]
pub struct LineLog(Option<Mutex<File>>);

impl LineLog {
    /// No file.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Appends to a file, made where it is missing.
    ///
    /// # Errors
    /// [`FileError`] where it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Some(Mutex::new(files::open_append(path)?))))
    }

    /// One line, by one write, so that lines of two writers never mix.
    pub fn line(&self, line: &Value) {
        if let Some(file) = &self.0 {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(err) = file.write_all(format!("{line}\n").as_bytes()) {
                tracing::warn!(%err, "a line of a log was lost");
            }
        }
    }
}

/// The sidecar, or none.
#[derive(Debug, Default)]
pub struct Sidecar(LineLog);

impl Sidecar {
    /// No sidecar.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Appends to a file, made where it is missing.
    ///
    /// # Errors
    /// [`FileError`] where it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(LineLog::open(path)?))
    }

    /// A child is about to start.
    pub fn started(&self, child: &str, kind: &str, label: &str) {
        self.0.line(&json!({
            "event": "agent_started",
            "child": child,
            "kind": kind,
            "label": flat(label, LABEL),
        }));
    }

    /// A child ended.
    pub fn finished(&self, end: &Finished<'_>) {
        let mut line = json!({
            "event": "agent_finished",
            "child": end.child,
            "status": end.status,
            "steps": end.steps,
            "tokens": end.tokens,
        });
        if let (Some(why), Value::Object(members)) = (end.unaccounted, &mut line) {
            members.insert("unaccounted".into(), why.into());
        }
        self.0.line(&line);
    }
}

/// Follows a file of JSON lines that grows: a bounded read at a time, whole lines alone.
#[derive(Debug, Default)]
pub struct Tail {
    offset: u64,
    partial: Vec<u8>,
}

impl Tail {
    /// The values of the lines that came since the last look, at most 128 KiB of
    /// them. A file that shrank is another one. Lines that are no JSON are left out.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn look(&mut self, path: &Path) -> Result<Vec<Value>, FileError> {
        let failed = |what| FileError::of(what, path);
        let mut file = File::open(path).map_err(failed("open"))?;
        let length = file.metadata().map_err(failed("examine"))?.len();
        if length < self.offset {
            *self = Self::default();
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.offset))
            .map_err(failed("read"))?;
        let read = file
            .take(READ_AT_ONCE)
            .read_to_end(&mut bytes)
            .map_err(failed("read"))?;
        self.offset += read as u64;
        self.partial.extend_from_slice(&bytes);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            // No honest line is that long.
            if self.partial.len() > strict::MAX_BYTES {
                self.partial.clear();
            }
            return Ok(Vec::new());
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let lines = whole.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| strict::read(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lines_are_the_contracts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let sidecar = Sidecar::open(&path).unwrap();
        sidecar.started("run7-sr-5", "explore", "scout:x");
        sidecar.finished(&Finished {
            child: "run7-sr-5",
            status: "captured",
            steps: 12,
            tokens: 3400,
            unaccounted: None,
        });
        sidecar.finished(&Finished {
            child: "run7-sr-6",
            status: "cancelled",
            steps: 0,
            tokens: 0,
            unaccounted: Some("it was cancelled"),
        });
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            concat!(
                r#"{"event":"agent_started","child":"run7-sr-5","kind":"explore","label":"scout:x"}"#,
                "\n",
                r#"{"event":"agent_finished","child":"run7-sr-5","status":"captured","steps":12,"tokens":3400}"#,
                "\n",
                r#"{"event":"agent_finished","child":"run7-sr-6","status":"cancelled","steps":0,"tokens":0,"unaccounted":"it was cancelled"}"#,
                "\n",
            )
        );
        Sidecar::none().started("c", "k", "l");
    }

    #[test]
    fn a_label_is_one_short_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        Sidecar::open(&path).unwrap().started(
            "c",
            "k",
            &format!("a\n\u{1b}[2J{}", "x".repeat(100)),
        );
        let line: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(line["label"], format!("a [2J{}", "x".repeat(67)));
    }

    #[test]
    fn a_watcher_sees_whole_lines_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut tail = Tail::default();
        file.write_all(b"{\"a\":1}\nnoise\n{\"b\"").unwrap();
        assert_eq!(tail.look(&path).unwrap(), [json!({"a": 1})]);
        assert_eq!(tail.look(&path).unwrap(), [] as [Value; 0]);
        file.write_all(b":2}\n").unwrap();
        assert_eq!(tail.look(&path).unwrap(), [json!({"b": 2})]);
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"{\"c\":3}\n").unwrap();
        assert_eq!(tail.look(&path).unwrap(), [json!({"c": 3})]);
    }
}
