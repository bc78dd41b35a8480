//! What a look could not be sure of. Whatever is in doubt is labelled for no one.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::taint::Taint;

/// How many doubts and reasons are kept: one is enough to act on, and a person reads a few.
const KEPT: usize = 8;

/// Why a label cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// A directory that the container could read or enter and we cannot.
    UnreadableDirectory(String),
    /// A label that is there and cannot be read.
    UnreadableLabel(String),
    /// An attribute that is no label.
    MalformedLabel(String),
    /// It may have a label that only root sees.
    UnseenTrusted(String),
    /// More entries than a look may see, or more time than it may take.
    WalkBound(String),
    /// It changed each time that it was read.
    ChangedDuringLook(String),
    /// A registration or a mark that cannot be read.
    UnreadableRegistration(String),
    /// The invocation context is there and cannot be used.
    UnreadableContext(String),
    /// The bundle or the command line has something that changes what the container sees.
    NotUnderstood(String),
    /// An error that nobody foresaw.
    Unforeseen(String),
}

impl Doubt {
    /// A doubt about a path.
    pub(super) fn at(of: fn(String) -> Self, path: &Path) -> Self {
        of(path.display().to_string())
    }

    /// An error that nobody foresaw, at a path.
    pub(super) fn unforeseen(path: &Path, err: impl fmt::Display) -> Self {
        Self::Unforeseen(format!("{}: {err}", path.display()))
    }

    /// The stable word for it.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnreadableDirectory(_) => "cfc-doubt-unreadable-directory",
            Self::UnreadableLabel(_) => "cfc-doubt-unreadable-label",
            Self::MalformedLabel(_) => "cfc-doubt-malformed-label",
            Self::UnseenTrusted(_) => "cfc-doubt-unseen-trusted-labels",
            Self::WalkBound(_) => "cfc-doubt-walk-bound",
            Self::ChangedDuringLook(_) => "cfc-doubt-changed-during-look",
            Self::UnreadableRegistration(_) => "cfc-doubt-unreadable-registration",
            Self::UnreadableContext(_) => "cfc-doubt-unreadable-context",
            Self::NotUnderstood(_) => "cfc-doubt-not-understood",
            Self::Unforeseen(_) => "cfc-doubt-unforeseen",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, at) = match self {
            Self::UnreadableDirectory(at) => ("a directory cannot be read", at),
            Self::UnreadableLabel(at) => ("a label cannot be read", at),
            Self::MalformedLabel(at) => ("an attribute is no label", at),
            Self::UnseenTrusted(at) => (
                "it belongs to somebody else and may have a label that only root sees (run as \
                 root, or say in the policy that there are none)",
                at,
            ),
            Self::WalkBound(at) => ("there is more than a look may see", at),
            Self::ChangedDuringLook(at) => ("a directory changed each time it was read", at),
            Self::UnreadableRegistration(at) => ("a registration cannot be read", at),
            Self::UnreadableContext(at) => ("the invocation context cannot be used", at),
            Self::NotUnderstood(at) => ("what the container sees cannot be told", at),
            Self::Unforeseen(at) => ("an error that was not foreseen", at),
        };
        write!(f, "{what}: {at}")
    }
}

/// What a look found: a label, which rules gave it, and what it could not be sure of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    taint: Taint,
    reasons: Vec<String>,
    doubts: Vec<Doubt>,
    /// Whether a label is there, read or not.
    labelled: bool,
}

impl Found {
    /// Takes a label in.
    pub fn label(&mut self, taint: &Taint, reason: impl FnOnce() -> String) {
        self.labelled |= !taint.is_public();
        self.raise(taint, reason);
    }

    fn raise(&mut self, taint: &Taint, reason: impl FnOnce() -> String) {
        if self.taint.join(taint) && self.reasons.len() < KEPT {
            self.reasons.push(reason());
        }
    }

    /// Takes a doubt in.
    pub fn doubt(&mut self, doubt: Doubt) {
        self.labelled |= matches!(doubt, Doubt::MalformedLabel(_) | Doubt::UnreadableLabel(_));
        self.raise(&Taint::nobody(), || doubt.to_string());
        if self.doubts.len() < KEPT && !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// Takes all in that another look found.
    pub fn join(&mut self, other: Self) {
        self.labelled |= other.labelled;
        if self.taint.join(&other.taint) {
            let room = KEPT.saturating_sub(self.reasons.len());
            self.reasons.extend(other.reasons.into_iter().take(room));
        }
        for doubt in other.doubts {
            self.doubt(doubt);
        }
    }

    /// The label.
    #[must_use]
    pub fn taint(&self) -> &Taint {
        &self.taint
    }

    /// What it could not be sure of.
    #[must_use]
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Whether a label is there, read or not; a doubt alone is none.
    #[must_use]
    pub fn is_labelled(&self) -> bool {
        self.labelled
    }

    /// The rules that gave the label, for a person.
    #[must_use]
    pub fn why(&self) -> String {
        self.reasons.join("; ")
    }
}
