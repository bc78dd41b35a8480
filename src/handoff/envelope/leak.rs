//! The last look at what is handed back.

use serde_json::Value;

use crate::handoff::redact::is_out_of_place;

/// Something in a document that may not leave the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document has a {what} at {at:?}")]
pub struct Leak {
    /// `host-path`, `local-url` or `secret-like-value`.
    pub what: &'static str,
    /// A JSON pointer.
    pub at: String,
}

/// Looks at every text of a document, its keys too. `places` are paths of the host that may not
/// even be part of a text.
///
/// # Errors
/// [`Leak`].
pub fn check_leaks(document: &Value, places: &[&str]) -> Result<(), Leak> {
    look(document, places, "")
}

fn look(value: &Value, places: &[&str], at: &str) -> Result<(), Leak> {
    let text = |text: &str, at: &str| {
        let place = places
            .iter()
            .any(|place| place.len() > 1 && text.contains(place));
        match is_out_of_place(text).or(place.then_some("host-path")) {
            None => Ok(()),
            Some(what) => Err(Leak {
                what,
                at: at.to_owned(),
            }),
        }
    };
    match value {
        Value::String(string) => text(string, at),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| look(item, places, &format!("{at}/{index}"))),
        Value::Object(members) => members.iter().try_for_each(|(key, value)| {
            let below = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            text(key, &below)?;
            look(value, places, &below)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_leaks_is_told_by_its_place() {
        let rows = [
            (json!({"path": "outputs/a", "n": 1, "note": "a / b"}), None),
            (
                json!({"a": [{"b": "/home/x"}]}),
                Some(("host-path", "/a/0/b")),
            ),
            (
                json!({"a": "in /srv/runs/7 it broke"}),
                Some(("host-path", "/a")),
            ),
            (
                json!({"a": "http://localhost:1/"}),
                Some(("local-url", "/a")),
            ),
            (
                json!({"ghp_ABCDEFGHIJKLMNOPQRST": 1}),
                Some(("secret-like-value", "/ghp_ABCDEFGHIJKLMNOPQRST")),
            ),
        ];
        for (document, expected) in rows {
            let leak = check_leaks(&document, &["/srv/runs", ""]).err();
            let expected = expected.map(|(what, at)| Leak {
                what,
                at: at.to_owned(),
            });
            assert_eq!(leak, expected, "{document}");
        }
    }
}
