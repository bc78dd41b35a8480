//! What came with a call: its mode, and its labels.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::doubt::{Doubt, Found};
use super::refusal::Refusal;
use super::taint::Taint;
use crate::cfc::json::MAX_BYTES;
use crate::cfc::{EnforcementMode, InvocationContext, LabelRoot};
use crate::launch::sys;

/// What came with a call.
#[derive(Debug)]
pub struct CallContext {
    /// Whether its mode enforces. Where none can be told, it is taken to.
    pub enforcing: bool,
    /// Its labels, and why.
    pub found: Found,
}

impl CallContext {
    /// Reads what is on the descriptor, where there is one.
    #[must_use]
    pub fn read(context: Option<OwnedFd>) -> Self {
        let nothing = Self {
            enforcing: EnforcementMode::default().enforces(),
            found: Found::default(),
        };
        let Some(context) = context else {
            return nothing;
        };
        let mut bytes = Vec::new();
        let read = File::from(context)
            .take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes);
        match read {
            Ok(_) => Self::of(&bytes, || stdin_was_given(&io::stdin())),
            Err(err) => nothing.in_doubt(err.to_string()),
        }
    }

    fn of(bytes: &[u8], stdin_was_given: impl FnOnce() -> bool) -> Self {
        let nothing = Self {
            enforcing: EnforcementMode::default().enforces(),
            found: Found::default(),
        };
        let context = match InvocationContext::parse(bytes) {
            Ok(context) => context,
            Err(err) => return nothing.in_doubt(err.to_string()),
        };
        let mut found = Found::default();
        let with_stdin = stdin_was_given();
        for entry in context.labels().entries() {
            if entry.path.root == LabelRoot::Stdin && !with_stdin {
                continue;
            }
            let taint = Taint::of(entry.label.confidentiality.iter().cloned());
            found.label(&taint, || format!("the call's {} is labelled", entry.path));
        }
        Self {
            enforcing: context.mode().enforces(),
            found,
        }
    }

    fn in_doubt(mut self, why: String) -> Self {
        self.found.doubt(Doubt::UnreadableContext(why));
        self
    }
}

/// Whether standard input is anything but nothing.
fn stdin_was_given(stdin: &io::Stdin) -> bool {
    use std::os::fd::AsFd;
    let null = rustix::fs::makedev(1, 3);
    let Ok(stdin) = stdin.as_fd().try_clone_to_owned() else {
        return false;
    };
    File::from(stdin).metadata().map_or(true, |found| {
        !(found.file_type().is_char_device() && found.rdev() == null)
    })
}

/// Takes over a descriptor that a flag names.
///
/// # Errors
/// [`Refusal::Descriptor`] where it is not open, or is a standard stream.
pub fn adopt(flag: &'static str, number: Option<i32>) -> Result<Option<OwnedFd>, Refusal> {
    let Some(number) = number else {
        return Ok(None);
    };
    let refuse = |source| Refusal::Descriptor {
        flag,
        number,
        source,
    };
    if number < 3 {
        return Err(refuse(io::ErrorKind::InvalidInput.into()));
    }
    sys::adopt(number).map(Some).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn context(mode: &str, root: &str) -> Vec<u8> {
        json!({
            "type": "cf-harness.cfc-invocation-context", "version": 1, "sequence": 1,
            "runId": "r", "createdAt": "2026-01-02T03:04:05.000Z", "toolId": "bash",
            "operation": "command", "cfcEnforcementMode": mode, "cwd": "/",
            "runManifest": {"present": false}, "inputs": {},
            "cfcInputLabels": {"version": 1, "entries": [
                {"path": [root], "label": {"confidentiality": ["x"]}}
            ]},
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn labels_and_mode_come_from_the_context() {
        let read = CallContext::of(&context("observe", "command"), || false);
        assert!(!read.enforcing);
        assert_eq!(read.found.taint(), &Taint::of([json!("x")]));
        assert!(CallContext::of(&context("enforce-explicit", "cwd"), || false).enforcing);
    }

    #[test]
    fn stdin_labels_count_where_there_is_a_stdin() {
        let bytes = context("observe", "stdin");
        let without = CallContext::of(&bytes, || false);
        assert!(without.found.taint().is_public());
        assert!(!CallContext::of(&bytes, || true).found.taint().is_public());
    }

    #[test]
    fn none_enforces_and_one_that_cannot_be_read_is_in_doubt_too() {
        let none = CallContext::read(None);
        assert!(none.enforcing && none.found.taint().is_public());
        let broken = CallContext::of(b"{", || false);
        assert!(broken.enforcing);
        assert_eq!(broken.found.taint(), &Taint::nobody());
    }
}
