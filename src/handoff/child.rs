//! The child contract, version 1: one request line in, events and a report out.

use serde_json::{Map, Value, json};

use super::digest::{MAX_WHOLE, whole};
use super::journal::{Attempt, Failure, Outcome};
use super::text::flat;
use crate::cfc::json as strict;

/// The longest line of a child's that is looked at: what is longer is no event.
pub const MAX_LINE: usize = 512 * 1024;
/// The longest reason that is kept of a failure.
const MAX_REASON: usize = 400;

/// What one child is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The child's id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// What it is given.
    pub input: Value,
    /// The most steps.
    pub max_steps: Option<u64>,
    /// What its report has to look like.
    pub schema: Option<Value>,
    /// A name for people; not part of the contract, and ignored by children.
    pub label: Option<String>,
    /// Where in the workflow the call was made; likewise.
    pub scope: Option<String>,
}

/// Why a line is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It is not one JSON object.
    #[error("the request is not one JSON object")]
    NotObject,
    /// Another version of the contract.
    #[error("the request is of another contract than version 1")]
    Version,
    /// A member is missing or is something else.
    #[error("the request has no usable `{0}`")]
    Member(&'static str),
}

impl Request {
    /// Reads a request line.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let value = strict::read(line).map_err(|_| RequestError::NotObject)?;
        let members = value.as_object().ok_or(RequestError::NotObject)?;
        if members.get("workflow_contract").and_then(whole) != Some(1) {
            return Err(RequestError::Version);
        }
        let text = |name: &'static str| {
            let text = members.get(name).and_then(Value::as_str);
            text.map(str::to_owned).ok_or(RequestError::Member(name))
        };
        let max_steps = match members.get("max_steps") {
            None => None,
            Some(steps) => Some(whole(steps).ok_or(RequestError::Member("max_steps"))?),
        };
        Ok(Self {
            id: text("id")?,
            kind: text("kind")?,
            input: members
                .get("input")
                .cloned()
                .ok_or(RequestError::Member("input"))?,
            max_steps,
            schema: members.get("schema").cloned(),
            label: text("label").ok(),
            scope: text("scope").ok(),
        })
    }

    /// The line that a child reads. What is unset is left out.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut members = Map::new();
        members.insert("workflow_contract".into(), json!(1));
        members.insert("id".into(), json!(self.id));
        members.insert("kind".into(), json!(self.kind));
        if let Some(steps) = self.max_steps {
            members.insert("max_steps".into(), json!(steps));
        }
        if let Some(schema) = &self.schema {
            members.insert("schema".into(), schema.clone());
        }
        members.insert("input".into(), self.input.clone());
        format!("{}\n", Value::Object(members)).into_bytes()
    }
}

/// How a child's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit value.
    Exited(u8),
    /// It never ran, or it cannot be told how it ended; the reason.
    Broken(String),
    /// The deadline came first.
    TimedOut,
}

/// Listens to what a child prints, in bounded memory.
#[derive(Debug, Default)]
pub struct Listener {
    line: Vec<u8>,
    /// The rest of a line that is too long is let pass.
    skipping: bool,
    report: Option<Value>,
    failure: Option<String>,
    max_steps: bool,
    context_yield: bool,
    steps: u64,
    prompt: u64,
    completion: u64,
    cost: Option<f64>,
}

impl Listener {
    /// Takes what came.
    pub fn hear(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.line.len() + piece.len() > MAX_LINE {
                self.skipping = true;
                self.line = Vec::new();
            }
            if !self.skipping {
                self.line.extend_from_slice(piece);
            }
            if ends {
                let line = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.skipping) {
                    self.take(&line);
                }
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        let Ok(Value::Object(members)) = strict::read(line) else {
            return;
        };
        if let Some(report) = members.get("subrun_report") {
            self.report = Some(report.clone());
        }
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        match text("event") {
            Some("agent_step") => {
                if let Some(step) = members.get("step").and_then(whole) {
                    self.steps = self.steps.max(step);
                }
            }
            Some("usage") => self.usage(members.get("usage")),
            Some("max_steps_exhausted") => self.max_steps = true,
            Some("context_yield") => {
                let to = members.get("to_sequence").and_then(whole);
                self.context_yield |= to.is_some() && text("answer").is_some();
            }
            Some("turn_failed" | "agent_setup_failed" | "command_error") => {
                self.failure = text("error")
                    .map(|why| flat(why, MAX_REASON))
                    .or(self.failure.take());
            }
            Some("agent_aborted") => {
                self.failure = text("reason")
                    .map(|why| flat(why, MAX_REASON))
                    .or(self.failure.take());
            }
            _ => {}
        }
    }

    /// Counts a usage where all of it is right, and nothing of it otherwise.
    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let count = |name: &str| usage.get(name).and_then(whole);
        let all = [
            "total_tokens",
            "prompt_cache_hit_tokens",
            "prompt_cache_miss_tokens",
        ];
        let (Some(prompt), Some(completion)) = (count("prompt_tokens"), count("completion_tokens"))
        else {
            return;
        };
        if !all.iter().all(|name| count(name).is_some()) {
            return;
        }
        match usage.get("cost_usd").map(Value::as_f64) {
            None => {}
            Some(Some(cost)) if cost >= 0.0 && cost.is_finite() => {
                self.cost = Some(self.cost.unwrap_or(0.0) + cost);
            }
            Some(_) => return,
        }
        let add = |sum: u64, count: u64| sum.saturating_add(count).min(MAX_WHOLE);
        self.prompt = add(self.prompt, prompt);
        self.completion = add(self.completion, completion);
    }

    /// What was used so far.
    #[must_use]
    pub fn attempt(&self, child: &str, unaccounted: Option<String>) -> Attempt {
        Attempt {
            attempt_id: child.to_owned(),
            steps_used: self.steps,
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            cost_usd: self.cost,
            unaccounted,
        }
    }

    /// Whether the child gave its report.
    #[must_use]
    pub fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// How the call resolved, by the contract's order of precedence.
    #[must_use]
    pub fn resolve(mut self, child: &str, ended: &Ended) -> Outcome {
        // A last line may lack its end.
        if !self.line.is_empty() && !self.skipping {
            let line = std::mem::take(&mut self.line);
            self.take(&line);
        }
        let unaccounted = match ended {
            Ended::Exited(_) => None,
            Ended::Broken(_) => Some("how the child ended is not known".to_owned()),
            Ended::TimedOut => Some("the child was taken down".to_owned()),
        };
        let attempt = self.attempt(child, unaccounted);
        if let Some(value) = self.report {
            return Outcome::Finished { value, attempt };
        }
        let failure = match (self.failure, ended) {
            (Some(reason), _) => Failure::Failed(reason),
            (None, Ended::Broken(reason)) => Failure::Failed(reason.clone()),
            (None, Ended::Exited(code @ 1..)) => {
                Failure::Failed(format!("the child exited with {code} and said nothing"))
            }
            (None, Ended::TimedOut) => Failure::TimedOut,
            (None, Ended::Exited(0)) if self.max_steps => Failure::MaxSteps,
            (None, Ended::Exited(0)) if self.context_yield => Failure::ContextYield,
            (None, Ended::Exited(0)) => Failure::NoReport,
        };
        Outcome::DidNotFinish {
            failure,
            attempt: Some(attempt),
        }
    }
}

#[cfg(test)]
mod tests;
