//! What a model asks for, read strictly.

use std::time::Duration;

use serde_json::{Number, Value};

/// A call's input, as a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The command text.
    pub command: String,
    /// Where to run it, as it was written.
    pub cwd: Option<String>,
    /// How long it may take.
    pub timeout: Option<Timeout>,
    /// The session, whether or not it is a name.
    pub session: Option<String>,
}

/// A limit in milliseconds, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeout(Number);

impl Timeout {
    /// The limit. One beyond what can be told is the longest one.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let exact = self.0.as_u64().map(Duration::from_millis);
        exact.unwrap_or_else(|| {
            let seconds = self.0.as_f64().unwrap_or(f64::MAX) / 1000.0;
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        })
    }
}

impl std::fmt::Display for Timeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Why an input is none of the tool's. The texts may be shown to the model that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It is no object.
    #[error("the input of bash is a JSON object with a command")]
    NotObject,
    /// There is no command.
    #[error("the input of bash has no command")]
    NoCommand,
    /// A member is not what it must be.
    #[error("the input of bash has something else than {expected} as its {name}")]
    Member {
        /// Which one.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A member that the tool does not take.
    #[error("the input of bash has a member {name:?}, which it does not take")]
    Unknown {
        /// Its name.
        name: String,
    },
}

impl InputError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotObject => "input-no-object",
            Self::NoCommand => "input-no-command",
            Self::Member { .. } => "input-malformed",
            Self::Unknown { .. } => "input-unknown-member",
        }
    }
}

impl Input {
    /// A command with nothing else set.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            cwd: None,
            timeout: None,
            session: None,
        }
    }

    /// Reads an input. What a model says of its own labels (`cfcInputLabels`) is dropped: labels
    /// are the harness's to give.
    ///
    /// # Errors
    /// [`InputError`] where it is anything but the descriptor's schema has.
    pub fn parse(input: &Value) -> Result<Self, InputError> {
        const TEXT: &str = "a string without NUL";
        let members = input.as_object().ok_or(InputError::NotObject)?;
        let (mut command, mut cwd, mut timeout, mut session) = (None, None, None, None);
        for (name, value) in members {
            match name.as_str() {
                "command" => command = Some(text("command", value, TEXT)?),
                "cwd" => cwd = Some(text("cwd", value, TEXT)?),
                "timeoutMs" => timeout = Some(limit(value)?),
                // A string that is no name is refused as a session, not as an input.
                "session" => session = Some(string("session", value, "a string")?),
                "cfcInputLabels" => {}
                _ => return Err(InputError::Unknown { name: name.clone() }),
            }
        }
        Ok(Self {
            command: command.ok_or(InputError::NoCommand)?,
            cwd,
            timeout,
            session,
        })
    }
}

fn string(name: &'static str, value: &Value, expected: &'static str) -> Result<String, InputError> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or(InputError::Member { name, expected })
}

fn text(name: &'static str, value: &Value, expected: &'static str) -> Result<String, InputError> {
    let text = string(name, value, expected)?;
    match text.contains('\0') {
        true => Err(InputError::Member { name, expected }),
        false => Ok(text),
    }
}

fn limit(value: &Value) -> Result<Timeout, InputError> {
    value
        .as_number()
        .filter(|number| number.as_f64().is_some_and(|number| number >= 0.0))
        .map(|number| Timeout(number.clone()))
        .ok_or(InputError::Member {
            name: "timeoutMs",
            expected: "a number of milliseconds, not negative",
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_what_the_schema_has() {
        let input = json!({"command": "a", "cwd": "b", "timeoutMs": 1500, "session": "not a name"});
        let read = Input::parse(&input).unwrap();
        assert_eq!(
            (read.command.as_str(), read.cwd.as_deref()),
            ("a", Some("b"))
        );
        assert_eq!(read.session.as_deref(), Some("not a name"));
        assert_eq!(
            Input::parse(&json!({"command": ""})).unwrap(),
            Input::new("")
        );
        let labelled = json!({"command": "a", "cfcInputLabels": {"version": 1, "entries": []}});
        assert_eq!(Input::parse(&labelled).unwrap(), Input::new("a"));
    }

    #[test]
    fn a_limit_is_any_number_from_0() {
        let cases = [
            (json!(0), "0", Duration::ZERO),
            (json!(1500), "1500", Duration::from_millis(1500)),
            (json!(1.5), "1.5", Duration::from_micros(1500)),
            (json!(1e300), "1e+300", Duration::MAX),
            (
                json!(u64::MAX),
                "18446744073709551615",
                Duration::from_millis(u64::MAX),
            ),
        ];
        for (given, shown, limit) in cases {
            let input = json!({"command": "a", "timeoutMs": given});
            let timeout = Input::parse(&input).unwrap().timeout.unwrap();
            assert_eq!(
                (timeout.to_string().as_str(), timeout.duration()),
                (shown, limit)
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let member = |name, expected| InputError::Member { name, expected };
        let text = "a string without NUL";
        let number = "a number of milliseconds, not negative";
        let unknown = |name: &str| InputError::Unknown { name: name.into() };
        let cases = [
            (json!("ls"), InputError::NotObject),
            (json!(null), InputError::NotObject),
            (json!([]), InputError::NotObject),
            (json!({}), InputError::NoCommand),
            (json!({"cwd": "/"}), InputError::NoCommand),
            (json!({"command": null}), member("command", text)),
            (json!({"command": ["ls"]}), member("command", text)),
            (json!({"command": "a\0b"}), member("command", text)),
            (json!({"command": "a", "cwd": 1}), member("cwd", text)),
            (json!({"command": "a", "cwd": "\0"}), member("cwd", text)),
            (
                json!({"command": "a", "timeoutMs": -1}),
                member("timeoutMs", number),
            ),
            (
                json!({"command": "a", "timeoutMs": -0.5}),
                member("timeoutMs", number),
            ),
            (
                json!({"command": "a", "timeoutMs": "9"}),
                member("timeoutMs", number),
            ),
            (
                json!({"command": "a", "timeoutMs": null}),
                member("timeoutMs", number),
            ),
            (
                json!({"command": "a", "session": 1}),
                member("session", "a string"),
            ),
            (json!({"command": "a", "timeout": 1}), unknown("timeout")),
            (json!({"command": "a", "Cwd": "/"}), unknown("Cwd")),
        ];
        for (given, expected) in cases {
            assert_eq!(Input::parse(&given), Err(expected), "{given}");
        }
    }
}
