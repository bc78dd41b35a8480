use serde_json::json;

use super::*;

fn resolve(lines: &[&str], ended: &Ended) -> Outcome {
    let mut listener = Listener::default();
    listener.hear(lines.join("\n").as_bytes());
    listener.resolve("c-1", ended)
}

fn word(lines: &[&str], ended: &Ended) -> String {
    match resolve(lines, ended) {
        Outcome::DidNotFinish {
            failure: Failure::Failed(reason),
            ..
        } => format!("failed: {reason}"),
        outcome => outcome.word().to_owned(),
    }
}

#[test]
fn a_request_is_the_same_again_and_what_is_unset_is_left_out() {
    let line = br#"{"workflow_contract":1,"id":"c-1","kind":"k","max_steps":3,"schema":{"a":1},"input":[1]}"#;
    let request = Request::parse(line).unwrap();
    assert_eq!(request.line(), [&line[..], b"\n"].concat());
    let line = br#"{"workflow_contract":1,"id":"c-1","kind":"k","input":null}"#;
    assert_eq!(
        Request::parse(line).unwrap().line(),
        [&line[..], b"\n"].concat()
    );
    let labelled =
        br#"{"workflow_contract":1,"id":"c","kind":"k","input":1,"label":"l","scope":"s"}"#;
    let request = Request::parse(labelled).unwrap();
    assert_eq!(
        (request.label.as_deref(), request.scope.as_deref()),
        (Some("l"), Some("s"))
    );
}

#[test]
fn a_line_that_is_no_request_is_refused() {
    let rows: &[(&[u8], RequestError)] = &[
        (b"", RequestError::NotObject),
        (b"[]", RequestError::NotObject),
        (b"{}", RequestError::Version),
        (b"{\"workflow_contract\":2}", RequestError::Version),
        (b"{\"workflow_contract\":1}", RequestError::Member("id")),
        (
            b"{\"workflow_contract\":1,\"id\":\"c\"}",
            RequestError::Member("kind"),
        ),
        (
            b"{\"workflow_contract\":1,\"id\":\"c\",\"kind\":\"k\"}",
            RequestError::Member("input"),
        ),
        (
            b"{\"workflow_contract\":1,\"id\":\"c\",\"kind\":\"k\",\"input\":1,\"max_steps\":1.5}",
            RequestError::Member("max_steps"),
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(Request::parse(line), Err(*expected));
    }
}

#[test]
fn the_order_of_precedence_is_the_contracts() {
    let report = r#"{"subrun_report":{"ok":1}}"#;
    let failed = r#"{"event":"turn_failed","error":"it broke"}"#;
    let steps = r#"{"event":"max_steps_exhausted"}"#;
    let yielded = r#"{"event":"context_yield","to_sequence":3,"answer":"a"}"#;
    let ok = Ended::Exited(0);
    let rows: Vec<(Vec<&str>, &Ended, &str)> = vec![
        (vec![failed, steps, report], &ok, "captured"),
        (vec![report], &Ended::Exited(9), "captured"),
        (vec![report], &Ended::TimedOut, "captured"),
        (vec![failed, steps], &ok, "failed: it broke"),
        (vec![failed], &Ended::TimedOut, "failed: it broke"),
        (
            vec![r#"{"event":"agent_aborted","reason":"no\nmore"}"#],
            &ok,
            "failed: no more",
        ),
        (vec![r#"{"event":"command_error"}"#], &ok, "no_report"),
        (
            vec![steps],
            &Ended::Exited(3),
            "failed: the child exited with 3 and said nothing",
        ),
        (vec![steps], &Ended::TimedOut, "timed_out"),
        (vec![yielded, steps], &ok, "max_steps"),
        (vec![yielded], &ok, "context_yield"),
        (
            vec![r#"{"event":"context_yield","to_sequence":1.5,"answer":"a"}"#],
            &ok,
            "no_report",
        ),
        (
            vec!["noise", "{", "[]", "{\"event\":\"other\"}"],
            &ok,
            "no_report",
        ),
        (vec![], &ok, "no_report"),
    ];
    for (lines, ended, expected) in rows {
        assert_eq!(word(&lines, ended), expected, "{lines:?} {ended:?}");
    }
    assert_eq!(
        word(&[], &Ended::Broken("it did not start".into())),
        "failed: it did not start"
    );
    // The last report is the one.
    let Outcome::Finished { value, .. } = resolve(&[r#"{"subrun_report":1}"#, report], &ok) else {
        panic!("no report");
    };
    assert_eq!(value, json!({"ok": 1}));
}

#[test]
fn usage_counts_whole_or_not_at_all() {
    let usage = |extra: &str| {
        format!(
            r#"{{"event":"usage","usage":{{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":10{extra}}}}}"#
        )
    };
    let lines = [
        usage(""),
        usage(r#","cost_usd":0.5"#),
        usage(r#","cost_usd":-1"#),
        usage(r#","cost_usd":"x""#),
        r#"{"event":"usage","usage":{"prompt_tokens":10,"completion_tokens":4}}"#.into(),
        r#"{"event":"agent_step","step":7}"#.into(),
        r#"{"event":"agent_step","step":3}"#.into(),
        r#"{"event":"agent_step","step":8.5}"#.into(),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let Outcome::DidNotFinish {
        attempt: Some(attempt),
        ..
    } = resolve(&lines, &Ended::Exited(0))
    else {
        panic!("no attempt");
    };
    assert_eq!(
        attempt,
        Attempt {
            attempt_id: "c-1".into(),
            steps_used: 7,
            prompt_tokens: 20,
            completion_tokens: 8,
            cost_usd: Some(0.5),
            unaccounted: None,
        }
    );
}

#[test]
fn a_line_without_end_takes_no_memory_and_hides_nothing_after_it() {
    let mut listener = Listener::default();
    for _ in 0..64 {
        listener.hear(&vec![b'x'; 64 * 1024]);
        assert!(listener.line.capacity() <= 2 * MAX_LINE);
    }
    listener.hear(b"\n{\"subrun_report\":1}");
    assert_eq!(listener.resolve("c", &Ended::Exited(0)).word(), "captured");
}

proptest::proptest! {
    #[test]
    fn it_does_not_matter_how_the_bytes_come(cuts in proptest::collection::vec(0usize..200, 0..8)) {
        let text = "noise\n{\"event\":\"agent_step\",\"step\":2}\n{\"subrun_report\":\"ü\"}\n";
        let mut at = 0;
        let mut listener = Listener::default();
        for cut in cuts {
            let to = (at + cut).min(text.len());
            listener.hear(&text.as_bytes()[at..to]);
            at = to;
        }
        listener.hear(&text.as_bytes()[at..]);
        let outcome = listener.resolve("c", &Ended::Exited(0));
        let Outcome::Finished { value, attempt } = outcome else { panic!("no report") };
        proptest::prop_assert_eq!(value, json!("ü"));
        proptest::prop_assert_eq!(attempt.steps_used, 2);
    }
}
