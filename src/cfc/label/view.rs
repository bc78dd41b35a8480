//! Which of a call's inputs have which label, as a context carries it.

use std::collections::{BTreeMap, btree_map};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Label, LabelError, canonical, pointer_segment, refuse_integrity};

/// The input that a label is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelRoot {
    /// The command text.
    Command,
    /// The program and its arguments.
    Argv,
    /// The arguments of a command text.
    Args,
    /// Variables.
    Env,
    /// The working directory's name.
    Cwd,
    /// Standard input: its label is raised as it is read, the others' as the sandbox starts.
    Stdin,
}

impl LabelRoot {
    /// Every root.
    pub const ALL: [Self; 6] = [
        Self::Command,
        Self::Argv,
        Self::Args,
        Self::Env,
        Self::Cwd,
        Self::Stdin,
    ];

    /// The word for it, first in a path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Argv => "argv",
            Self::Args => "args",
            Self::Env => "env",
            Self::Cwd => "cwd",
            Self::Stdin => "stdin",
        }
    }
}

/// The part of a call's inputs that a label is of, such as `["env", "NAME"]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelPath {
    /// The input.
    pub root: LabelRoot,
    /// The part of it; empty for the whole.
    pub rest: Vec<String>,
}

impl LabelPath {
    /// The whole of an input.
    #[must_use]
    pub fn whole(root: LabelRoot) -> Self {
        Self {
            root,
            rest: Vec::new(),
        }
    }
}

impl fmt::Display for LabelPath {
    /// As a JSON pointer. Views are sorted by the bytes of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.root.as_str())?;
        for segment in &self.rest {
            write!(f, "/{}", pointer_segment(segment))?;
        }
        Ok(())
    }
}

/// The label of one part of a call's inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelEntry {
    /// What it is of.
    pub path: LabelPath,
    /// The label.
    pub label: Label,
    /// What the label is told of, as the harness means it: compared, and not read.
    pub observes: Option<Value>,
}

impl LabelEntry {
    fn to_value(&self) -> Value {
        let mut path = vec![self.path.root.as_str()];
        path.extend(self.path.rest.iter().map(String::as_str));
        let mut value = json!({"path": path, "label": self.label});
        if let Some(observes) = &self.observes {
            value["observes"] = observes.clone();
        }
        value
    }
}

/// The labels of a call's inputs: one entry for each path and `observes`, sorted, none of them
/// empty, of confidentiality alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelView {
    entries: Vec<LabelEntry>,
}

impl LabelView {
    /// A view of these entries: those of the same path and `observes` are joined, and those that
    /// say nothing are left out.
    ///
    /// # Errors
    /// [`LabelError::Integrity`] where one has integrity.
    pub fn new(entries: Vec<LabelEntry>) -> Result<Self, LabelError> {
        for (index, entry) in entries.iter().enumerate() {
            refuse_integrity(&entry.to_value(), &format!("/entries/{index}"))?;
        }
        Ok(Self::joined(entries))
    }

    /// A view that gives the whole of one input these confidentiality entries.
    ///
    /// # Errors
    /// [`LabelError::Integrity`] where an entry has an integrity array inside it.
    pub fn of(root: LabelRoot, confidentiality: Vec<Value>) -> Result<Self, LabelError> {
        Self::new(vec![LabelEntry {
            path: LabelPath::whole(root),
            label: Label {
                confidentiality,
                integrity: Vec::new(),
            },
            observes: None,
        }])
    }

    /// All that these views say together. The order of the views does not matter.
    #[must_use]
    pub fn merge<'a>(views: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::joined(
            views
                .into_iter()
                .flat_map(|view| view.entries.iter().cloned())
                .collect(),
        )
    }

    fn joined(entries: Vec<LabelEntry>) -> Self {
        let mut by_path: BTreeMap<_, LabelEntry> = BTreeMap::new();
        for entry in entries {
            let key = (
                entry.path.to_string(),
                entry.observes.as_ref().map(canonical),
            );
            match by_path.entry(key) {
                btree_map::Entry::Vacant(place) => {
                    place.insert(entry);
                }
                btree_map::Entry::Occupied(mut place) => {
                    let there = place.get_mut();
                    there
                        .label
                        .confidentiality
                        .extend(entry.label.confidentiality);
                    // Two spellings of one value: take the same whichever came first.
                    if entry.observes.as_ref().map(Value::to_string)
                        < there.observes.as_ref().map(Value::to_string)
                    {
                        there.observes = entry.observes;
                    }
                }
            }
        }
        let mut entries: Vec<_> = by_path.into_values().collect();
        for entry in &mut entries {
            entry.label.normalise();
        }
        entries.retain(|entry| !entry.label.is_empty());
        Self { entries }
    }

    /// The entries, sorted by the text of their paths and then by `observes`, none first.
    #[must_use]
    pub fn entries(&self) -> &[LabelEntry] {
        &self.entries
    }

    /// Whether it says nothing, so that a context leaves it out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// As a context's `cfcInputLabels` has it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let entries: Vec<_> = self.entries.iter().map(LabelEntry::to_value).collect();
        json!({"version": 1, "entries": entries})
    }

    /// Reads a context's `cfcInputLabels`. Members beside the known ones are refused: a merge
    /// could not keep them, and a label would lose a part of what it says.
    ///
    /// # Errors
    /// [`LabelError`] where it is no view, or has integrity.
    pub fn from_value(view: &Value) -> Result<Self, LabelError> {
        refuse_integrity(view, "")?;
        let members = object(view, "", &["version", "entries"])?;
        if members.get("version").and_then(Value::as_u64) != Some(1) {
            return Err(malformed("/version", "the number 1"));
        }
        let entries = array(members, "", "entries")?;
        let entries: Result<_, _> = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| read_entry(entry, &format!("/entries/{index}")))
            .collect();
        Ok(Self::joined(entries?))
    }
}

impl Serialize for LabelView {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(out)
    }
}

fn read_entry(entry: &Value, at: &str) -> Result<LabelEntry, LabelError> {
    let members = object(entry, at, &["path", "label", "observes"])?;
    let label_at = format!("{at}/label");
    let label = match members.get("label") {
        Some(label) => object(label, &label_at, &["confidentiality", "integrity"])?,
        None => return Err(malformed(&label_at, "an object")),
    };
    if label.contains_key("integrity") {
        array(label, &label_at, "integrity")?;
    }
    let confidentiality = match label.contains_key("confidentiality") {
        true => array(label, &label_at, "confidentiality")?.clone(),
        false => Vec::new(),
    };
    Ok(LabelEntry {
        path: read_path(array(members, at, "path")?, &format!("{at}/path"))?,
        label: Label {
            confidentiality,
            integrity: Vec::new(),
        },
        observes: members.get("observes").cloned(),
    })
}

fn read_path(segments: &[Value], at: &str) -> Result<LabelPath, LabelError> {
    let texts: Option<Vec<_>> = segments.iter().map(Value::as_str).collect();
    let wrong = || malformed(at, "strings, the first of them the name of an input");
    let texts = texts.ok_or_else(wrong)?;
    let (first, rest) = texts.split_first().ok_or_else(wrong)?;
    let root = LabelRoot::ALL
        .into_iter()
        .find(|root| root.as_str() == *first)
        .ok_or_else(wrong)?;
    Ok(LabelPath {
        root,
        rest: rest.iter().map(|&segment| segment.to_owned()).collect(),
    })
}

fn object<'a>(
    value: &'a Value,
    at: &str,
    known: &[&str],
) -> Result<&'a Map<String, Value>, LabelError> {
    let members = value
        .as_object()
        .ok_or_else(|| malformed(at, "an object"))?;
    match members.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(LabelError::UnknownMember {
            path: format!("{at}/{}", pointer_segment(key)),
        }),
        None => Ok(members),
    }
}

fn array<'a>(
    members: &'a Map<String, Value>,
    at: &str,
    name: &str,
) -> Result<&'a Vec<Value>, LabelError> {
    members
        .get(name)
        .and_then(Value::as_array)
        .ok_or_else(|| malformed(&format!("{at}/{name}"), "an array"))
}

fn malformed(at: &str, expected: &'static str) -> LabelError {
    LabelError::Malformed {
        path: at.to_owned(),
        expected,
    }
}
