//! The document: written by a host, read by a script.

use std::ffi::OsStr;

use serde_json::{Map, Value, json};

use super::template::{Block, ChildTemplate, Kind, substitute};
use crate::cfc::json::{self as strict, JsonError};
use crate::handoff::digest::whole;

/// The variable that holds the document.
pub const VARIABLE: &str = "WORKFLOW_HOST";
/// How long a child may take where the document does not say.
pub const DEFAULT_DEADLINE_MS: u64 = 600_000;
/// The largest document: a kernel hands no longer string on to a program.
pub const MAX_DOCUMENT: usize = 120 * 1024;

/// The names that are the contract's own and never an extension's.
const RESERVED: [&str; 9] = [
    "v",
    "exe",
    "child_args",
    "child_id",
    "ids",
    "journal",
    "events",
    "cwd",
    "deadline_ms",
];

/// What a script finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Nobody handed anything off: the script does its own work.
    Absent,
    /// Something was handed off that cannot be accounted for. There is no context.
    Unusable(Unusable),
    /// What the script may launch.
    Context(Box<Context>),
}

/// Why a document is no handoff. None of it repeats what the document says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The variable is not UTF-8 or not one JSON value.
    #[error("{VARIABLE} cannot be read, since {0}")]
    Json(#[from] JsonError),
    /// It is longer than a variable can be.
    #[error("{VARIABLE} is longer than {MAX_DOCUMENT} bytes")]
    TooLarge,
    /// It is not an object.
    #[error("{VARIABLE} is not a JSON object")]
    NotObject,
    /// Another version, or none.
    #[error("{VARIABLE} has another version than 1")]
    Version,
    /// A field is missing or is not what the contract says.
    #[error("{VARIABLE} has no usable `{field}`: it is to be {expected}")]
    Field {
        /// Which one.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
}

impl Unusable {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Json(err) => err.code(),
            Self::TooLarge => "too-large",
            Self::NotObject => "not-object",
            Self::Version => "unknown-version",
            Self::Field { .. } => "bad-field",
        }
    }
}

/// A handoff that was read whole. A script cannot make one and cannot change one.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    exe: String,
    child_args: Vec<String>,
    child_id: ChildTemplate,
    ids: Block,
    journal: Option<String>,
    events: Option<String>,
    cwd: Option<String>,
    deadline_ms: Option<u64>,
    extensions: Map<String, Value>,
}

/// Reads the variable's value.
#[must_use]
pub fn read(value: Option<&OsStr>) -> Reading {
    let Some(value) = value else {
        return Reading::Absent;
    };
    // A host that delegates no further sets the variable to nothing.
    if value.as_encoded_bytes().trim_ascii().is_empty() {
        return Reading::Absent;
    }
    match parse(value.as_encoded_bytes()) {
        Ok(context) => Reading::Context(Box::new(context)),
        Err(reason) => Reading::Unusable(reason),
    }
}

fn parse(bytes: &[u8]) -> Result<Context, Unusable> {
    if bytes.len() > MAX_DOCUMENT {
        return Err(Unusable::TooLarge);
    }
    let Value::Object(mut members) = strict::read(bytes)? else {
        return Err(Unusable::NotObject);
    };
    let mut take = |name: &str| members.shift_remove(name);
    if take("v").as_ref().and_then(whole) != Some(1) {
        return Err(Unusable::Version);
    }
    let context = Context {
        exe: take("exe")
            .and_then(text)
            .ok_or(field("exe", "a program"))?,
        child_args: take("child_args")
            .and_then(texts)
            .ok_or(field("child_args", "an array of strings, not empty"))?,
        child_id: take("child_id")
            .and_then(text)
            .and_then(|template| ChildTemplate::new(&template))
            .ok_or(field("child_id", "a string with {n}"))?,
        ids: take("ids")
            .and_then(|ids| block(&ids))
            .ok_or(field("ids", "a first number and a count, both positive"))?,
        journal: take("journal").and_then(text),
        events: take("events").and_then(text),
        cwd: take("cwd").and_then(text),
        deadline_ms: deadline(take("deadline_ms"))?,
        extensions: Map::new(),
    };
    Ok(Context {
        extensions: members,
        ..context
    })
}

fn field(field: &'static str, expected: &'static str) -> Unusable {
    Unusable::Field { field, expected }
}

/// A string with something in it.
fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn texts(value: Value) -> Option<Vec<String>> {
    let Value::Array(items) = value else {
        return None;
    };
    let texts: Option<Vec<_>> = items
        .into_iter()
        .map(|item| match item {
            Value::String(text) => Some(text),
            _ => None,
        })
        .collect();
    texts.filter(|texts| !texts.is_empty())
}

fn block(ids: &Value) -> Option<Block> {
    match ids.as_array()?.as_slice() {
        [first, count] => Block::new(whole(first)?, whole(count)?),
        _ => None,
    }
}

fn deadline(value: Option<Value>) -> Result<Option<u64>, Unusable> {
    match value {
        Some(number @ Value::Number(_)) => match whole(&number) {
            Some(ms @ 1..) => Ok(Some(ms)),
            _ => Err(field("deadline_ms", "a whole number of milliseconds")),
        },
        _ => Ok(None),
    }
}

impl Context {
    /// Where the script's journal goes; none for one in memory.
    #[must_use]
    pub fn journal_path(&self) -> Option<&str> {
        self.journal.as_deref()
    }

    /// Where the script's sidecar of launches goes; none for no sidecar.
    #[must_use]
    pub fn events_path(&self) -> Option<&str> {
        self.events.as_deref()
    }

    /// How many children may be launched, in all.
    #[must_use]
    pub fn child_capacity(&self) -> u64 {
        self.ids.count()
    }

    /// A value that the host gave under a name of its own. None where it is not there, and
    /// `Some(Null)` for an explicit null.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&Value> {
        self.extensions.get(name)
    }

    /// The ordinals.
    #[must_use]
    pub fn ids(&self) -> Block {
        self.ids
    }

    /// Where a child works; none for where the script does.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// How long each child may take.
    #[must_use]
    pub fn deadline_ms(&self) -> u64 {
        self.deadline_ms.unwrap_or(DEFAULT_DEADLINE_MS)
    }

    /// The id of the child with this ordinal.
    #[must_use]
    pub fn child_id(&self, ordinal: u64) -> String {
        self.child_id.render(ordinal)
    }

    /// The program and the arguments that launch a child.
    #[must_use]
    pub fn child_argv(&self, kind: &Kind, ordinal: u64) -> Vec<String> {
        let child = self.child_id(ordinal);
        let values = [("{kind}", kind.as_str()), ("{child}", child.as_str())];
        let args = self.child_args.iter().map(|arg| substitute(arg, &values));
        std::iter::once(self.exe.clone()).chain(args).collect()
    }

    /// The document again: what was unset is not in it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        };
        put("v", Some(json!(1)));
        put("exe", Some(json!(self.exe)));
        put("child_args", Some(json!(self.child_args)));
        put("child_id", Some(json!(self.child_id.as_str())));
        put("ids", Some(json!([self.ids.first(), self.ids.count()])));
        put("journal", self.journal.as_ref().map(|path| json!(path)));
        put("events", self.events.as_ref().map(|path| json!(path)));
        put("cwd", self.cwd.as_ref().map(|path| json!(path)));
        put("deadline_ms", self.deadline_ms.map(|ms| json!(ms)));
        members.extend(self.extensions.clone());
        Value::Object(members)
    }
}

/// What a host hands off, before it is known to be usable.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    /// The program to spawn.
    pub exe: String,
    /// Its arguments for one child.
    pub child_args: Vec<String>,
    /// How children are named.
    pub child_id: String,
    /// The ordinals: the first and how many.
    pub ids: (u64, u64),
    /// Where the script's journal goes.
    pub journal: Option<String>,
    /// Where the script's sidecar goes.
    pub events: Option<String>,
    /// Where a child works.
    pub cwd: Option<String>,
    /// How long each child may take.
    pub deadline_ms: Option<u64>,
    /// The host's own values, by name.
    pub extensions: Map<String, Value>,
}

/// Why a document is not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No reader would take it.
    #[error("the handoff would be unusable: {0}")]
    Unusable(#[from] Unusable),
    /// A reader would take it for something else.
    #[error(
        "the handoff's `{0}` would not be read as it is meant: leave it out, or give it a value"
    )]
    Changed(String),
    /// An extension has a name of the contract's own.
    #[error("the extension `{0}` has a name that the contract keeps for itself: choose another")]
    ReservedName(String),
}

impl WriteError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unusable(reason) => reason.code(),
            Self::Changed(_) => "would-change",
            Self::ReservedName(_) => "reserved-name",
        }
    }
}

impl Writer {
    /// The document, which a reader takes for what it says.
    ///
    /// # Errors
    /// [`WriteError`] where it would not.
    pub fn write(&self) -> Result<(String, Context), WriteError> {
        if let Some(name) = self
            .extensions
            .keys()
            .find(|name| RESERVED.contains(&name.as_str()))
        {
            return Err(WriteError::ReservedName(name.clone()));
        }
        let mut members = Map::new();
        members.insert("v".into(), json!(1));
        members.insert("exe".into(), json!(self.exe));
        members.insert("child_args".into(), json!(self.child_args));
        members.insert("child_id".into(), json!(self.child_id));
        members.insert("ids".into(), json!([self.ids.0, self.ids.1]));
        for (name, path) in [
            ("journal", &self.journal),
            ("events", &self.events),
            ("cwd", &self.cwd),
        ] {
            if let Some(path) = path {
                members.insert(name.into(), json!(path));
            }
        }
        if let Some(ms) = self.deadline_ms {
            members.insert("deadline_ms".into(), json!(ms));
        }
        members.extend(self.extensions.clone());
        let document = Value::Object(members);
        let text = document.to_string();
        let context = parse(text.as_bytes())?;
        let read = context.to_value();
        let (Value::Object(meant), Value::Object(read)) = (document, read) else {
            return Err(Unusable::NotObject.into());
        };
        match meant
            .iter()
            .find(|(name, value)| read.get(*name) != Some(value))
        {
            Some((name, _)) => Err(WriteError::Changed(name.clone())),
            None => Ok((text, context)),
        }
    }
}

#[cfg(test)]
mod tests;
