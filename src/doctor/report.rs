//! What the doctor says, as data.

use serde::Serialize;

use super::name::{Group, Name};
use crate::config::NetworkMode;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it has to be.
    Pass,
    /// A run works, and something is worse than it could be.
    Warn,
    /// The default run does not work for it.
    Fail,
    /// Nothing to judge, or not known.
    Info,
}

impl State {
    /// The word for it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: Name,
    /// What it is about.
    pub group: Group,
    /// How it came out.
    pub state: State,
    /// What was found, for a person.
    pub value: String,
}

/// What is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The check that found it.
    pub check: Name,
    /// What is wrong.
    pub headline: String,
    /// What to do, where the headline does not end with it.
    pub fix: Option<String>,
}

/// The real call, as it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RealCall {
    /// Whether the command ran and did what it was to do.
    pub worked: bool,
    /// How the command ended: the words of `run --json`.
    pub outcome: &'static str,
    /// The command's exit value, where it ran to its end.
    pub exit_code: Option<u8>,
    /// From the call's start to its return.
    pub elapsed_ms: f64,
    /// How runsc was selected.
    pub selected: String,
    /// The network that it was made with.
    pub network: &'static str,
    /// Whether it was made without labels.
    pub no_cfc: bool,
}

impl RealCall {
    /// The command that makes such a call, up to the sandboxed one.
    pub(super) fn command(&self) -> String {
        let labels = if self.no_cfc { " --no-cfc" } else { "" };
        format!("runsc-driver run{labels} --network {}", self.network)
    }

    /// Whether nothing of the default was left out of it.
    fn is_whole(&self) -> bool {
        !self.no_cfc && self.network != NetworkMode::None.as_str()
    }
}

/// Everything that the doctor says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Whether the default run works here: no check failed.
    pub ok: bool,
    /// One line.
    pub summary: String,
    /// What was looked at, in a fixed order.
    pub checks: Vec<Check>,
    /// What is wrong, in the same order.
    pub problems: Vec<Problem>,
    /// The real call; none where it was not made.
    pub run: Option<RealCall>,
}

/// Checks and problems as they are found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) checks: Vec<Check>,
    pub(super) problems: Vec<Found>,
}

/// A problem, and the checks whose problem it is where they failed.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) problem: Problem,
    covered_by: &'static [Name],
}

impl Findings {
    fn check(&mut self, name: Name, state: State, value: impl Into<String>) {
        self.checks.push(Check {
            name,
            group: name.group(),
            state,
            value: value.into(),
        });
    }

    pub(super) fn pass(&mut self, name: Name, value: impl Into<String>) {
        self.check(name, State::Pass, value);
    }

    pub(super) fn info(&mut self, name: Name, value: impl Into<String>) {
        self.check(name, State::Info, value);
    }

    /// A failure that another check's problem tells.
    pub(super) fn fail_untold(&mut self, name: Name, value: impl Into<String>) {
        self.check(name, State::Fail, value);
    }

    pub(super) fn warn(&mut self, name: Name, value: impl Into<String>, problem: Words) {
        self.warn_covered(name, value, problem, &[]);
    }

    /// A warning whose problem is that of `covered_by`, where one of those failed.
    pub(super) fn warn_covered(
        &mut self,
        name: Name,
        value: impl Into<String>,
        problem: Words,
        covered_by: &'static [Name],
    ) {
        self.check(name, State::Warn, value);
        self.tell(name, problem, covered_by);
    }

    pub(super) fn fail(&mut self, name: Name, value: impl Into<String>, problem: Words) {
        self.fail_covered(name, value, problem, &[]);
    }

    /// A failure whose problem is that of `covered_by`, where one of those failed too.
    pub(super) fn fail_covered(
        &mut self,
        name: Name,
        value: impl Into<String>,
        problem: Words,
        covered_by: &'static [Name],
    ) {
        self.check(name, State::Fail, value);
        self.tell(name, problem, covered_by);
    }

    fn tell(&mut self, check: Name, words: Words, covered_by: &'static [Name]) {
        self.problems.push(Found {
            problem: Problem {
                check,
                headline: words.headline,
                fix: words.fix,
            },
            covered_by,
        });
    }

    /// What is left of the named checks (of all, where none is named): in order, and each problem
    /// once.
    pub(super) fn finish(mut self, only: &[Name], run: Option<RealCall>) -> Diagnosis {
        let wanted = |name: Name| only.is_empty() || only.contains(&name);
        self.checks.retain(|check| wanted(check.name));
        self.checks.sort_by_key(|check| check.name);
        let failed = |name: &Name| {
            let check = self.checks.iter().find(|check| check.name == *name);
            check.is_some_and(|check| check.state == State::Fail)
        };
        let mut found: Vec<_> = self
            .problems
            .into_iter()
            .filter(|found| wanted(found.problem.check) && !found.covered_by.iter().any(failed))
            .map(|found| found.problem)
            .collect();
        found.sort_by_key(|problem| problem.check);
        let mut problems: Vec<Problem> = Vec::new();
        for problem in found {
            if problems
                .iter()
                .all(|told| told.headline != problem.headline)
            {
                problems.push(problem);
            }
        }
        let ok = self.checks.iter().all(|check| check.state != State::Fail);
        Diagnosis {
            ok,
            summary: summary(ok, only, &self.checks, &problems, run.as_ref()),
            checks: self.checks,
            problems,
            run,
        }
    }
}

/// A problem's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) headline: String,
    pub(super) fix: Option<String>,
}

impl Words {
    pub(super) fn new(headline: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            headline: headline.into(),
            fix: Some(fix.into()),
        }
    }

    /// The words of an error, which end with what to do.
    pub(super) fn whole(text: impl Into<String>) -> Self {
        Self {
            headline: text.into(),
            fix: None,
        }
    }
}

fn summary(
    ok: bool,
    only: &[Name],
    checks: &[Check],
    problems: &[Problem],
    run: Option<&RealCall>,
) -> String {
    let failed = checks.iter().filter(|check| check.state == State::Fail);
    let failed = match failed.count() {
        1 => "1 check fails".to_owned(),
        count => format!("{count} checks fail"),
    };
    let worked = run.filter(|run| run.worked);
    let took = |run: &RealCall| format!("a real call took {:.0} ms", run.elapsed_ms);
    match (ok, worked, run) {
        _ if !only.is_empty() && ok => "nothing of what was looked at fails".to_owned(),
        _ if !only.is_empty() => format!("{failed} of those that were looked at"),
        (true, Some(run), _) => format!("the default run works here: {}", took(run)),
        (true, None, _) => {
            "nothing fails, and no call was made to see whether the default run works".to_owned()
        }
        (false, Some(run), _) if run.is_whole() => format!(
            "the default run works here ({}), and {failed}: see the problems above",
            took(run)
        ),
        (false, Some(run), _) => format!(
            "the default run does not work here ({failed}, see the problems above); what does: \
             `{} -- ...` ({})",
            run.command(),
            took(run)
        ),
        (false, None, _) => match problems.is_empty() {
            true => format!("the default run does not work here: {failed}"),
            false => {
                format!("the default run does not work here: {failed}, see the problems above")
            }
        },
    }
}

#[cfg(test)]
mod tests;
