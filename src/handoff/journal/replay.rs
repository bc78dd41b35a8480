//! A journal read back: each entry answers one call.

use super::entry::{Call, Entry, Failure, Outcome};

/// The entries of an earlier run that have not answered a call yet.
#[derive(Debug, Default)]
pub struct Replay(Vec<Entry>);

impl Replay {
    /// The entries of a journal, in its order.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> Self {
        Self(entries)
    }

    /// Takes the entry that answers a call: the first success, else the first that was skipped.
    /// Other failures are tried again, so they answer nothing.
    pub fn take(&mut self, call: &Call) -> Option<Entry> {
        let finished = |entry: &Entry| matches!(entry.outcome, Outcome::Finished { .. });
        let skipped = |entry: &Entry| {
            matches!(
                entry.outcome,
                Outcome::DidNotFinish {
                    failure: Failure::Skipped,
                    ..
                }
            )
        };
        let mut find = |wanted: &dyn Fn(&Entry) -> bool| {
            let at = self
                .0
                .iter()
                .position(|entry| wanted(entry) && entry.call.is_same(call))?;
            Some(self.0.remove(at))
        };
        find(&finished).or_else(|| find(&skipped))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handoff::journal::Attempt;

    fn call(input: u64) -> Call {
        Call {
            kind: "k".into(),
            input: json!(input),
            label: "l".into(),
            scope: "s".into(),
            max_steps: Some(3),
            schema: None,
        }
    }

    fn entry(input: u64, outcome: Outcome) -> Entry {
        Entry {
            call: call(input),
            outcome,
            phase: None,
            started_at: None,
            finished_at: None,
        }
    }

    fn finished(value: u64) -> Outcome {
        Outcome::Finished {
            value: json!(value),
            attempt: Attempt::default(),
        }
    }

    fn failed(failure: Failure) -> Outcome {
        Outcome::DidNotFinish {
            failure,
            attempt: None,
        }
    }

    #[test]
    fn entries_are_a_multiset_and_successes_come_first() {
        let mut replay = Replay::new(vec![
            entry(1, failed(Failure::TimedOut)),
            entry(1, failed(Failure::Skipped)),
            entry(1, finished(10)),
            entry(2, finished(20)),
            entry(1, finished(11)),
        ]);
        let mut take = |input| replay.take(&call(input)).map(|entry| entry.outcome);
        assert_eq!(take(1), Some(finished(10)));
        assert_eq!(take(1), Some(finished(11)));
        assert_eq!(take(1), Some(failed(Failure::Skipped)));
        assert_eq!(take(1), None);
        assert_eq!(take(2), Some(finished(20)));
        assert_eq!(take(2), None);
    }

    #[test]
    fn the_label_is_no_part_of_a_calls_identity() {
        let same = |change: fn(&mut Call)| {
            let mut other = call(1);
            change(&mut other);
            call(1).is_same(&other)
        };
        assert!(same(|call| call.label = "other".into()));
        assert!(!same(|call| call.kind = "other".into()));
        assert!(!same(|call| call.input = json!(2)));
        assert!(!same(|call| call.max_steps = None));
        assert!(!same(|call| call.scope = "other".into()));
        assert!(!same(|call| call.schema = Some(json!({}))));
    }
}
