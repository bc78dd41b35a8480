//! Host delegation: a request, and what came of it.

use serde_json::{Value, json};

use crate::handoff::broker::Worker;
use crate::handoff::contract::Contract;
use crate::handoff::correlation::Correlation;
use crate::handoff::digest::Sha256Hex;
use crate::handoff::time::text_of_millis;

const REQUEST: &str = "wp-codebox/host-delegation-request/v1";
const EVENT: &str = "wp-codebox/host-delegation-event/v1";
const RESULT: &str = "wp-codebox/host-delegation-result/v1";

/// Why a request or a provider's result is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationIssue {
    /// The document is of another contract. This is a mistake of the caller's.
    #[error("the document is of another contract")]
    SchemaInvalid,
    /// The request asks for nothing, or has something in a wrong shape.
    #[error("the request is not one")]
    RequestInvalid,
    /// The result is not one.
    #[error("the provider's result is not one")]
    ResultInvalid,
    /// The result answers another request.
    #[error("the provider's result answers another request")]
    RequestIdMismatch,
    /// The result is of another session.
    #[error("the provider's result is of another session")]
    ScopeMismatch,
    /// The result was made from something else.
    #[error("the provider's result was made from another source")]
    SourceDigestMismatch,
}

impl DelegationIssue {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::SchemaInvalid => "schema-invalid",
            Self::RequestInvalid => "request-invalid",
            Self::ResultInvalid => "result-invalid",
            Self::RequestIdMismatch => "request-id-mismatch",
            Self::ScopeMismatch => "scope-mismatch",
            Self::SourceDigestMismatch => "source-digest-mismatch",
        }
    }

    /// The code in a failed result.
    #[must_use]
    pub fn result_code(self) -> String {
        let word = match self {
            Self::SchemaInvalid | Self::RequestInvalid => "request_invalid",
            Self::ResultInvalid => "provider_status_invalid",
            Self::RequestIdMismatch => "request_id_mismatch",
            Self::ScopeMismatch => "scope_mismatch",
            Self::SourceDigestMismatch => "source_digest_mismatch",
        };
        format!("wp_codebox_host_delegation_{word}")
    }
}

/// A request that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegation(Value);

/// What a provider made of a request: its result where that is taken, else why not.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegated {
    /// The result, of its contract.
    pub value: Value,
    /// Why the provider's own was dropped.
    pub issue: Option<DelegationIssue>,
}

fn text<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of.get(name)?
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

fn digest(of: &Value) -> Option<Sha256Hex> {
    let source = of.get("source_digest")?;
    let text = source.as_str().or_else(|| source.get("value")?.as_str())?;
    Sha256Hex::parse(&text.trim().to_lowercase())
}

fn session(of: &Value) -> Option<&str> {
    text(of, "sandbox_session_id").or_else(|| text(of, "session_id"))
}

impl Delegation {
    /// Checks a request.
    ///
    /// # Errors
    /// [`DelegationIssue::SchemaInvalid`] for another contract, which is to be told as an error;
    /// [`DelegationIssue::RequestInvalid`], which is to be told as a failed result.
    pub fn new(request: Value) -> Result<Self, DelegationIssue> {
        if request
            .get("schema")
            .is_some_and(|schema| schema != REQUEST)
        {
            return Err(DelegationIssue::SchemaInvalid);
        }
        let checked = Contract::DelegationRequest.check(&request);
        checked.map_err(|_| DelegationIssue::RequestInvalid)?;
        Ok(Self(request))
    }

    /// The request of a launch.
    #[must_use]
    pub fn of_worker(worker: &Worker, correlation: &Correlation) -> Self {
        let mut request = json!({
            "schema": REQUEST,
            "request_id": worker.child,
            "goal": worker.label,
            "target": { "kind": worker.kind },
        });
        correlation.add_to(&mut request);
        Self(request)
    }

    /// The request.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Takes a provider's result, or drops it where it answers something else.
    #[must_use]
    pub fn accept(&self, result: &Value, time: &str) -> Delegated {
        let issue = self.mismatch(result).err();
        let status = match issue {
            Some(_) => "failed",
            None => text(result, "status").unwrap_or(match result.get("success") {
                Some(Value::Bool(false)) => "failed",
                _ => "completed",
            }),
        };
        let mut value = self.result(status, &[("requested", None), (status, Some(status))], time);
        match issue {
            // Nothing of what does not belong here is passed on.
            Some(issue) => {
                value["error"] =
                    json!({ "code": issue.result_code(), "message": issue.to_string() });
            }
            None => {
                for name in ["result", "error", "provider"] {
                    if let Some(given) = result.get(name) {
                        value[name] = given.clone();
                    }
                }
            }
        }
        Delegated { value, issue }
    }

    fn mismatch(&self, result: &Value) -> Result<(), DelegationIssue> {
        let status = text(result, "status");
        let known = ["unavailable", "accepted", "completed", "failed"];
        let is_object = result
            .get("result")
            .is_none_or(|of| of.is_object() || of.is_null());
        if result.get("schema").is_some_and(|schema| schema != RESULT) {
            return Err(DelegationIssue::SchemaInvalid);
        }
        if !result.is_object()
            || !is_object
            || status.is_some_and(|status| !known.contains(&status))
        {
            return Err(DelegationIssue::ResultInvalid);
        }
        let differ = |asked: Option<&str>, answered: Option<&str>| {
            asked
                .zip(answered)
                .is_some_and(|(asked, answered)| asked != answered)
        };
        if differ(text(&self.0, "request_id"), text(result, "request_id")) {
            return Err(DelegationIssue::RequestIdMismatch);
        }
        let output = result.get("result").unwrap_or(&Value::Null);
        if differ(
            session(&self.0),
            session(result).or_else(|| session(output)),
        ) {
            return Err(DelegationIssue::ScopeMismatch);
        }
        let (asked, answered) = (digest(&self.0), digest(result).or_else(|| digest(output)));
        if asked.is_some() && answered.is_some() && asked != answered {
            return Err(DelegationIssue::SourceDigestMismatch);
        }
        Ok(())
    }

    /// The result of a launch.
    #[must_use]
    pub fn of_launch(&self, worker: &Worker) -> Value {
        let status = match (worker.status, &worker.error) {
            ("succeeded", _) => "completed",
            ("skipped", Some((code, _))) if code == "unknown-kind" => "unavailable",
            _ => "failed",
        };
        let time = text_of_millis(worker.completed_at);
        let mut events = vec![("requested", None)];
        if worker.started_at.is_some() {
            events.push(("accepted", Some("accepted")));
        }
        events.push((status, Some(status)));
        let mut value = self.result(status, &events, &time);
        if let Some((code, message)) = &worker.error {
            value["error"] = json!({ "code": code, "message": message });
        }
        if let Some(started) = worker.started_at {
            value["timings"] = json!({ "startedAt": text_of_millis(started), "completedAt": time });
        }
        value
    }

    fn result(&self, status: &str, events: &[(&str, Option<&str>)], time: &str) -> Value {
        let id = text(&self.0, "request_id").unwrap_or("unnamed");
        let events: Vec<_> = events
            .iter()
            .map(|(event, status)| {
                let mut event = json!({
                    "schema": EVENT, "event": format!("host-delegation.{event}"), "time": time,
                    "request_id": id,
                });
                if let Some(status) = status {
                    event["status"] = (*status).into();
                }
                event
            })
            .collect();
        let mut value = json!({
            "success": matches!(status, "completed" | "accepted"),
            "schema": RESULT,
            "execution": "host-delegation",
            "status": status,
            "request_id": id,
            "request": self.0,
            "events": events,
        });
        for name in ["session_id", "sandbox_session_id", "source_digest"] {
            if let Some(given) = self.0.get(name) {
                value[name] = given.clone();
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-01-31T12:00:00.000Z";

    fn request() -> Delegation {
        Delegation::new(json!({
            "schema": REQUEST, "request_id": "r-1", "sandbox_session_id": "job-1", "goal": "ship",
            "source_digest": {"algorithm": "sha256", "value": "a".repeat(64)}, "more": [null]
        }))
        .unwrap()
    }

    #[test]
    fn a_request_asks_for_something() {
        let issue = |request: Value| Delegation::new(request).unwrap_err();
        assert_eq!(
            issue(json!({"schema": "other"})),
            DelegationIssue::SchemaInvalid
        );
        for wrong in [
            json!([]),
            json!({}),
            json!({"goal": " "}),
            json!({"goal": "x", "target": []}),
            json!({"goal": "x", "expected_artifacts": {}}),
            json!({"goal": "x", "source_digest": "short"}),
        ] {
            assert_eq!(
                issue(wrong.clone()),
                DelegationIssue::RequestInvalid,
                "{wrong}"
            );
        }
        assert!(Delegation::new(json!({"task": "x"})).is_ok());
    }

    #[test]
    fn a_result_that_answers_something_else_is_dropped() {
        let rows = [
            (
                json!({"status": "completed", "request_id": "r-1", "result": {"n": 1}}),
                None,
                "completed",
            ),
            (json!({"success": false}), None, "failed"),
            (json!({}), None, "completed"),
            (
                json!({"status": "odd", "result": {"n": 1}}),
                Some(DelegationIssue::ResultInvalid),
                "failed",
            ),
            (
                json!({"result": [1]}),
                Some(DelegationIssue::ResultInvalid),
                "failed",
            ),
            (
                json!({"request_id": "r-2", "result": {"n": 1}}),
                Some(DelegationIssue::RequestIdMismatch),
                "failed",
            ),
            (
                json!({"session_id": "job-2"}),
                Some(DelegationIssue::ScopeMismatch),
                "failed",
            ),
            (
                json!({"result": {"sandbox_session_id": "job-2"}}),
                Some(DelegationIssue::ScopeMismatch),
                "failed",
            ),
            (
                json!({"source_digest": "b".repeat(64)}),
                Some(DelegationIssue::SourceDigestMismatch),
                "failed",
            ),
        ];
        for (given, issue, status) in rows {
            let delegated = request().accept(&given, TIME);
            assert_eq!(delegated.issue, issue, "{given}");
            assert_eq!(delegated.value["status"], status);
            assert_eq!(delegated.value["request"]["more"], json!([null]));
            Contract::DelegationResult.check(&delegated.value).unwrap();
            if issue.is_some() {
                assert!(delegated.value.get("result").is_none());
            } else {
                assert_eq!(delegated.value.get("result"), given.get("result"));
            }
        }
    }
}
