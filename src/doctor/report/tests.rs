use clap::ValueEnum;

use super::*;

fn words(headline: &str) -> Words {
    Words::new(headline, "do it")
}

fn call(worked: bool) -> RealCall {
    RealCall {
        worked,
        outcome: "exited",
        exit_code: Some(0),
        elapsed_ms: 123.4,
        selected: "runsc".to_owned(),
        network: "none",
        no_cfc: true,
    }
}

fn told(diagnosis: &Diagnosis) -> Vec<(Name, &str)> {
    let problems = diagnosis.problems.iter();
    problems
        .map(|problem| (problem.check, problem.headline.as_str()))
        .collect()
}

#[test]
fn checks_come_in_the_order_of_their_names_and_groups_stay_together() {
    let mut findings = Findings::default();
    for name in [Name::Run, Name::Store, Name::Yama, Name::Platform] {
        findings.pass(name, "");
    }
    let diagnosis = findings.finish(&[], None);
    let names: Vec<_> = diagnosis.checks.iter().map(|check| check.name).collect();
    assert_eq!(names, [Name::Platform, Name::Yama, Name::Store, Name::Run]);

    let mut groups: Vec<_> = Name::value_variants()
        .iter()
        .map(|name| name.group())
        .collect();
    groups.dedup();
    assert_eq!(groups.len(), 7, "{groups:?}");
}

#[test]
fn a_name_is_the_same_in_json_and_on_the_command_line() {
    for name in Name::value_variants() {
        let json = serde_json::to_value(name).unwrap();
        assert_eq!(json, name.text());
    }
}

#[test]
fn a_problem_is_told_once_and_by_the_check_that_found_its_cause() {
    let findings = || {
        let mut findings = Findings::default();
        findings.fail_covered(Name::Run, "", words("no pasta, so no run"), &[Name::Pasta]);
        findings.fail(Name::Selection, "", words("no pasta"));
        findings.fail(Name::Pasta, "", words("no pasta"));
        findings
    };
    let whole = findings().finish(&[], None);
    assert_eq!(told(&whole), [(Name::Pasta, "no pasta")]);
    // Of one that is not looked at, nothing is told: the others tell for themselves.
    let part = findings().finish(&[Name::Run], None);
    assert_eq!(told(&part), [(Name::Run, "no pasta, so no run")]);

    let mut passes = Findings::default();
    passes.fail_covered(Name::Run, "", words("no run"), &[Name::Pasta]);
    passes.pass(Name::Pasta, "");
    assert_eq!(told(&passes.finish(&[], None)), [(Name::Run, "no run")]);
}

#[test]
fn only_a_failure_makes_it_not_ok() {
    let with = |put: fn(&mut Findings)| {
        let mut findings = Findings::default();
        put(&mut findings);
        findings.finish(&[], None).ok
    };
    assert!(with(|to| to.pass(Name::Run, "")));
    assert!(with(|to| to.info(Name::Run, "")));
    assert!(with(|to| to.warn(Name::Run, "", words("x"))));
    assert!(!with(|to| to.fail(Name::Run, "", words("x"))));
    assert!(!with(|to| to.fail_untold(Name::Run, "")));
}

#[test]
fn the_summary_claims_no_more_than_was_seen() {
    let summary = |fails: usize, only: &[Name], run: Option<RealCall>| {
        let mut findings = Findings::default();
        findings.pass(Name::Kernel, "");
        for name in [Name::RunscCfc, Name::Network].into_iter().take(fails) {
            findings.fail(name, "", words(&name.text()));
        }
        findings.finish(only, run).summary
    };
    let cases = [
        (
            summary(0, &[], Some(call(true))),
            "the default run works here: a real call took 123 ms",
        ),
        (
            summary(0, &[], None),
            "nothing fails, and no call was made to see whether the default run works",
        ),
        (
            summary(1, &[], Some(call(true))),
            "the default run does not work here (1 check fails, see the problems above); what \
             does: `runsc-driver run --no-cfc --network none -- ...` (a real call took 123 ms)",
        ),
        (
            {
                let mut whole = call(true);
                (whole.no_cfc, whole.network) = (false, "sandbox");
                summary(1, &[], Some(whole))
            },
            "the default run works here (a real call took 123 ms), and 1 check fails: see the \
             problems above",
        ),
        (
            summary(2, &[], Some(call(false))),
            "the default run does not work here: 2 checks fail, see the problems above",
        ),
        (
            summary(2, &[], None),
            "the default run does not work here: 2 checks fail, see the problems above",
        ),
        (
            summary(2, &[Name::Kernel], None),
            "nothing of what was looked at fails",
        ),
        (
            summary(2, &[Name::RunscCfc], None),
            "1 check fails of those that were looked at",
        ),
    ];
    for (summary, expected) in cases {
        assert_eq!(summary, expected);
    }
}
