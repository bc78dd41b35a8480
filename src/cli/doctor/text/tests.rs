use super::*;
use crate::doctor::{Check, Name, Problem};

fn diagnosis() -> Diagnosis {
    let check = |name: Name, state, value: &str| Check {
        name,
        group: name.group(),
        state,
        value: value.to_owned(),
    };
    Diagnosis {
        ok: false,
        summary: "it does not work".to_owned(),
        checks: vec![
            check(Name::Kernel, State::Pass, "6.1"),
            check(Name::MaxUserNamespaces, State::Fail, "0"),
            check(Name::Yama, State::Info, "a\u{1b}[2Jb\nc"),
            check(Name::Reaper, State::Warn, "slow"),
        ],
        problems: vec![
            Problem {
                check: Name::MaxUserNamespaces,
                headline: "it is 0\u{7}".to_owned(),
                fix: Some("raise it".to_owned()),
            },
            Problem {
                check: Name::Reaper,
                headline: "it is slow".to_owned(),
                fix: None,
            },
        ],
        run: None,
    }
}

#[test]
fn it_is_aligned_by_group_and_the_summary_is_last() {
    let text = anstream::adapter::strip_str(&render(&diagnosis())).to_string();
    assert_eq!(
        text,
        "\
machine
  pass  kernel               6.1

rights
  fail  max-user-namespaces  0
  info  yama                 a\\u{1b}[2Jb\\nc

resources
  warn  reaper               slow

problems
  fail  max-user-namespaces: it is 0\\u{7}
        fix: raise it
  warn  reaper: it is slow

it does not work
"
    );
}

#[test]
fn only_our_own_styles_reach_a_terminal() {
    let text = render(&diagnosis());
    assert!(text.contains("\u{1b}[32mpass\u{1b}[0m"), "{text:?}");
    assert!(
        text.contains("\u{1b}[1m\u{1b}[31mfail\u{1b}[0m"),
        "{text:?}"
    );
    assert!(!text.contains("\u{1b}[2J"), "{text:?}");
}

#[test]
fn one_that_is_well_has_no_problems() {
    let well = Diagnosis {
        ok: true,
        summary: "it works".to_owned(),
        checks: diagnosis().checks[..1].to_vec(),
        problems: Vec::new(),
        run: None,
    };
    let text = anstream::adapter::strip_str(&render(&well)).to_string();
    assert_eq!(text, "machine\n  pass  kernel  6.1\n\nit works\n");
}
