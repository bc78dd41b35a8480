//! Whether a container may start beside those that run, as a pure function: rules 5 and 6.

use super::policy::CallLabels;
use super::taint::Taint;

/// The container that is to start.
#[derive(Debug, Clone)]
pub struct Starting<'a> {
    /// The labels that came with the call.
    pub call: &'a Taint,
    /// The labels of what it can read.
    pub read: &'a Taint,
    /// Whether it has egress.
    pub egress: bool,
    /// Whether its mode enforces.
    pub enforcing: bool,
    /// What the policy says of egress for labels that came with the call.
    pub call_labels: CallLabels,
}

/// A container that runs.
#[derive(Debug, Clone)]
pub struct Beside<'a> {
    /// Its label so far.
    pub taint: &'a Taint,
    /// Whether it has egress.
    pub egress: bool,
    /// Whether the starting one sees what it can write.
    pub into: bool,
    /// Whether it sees what the starting one can write.
    pub out_of: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It starts with this label: what came with the call and what it can read.
    Start {
        /// What it can read.
        read: Taint,
    },
    /// It waits for one of those that run, by its place in the list.
    Wait {
        /// Which.
        beside: usize,
        /// Whether it is that one's egress alone that is in the way.
        egress: bool,
    },
    /// It does not start, whatever ends: its own egress.
    Refuse {
        /// Whether the labels came with the call alone.
        call: bool,
    },
}

/// Decides.
#[must_use]
pub fn decide(starting: &Starting<'_>, beside: &[Beside<'_>]) -> Decision {
    let mut read = starting.read.clone();
    for other in beside.iter().filter(|other| other.into) {
        read.join(other.taint);
    }
    let whole = starting.call.joined(&read);
    if starting.enforcing && starting.egress {
        if !read.is_public() {
            return Decision::Refuse { call: false };
        }
        if !whole.is_public() && starting.call_labels == CallLabels::Refuse {
            return Decision::Refuse { call: true };
        }
    }
    for (at, other) in beside.iter().enumerate().filter(|(_, other)| other.out_of) {
        let lower = !other.taint.covers(&whole);
        // Of an equal label, with egress that labels of its own call allow it: what the starting
        // one read is not its caller's to send.
        let leaves = starting.enforcing && other.egress && !read.is_public();
        if lower || leaves {
            return Decision::Wait {
                beside: at,
                egress: other.egress,
            };
        }
    }
    Decision::Start { read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taint(atoms: &str) -> Taint {
        Taint::of(atoms.chars().map(|atom| json!(atom.to_string())))
    }

    #[test]
    fn what_runs_beside_labels_delays_or_refuses() {
        // call, read, egress; beside: label, egress, into, out of; what comes of it.
        type Other = (&'static str, bool, bool, bool);
        let rows: &[(&str, &str, bool, &[Other], Decision)] = &[
            ("", "", true, &[], Decision::Start { read: taint("") }),
            ("", "a", false, &[], Decision::Start { read: taint("a") }),
            ("", "a", true, &[], Decision::Refuse { call: false }),
            ("a", "", true, &[], Decision::Start { read: taint("") }),
            (
                "",
                "",
                false,
                &[("a", false, true, false)],
                Decision::Start { read: taint("a") },
            ),
            (
                "",
                "",
                true,
                &[("a", false, true, true)],
                Decision::Refuse { call: false },
            ),
            (
                "",
                "",
                true,
                &[("a", false, false, true)],
                Decision::Start { read: taint("") },
            ),
            (
                "",
                "a",
                false,
                &[("a", false, true, true), ("", false, false, true)],
                Decision::Wait {
                    beside: 1,
                    egress: false,
                },
            ),
            (
                "",
                "a",
                false,
                &[("", false, true, false)],
                Decision::Start { read: taint("a") },
            ),
            // It takes the other's label, which raises it above a third.
            (
                "",
                "",
                false,
                &[("a", false, true, true), ("b", false, true, true)],
                Decision::Wait {
                    beside: 0,
                    egress: false,
                },
            ),
            (
                "",
                "a",
                false,
                &[("a", true, false, true)],
                Decision::Wait {
                    beside: 0,
                    egress: true,
                },
            ),
            (
                "a",
                "",
                false,
                &[("a", true, false, true)],
                Decision::Start { read: taint("") },
            ),
        ];
        for (call, read, egress, others, expected) in rows {
            let (call, read) = (taint(call), taint(read));
            let labels: Vec<_> = others.iter().map(|other| taint(other.0)).collect();
            let beside: Vec<_> = others
                .iter()
                .zip(&labels)
                .map(|((_, egress, into, out_of), taint)| Beside {
                    taint,
                    egress: *egress,
                    into: *into,
                    out_of: *out_of,
                })
                .collect();
            let starting = Starting {
                call: &call,
                read: &read,
                egress: *egress,
                enforcing: true,
                call_labels: CallLabels::Allow,
            };
            assert_eq!(
                decide(&starting, &beside),
                *expected,
                "{starting:?} {beside:?}"
            );
        }
    }

    #[test]
    fn the_mode_and_the_policy_decide_over_egress() {
        let (public, labelled) = (Taint::public(), taint("a"));
        let starting = Starting {
            call: &labelled,
            read: &public,
            egress: true,
            enforcing: true,
            call_labels: CallLabels::Refuse,
        };
        assert_eq!(decide(&starting, &[]), Decision::Refuse { call: true });
        let lenient = Starting {
            read: &labelled,
            enforcing: false,
            ..starting
        };
        let started = Decision::Start {
            read: labelled.clone(),
        };
        assert_eq!(decide(&lenient, &[]), started);
    }
}
