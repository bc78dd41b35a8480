//! What the members of a context must be, as a table.

use serde_json::{Map, Value};

use super::ContextError;
use crate::cfc::json::folded;

/// A member that is known.
pub(super) struct Member {
    name: &'static str,
    needed: bool,
    kind: Kind,
}

enum Kind {
    Text,
    Flag,
    /// A whole number from this on.
    Count(u64),
    One,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Not empty.
    TextOrObject,
    Texts,
    Object(&'static [Member]),
    /// Anything: read elsewhere, or of the harness's own making.
    Any,
}

const fn must(name: &'static str, kind: Kind) -> Member {
    Member {
        name,
        needed: true,
        kind,
    }
}

const fn may(name: &'static str, kind: Kind) -> Member {
    Member {
        name,
        needed: false,
        kind,
    }
}

const MODES: Kind = Kind::Word(&["disabled", "observe", "enforce-explicit", "enforce-strict"]);

/// A context's members.
pub(super) const CONTEXT: &[Member] = &[
    must("type", Kind::Word(&[super::TYPE])),
    must("version", Kind::One),
    must("sequence", Kind::Count(1)),
    must("runId", Kind::Text),
    must("createdAt", Kind::Text),
    must("toolId", Kind::Text),
    may("toolOutputId", Kind::Text),
    must("operation", Kind::Word(&["shell", "command"])),
    must("cfcEnforcementMode", MODES),
    must("cwd", Kind::Text),
    may("promptSlot", Kind::Object(PROMPT_SLOT)),
    must("runManifest", Kind::Object(RUN_MANIFEST)),
    must("inputs", Kind::Object(INPUTS)),
    may("cfcInputLabels", Kind::Any),
];

const PROMPT_SLOT: &[Member] = &[
    must(
        "type",
        Kind::Word(&["https://commonfabric.org/cfc/atom/PromptSlotBound"]),
    ),
    must("source", Kind::TextOrObject),
    must("role", Kind::Word(&["direct-command", "context", "quote"])),
    must("kernelName", Kind::Text),
    must("surface", Kind::Text),
    may("subject", Kind::Any),
    may(
        "renderRef",
        Kind::Object(&[must("seq", Kind::Count(0)), must("rootRef", Kind::Any)]),
    ),
    may("eventId", Kind::Text),
    may("valueDigest", Kind::Text),
    may("slotDigest", Kind::Text),
    may("snapshotDigest", Kind::Text),
    may("targetPath", Kind::Any),
];

const RUN_MANIFEST: &[Member] = &[
    must("present", Kind::Flag),
    may("path", Kind::Text),
    may("source", Kind::Text),
    may("wishId", Kind::Text),
    may("dispatchClass", Kind::Text),
    may("cfcEnforcementMode", MODES),
    may("promptSlotPresent", Kind::Flag),
];

const INPUTS: &[Member] = &[
    may("command", Kind::Object(TEXT_SUMMARY)),
    may("argv", Kind::Object(SEQUENCE_SUMMARY)),
    may("args", Kind::Object(SEQUENCE_SUMMARY)),
    may("stdin", Kind::Object(TEXT_SUMMARY)),
    may(
        "env",
        Kind::Object(&[
            must("type", Kind::Word(&["cf-harness.env-summary"])),
            must("count", Kind::Count(0)),
            must("names", Kind::Texts),
        ]),
    ),
];

const TEXT_SUMMARY: &[Member] = &[
    must("type", Kind::Word(&["cf-harness.redacted-text-summary"])),
    must("bytes", Kind::Count(0)),
    must("digest", Kind::Text),
];

const SEQUENCE_SUMMARY: &[Member] = &[
    must(
        "type",
        Kind::Word(&["cf-harness.redacted-sequence-summary"]),
    ),
    must("count", Kind::Count(0)),
    must("totalBytes", Kind::Count(0)),
    must("digest", Kind::Text),
];

/// Checks the members of an object at `at`, a JSON pointer.
pub(super) fn check(
    object: &Map<String, Value>,
    members: &[Member],
    at: &str,
) -> Result<(), ContextError> {
    for key in object.keys() {
        let lookalike = |member: &Member| key != member.name && folded(key) == folded(member.name);
        if members.iter().any(lookalike) {
            return Err(ContextError::Lookalike {
                path: format!("{at}/{key}"),
            });
        }
    }
    for member in members {
        let at = format!("{at}/{}", member.name);
        let wrong = |expected: String| ContextError::Member {
            path: at.clone(),
            expected,
        };
        match (object.get(member.name), &member.kind) {
            (None, kind) if member.needed => return Err(wrong(kind.expected())),
            (None, _) => {}
            (Some(Value::Object(inner)), Kind::Object(members)) => check(inner, members, &at)?,
            (Some(value), kind) if !kind.admits(value) => return Err(wrong(kind.expected())),
            (Some(_), _) => {}
        }
    }
    Ok(())
}

impl Kind {
    fn admits(&self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Count(least) => value.as_u64().is_some_and(|count| count >= *least),
            Self::One => value.as_u64() == Some(1),
            Self::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Self::TextOrObject => {
                value.is_object() || value.as_str().is_some_and(|text| !text.is_empty())
            }
            Self::Texts => value
                .as_array()
                .is_some_and(|texts| texts.iter().all(Value::is_string)),
            Self::Object(_) => value.is_object(),
            Self::Any => true,
        }
    }

    fn expected(&self) -> String {
        match self {
            Self::Text => "a string".into(),
            Self::Flag => "true or false".into(),
            Self::Count(least) => format!("a whole number from {least} on"),
            Self::One => "the number 1".into(),
            Self::Word(words) => words.join(" or "),
            Self::TextOrObject => "a string that is not empty, or an object".into(),
            Self::Texts => "an array of strings".into(),
            Self::Object(_) => "an object".into(),
            Self::Any => "a value".into(),
        }
    }
}
