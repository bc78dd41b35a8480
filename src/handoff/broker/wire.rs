//! What passes between the shim in the sandbox and the broker.
//!
//! To the broker: a line `{"v":1,"child":…,"kind":…}`, then the script's bytes for the child as
//! they are; their end is the script's wish to cancel. From the broker: frames, each a byte for
//! what it is, its length as four bytes, the highest first, and what is in it.

use serde_json::{Value, json};

use crate::cfc::json as strict;
use crate::handoff::digest::whole;

/// The longest greeting.
pub const MAX_HELLO: usize = 4096;

/// Who is to be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The child's id.
    pub child: String,
    /// Its kind.
    pub kind: String,
}

impl Hello {
    /// Reads a greeting; none where it is not one.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let value = strict::read(line).ok()?;
        if value.get("v").and_then(whole) != Some(1) {
            return None;
        }
        let text = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            child: text("child")?,
            kind: text("kind")?,
        })
    }
}

/// A frame for the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// What the child printed.
    Output(&'a [u8]),
    /// The child ended; the shim exits with this value.
    Exit(u8),
}

impl Frame<'_> {
    /// The frame's bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let (kind, content): (u8, &[u8]) = match &self {
            Self::Output(bytes) => (b'o', bytes),
            Self::Exit(code) => (b'x', std::slice::from_ref(code)),
        };
        // No more than one read of a pipe is ever put into a frame.
        let length = u32::try_from(content.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        [&[kind], &length[..], content].concat()
    }
}

/// The line by which a child, or the shim in its place, tells a failure.
#[must_use]
pub fn failure_line(reason: &str) -> Vec<u8> {
    format!("{}\n", json!({ "event": "command_error", "error": reason })).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_names_child_and_kind() {
        let hello = |text: &str| Hello::parse(text.as_bytes());
        assert_eq!(
            hello(r#"{"v":1,"child":"c-1","kind":"k","more":[]}"#),
            Some(Hello {
                child: "c-1".into(),
                kind: "k".into()
            })
        );
        for wrong in [
            "",
            "{}",
            r#"{"v":2,"child":"c","kind":"k"}"#,
            r#"{"v":1,"child":1,"kind":"k"}"#,
            r#"{"v":1,"child":"c"}"#,
            r#"{"v":1,"child":"c","child":"d","kind":"k"}"#,
        ] {
            assert_eq!(hello(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn frames_tell_their_length() {
        assert_eq!(Frame::Output(b"hi\n").bytes(), b"o\0\0\0\x03hi\n");
        assert_eq!(Frame::Exit(7).bytes(), b"x\0\0\0\x01\x07");
        assert_eq!(
            failure_line("a \"b\""),
            b"{\"event\":\"command_error\",\"error\":\"a \\\"b\\\"\"}\n"
        );
    }
}
