//! The one reader of what a `runsc` that tracks labels writes on the result descriptor.
//!
//! It says whether what the command wrote may be seen. Whatever it cannot tell for certain, it
//! answers with less: a result that is no result denies, one that says more than *public*
//! withholds.

use serde_json::{Map, Value};

use super::json::read;
use super::label::Label;

mod verdict;

pub use verdict::{Details, Diagnostic, DiagnosticCode, Level, Policy, Unreadable, Verdict};

#[cfg(test)]
mod tests;

/// How `runsc` spells a label that says nothing: seen by everyone, vouched for by nobody.
pub const EMPTY_LABEL: &str = "{conf: \u{22a4}, integ: \u{2205}}";

/// Reads a result: what the descriptor gave (at most one byte more than
/// [`super::json::MAX_BYTES`] need be read of it) and the id of the container that was run, which
/// for an `exec` is its session's.
///
/// The first rule that applies decides; the rules and their order are the reference's
/// `CfcSandboxResult`, as its direct driver applies them.
#[must_use]
pub fn parse(bytes: Result<&[u8], Unreadable>, expected_container_id: &str) -> Verdict {
    use DiagnosticCode as Code;

    let container_id = || expected_container_id.to_owned();
    let container = || Details::Container {
        container_id: container_id(),
    };
    let unreadable = |error| {
        let container_id = container_id();
        Verdict::denied(
            Code::ResultFdUnreadable,
            Details::Unreadable {
                container_id,
                error,
            },
        )
    };
    let root = match bytes.and_then(|bytes| Ok(read(bytes)?)) {
        Ok(Value::Null) => return unreadable(Unreadable::Null),
        Ok(root) => root,
        Err(error) => return unreadable(error),
    };
    // As runsc writes it: `1.0` is a number that some readers take for 1, and no version.
    if root.get("version").and_then(Value::as_u64) != Some(1) {
        return Verdict::denied(Code::SidecarVersion, container());
    }
    let text = |name| root.get(name).and_then(Value::as_str).map(str::to_owned);
    let actual_container_id = text("containerId").unwrap_or_default();
    if root.get("containerId").and_then(Value::as_str) != Some(expected_container_id) {
        return Verdict::denied(
            Code::SidecarContainerMismatch,
            Details::Mismatch {
                expected_container_id: container_id(),
                actual_container_id,
            },
        );
    }
    let Some(taint) = root.get("cfcTaint").and_then(Value::as_object) else {
        return Verdict::denied(Code::SidecarMissingTaint, container());
    };
    let Some(taint) = Taint::read(taint) else {
        return Verdict::denied(Code::SidecarMalformedTaint, container());
    };
    let label = taint.label();
    let diagnostics = vec![Diagnostic {
        code: Code::Result,
        details: Details::Taint {
            container_id: container_id(),
            sandbox_id: text("sandboxId"),
            wait_status: root.get("waitStatus").and_then(Value::as_i64),
            runsc_taint: taint.string.map(str::to_owned),
            runsc_taint_xattr_json: taint.xattr.cloned(),
        },
    }];
    match taint.is_public() {
        true => Verdict::Observed { label, diagnostics },
        false => Verdict::Opaque { label, diagnostics },
    }
}

const CONFIDENTIALITY: &str = "confidentiality";
const INTEGRITY: &str = "integrity";

/// A taint of the right shape.
struct Taint<'a> {
    string: Option<&'a str>,
    xattr: Option<&'a Map<String, Value>>,
}

impl<'a> Taint<'a> {
    /// None where a member that is there is of the wrong type, and where neither is there.
    fn read(taint: &'a Map<String, Value>) -> Option<Self> {
        let string = match taint.get("string") {
            Some(string) => Some(string.as_str()?),
            None => None,
        };
        let xattr = match taint.get("xattrJSON") {
            Some(xattr) => Some(xattr.as_object()?),
            None => None,
        };
        for name in [CONFIDENTIALITY, INTEGRITY] {
            if let Some(atoms) = xattr.and_then(|xattr| xattr.get(name)) {
                atoms.as_array()?;
            }
        }
        if string.is_none() && xattr.is_none() {
            return None;
        }
        Some(Self { string, xattr })
    }

    /// Public is what says so in full: the structured label is there and is empty, with nothing
    /// unknown in it, and the rendered one, where it is there, is the empty label's spelling to
    /// the byte. The rendering alone proves nothing: it is for people, and not taken apart.
    fn is_public(&self) -> bool {
        let empty = |(name, atoms): (&String, &Value)| {
            [CONFIDENTIALITY, INTEGRITY].contains(&name.as_str())
                && atoms.as_array().is_some_and(Vec::is_empty)
        };
        self.xattr.is_some_and(|xattr| xattr.iter().all(empty))
            && self.string.is_none_or(|string| string == EMPTY_LABEL)
    }

    fn label(&self) -> Label {
        let atoms = |name| {
            let atoms = self.xattr.and_then(|xattr| xattr.get(name)?.as_array());
            atoms.cloned().unwrap_or_default()
        };
        Label {
            confidentiality: atoms(CONFIDENTIALITY),
            integrity: atoms(INTEGRITY),
        }
    }
}
