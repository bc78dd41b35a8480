//! Patterns of container paths.
//!
//! A pattern is matched name by name: `*`, `?` and `[…]` stand for bytes of one name, and a name
//! that is `**` for any number of names, none included. Names are bytes, as the kernel has them. A
//! directory that matches labels what is below it too.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most names that a pattern may have: [`States`] has a bit for each, and one for the end.
const MAX_NAMES: usize = 63;

/// A pattern, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    names: Vec<NamePattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NamePattern {
    /// This name.
    Literal(Vec<u8>),
    /// A name that these match.
    Glob(Vec<Piece>),
    /// Any names.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    One,
    Many,
    Set {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

/// How far a path has come in a pattern: a bit for each name of it that may come next, and one
/// for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct States(u64);

impl States {
    /// Whether no path below can match.
    #[must_use]
    pub fn is_dead(self) -> bool {
        self.0 == 0
    }
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {text:?} {fault}")]
pub struct PatternError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl Pattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let wrong = |fault| PatternError {
            text: text.to_owned(),
            fault,
        };
        let rooted = match text.strip_prefix('/') {
            Some(rest) => rest,
            None if text == "**" || text.starts_with("**/") => text,
            None => return Err(wrong("is relative: begin it with `/` or `**/`")),
        };
        let mut names = Vec::new();
        for name in rooted.split('/') {
            let parsed = match name {
                "" => return Err(wrong("has an empty name in it")),
                "." | ".." => return Err(wrong("has `.` or `..` in it, which no path does")),
                "**" => NamePattern::Any,
                _ => name_pattern(name.as_bytes()).map_err(wrong)?,
            };
            // Two in a row say the same as one.
            if parsed != NamePattern::Any || names.last() != Some(&NamePattern::Any) {
                names.push(parsed);
            }
        }
        if names.len() > MAX_NAMES {
            return Err(wrong("has too many names"));
        }
        Ok(Self {
            text: text.to_owned(),
            names,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it says what its first name is, so that nothing else need be looked at.
    #[must_use]
    pub fn has_prefix(&self) -> bool {
        matches!(self.names.first(), Some(NamePattern::Literal(_)))
    }

    /// The states of the root directory.
    #[must_use]
    pub fn start(&self) -> States {
        self.closed(1)
    }

    /// The states of an entry of a directory.
    #[must_use]
    pub fn step(&self, states: States, name: &[u8]) -> States {
        let mut next = 0;
        for (at, pattern) in self.names.iter().enumerate() {
            if states.0 & (1 << at) == 0 {
                continue;
            }
            match pattern {
                NamePattern::Literal(text) if text == name => next |= 1 << (at + 1),
                NamePattern::Glob(pieces) if matches(pieces, name) => next |= 1 << (at + 1),
                NamePattern::Any => next |= 1 << at,
                NamePattern::Literal(_) | NamePattern::Glob(_) => {}
            }
        }
        self.closed(next)
    }

    /// Whether a path with these states matches.
    #[must_use]
    pub fn accepts(&self, states: States) -> bool {
        states.0 & (1 << self.names.len()) != 0
    }

    /// The only names that lead anywhere from these states, where that can be told.
    #[must_use]
    pub fn only_names(&self, states: States) -> Option<Vec<&[u8]>> {
        let mut only = Vec::new();
        for (at, pattern) in self.names.iter().enumerate() {
            if states.0 & (1 << at) != 0 {
                match pattern {
                    NamePattern::Literal(text) => only.push(text.as_slice()),
                    NamePattern::Glob(_) | NamePattern::Any => return None,
                }
            }
        }
        Some(only)
    }

    /// A `**` stands for no name too.
    fn closed(&self, mut states: u64) -> States {
        for (at, pattern) in self.names.iter().enumerate() {
            if states & (1 << at) != 0 && *pattern == NamePattern::Any {
                states |= 1 << (at + 1);
            }
        }
        States(states)
    }
}

fn name_pattern(text: &[u8]) -> Result<NamePattern, &'static str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        pieces.push(match byte {
            b'*' => Piece::Many,
            b'?' => Piece::One,
            b'[' => {
                let (set, after) = set(rest)?;
                rest = after;
                set
            }
            b'\\' => match rest.split_first() {
                Some((&escaped, after)) => {
                    rest = after;
                    Piece::Byte(escaped)
                }
                None => return Err("ends in a backslash"),
            },
            byte => Piece::Byte(byte),
        });
    }
    let literal: Option<Vec<u8>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Byte(byte) => Some(*byte),
            _ => None,
        })
        .collect();
    Ok(literal.map_or(NamePattern::Glob(pieces), NamePattern::Literal))
}

/// What is between brackets, and what follows them.
fn set(text: &[u8]) -> Result<(Piece, &[u8]), &'static str> {
    const OPEN: &str = "has a `[` without its `]`";
    let negated = matches!(text.first(), Some(b'^' | b'!'));
    let mut rest = &text[usize::from(negated)..];
    let mut ranges = Vec::new();
    loop {
        let (&first, after) = rest.split_first().ok_or(OPEN)?;
        if first == b']' && !ranges.is_empty() {
            return Ok((Piece::Set { negated, ranges }, after));
        }
        let (low, after) = set_byte(first, after)?;
        rest = after;
        match rest {
            [b'-', end, after @ ..] if *end != b']' => {
                let (high, after) = set_byte(*end, after)?;
                if high < low {
                    return Err("has a range in it that ends before it begins");
                }
                ranges.push((low, high));
                rest = after;
            }
            _ => ranges.push((low, low)),
        }
    }
}

fn set_byte(byte: u8, rest: &[u8]) -> Result<(u8, &[u8]), &'static str> {
    match (byte, rest.split_first()) {
        (b'\\', Some((&escaped, rest))) => Ok((escaped, rest)),
        (b'\\', None) => Err("ends in a backslash"),
        _ => Ok((byte, rest)),
    }
}

fn matches(pieces: &[Piece], name: &[u8]) -> bool {
    let (mut piece, mut byte) = (0, 0);
    // Where to go on if a `*` has to take one byte more.
    let mut again = None;
    while byte < name.len() {
        let fits = match pieces.get(piece) {
            Some(Piece::Many) => {
                again = Some((piece, byte));
                piece += 1;
                continue;
            }
            Some(Piece::One) => true,
            Some(Piece::Byte(wanted)) => *wanted == name[byte],
            Some(Piece::Set { negated, ranges }) => {
                let within = |(low, high): &(u8, u8)| (*low..=*high).contains(&name[byte]);
                ranges.iter().any(within) != *negated
            }
            None => false,
        };
        if fits {
            (piece, byte) = (piece + 1, byte + 1);
        } else if let Some((star, taken)) = again {
            again = Some((star, taken + 1));
            (piece, byte) = (star + 1, taken + 1);
        } else {
            return false;
        }
    }
    pieces[piece..].iter().all(|piece| *piece == Piece::Many)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, path: &str) -> bool {
        let pattern = Pattern::parse(pattern).unwrap();
        let names = path.split('/').filter(|name| !name.is_empty());
        let states = names.fold(pattern.start(), |states, name| {
            pattern.step(states, name.as_bytes())
        });
        pattern.accepts(states)
    }

    #[test]
    fn names_match_within_themselves_and_two_stars_across() {
        let rows = [
            ("/secrets/*.json", "/secrets/a.json", true),
            ("/secrets/*.json", "/secrets/.json", true),
            ("/secrets/*.json", "/secrets/a/b.json", false),
            ("/secrets/*.json", "/other/a.json", false),
            ("/secrets/**", "/secrets", true),
            ("/secrets/**", "/secrets/a/b/c", true),
            ("/**/secret", "/secret", true),
            ("/**/secret", "/a/b/secret", true),
            ("**/secret", "/a/secret", true),
            ("**", "/anything/at/all", true),
            ("/a/**/b/**/c", "/a/x/b/y/z/c", true),
            ("/a/**/b/**/c", "/a/x/y/z/c", false),
            ("/**/**/a", "/a", true),
            ("/?", "/a", true),
            ("/?", "/ab", false),
            ("/[a-c]x", "/bx", true),
            ("/[!a-c]x", "/bx", false),
            ("/[^a-c]x", "/dx", true),
            ("/[]-]x", "/]x", true),
            ("/[\\]a]x", "/]x", true),
            ("/a\\*b", "/a*b", true),
            ("/a\\*b", "/axb", false),
            ("/*a*a*b", "/xaaaaab", true),
            ("/*a*a*b", "/xab", false),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(is_match(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn a_prefix_is_a_name_without_wildcards() {
        for (pattern, expected) in [
            ("/a/*", true),
            ("/a\\*/b", true),
            ("/*/b", false),
            ("**/b", false),
        ] {
            assert_eq!(
                Pattern::parse(pattern).unwrap().has_prefix(),
                expected,
                "{pattern}"
            );
        }
        let pattern = Pattern::parse("/a/b*/c").unwrap();
        let root = pattern.start();
        assert_eq!(pattern.only_names(root), Some(vec![&b"a"[..]]));
        assert_eq!(pattern.only_names(pattern.step(root, b"a")), None);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "/",
            "a/b",
            "*.pem",
            "/a//b",
            "/a/",
            "/a/../b",
            "/[ab",
            "/[]",
            "/a\\",
            "/[b-a]",
            &format!("/{}", ["a"; 70].join("/")),
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_bytes() {
        let pattern = Pattern::parse("/\u{fc}?").unwrap();
        let step = |name| pattern.accepts(pattern.step(pattern.start(), name));
        assert!(step(b"\xc3\xbc\xff"));
        assert!(!step(b"\xc3\xbc\xc3\xbc"));
    }
}
