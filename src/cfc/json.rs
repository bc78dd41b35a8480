//! JSON that two readers cannot read differently.
//!
//! A key that is there twice means the first value to one reader and the last to another, and
//! what follows a value is seen by one and not by the next. Neither is taken here, nor is a
//! document that is larger or deeper than any honest one.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The most bytes that a document may have: 1 MiB.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The most objects and arrays that may lie inside each other, the outermost counted.
pub const MAX_DEPTH: usize = 64;

/// Why bytes are not a document. None of it repeats what the bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// More than [`MAX_BYTES`].
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// No bytes, or white space alone.
    #[error("it is empty")]
    Empty,
    /// Not UTF-8.
    #[error("it is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Where the first wrong byte is, from 0.
        offset: usize,
    },
    /// The bytes end inside the value.
    #[error("it ends before its JSON does")]
    Truncated,
    /// Not JSON.
    #[error("it is not JSON at line {line}, column {column}")]
    Syntax {
        /// From 1.
        line: usize,
        /// In bytes, from 1; 0 for the line's end before it.
        column: usize,
    },
    /// Something other than white space follows the value.
    #[error("something follows its JSON at line {line}, column {column}")]
    Trailing {
        /// From 1.
        line: usize,
        /// In bytes, from 1; 0 for the line's end before it.
        column: usize,
    },
    /// More than [`MAX_DEPTH`] values inside each other.
    #[error("it is nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// An object, however deep, has a key twice.
    #[error("an object of it has a key twice")]
    DuplicateKey,
}

impl JsonError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Empty => "empty",
            Self::NotUtf8 { .. } => "not-utf8",
            Self::Truncated => "truncated",
            Self::Syntax { .. } => "not-json",
            Self::Trailing { .. } => "trailing-bytes",
            Self::TooDeep => "too-deep",
            Self::DuplicateKey => "duplicate-key",
        }
    }
}

/// Reads one value and nothing else.
///
/// # Errors
/// [`JsonError`] where the bytes are not one such value.
pub fn read(bytes: &[u8]) -> Result<Value, JsonError> {
    if bytes.len() > MAX_BYTES {
        return Err(JsonError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8 {
        offset: error.valid_up_to(),
    })?;
    if text.trim_ascii().is_empty() {
        return Err(JsonError::Empty);
    }
    check(text)?;
    // Read twice, so that serde_json alone builds the value: where another crate of the same
    // build turns its `arbitrary_precision` on, a visitor sees a number as an object.
    serde_json::from_str(text).map_err(|error| syntax(&error))
}

fn check(text: &str) -> Result<(), JsonError> {
    let fault = Cell::new(None);
    let mut reader = serde_json::Deserializer::from_str(text);
    let strict = Strict {
        depth: 0,
        fault: &fault,
    };
    strict
        .deserialize(&mut reader)
        .map_err(|error| fault.get().unwrap_or_else(|| syntax(&error)))?;
    reader.end().map_err(|error| JsonError::Trailing {
        line: error.line(),
        column: error.column(),
    })
}

fn syntax(error: &serde_json::Error) -> JsonError {
    if error.is_eof() {
        return JsonError::Truncated;
    }
    JsonError::Syntax {
        line: error.line(),
        column: error.column(),
    }
}

/// Walks a value, refusing what serde_json would take.
#[derive(Clone, Copy)]
struct Strict<'a> {
    /// How many objects and arrays are around the value.
    depth: usize,
    /// What was refused: an error of serde's can carry it as text alone.
    fault: &'a Cell<Option<JsonError>>,
}

impl Strict<'_> {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.refuse(JsonError::TooDeep));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn refuse<E: serde::de::Error>(self, fault: JsonError) -> E {
        self.fault.set(Some(fault));
        E::custom(fault)
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        let mut keys = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if !keys.insert(key) {
                return Err(self.refuse(JsonError::DuplicateKey));
            }
            members.next_value_seed(inside)?;
        }
        Ok(())
    }
}

/// A key as a reader that ignores letter case takes it, as Go's `encoding/json` does: by simple
/// folding, in which `ſ` is an `s` and the Kelvin sign a `k`.
pub(crate) fn folded(key: &str) -> String {
    key.to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn each_fault_has_its_error() {
        let large = format!("\"{}\"", "x".repeat(MAX_BYTES - 1));
        let deep = nested(MAX_DEPTH + 1);
        let very_deep = "[".repeat(100_000);
        let rows: &[(&[u8], JsonError)] = &[
            (large.as_bytes(), JsonError::TooLarge),
            (b"", JsonError::Empty),
            (b" \n\t", JsonError::Empty),
            (b"\"\xff\"", JsonError::NotUtf8 { offset: 1 }),
            (b"{\"a\":1", JsonError::Truncated),
            (b"\"abc", JsonError::Truncated),
            (b"nul", JsonError::Truncated),
            (b"{a:1}", JsonError::Syntax { line: 1, column: 2 }),
            (b"[1,]", JsonError::Syntax { line: 1, column: 4 }),
            (b"\"\\ud800\"", JsonError::Syntax { line: 1, column: 8 }),
            (b"1e999", JsonError::Syntax { line: 1, column: 5 }),
            (b"\xef\xbb\xbf{}", JsonError::Syntax { line: 1, column: 1 }),
            (b"{}{}", JsonError::Trailing { line: 1, column: 3 }),
            (b"{}\n x", JsonError::Trailing { line: 2, column: 2 }),
            (b"{}\0", JsonError::Trailing { line: 1, column: 3 }),
            (deep.as_bytes(), JsonError::TooDeep),
            (very_deep.as_bytes(), JsonError::TooDeep),
            (b"{\"a\":1,\"a\":1}", JsonError::DuplicateKey),
            (b"{\"a\":1,\"\\u0061\":2}", JsonError::DuplicateKey),
            (
                b"[{\"b\":{\"a\":1,\"c\":0,\"a\":1}}]",
                JsonError::DuplicateKey,
            ),
        ];
        for (bytes, error) in rows {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert_eq!(read(bytes), Err(*error), "{shown}");
        }
    }

    #[test]
    fn what_is_within_the_bounds_is_read() {
        let full = format!("\"{}\"", "x".repeat(MAX_BYTES - 2));
        assert_eq!(
            read(full.as_bytes()),
            Ok(Value::String("x".repeat(MAX_BYTES - 2)))
        );
        assert!(read(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(
            read(b" {\"a\":[null,true,-1,1.5,\"s\"],\"b\":{\"a\":1}}\n"),
            Ok(serde_json::json!({"a": [null, true, -1, 1.5, "s"], "b": {"a": 1}}))
        );
    }

    #[test]
    fn folding_is_that_of_a_reader_that_ignores_case() {
        for key in ["integrity", "INTEGRITY", "Integrity"] {
            assert_eq!(folded(key), "integrity");
        }
        assert_eq!(folded("cla\u{17f}\u{17f} \u{212a}"), "class k");
        assert_ne!(folded("integrity_"), "integrity");
    }
}
