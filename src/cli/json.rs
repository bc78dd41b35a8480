//! The object that `run --json` prints (bundles/schemas/run-v1.schema.json), written as a stream:
//! escaped text can be six times as long as what it stands for.

use std::fmt;
use std::io::{self, BufWriter, Write};

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::clean::clean;
use crate::cfc::label::Label;
use crate::cfc::result::Diagnostic;
use crate::driver::{Captured, Cause, End, Observation, Outcome};

const SCHEMA: &str = "runsc-driver/run/v1";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    schema: &'static str,
    outcome: &'static str,
    exit_code: Option<u8>,
    exit_cause: Option<Cause>,
    code: Option<String>,
    message: Option<String>,
    container_id: Option<&'a str>,
    elapsed_ms: Option<f64>,
    stdout: Option<Stream<'a>>,
    stderr: Option<Stream<'a>>,
    cfc: Option<Cfc<'a>>,
    runsc: Option<Runsc<'a>>,
}

/// What the labels let out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cfc<'a> {
    verdict: &'static str,
    label: Option<&'a Label>,
    /// How many bytes are withheld of each stream, where that may be told.
    withheld: Option<Withheld>,
    diagnostics: &'a [Diagnostic],
}

#[derive(Serialize)]
struct Withheld {
    stdout: u64,
    stderr: u64,
}

impl<'a> Cfc<'a> {
    fn of(observation: &'a Observation) -> Option<Self> {
        Some(match observation {
            Observation::Untracked(_) => return None,
            Observation::Observed {
                label, diagnostics, ..
            } => Self {
                verdict: "observed",
                label: Some(label),
                withheld: None,
                diagnostics,
            },
            Observation::Opaque {
                label,
                diagnostics,
                stdout_bytes,
                stderr_bytes,
            } => Self {
                verdict: "opaque",
                label: Some(label),
                withheld: Some(Withheld {
                    stdout: *stdout_bytes,
                    stderr: *stderr_bytes,
                }),
                diagnostics,
            },
            Observation::Denied { diagnostics } => Self {
                verdict: "denied",
                label: None,
                withheld: None,
                diagnostics,
            },
        })
    }
}

/// What is known of runsc.
#[derive(Serialize)]
struct Runsc<'a> {
    status: Option<i32>,
    signal: Option<i32>,
    log: &'a [String],
}

/// An output stream: text where it is UTF-8 without NUL, base64 otherwise.
#[derive(Serialize)]
struct Stream<'a> {
    bytes: u64,
    truncated: bool,
    open: bool,
    encoding: &'static str,
    data: Data<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<Data<'a>>,
}

enum Data<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Serialize for Data<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.collect_str(&Base64(bytes)),
        }
    }
}

struct Base64<'a>(&'a [u8]);

impl fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Base64Display::new(self.0, &STANDARD).fmt(f)
    }
}

impl<'a> Stream<'a> {
    fn of(captured: &'a Captured) -> Self {
        let Captured {
            head,
            tail,
            bytes,
            truncated,
            open,
            ..
        } = captured;
        // A cut may go through the middle of a character: what is left of it is left out.
        let (whole_head, whole_tail) = if *truncated {
            (without_cut_end(head), without_cut_start(tail))
        } else {
            (head.as_slice(), tail.as_slice())
        };
        let (encoding, data, tail) = match (text(whole_head), text(whole_tail)) {
            (Some(head), Some(tail)) => ("utf-8", Data::Text(head), Data::Text(tail)),
            _ => ("base64", Data::Bytes(head), Data::Bytes(tail)),
        };
        let tail = truncated.then_some(tail);
        Self {
            bytes: *bytes,
            truncated: *truncated,
            open: *open,
            encoding,
            data,
            tail,
        }
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

fn without_cut_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(err) if err.error_len().is_none() => &bytes[..err.valid_up_to()],
        _ => bytes,
    }
}

fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xC0 == 0x80)
        .count();
    &bytes[continuation..]
}

/// Prints what became of a call.
pub(super) fn outcome(to: impl Write, outcome: &Outcome) -> io::Result<()> {
    let released = outcome.released();
    let exit = outcome.exit();
    let word = outcome.end.word();
    let code = match outcome.end {
        End::NotStarted(failure) => Some(failure),
        _ => None,
    };
    print(
        to,
        &Report {
            schema: SCHEMA,
            outcome: word,
            exit_code: exit.map(|exit| exit.code),
            exit_cause: exit.map(|exit| exit.cause),
            code: code.and_then(|code| Some(serde_json::to_value(code).ok()?.as_str()?.to_owned())),
            message: None,
            container_id: Some(&outcome.container_id),
            elapsed_ms: Some((outcome.elapsed.as_secs_f64() * 1e6).round() / 1e3),
            stdout: released.map(|released| Stream::of(&released.stdout)),
            stderr: released.map(|released| Stream::of(&released.stderr)),
            cfc: Cfc::of(&outcome.observation),
            runsc: released.is_some().then_some(Runsc {
                status: outcome.evidence.status,
                signal: outcome.evidence.signal,
                log: &outcome.evidence.log,
            }),
        },
    )
}

/// Prints why there was no outcome.
pub(super) fn refusal(to: impl Write, code: &str, message: &str) -> io::Result<()> {
    print(
        to,
        &Report {
            schema: SCHEMA,
            outcome: "refused",
            exit_code: None,
            exit_cause: None,
            code: Some(code.to_owned()),
            message: Some(clean(message)),
            container_id: None,
            elapsed_ms: None,
            stdout: None,
            stderr: None,
            cfc: None,
            runsc: None,
        },
    )
}

fn print(to: impl Write, report: &Report<'_>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 * 1024, to);
    serde_json::to_writer(&mut to, report).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn stream(head: &[u8], tail: &[u8], truncated: bool) -> Value {
        let captured = Captured {
            head: head.into(),
            tail: tail.into(),
            bytes: 99,
            truncated,
            ..Captured::default()
        };
        serde_json::to_value(Stream::of(&captured)).unwrap()
    }

    #[test]
    fn every_byte_survives_and_a_cut_character_is_left_out() {
        let whole = |encoding: &str, data: &str| json!({"bytes": 99, "truncated": false, "open": false, "encoding": encoding, "data": data});
        let cut = |encoding: &str, data: &str, tail: &str| {
            json!({
                "bytes": 99, "truncated": true, "open": false,
                "encoding": encoding, "data": data, "tail": tail
            })
        };
        assert_eq!(
            stream("hü\n".as_bytes(), b"", false),
            whole("utf-8", "hü\n")
        );
        assert_eq!(stream(b"a\xff", b"", false), whole("base64", "Yf8="));
        assert_eq!(stream(b"a\0", b"", false), whole("base64", "YQA="));
        assert_eq!(stream(b"a\xc3", b"\xbcb", true), cut("utf-8", "a", "b"));
        assert_eq!(stream(b"a\xc3", b"", false), whole("base64", "YcM="));
        assert_eq!(stream(b"a\xffb", b"c", true), cut("base64", "Yf9i", "Yw=="));
    }
}
