//! How strictly a run holds to its labels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How strictly a run holds to its labels, from least to most strict: the order of the variants
/// is the order of their strictness.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum EnforcementMode {
    /// Labels are not asked about.
    Disabled,
    /// Labels are tracked and reported, and nothing is refused for them.
    Observe,
    /// What is labelled explicitly is held to its labels.
    EnforceExplicit,
    /// Everything is held to its labels.
    #[default]
    EnforceStrict,
}

impl EnforcementMode {
    /// Every mode, from least to most strict.
    pub const ALL: [Self; 4] = [
        Self::Disabled,
        Self::Observe,
        Self::EnforceExplicit,
        Self::EnforceStrict,
    ];

    /// The word for it, as contexts and flags have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Observe => "observe",
            Self::EnforceExplicit => "enforce-explicit",
            Self::EnforceStrict => "enforce-strict",
        }
    }

    /// Whether a call needs a policy, and its output a verdict.
    #[must_use]
    pub fn enforces(self) -> bool {
        self >= Self::EnforceExplicit
    }

    /// Whether a call may run in a session. A result is a snapshot taken as one process exits,
    /// while others of the same container live on; that is no basis to enforce on.
    #[must_use]
    pub fn allows_sessions(self) -> bool {
        !self.enforces()
    }
}

impl fmt::Display for EnforcementMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is no enforcement mode: disabled, observe, enforce-explicit, enforce-strict")]
pub struct ModeError {
    /// The word.
    pub word: String,
}

impl ModeError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        "unknown-enforcement-mode"
    }
}

impl FromStr for EnforcementMode {
    type Err = ModeError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| ModeError { word: word.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_word_and_what_it_allows() {
        let table: Vec<_> = EnforcementMode::ALL
            .into_iter()
            .map(|mode| (mode.to_string(), mode.enforces(), mode.allows_sessions()))
            .collect();
        assert_eq!(
            table,
            [
                ("disabled".to_owned(), false, true),
                ("observe".to_owned(), false, true),
                ("enforce-explicit".to_owned(), true, false),
                ("enforce-strict".to_owned(), true, false),
            ]
        );
    }

    #[test]
    fn words_go_both_ways_in_text_and_in_json() {
        for mode in EnforcementMode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(json, format!("\"{mode}\""));
            assert_eq!(
                serde_json::from_str::<EnforcementMode>(&json).unwrap(),
                mode
            );
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["", "Observe", "enforce", " observe", "enforce_strict"] {
            let error = word.parse::<EnforcementMode>().unwrap_err();
            assert_eq!(error, ModeError { word: word.into() });
            assert_eq!(error.code(), "unknown-enforcement-mode");
        }
    }

    #[test]
    fn strictness_is_an_order_and_the_strictest_is_the_default() {
        assert!(EnforcementMode::ALL.is_sorted());
        assert_eq!(
            EnforcementMode::default(),
            EnforcementMode::ALL.into_iter().max().unwrap()
        );
    }
}
