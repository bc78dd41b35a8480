//! What a model is told where a call was refused: texts of the tool's own, chosen by code. None
//! names a path of the host, a session, or what the model wrote.

/// The runtime has no sessions: the tool's own reason, beside the driver's.
pub(super) const NO_SESSIONS: &str = "no-sessions";
/// The mode enforces labels and there is no policy.
pub(super) const NO_POLICY: &str = "policy-required";
/// The labels do not let the command start.
pub(super) const LABEL_RULE: &str = "label-rule";

/// The text for a reason.
pub(super) fn text(reason: &str) -> &'static str {
    match reason {
        NO_SESSIONS => {
            "This sandbox has no sessions, so the command did not run. Run it again without \
             `session`."
        }
        "invalid-name" => {
            "That is not a session's name, so the command did not run. A name has 1 to 32 letters, \
             digits, '_', '.' or '-' and starts with a letter or a digit. Run the command again \
             with such a name, or without `session`."
        }
        "enforcing-mode" => {
            "Sessions are not available in this run, whose mode enforces labels, so the command \
             did not run. Run it again without `session`."
        }
        "session-lost" => {
            "That session ended before this call, and everything it held outside the mounts is \
             gone. This command did not run. Naming the session again starts an empty one; this is \
             told only once."
        }
        "session-ended-during-call" => {
            "The session ended while this command was in it, and everything it held outside the \
             mounts is gone. The command may have run in whole or in part, and its output was not \
             kept: check what it changed before you run it again. Naming the session again starts \
             an empty one."
        }
        "session-limit" => {
            "This run holds as many sessions as it may, so the command did not run. Reuse one of \
             them, or run it without `session`."
        }
        "start-failed" => {
            "The session could not be started, so the command did not run. Run it without \
             `session`, and do not try the session over and over."
        }
        NO_POLICY => {
            "The mode of this run enforces labels, and there is no policy to track them by, so no \
             command runs. Whoever started the run has to configure one."
        }
        LABEL_RULE => {
            "The labels of what this command would read do not let it start, so it did not run."
        }
        _ => "The call was refused, and its command did not run.",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cfc::mode::EnforcementMode;
    use crate::driver::{LostReason, SessionRefusal};

    /// Every refusal of the driver, filled with what must not reach a model.
    fn refusals() -> Vec<SessionRefusal> {
        let name = || "given-name".to_owned();
        vec![
            SessionRefusal::InvalidName { name: name() },
            SessionRefusal::EnforcingMode {
                mode: EnforcementMode::EnforceStrict,
            },
            SessionRefusal::Lost {
                name: name(),
                why: LostReason::Exited,
            },
            SessionRefusal::EndedDuringCall { name: name() },
            SessionRefusal::Limit { held: 8 },
            SessionRefusal::StartFailed {
                name: name(),
                why: "/root/secret".into(),
            },
        ]
    }

    #[test]
    fn each_reason_has_a_text_of_its_own() {
        let unknown = text("what-comes-later");
        let mut texts = BTreeSet::from([unknown]);
        for refusal in refusals() {
            assert!(texts.insert(text(refusal.reason())), "{refusal:?}");
        }
        for reason in [NO_SESSIONS, NO_POLICY, LABEL_RULE] {
            assert!(texts.insert(text(reason)), "{reason}");
        }
        for text in texts {
            assert!(
                !text.contains('/') && !text.contains("given-name"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_next_step_is_in_the_text() {
        let cases = [
            (NO_SESSIONS, "without `session`"),
            ("invalid-name", "1 to 32 letters"),
            ("enforcing-mode", "without `session`"),
            ("session-lost", "did not run"),
            ("session-ended-during-call", "in whole or in part"),
            ("session-limit", "Reuse one"),
            ("start-failed", "do not try"),
        ];
        for (reason, words) in cases {
            assert!(text(reason).contains(words), "{reason}");
        }
    }
}
