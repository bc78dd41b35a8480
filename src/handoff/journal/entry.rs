//! One line of a journal, exactly as the contract spells it.

use serde_json::{Map, Value, json};

use crate::handoff::digest::whole;

/// What a script asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The kind of child.
    pub kind: String,
    /// What the child was given.
    pub input: Value,
    /// A name for people.
    pub label: String,
    /// Where in the workflow the call was made.
    pub scope: String,
    /// The most steps.
    pub max_steps: Option<u64>,
    /// What the result has to look like.
    pub schema: Option<Value>,
}

impl Call {
    /// Whether a recorded call answers this one: the label, the phase and the time do not matter.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.input == other.input
            && self.max_steps == other.max_steps
            && self.scope == other.scope
            && self.schema == other.schema
    }
}

/// Why a call gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The deadline came first.
    TimedOut,
    /// The child ended well and said nothing.
    NoReport,
    /// The child ran out of steps.
    MaxSteps,
    /// The child ran out of context.
    ContextYield,
    /// Nothing was launched.
    Skipped,
    /// The child failed, in its words.
    Failed(String),
}

impl Failure {
    /// The sidecar's word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::NoReport => "no_report",
            Self::MaxSteps => "max_steps",
            Self::ContextYield => "context_yield",
            Self::Skipped => "skipped",
            Self::Failed(_) => "failed",
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::TimedOut => json!(["TimedOut"]),
            Self::NoReport => json!(["NoReport"]),
            Self::MaxSteps => json!(["MaxSteps"]),
            Self::ContextYield => json!(["ContextYield"]),
            Self::Skipped => json!(["Skipped"]),
            Self::Failed(reason) => json!(["Failed", reason]),
        }
    }

    fn from_value(value: &Value) -> Option<Self> {
        let (word, reason) = match value {
            // Some writers leave the brackets out.
            Value::String(word) => (word.as_str(), None),
            Value::Array(items) => match items.as_slice() {
                [word] => (word.as_str()?, None),
                [word, reason] => (word.as_str()?, Some(reason.as_str()?)),
                _ => return None,
            },
            _ => return None,
        };
        match (word, reason) {
            ("TimedOut", None) => Some(Self::TimedOut),
            ("NoReport", None) => Some(Self::NoReport),
            ("MaxSteps", None) => Some(Self::MaxSteps),
            ("ContextYield", None) => Some(Self::ContextYield),
            ("Skipped", None) => Some(Self::Skipped),
            ("Failed", reason) => Some(Self::Failed(reason.unwrap_or_default().to_owned())),
            _ => None,
        }
    }
}

/// What a launched child used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attempt {
    /// The child's id: the one key that joins a row to whatever the child wrote.
    pub attempt_id: String,
    /// The highest step that it told.
    pub steps_used: u64,
    /// The tokens of its prompts.
    pub prompt_tokens: u64,
    /// The tokens of its answers.
    pub completion_tokens: u64,
    /// What it cost; none for unknown, which is not free.
    pub cost_usd: Option<f64>,
    /// Why the counters fall short, where they do.
    pub unaccounted: Option<String>,
}

/// How a call resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With a value.
    Finished {
        /// The child's report.
        value: Value,
        /// What it used.
        attempt: Attempt,
    },
    /// Without one.
    DidNotFinish {
        /// Why.
        failure: Failure,
        /// What was used; none exactly where nothing was launched.
        attempt: Option<Attempt>,
    },
}

impl Outcome {
    /// The sidecar's word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Finished { .. } => "captured",
            Self::DidNotFinish { failure, .. } => failure.word(),
        }
    }

    /// The child's id, where one was launched.
    #[must_use]
    pub fn attempt_id(&self) -> Option<&str> {
        match self {
            Self::Finished { attempt, .. } => Some(&attempt.attempt_id),
            Self::DidNotFinish { attempt, .. } => Some(&attempt.as_ref()?.attempt_id),
        }
    }
}

/// A resolved call.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What was asked for.
    pub call: Call,
    /// How it resolved.
    pub outcome: Outcome,
    /// The phase in which it was issued.
    pub phase: Option<String>,
    /// When it was issued, in milliseconds since the epoch.
    pub started_at: Option<u64>,
    /// When it resolved.
    pub finished_at: Option<u64>,
}

/// A value is not an entry, at this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry has no usable `{0}`")]
pub struct EntryError(pub &'static str);

impl Entry {
    /// The line's value: `{"v":1,"e":…}`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut call = json!({
            "kind": self.call.kind,
            "input": self.call.input,
            "label": self.call.label,
            "scope": self.call.scope,
        });
        put(&mut call, "max_steps", self.call.max_steps.map(Value::from));
        put(&mut call, "schema", self.call.schema.clone());
        let outcome = match &self.outcome {
            Outcome::Finished { value, attempt } => {
                json!(["Finished", { "value": value, "attempt": attempt.to_value() }])
            }
            Outcome::DidNotFinish { failure, attempt } => json!(["DidNotFinish", {
                "failure": failure.to_value(),
                "attempt": attempt.as_ref().map(Attempt::to_value),
            }]),
        };
        let mut entry = json!({ "call": call, "outcome": outcome });
        put(&mut entry, "phase", self.phase.clone().map(Value::from));
        put(&mut entry, "started_at", self.started_at.map(Value::from));
        put(&mut entry, "finished_at", self.finished_at.map(Value::from));
        json!({ "v": 1, "e": entry })
    }

    /// Reads the value of a line's `e`.
    ///
    /// # Errors
    /// [`EntryError`] names the member that is missing or is something else.
    pub fn from_value(entry: &Value) -> Result<Self, EntryError> {
        let call = entry.get("call").ok_or(EntryError("call"))?;
        Ok(Self {
            call: Call {
                kind: string(call, "kind")?,
                input: call.get("input").cloned().ok_or(EntryError("input"))?,
                label: string(call, "label")?,
                scope: string(call, "scope")?,
                max_steps: optional(call, "max_steps", whole)?,
                schema: call
                    .get("schema")
                    .filter(|schema| !schema.is_null())
                    .cloned(),
            },
            outcome: outcome(entry.get("outcome").ok_or(EntryError("outcome"))?)?,
            phase: optional(entry, "phase", |value| value.as_str().map(str::to_owned))?,
            started_at: optional(entry, "started_at", whole)?,
            finished_at: optional(entry, "finished_at", whole)?,
        })
    }
}

impl Attempt {
    fn to_value(&self) -> Value {
        let mut value = json!({
            "attempt_id": self.attempt_id,
            "steps_used": self.steps_used,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        });
        put(&mut value, "cost_usd", self.cost_usd.map(Value::from));
        put(
            &mut value,
            "unaccounted",
            self.unaccounted.clone().map(Value::from),
        );
        value
    }

    fn from_value(value: &Value) -> Result<Self, EntryError> {
        let count = |name| value.get(name).and_then(whole).ok_or(EntryError(name));
        Ok(Self {
            attempt_id: string(value, "attempt_id")?,
            steps_used: count("steps_used")?,
            prompt_tokens: count("prompt_tokens")?,
            completion_tokens: count("completion_tokens")?,
            cost_usd: optional(value, "cost_usd", |cost| {
                cost.as_f64().filter(|cost| *cost >= 0.0)
            })?,
            unaccounted: optional(value, "unaccounted", |why| why.as_str().map(str::to_owned))?,
        })
    }
}

fn outcome(value: &Value) -> Result<Outcome, EntryError> {
    let [word, of] = value.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err(EntryError("outcome"));
    };
    let attempt = of.get("attempt").ok_or(EntryError("attempt"))?;
    match word.as_str() {
        Some("Finished") => Ok(Outcome::Finished {
            value: of.get("value").cloned().ok_or(EntryError("value"))?,
            attempt: Attempt::from_value(attempt)?,
        }),
        Some("DidNotFinish") => Ok(Outcome::DidNotFinish {
            failure: of
                .get("failure")
                .and_then(Failure::from_value)
                .ok_or(EntryError("failure"))?,
            attempt: match attempt {
                Value::Null => None,
                attempt => Some(Attempt::from_value(attempt)?),
            },
        }),
        _ => Err(EntryError("outcome")),
    }
}

fn put(object: &mut Value, name: &str, value: Option<Value>) {
    if let (Value::Object(members), Some(value)) = (object, value) {
        let members: &mut Map<_, _> = members;
        members.insert(name.to_owned(), value);
    }
}

fn string(of: &Value, name: &'static str) -> Result<String, EntryError> {
    let text = of.get(name).and_then(Value::as_str);
    text.map(str::to_owned).ok_or(EntryError(name))
}

/// A member that may be missing or null; anything else has to be right.
fn optional<T>(
    of: &Value,
    name: &'static str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, EntryError> {
    match of.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or(EntryError(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spelling that the contract's own library writes.
    fn finished() -> Value {
        json!({
            "call": {"kind": "lint", "input": {"query": "x"}, "label": "lint:a", "scope": ""},
            "outcome": ["Finished", {"value": {"ok": 1}, "attempt": {
                "attempt_id": "job3-c-9", "steps_used": 2, "prompt_tokens": 10,
                "completion_tokens": 4
            }}],
            "phase": "check", "started_at": 1_790_000_000_000_u64,
            "finished_at": 1_790_000_000_040_u64
        })
    }

    fn again(entry: &Value) -> Value {
        Entry::from_value(entry).unwrap().to_value()["e"].take()
    }

    #[test]
    fn every_outcome_is_the_same_again() {
        assert_eq!(again(&finished()), finished());
        let attempt = json!({
            "attempt_id": "c-1", "steps_used": 0, "prompt_tokens": 0, "completion_tokens": 0,
            "cost_usd": 0.25, "unaccounted": "it was killed"
        });
        for failure in [
            json!(["TimedOut"]),
            json!(["NoReport"]),
            json!(["MaxSteps"]),
            json!(["ContextYield"]),
            json!(["Failed", "it broke"]),
        ] {
            let mut entry = finished();
            entry["outcome"] = json!(["DidNotFinish", {"failure": failure, "attempt": attempt}]);
            assert_eq!(again(&entry), entry);
        }
        let mut skipped = finished();
        skipped["outcome"] = json!(["DidNotFinish", {"failure": ["Skipped"], "attempt": null}]);
        skipped["call"]["max_steps"] = json!(4);
        skipped["call"]["schema"] = json!({"type": "object"});
        assert_eq!(again(&skipped), skipped);
    }

    #[test]
    fn a_bare_word_and_a_null_are_tolerated() {
        let mut entry = finished();
        entry["outcome"] = json!(["DidNotFinish", {"failure": "NoReport", "attempt": null}]);
        entry["phase"] = json!(null);
        let read = Entry::from_value(&entry).unwrap();
        assert_eq!(read.phase, None);
        assert_eq!(read.outcome.word(), "no_report");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rows: Vec<(&[&str], Value, &str)> = vec![
            (&["call"], json!(null), "kind"),
            (&["call", "kind"], json!(1), "kind"),
            (&["call", "max_steps"], json!(1.5), "max_steps"),
            (&["outcome"], json!(["Finished"]), "outcome"),
            (&["outcome"], json!(["Other", {"attempt": null}]), "outcome"),
            (&["outcome"], json!(["Finished", {"value": 1}]), "attempt"),
            (
                &["outcome"],
                json!(["DidNotFinish", {"failure": ["Odd"], "attempt": null}]),
                "failure",
            ),
            (&["started_at"], json!("soon"), "started_at"),
            (&["finished_at"], json!(-1), "finished_at"),
            (&["phase"], json!(3), "phase"),
        ];
        for (path, value, named) in rows {
            let mut entry = finished();
            let mut at = &mut entry;
            for name in path {
                at = &mut at[name];
            }
            *at = value;
            assert_eq!(
                Entry::from_value(&entry),
                Err(EntryError(named)),
                "{path:?}"
            );
        }
    }
}
