//! What a container, a file or a mount is labelled with: a set of confidentiality atoms.
//!
//! Two labels join by union and one covers another by containing it, each atom compared by its
//! canonical text. Nothing is ever reasoned about inside an atom: `{"anyOf": […]}` is one atom.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::cfc::json::{JsonError, read};
use crate::cfc::label::canonical;
use crate::cfc::result::EMPTY_LABEL;

/// The type of the atom that no one is cleared for.
const NOBODY: &str = "runsc-cfc/atom/Nobody";
/// The type of an atom of gVisor's own policy files.
const GVISOR_ATOM: &str = "gvisor.dev/gvisor/cfc/atom";

/// A set of confidentiality atoms; empty for what everyone may see.
///
/// Of integrity nothing is kept: a container that could read anything else beside what is vouched
/// for vouches for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taint(BTreeMap<String, Value>);

impl Taint {
    /// What everyone may see.
    #[must_use]
    pub fn public() -> Self {
        Self::default()
    }

    /// What no one is cleared for: the label of whatever is in doubt.
    #[must_use]
    pub fn nobody() -> Self {
        Self::of([json!({"type": NOBODY, "version": 1})])
    }

    /// These atoms.
    #[must_use]
    pub fn of(atoms: impl IntoIterator<Item = Value>) -> Self {
        Self(
            atoms
                .into_iter()
                .map(|atom| (canonical(&atom), atom))
                .collect(),
        )
    }

    /// Reads an attribute's value, `{"confidentiality": […], "integrity": […]}`, either of them
    /// absent. Anything else is no label, which is not the same as an empty one.
    ///
    /// # Errors
    /// [`NotALabel`].
    pub fn from_attribute(bytes: &[u8]) -> Result<Self, NotALabel> {
        let value = read(bytes)?;
        let members = value.as_object().ok_or(NotALabel::Shape)?;
        for (name, atoms) in members {
            if !matches!(name.as_str(), "confidentiality" | "integrity") || !atoms.is_array() {
                return Err(NotALabel::Shape);
            }
        }
        let atoms = members.get("confidentiality").and_then(Value::as_array);
        Ok(Self::of(atoms.cloned().unwrap_or_default()))
    }

    /// As an attribute's value.
    #[must_use]
    pub fn to_attribute(&self) -> Vec<u8> {
        Value::Object(self.to_json()).to_string().into_bytes()
    }

    /// As a result's `xattrJSON`: without the arrays that are empty.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Map<String, Value> {
        let mut members = serde_json::Map::new();
        if !self.is_public() {
            members.insert("confidentiality".into(), self.atoms().into());
        }
        members
    }

    /// The atoms, sorted by their canonical text.
    #[must_use]
    pub fn atoms(&self) -> Vec<Value> {
        self.0.values().cloned().collect()
    }

    /// Whether everyone may see it.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds what another says; whether that was new.
    pub fn join(&mut self, other: &Self) -> bool {
        let before = self.0.len();
        for (text, atom) in &other.0 {
            self.0.entry(text.clone()).or_insert_with(|| atom.clone());
        }
        self.0.len() > before
    }

    /// Both together.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.join(other);
        both
    }

    /// Whether it says all that another does: what no one is cleared for says everything.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let nobody = Self::nobody();
        let top = nobody.0.keys().all(|atom| self.0.contains_key(atom));
        top || other.0.keys().all(|atom| self.0.contains_key(atom))
    }
}

impl fmt::Display for Taint {
    /// As gVisor renders it, for people. The spelling of the empty one is the contract's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_public() {
            return f.write_str(EMPTY_LABEL);
        }
        let atoms: Vec<_> = self.0.values().map(rendered).collect();
        write!(f, "{{conf: {}, integ: \u{2205}}}", atoms.join(" \u{2227} "))
    }
}

fn rendered(atom: &Value) -> String {
    let member = |name: &str| atom.get(name);
    let user = member("type").and_then(Value::as_str) == Some(GVISOR_ATOM)
        && member("typeCode").and_then(Value::as_u64) == Some(1);
    match member("subject").and_then(Value::as_str) {
        Some(subject) if user => format!("User({subject})"),
        _ => atom.to_string(),
    }
}

impl Serialize for Taint {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.atoms().serialize(out)
    }
}

impl<'de> Deserialize<'de> for Taint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::<Value>::deserialize(from).map(Self::of)
    }
}

/// An attribute that holds something else than a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotALabel {
    /// It is not one JSON value.
    #[error("the attribute is no label, since {0}")]
    Json(#[from] JsonError),
    /// It is JSON of another shape.
    #[error("the attribute is no label: it has more than confidentiality and integrity arrays")]
    Shape,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_only_adds_and_knows_spellings_of_one_atom() {
        let mut taint = Taint::of([json!("a"), json!({"x": 1, "y": 2})]);
        assert!(!taint.join(&Taint::of([json!({"y": 2.0, "x": 1})])));
        assert!(taint.join(&Taint::of([json!("b")])));
        assert_eq!(taint.atoms().len(), 3);
        assert!(taint.covers(&Taint::of([json!("b")])));
        assert!(!Taint::of([json!("b")]).covers(&taint));
        assert!(taint.covers(&Taint::public()));
        assert!(Taint::nobody().covers(&taint) && !taint.covers(&Taint::nobody()));
    }

    #[test]
    fn attributes_go_both_ways_and_what_is_no_label_is_told() {
        let taint = Taint::of([json!("finance"), json!({"anyOf": ["a", "b"]})]);
        assert_eq!(
            Taint::from_attribute(&taint.to_attribute()),
            Ok(taint.clone())
        );
        assert_eq!(
            Taint::of([json!("finance")]).to_attribute(),
            br#"{"confidentiality":["finance"]}"#
        );
        assert_eq!(Taint::from_attribute(b"{}"), Ok(Taint::public()));
        assert_eq!(
            Taint::from_attribute(br#"{"integrity":["x"]}"#),
            Ok(Taint::public())
        );
        for wrong in [
            &b""[..],
            b"finance",
            b"[]",
            br#"{"confidentiality":"finance"}"#,
            br#"{"confidential":[]}"#,
            br#"{"confidentiality":[],"confidentiality":[]}"#,
        ] {
            assert!(Taint::from_attribute(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn labels_are_rendered_as_gvisor_does() {
        assert_eq!(
            Taint::public().to_string(),
            "{conf: \u{22a4}, integ: \u{2205}}"
        );
        let user = json!({"subject": "did:key:alice", "type": GVISOR_ATOM, "typeCode": 1});
        assert_eq!(
            Taint::of([user]).to_string(),
            "{conf: User(did:key:alice), integ: \u{2205}}"
        );
        assert_eq!(
            Taint::of([json!("finance")]).to_string(),
            "{conf: \"finance\", integ: \u{2205}}"
        );
    }
}
