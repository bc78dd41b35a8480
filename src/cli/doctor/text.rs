//! A diagnosis for a person: checks by group, aligned; then the problems; the summary last.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::super::clean::clean;
use crate::doctor::{Diagnosis, Group, State};

const HEADING: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The text, coloured: what prints it takes the colours off where they are not wanted.
pub(super) fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, diagnosis);
    text
}

fn write(to: &mut String, diagnosis: &Diagnosis) -> std::fmt::Result {
    let names = diagnosis.checks.iter().map(|check| check.name.text());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut group: Option<Group> = None;
    for check in &diagnosis.checks {
        if group != Some(check.group) {
            if group.is_some() {
                writeln!(to)?;
            }
            writeln!(to, "{HEADING}{}{HEADING:#}", check.group.text())?;
            group = Some(check.group);
        }
        let style = style(check.state);
        writeln!(
            to,
            "  {style}{}{style:#}  {:width$}  {}",
            check.state.text(),
            check.name.text(),
            clean(&check.value),
        )?;
    }
    if !diagnosis.problems.is_empty() {
        writeln!(to, "\n{HEADING}problems{HEADING:#}")?;
    }
    for problem in &diagnosis.problems {
        let state = diagnosis
            .checks
            .iter()
            .find(|check| check.name == problem.check)
            .map_or(State::Info, |check| check.state);
        let style = style(state);
        writeln!(
            to,
            "  {style}{}{style:#}  {}: {}",
            state.text(),
            problem.check.text(),
            clean(&problem.headline),
        )?;
        if let Some(fix) = &problem.fix {
            writeln!(to, "        {DIM}fix:{DIM:#} {}", clean(fix))?;
        }
    }
    let verdict = style(match diagnosis.ok {
        true => State::Pass,
        false => State::Fail,
    });
    writeln!(to, "\n{verdict}{}{verdict:#}", clean(&diagnosis.summary))
}

fn style(state: State) -> Style {
    match state {
        State::Pass => AnsiColor::Green.on_default(),
        State::Warn => AnsiColor::Yellow.on_default(),
        State::Fail => AnsiColor::Red.on_default().bold(),
        State::Info => DIM,
    }
}

#[cfg(test)]
mod tests;
