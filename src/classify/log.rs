//! runsc's log file: JSON objects that follow each other without a separator.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;

/// How much of a log is read. A failure leaves a few hundred bytes.
const LIMIT: u64 = 256 * 1024;
/// How many messages are kept, and how much of each.
const MOST: usize = 16;
const LONGEST: usize = 4096;

/// What a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunscLog {
    /// There is none: runsc did not get as far as opening it.
    Absent,
    /// No failure: the command started.
    Clean,
    /// The messages of failures, oldest first.
    Errors(Vec<String>),
    /// The labelling runsc refused to start the container. Stock runsc's records have no codes.
    Refused {
        /// Which rule.
        rule: String,
        /// Its sentence.
        message: String,
    },
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    msg: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    code: Option<String>,
}

impl RunscLog {
    /// Reads a log. One that cannot be read tells nothing, which is not that all went well.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LIMIT).read_to_end(&mut bytes));
        match read {
            Ok(_) => Self::parse(&bytes),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(err) => Self::Errors(vec![format!("the log could not be read: {err}")]),
        }
    }

    /// Takes a log's bytes apart. What is not a record is a failure that nothing is known of.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut errors = Vec::new();
        for record in serde_json::Deserializer::from_slice(bytes).into_iter::<Record>() {
            match record {
                Ok(Record { msg, level, code }) if matches!(level.as_str(), "error" | "fatal") => {
                    match code {
                        Some(rule) => {
                            return Self::Refused {
                                rule,
                                message: shortened(msg),
                            };
                        }
                        None => errors.push(shortened(msg)),
                    }
                }
                Ok(_) => {}
                Err(err) => errors.push(format!("the log could not be understood: {err}")),
            }
            if errors.len() == MOST {
                break;
            }
        }
        if errors.is_empty() {
            Self::Clean
        } else {
            Self::Errors(errors)
        }
    }
}

/// Cut in the middle: what a message is about stands first, and why it came last.
fn shortened(message: String) -> String {
    if message.len() <= LONGEST {
        return message;
    }
    let head = (0..=LONGEST / 2)
        .rev()
        .find(|at| message.is_char_boundary(*at))
        .unwrap_or(0);
    let tail = (message.len() - LONGEST / 2..).find(|at| message.is_char_boundary(*at));
    let tail = tail.unwrap_or(message.len());
    format!("{} … {}", &message[..head], &message[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_need_no_separator_and_only_failures_count() {
        let errors = |list: &[&str]| RunscLog::Errors(list.iter().map(|m| (*m).into()).collect());
        let cases: [(&str, RunscLog); 6] = [
            ("", RunscLog::Clean),
            (
                r#"{"msg":"a","level":"warning","time":"t"}"#,
                RunscLog::Clean,
            ),
            (
                r#"{"msg":"a","level":"error"}{"msg":"b","level":"error"}"#,
                errors(&["a", "b"]),
            ),
            (
                r#"{"msg":"a","level":"info"} {"msg":"b","level":"fatal"}"#,
                errors(&["b"]),
            ),
            (
                r#"{"msg":"a","level":"error"}{"msg":"no","level":"error","code":"egress"}"#,
                RunscLog::Refused {
                    rule: "egress".into(),
                    message: "no".into(),
                },
            ),
            (
                r#"{"msg":"a","level":"error"}{"msg"#,
                errors(&[
                    "a",
                    "the log could not be understood: EOF while parsing a string at line 1 column 32",
                ]),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(RunscLog::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_long_message_keeps_both_ends() {
        let long = format!("first {} last", "ü".repeat(9000));
        let short = shortened(long);
        assert!(short.len() <= LONGEST + " … ".len());
        assert!(short.starts_with("first ") && short.ends_with(" last"));
    }

    #[test]
    fn no_file_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RunscLog::read(&dir.path().join("none")), RunscLog::Absent);
        File::create(dir.path().join("log")).unwrap();
        assert_eq!(RunscLog::read(&dir.path().join("log")), RunscLog::Clean);
        assert!(matches!(RunscLog::read(dir.path()), RunscLog::Errors(_)));
    }
}
