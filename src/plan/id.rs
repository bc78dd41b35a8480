//! Container ids.

use std::fmt;

use crate::trust::scratch::random_hex;

/// A container's id: fixed in width within a runtime, so that none is a prefix of another (runsc
/// resolves abbreviated ids), and random, so that none is used twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(String);

impl ContainerId {
    /// A new id for a one-shot call of the runtime with this tag: `c-<tag>-<8 hex>`.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn one_shot(run_tag: &str) -> Result<Self, getrandom::Error> {
        Ok(Self(format!("c-{run_tag}-{}", random_hex()?)))
    }

    /// The id of a runtime's session with this number, counted from 1 and never used again:
    /// `s-<tag>-<4 digits>`. It does not hold the session's name, which would make one id a prefix
    /// of another.
    #[must_use]
    pub fn session(run_tag: &str, number: u32) -> Self {
        Self(format!("s-{run_tag}-{number:04}"))
    }

    /// The id itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of the directory of a call in a session: `x-<tag>-<8 hex>`.
///
/// # Errors
/// The system has no randomness to give.
pub fn call_dir_name(run_tag: &str) -> Result<String, getrandom::Error> {
    Ok(format!("x-{run_tag}-{}", random_hex()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_width_and_differ() {
        let ids: Vec<_> = (0..64)
            .map(|_| ContainerId::one_shot("run-abc-0123abcd").unwrap())
            .collect();
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(id.as_str().len(), ids[0].as_str().len());
            assert!(id.as_str().starts_with("c-run-abc-0123abcd-"));
            assert!(!ids[..at].contains(id));
        }
    }
}
