//! A table for each judgement.

#![allow(
    clippy::type_complexity,
    reason = "a table's rows are read where they stand"
)]

mod files;
mod rights;
mod runs;
mod runsc;
mod things;
mod whole;

use crate::doctor::report::Findings;
use crate::doctor::{Diagnosis, Name, State};

/// What a judgement says: each check's state, and the headlines and fixes of its problems.
fn judged(judge: impl FnOnce(&mut Findings)) -> Diagnosis {
    let mut findings = Findings::default();
    judge(&mut findings);
    findings.finish(&[], None)
}

/// It says this of one check alone, and tells a problem with all of these words; none where there
/// are none.
#[track_caller]
fn says(diagnosis: &Diagnosis, name: Name, state: State, value: &str, words: &[&str]) {
    let check = diagnosis.checks.iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("no {name:?} in {diagnosis:#?}"));
    assert_eq!((check.state, check.value.as_str()), (state, value));
    let problem = diagnosis
        .problems
        .iter()
        .find(|problem| problem.check == name);
    let text = problem.map(|problem| {
        let fix = problem.fix.as_deref().unwrap_or_default();
        format!("{} / {fix}", problem.headline)
    });
    match (text, words) {
        (None, []) => {}
        (Some(text), words) if !words.is_empty() => {
            for word in words {
                assert!(text.contains(word), "{word:?} is not in {text:?}");
            }
        }
        (text, words) => panic!("{name:?} tells {text:?} and not {words:?}"),
    }
}
