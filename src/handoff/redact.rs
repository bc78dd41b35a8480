//! Secrets, taken out of text before it is hashed, logged or handed on.
//!
//! What looks like a token of a known kind goes, and so does every configured secret, its name
//! and its value. Bytes that are no text are not looked into.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder, RegexSet};

/// How much is looked at at once.
const WINDOW: usize = 64 * 1024;
/// How much of a window is kept for the next look, in case a token goes across.
const OVERLAP: usize = 4 * 1024;
/// The longest token that is followed.
const MAX_TOKEN: usize = 256 * 1024;

/// What looks like a secret, and what it is called.
const PATTERNS: [(&str, &str); 6] = [
    ("openai-api-key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("github-token", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("slack-token", r"\bxox[baprs]-[A-Za-z0-9-]{20,}"),
    (
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+",
    ),
    ("aws-access-key", r"\bA(?:KIA|SIA)[A-Z0-9]{16}"),
];

/// How often each kind was found.
pub type Kinds = BTreeMap<&'static str, u64>;

/// Takes secrets out of text.
#[derive(Debug, Clone)]
pub struct Redactor {
    pattern: Regex,
    /// What each group of the pattern is called.
    kinds: Vec<&'static str>,
}

/// The configured secrets are too many or too long to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the configured secrets are too many or too long to look for")]
pub struct TooManySecrets;

impl Default for Redactor {
    /// Knows secrets by their looks alone.
    fn default() -> Self {
        static LOOKS: OnceLock<Redactor> = OnceLock::new();
        LOOKS
            .get_or_init(|| {
                // A test sees that the patterns compile; what never matches would not fail safe,
                // so in their place everything would be a secret.
                Self::new([]).unwrap_or_else(|_| Self {
                    pattern: everything(),
                    kinds: vec!["unknown"],
                })
            })
            .clone()
    }
}

/// Never used but where the crate's own patterns are broken.
#[expect(clippy::unwrap_used, reason = "a literal pattern that compiles")]
fn everything() -> Regex {
    Regex::new("((?s).+)").unwrap()
}

impl Redactor {
    /// A redactor that knows these secrets by name and value beside what it tells by its looks.
    /// A secret without a value is none.
    ///
    /// # Errors
    /// [`TooManySecrets`].
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, TooManySecrets> {
        let mut known = Vec::new();
        for (name, value) in secrets.into_iter().filter(|(_, value)| !value.is_empty()) {
            known.push((value, "configured-secret-value"));
            known.push((name, "configured-secret-name"));
        }
        known.retain(|(text, _)| !text.is_empty());
        // Where two begin at one place, the longer one is the secret.
        known.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let known = known
            .iter()
            .map(|(text, kind)| (*kind, regex::escape(text)));
        let looks = PATTERNS.map(|(kind, pattern)| (kind, pattern.to_owned()));
        let (kinds, groups): (Vec<_>, Vec<_>) = known
            .chain(looks)
            .map(|(kind, pattern)| (kind, format!("({pattern})")))
            .unzip();
        let pattern = RegexBuilder::new(&groups.join("|"))
            .unicode(false)
            .build()
            .map_err(|_| TooManySecrets)?;
        Ok(Self { pattern, kinds })
    }

    /// A text without its secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut clean = Vec::with_capacity(text.len());
        // Reading from and writing to memory does not fail.
        let _ = self.copy(&mut text.as_bytes(), &mut clean);
        String::from_utf8_lossy(&clean).into_owned()
    }

    /// Whether there is a secret in a text.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        self.next(text.as_bytes(), 0).is_some()
    }

    /// Copies text without its secrets, in bounded memory, and tells how many there were.
    ///
    /// # Errors
    /// What reading or writing says, and [`io::ErrorKind::InvalidData`] for a token without end.
    pub fn copy(&self, from: &mut dyn Read, to: &mut dyn Write) -> io::Result<Kinds> {
        let mut kinds = Kinds::new();
        let mut held = Vec::new();
        loop {
            let before = held.len();
            let read = from.take(WINDOW as u64).read_to_end(&mut held)?;
            let last = read < WINDOW;
            let mut done = 0;
            let safe = if last {
                held.len()
            } else {
                held.len().saturating_sub(OVERLAP)
            };
            while let Some((start, end, kind)) = self.next(&held, done) {
                // One that may go on beyond what was read waits for the rest.
                if !last && (end == held.len() || start >= safe) {
                    break;
                }
                to.write_all(&held[done..start])?;
                write!(to, "[REDACTED:{kind}]")?;
                *kinds.entry(kind).or_default() += 1;
                done = end;
            }
            let waiting = self
                .next(&held, done)
                .map_or(held.len(), |(start, ..)| start);
            let upto = if last {
                held.len()
            } else {
                safe.min(waiting).max(done)
            };
            to.write_all(&held[done..upto])?;
            held.drain(..upto);
            if last {
                return Ok(kinds);
            }
            if held.len() > MAX_TOKEN && before > 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// The first secret from a place on.
    fn next(&self, text: &[u8], from: usize) -> Option<(usize, usize, &'static str)> {
        let found = self.pattern.find_at(text, from)?;
        // Groups are slow to tell, and secrets are few.
        let groups = self.pattern.captures_at(text, found.start())?;
        let at = (0..self.kinds.len()).find(|at| groups.get(at + 1).is_some())?;
        Some((found.start(), found.end(), self.kinds[at]))
    }
}

/// What does not belong into an envelope, told by its looks.
#[must_use]
pub fn is_out_of_place(text: &str) -> Option<&'static str> {
    static LOCAL: OnceLock<Option<RegexSet>> = OnceLock::new();
    let local = LOCAL.get_or_init(|| {
        RegexSet::new([
            r"(?i)\bfile:/",
            r"(?i)\bhttps?://(?:[^/\s@]*@)?(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\]|[^/\s:]*\.local)(?:[:/?#\s]|$)",
            r"(?i)\bhttps?://[^/\s@]+@",
        ])
        .ok()
    });
    if text.starts_with('/') || text.starts_with("~/") {
        return Some("host-path");
    }
    if local
        .as_ref()
        .is_none_or(|local| local.is_match(text.as_bytes()))
    {
        return Some("local-url");
    }
    Redactor::default()
        .finds(text)
        .then_some("secret-like-value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(Redactor::default().kinds.len(), PATTERNS.len());
        assert!(everything().is_match(b"x"));
    }

    #[test]
    fn secrets_go_and_what_only_looks_a_little_like_one_stays() {
        let redactor = Redactor::new([("API_TOKEN", "hunter2!"), ("EMPTY", "")]).unwrap();
        let cases = [
            ("sk-abcdefghijklmnopqrst!", "[REDACTED:openai-api-key]!"),
            ("task-abcdefghijklmnopqrstuv", "task-abcdefghijklmnopqrstuv"),
            ("sk-short", "sk-short"),
            (
                "x ghp_ABCDEFGHIJKLMNOPQRST y",
                "x [REDACTED:github-token] y",
            ),
            (
                "github_pat_ABCDEFGHIJ_KLMNOPQRSTUV",
                "[REDACTED:github-token]",
            ),
            ("xoxb-1234567890-1234567890", "[REDACTED:slack-token]"),
            ("eyJhbGciOi.eyJzdWIi.c2ln", "[REDACTED:jwt]"),
            (
                "AKIAABCDEFGHIJKLMNOP ASIAABCDEFGHIJKLMNOP",
                "[REDACTED:aws-access-key] [REDACTED:aws-access-key]",
            ),
            (
                r#"{"k":"hunter2!"}"#,
                r#"{"k":"[REDACTED:configured-secret-value]"}"#,
            ),
            (
                "API_TOKEN=hunter2!",
                "[REDACTED:configured-secret-name]=[REDACTED:configured-secret-value]",
            ),
            ("EMPTY ü", "EMPTY ü"),
        ];
        for (given, expected) in cases {
            assert_eq!(redactor.text(given), expected);
        }
    }

    #[test]
    fn a_secret_is_found_wherever_the_windows_meet() {
        let secret = "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for at in [
            WINDOW - 40,
            WINDOW - OVERLAP - 10,
            WINDOW - 5,
            WINDOW,
            2 * WINDOW - 7,
        ] {
            let text = format!("{} {secret} {}", "x".repeat(at), "y ".repeat(WINDOW));
            let clean = Redactor::default().text(&text);
            assert_eq!(
                clean,
                text.replace(secret, "[REDACTED:github-token]"),
                "at {at}"
            );
        }
    }

    #[test]
    fn a_token_longer_than_a_window_goes_whole() {
        let text = format!("a sk-{} b", "k".repeat(3 * WINDOW));
        assert_eq!(
            Redactor::default().text(&text),
            "a [REDACTED:openai-api-key] b"
        );
        let endless = format!("sk-{}", "k".repeat(3 * MAX_TOKEN));
        let copied = Redactor::default().copy(&mut endless.as_bytes(), &mut io::sink());
        assert_eq!(copied.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_out_of_place_is_told() {
        let cases = [
            ("outputs/report.json", None),
            ("https://example.com/a", None),
            ("a / b", None),
            ("/home/me/x", Some("host-path")),
            ("~/x", Some("host-path")),
            ("see file:///x", Some("local-url")),
            ("http://localhost:8080/x", Some("local-url")),
            ("http://127.0.0.1/", Some("local-url")),
            ("http://[::1]/", Some("local-url")),
            ("https://printer.local/", Some("local-url")),
            ("https://u:p@example.com/", Some("local-url")),
            ("sk-abcdefghijklmnopqrst", Some("secret-like-value")),
        ];
        for (text, expected) in cases {
            assert_eq!(is_out_of_place(text), expected, "{text}");
        }
    }
}
