//! The keys by which a caller finds its own again in everything that is handed back.

use serde_json::{Map, Value};

use super::digest::Sha256Hex;

/// The caller's keys. They are carried through as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Correlation {
    /// The caller's own name for its job.
    pub sandbox_session_id: String,
    /// The step, among the steps of that job.
    pub fanout_id: String,
    /// The caller's session, where it has one.
    pub session_id: Option<String>,
    /// The caller's request, where it has one.
    pub request_id: Option<String>,
    /// What the step was made from.
    pub source_digest: Option<Sha256Hex>,
}

impl Correlation {
    /// The keys that are known, by name.
    #[must_use]
    pub fn members(&self) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                members.insert(name.to_owned(), value.into());
            }
        };
        put("sandbox_session_id", Some(&self.sandbox_session_id));
        put("session_id", self.session_id.as_deref());
        put("request_id", self.request_id.as_deref());
        put("fanout_id", Some(&self.fanout_id));
        put(
            "source_digest",
            self.source_digest.as_ref().map(Sha256Hex::as_str),
        );
        members
    }

    /// Puts the keys that are known into an object that does not have them.
    pub fn add_to(&self, object: &mut Value) {
        if let Value::Object(object) = object {
            for (name, value) in self.members() {
                object.entry(name).or_insert(value);
            }
        }
    }
}
