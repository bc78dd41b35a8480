//! Kinds, child ids and the argv of a child.

use std::fmt;

use crate::handoff::digest::MAX_WHOLE;

/// The longest name of a kind or a child.
const MAX_NAME: usize = 128;

/// Whether a text can name a kind or a child: it has no meaning to a shell, a path or a template.
pub(crate) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= MAX_NAME
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(plain)
}

/// What kind of child a call asks for: letters, digits, `.`, `_` and `-`, the first of them a
/// letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(String);

impl Kind {
    /// A kind of this name; none where it is not one.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        is_name(name).then(|| Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The ordinals that one script may use, which is also how many children it may launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    first: u64,
    count: u64,
}

impl Block {
    /// The ordinals `first ..= first + count - 1`; none where either is zero or the last one is
    /// beyond what every JSON reader takes for the same.
    #[must_use]
    pub fn new(first: u64, count: u64) -> Option<Self> {
        let last = first.checked_add(count)?.checked_sub(1)?;
        (first > 0 && count > 0 && last <= MAX_WHOLE).then_some(Self { first, count })
    }

    /// The first ordinal.
    #[must_use]
    pub fn first(self) -> u64 {
        self.first
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u64 {
        self.count
    }

    /// The last ordinal.
    #[must_use]
    pub fn last(self) -> u64 {
        self.first + self.count - 1
    }

    /// Whether an ordinal is one of them.
    #[must_use]
    pub fn contains(self, ordinal: u64) -> bool {
        (self.first..=self.last()).contains(&ordinal)
    }
}

/// How a host names its children: a text in which every `{n}` stands for the ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildTemplate(String);

impl ChildTemplate {
    const SLOT: &str = "{n}";

    /// A template; none where it has no `{n}` and would name every child alike.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        text.contains(Self::SLOT).then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of a child.
    #[must_use]
    pub fn render(&self, ordinal: u64) -> String {
        self.0.replace(Self::SLOT, &ordinal.to_string())
    }

    /// The ordinal whose child has this id.
    #[must_use]
    pub fn ordinal(&self, id: &str) -> Option<u64> {
        ordinals_of(&self.0, id).find(|ordinal| self.render(*ordinal) == id)
    }
}

/// The numbers that may stand at a template's first `{n}` in an id: more than one where a digit
/// follows the slot.
pub fn ordinals_of<'a>(template: &str, id: &'a str) -> impl Iterator<Item = u64> + use<'a> {
    let before = template.find(ChildTemplate::SLOT).unwrap_or(0);
    let same = id.as_bytes().get(..before) == template.as_bytes().get(..before);
    let rest = id.get(before..).filter(|_| same).unwrap_or("");
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count().min(16);
    (1..=digits).filter_map(|length| rest[..length].parse().ok())
}

/// Puts values for names in braces, in one pass: what a value says is never expanded again.
#[must_use]
pub fn substitute(token: &str, values: &[(&str, &str)]) -> String {
    let mut result = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        match values.iter().find(|(name, _)| from.starts_with(name)) {
            Some((name, value)) => {
                result.push_str(value);
                rest = &from[name.len()..];
            }
            None => {
                result.push('{');
                rest = &from[1..];
            }
        }
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_plain_name() {
        for name in ["a", "lint", "9-x.y_z", "A"] {
            assert!(Kind::new(name).is_some(), "{name}");
        }
        let long = "a".repeat(129);
        for name in [
            "", ".a", "-a", "_a", "{child}", "a b", "a/b", "ä", "a\n", &long,
        ] {
            assert_eq!(Kind::new(name), None, "{name}");
        }
    }

    #[test]
    fn a_block_counts_from_its_first() {
        let block = Block::new(5, 32).unwrap();
        assert_eq!((block.first(), block.count(), block.last()), (5, 32, 36));
        for (ordinal, inside) in [(4, false), (5, true), (36, true), (37, false)] {
            assert_eq!(block.contains(ordinal), inside);
        }
        for (first, count) in [(0, 1), (1, 0), (u64::MAX, 2), (MAX_WHOLE, 2)] {
            assert_eq!(Block::new(first, count), None);
        }
        assert!(Block::new(MAX_WHOLE, 1).is_some());
    }

    #[test]
    fn an_id_tells_its_ordinal_and_no_other() {
        let cases = [
            ("run7-{n}", "run7-5", Some(5)),
            ("run7-{n}", "run7-05", None),
            ("run7-{n}", "run7-", None),
            ("run7-{n}", "run8-5", None),
            ("run7-{n}", "run7-5x", None),
            ("{n}a{n}", "12a12", Some(12)),
            ("{n}a{n}", "12a13", None),
            ("x{n}1", "x211", Some(21)),
            ("{n}", "99999999999999999999", None),
            ("ü{n}", "ü3", Some(3)),
            ("ü{n}", "u3", None),
        ];
        for (template, id, expected) in cases {
            let template = ChildTemplate::new(template).unwrap();
            assert_eq!(template.ordinal(id), expected, "{template:?} {id}");
        }
        assert_eq!(ChildTemplate::new("fixed"), None);
    }

    #[test]
    fn what_a_value_says_is_not_expanded_again() {
        let values = [("{kind}", "{child}"), ("{child}", "c-{kind}")];
        let cases = [
            ("{kind}", "{child}"),
            ("a{kind}b{child}c", "a{child}bc-{kind}c"),
            ("{{kind}}", "{{child}}"),
            ("{kin", "{kin"),
            ("{", "{"),
            ("", ""),
            ("ü{n}", "ü{n}"),
        ];
        for (token, expected) in cases {
            assert_eq!(substitute(token, &values), expected, "{token}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_ordinal_survives_its_id(
            ordinal in 1..=MAX_WHOLE,
            before in "[a-z{}0-9]{0,6}",
            after in "[a-z{}0-9]{0,6}",
        ) {
            let template = ChildTemplate::new(&format!("{before}{{n}}{after}")).unwrap();
            let found = template.ordinal(&template.render(ordinal));
            // A digit after the slot may make two ordinals share no id, never an id two ordinals.
            proptest::prop_assert_eq!(found, Some(ordinal));
        }
    }
}
