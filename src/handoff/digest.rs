//! Digests, and the one text of a JSON value that they are taken over.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The largest whole number that every JSON reader takes for the same: 2^53 - 1.
pub const MAX_WHOLE: u64 = (1 << 53) - 1;

/// A SHA-256 digest as 64 lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// The digest of a domain line and the canonical text of a value (RFC 8785), which is the same
    /// for all spellings of the value.
    ///
    /// # Errors
    /// [`NotCanonical`] for a value with a number that two readers may take differently.
    pub fn of_value(domain: &str, value: &Value) -> Result<Self, NotCanonical> {
        let mut hash = Sha256::new();
        hash.update(domain.as_bytes());
        hash.update(b"\n");
        hash.update(canonical(value)?);
        Ok(Self::finish(hash))
    }

    pub(crate) fn finish(hash: Sha256) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// A digest as somebody wrote it; none where it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 64 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Sha256Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a SHA-256 digest has 64 lowercase hex digits")
    }
}

impl From<Sha256Hex> for String {
    fn from(digest: Sha256Hex) -> Self {
        digest.0
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a value has no canonical text: a number beyond what doubles count exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a number of it is beyond 2^53 - 1, which JSON readers take differently")]
pub struct NotCanonical;

/// The canonical text of a value (RFC 8785).
///
/// # Errors
/// [`NotCanonical`].
pub fn canonical(value: &Value) -> Result<Vec<u8>, NotCanonical> {
    check(value)?;
    serde_json_canonicalizer::to_vec(value).map_err(|_| NotCanonical)
}

/// Whole numbers that a double does not hold would become others.
fn check(value: &Value) -> Result<(), NotCanonical> {
    match value {
        Value::Number(number) => {
            let exact = match (number.as_u64(), number.as_i64()) {
                (Some(whole), _) => whole <= MAX_WHOLE,
                (None, Some(whole)) => whole.unsigned_abs() <= MAX_WHOLE,
                (None, None) => true,
            };
            if exact { Ok(()) } else { Err(NotCanonical) }
        }
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(members) => members.values().try_for_each(check),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// A whole number, however it is spelled (`5`, `5.0`), that every reader takes for the same.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    let whole = match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => whole,
        (None, Some(float)) if number.is_f64() && float.fract() == 0.0 && float >= 0.0 => {
            // Within the bound below, the conversion is exact.
            float as u64
        }
        _ => return None,
    };
    (whole <= MAX_WHOLE).then_some(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_spellings_have_one_digest() {
        let spelled = |text: &str| {
            Sha256Hex::of_value("domain/v1", &serde_json::from_str(text).unwrap()).unwrap()
        };
        let one = spelled(r#"{"b":[1,"\u00fc"],"a":1.0}"#);
        assert_eq!(one, spelled(r#"{ "a": 1, "b": [1e0, "ü"] }"#));
        assert_ne!(one, spelled(r#"{"a":1,"b":["ü",1]}"#));
        // As an independent program has it: printf 'domain/v1\n{"a":1,"b":[1,"ü"]}' | sha256sum
        assert_eq!(
            one,
            Sha256Hex::of("domain/v1\n{\"a\":1,\"b\":[1,\"ü\"]}".as_bytes())
        );
    }

    #[test]
    fn keys_are_sorted_by_utf16() {
        let text = canonical(&json!({"\u{fb33}": 1, "\u{1f600}": 2, "é": 3, "a": 4})).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"a\":4,\"é\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn a_number_that_readers_take_differently_has_no_text() {
        for number in [json!(MAX_WHOLE + 1), json!(u64::MAX), json!(i64::MIN)] {
            assert_eq!(canonical(&json!([{ "n": number }])), Err(NotCanonical));
        }
        assert!(canonical(&json!([MAX_WHOLE, -1, 0.5])).is_ok());
    }

    #[test]
    fn only_a_digest_is_one() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(Sha256Hex::parse(&digits).is_some());
        for wrong in [&digits[1..], &digits.to_uppercase(), "", &"g".repeat(64)] {
            assert_eq!(Sha256Hex::parse(wrong), None);
        }
        assert_eq!(
            Sha256Hex::of(b"abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn whole_numbers_are_told_from_others() {
        let whole = |text: &str| super::whole(&serde_json::from_str(text).unwrap());
        assert_eq!(whole("5"), Some(5));
        assert_eq!(whole("5.0"), Some(5));
        assert_eq!(whole("9007199254740991"), Some(MAX_WHOLE));
        for wrong in [
            "1.5",
            "-1",
            "9007199254740992",
            "1e300",
            "\"5\"",
            "null",
            "true",
        ] {
            assert_eq!(whole(wrong), None, "{wrong}");
        }
    }
}
