//! Labels, and (in [`LabelView`]) which of a call's inputs have which.
//!
//! Input labels are of confidentiality alone: a `runsc` that is given one integrity atom fails to
//! make the sandbox (CT-2302), so it is refused here, where there is a path to name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json::{JsonError, folded, read};

mod view;

pub use view::{LabelEntry, LabelPath, LabelRoot, LabelView};

#[cfg(test)]
mod tests;

/// What is known of a value: who may see it, and who vouches for it.
///
/// Atoms are any JSON values; an entry of the confidentiality may also be `{"anyOf": […]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Who may see it: each entry narrows. Empty for everyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidentiality: Vec<Value>,
    /// Who vouches for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub integrity: Vec<Value>,
}

impl Label {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.confidentiality.is_empty() && self.integrity.is_empty()
    }

    /// Sorts the atoms by their [`canonical`] text and drops those that are there twice.
    pub fn normalise(&mut self) {
        for atoms in [&mut self.confidentiality, &mut self.integrity] {
            // The text as written decides between two spellings of one atom, so that it does not
            // matter which came first.
            atoms.sort_by_cached_key(|atom| (canonical(atom), atom.to_string()));
            atoms.dedup_by_key(|atom| canonical(atom));
        }
    }
}

/// One text for all spellings of a JSON value: keys sorted by their bytes, no white space, and a
/// whole number without a fraction or exponent.
#[must_use]
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let members: Vec<_> = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Number(number) => match number.as_f64() {
            // As far as doubles count without gaps.
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => {
                (float as i64).to_string()
            }
            _ => number.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

/// The confidentiality entry that an argument names: a JSON object where it begins with `{`, else
/// the text itself as an atom.
///
/// # Errors
/// [`LabelError`] where it is blank, where it begins like an object and is none, and where it has
/// an integrity array.
pub fn confidentiality_from_arg(text: &str) -> Result<Value, LabelError> {
    if text.trim().is_empty() {
        return Err(LabelError::BlankAtom);
    }
    if !text.trim_start().starts_with('{') {
        return Ok(Value::from(text));
    }
    let atom = read(text.as_bytes())?;
    refuse_integrity(&atom, "")?;
    Ok(atom)
}

/// Refuses an integrity array that is not empty, however deep and in whatever letter case: a
/// reader that ignores case would take it too.
fn refuse_integrity(value: &Value, at: &str) -> Result<(), LabelError> {
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| refuse_integrity(item, &format!("{at}/{index}"))),
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            let at = format!("{at}/{}", pointer_segment(key));
            let atoms = value.as_array().is_some_and(|atoms| !atoms.is_empty());
            if atoms && folded(key) == "integrity" {
                return Err(LabelError::Integrity { path: at });
            }
            refuse_integrity(value, &at)
        }),
        _ => Ok(()),
    }
}

/// A name as a JSON pointer has it (RFC 6901).
fn pointer_segment(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Why input labels cannot be used. Paths are JSON pointers (RFC 6901) into the view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// An integrity array that is not empty (CT-2302).
    #[error("input labels carry integrity at {path:?}, with which runsc makes no sandbox")]
    Integrity {
        /// Where the array is.
        path: String,
    },
    /// Something else than what belongs there, or nothing.
    #[error("input labels have something else than {expected} at {path:?}")]
    Malformed {
        /// Where it is.
        path: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A member that no view has.
    #[error("input labels have an unknown member at {path:?}")]
    UnknownMember {
        /// Where it is.
        path: String,
    },
    /// An atom of white space alone.
    #[error("a blank label labels nothing")]
    BlankAtom,
    /// An atom that begins like an object and is none.
    #[error("the label begins like a JSON object, but {0}")]
    Atom(#[from] JsonError),
}

impl LabelError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Integrity { .. } => "integrity-in-input-labels",
            Self::Malformed { .. } | Self::UnknownMember { .. } => "malformed-input-labels",
            Self::BlankAtom | Self::Atom(_) => "malformed-label",
        }
    }
}
