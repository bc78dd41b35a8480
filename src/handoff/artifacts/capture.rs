//! Taking a step's outputs out of the directory that it could write, once its container is gone.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::Diagnostic;
use super::content::copy;
use super::labelled::is_labelled;
use super::path::PayloadPath;
use crate::handoff::beneath::{Bounds, Kind, NotRead, Stamp, Tree, Walked};
use crate::handoff::digest::Sha256Hex;
use crate::handoff::files::{FileError, create_new, make_dirs};
use crate::handoff::redact::Redactor;
use crate::handoff::text::flat;

/// Where outputs are in a bundle. Not `files`, in which some readers know names of their own.
pub const OUTPUTS: &str = "outputs";
/// A file of less is never called sparse: a filesystem may keep it in its inode.
const SPARSE_FROM: u64 = 1024 * 1024;
/// How many diagnostics are told one by one.
const MAX_DIAGNOSTICS: usize = 100;
const PHASE: &str = "capture";

/// The bounds of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureLimits {
    /// The largest file.
    pub max_file: u64,
    /// The most bytes in all.
    pub max_total: u64,
    /// The most files in a bundle.
    pub max_files: usize,
    /// The most entries that are looked at.
    pub max_entries: usize,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            max_file: 64 * 1024 * 1024,
            max_total: 256 * 1024 * 1024,
            // A manifest of more is larger than a strict reader takes, and one of more than 2000
            // is cut before it is hashed by other readers.
            max_files: 1000,
            max_entries: 20_000,
        }
    }
}

impl CaptureLimits {
    /// The same for so many bytes, in one file and in all.
    #[must_use]
    pub fn up_to(self, bytes: u64) -> Self {
        Self {
            max_file: bytes,
            max_total: bytes,
            ..self
        }
    }
}

/// What a step is to make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// The files that have to be there, below the output directory.
    pub paths: Vec<PayloadPath>,
    /// Whether other files go into the bundle too.
    pub allow_others: bool,
    /// Whether files with a CFC label are taken, since the bundle is labelled itself.
    pub labelled: bool,
}

/// What became of one file (`wp-codebox/captured-artifact-file/v1`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFile {
    /// In the bundle.
    pub path: PayloadPath,
    /// How many bytes it has there.
    pub bytes: u64,
    /// How many it had before secrets went.
    pub original_bytes: u64,
    /// The digest of what is in the bundle.
    pub sha256: Sha256Hex,
    /// Whether it is no text, and was not looked into.
    pub binary: bool,
    /// How many secrets went, by kind.
    pub redacted: std::collections::BTreeMap<&'static str, u64>,
}

impl CapturedFile {
    /// The file as the contract spells it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({
            "schema": "wp-codebox/captured-artifact-file/v1",
            "status": "captured",
            "path": self.path,
            "bytes": self.bytes,
            "originalBytes": self.original_bytes,
            "sha256": self.sha256,
            "binary": self.binary,
        })
    }
}

/// What was captured and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The files, by their paths.
    pub files: Vec<CapturedFile>,
    /// What was refused, and why.
    pub diagnostics: Vec<Diagnostic>,
}

impl Capture {
    /// Whether every declared output is there and nothing had to be refused.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.diagnostics.iter().any(|told| told.severity == "error")
    }

    fn tell(
        &mut self,
        code: &'static str,
        severity: &'static str,
        path: Option<&Path>,
        message: &str,
    ) {
        let told = Diagnostic {
            code,
            message: message.to_owned(),
            severity,
            phase: PHASE,
            path: path.map(|path| flat(&path.to_string_lossy(), 256)),
        };
        match self.diagnostics.len() {
            ..MAX_DIAGNOSTICS => self.diagnostics.push(told),
            MAX_DIAGNOSTICS => self.diagnostics.push(Diagnostic {
                code: "output-diagnostics-cut",
                message: "there is more to tell of the outputs than is told one by one".to_owned(),
                severity,
                phase: PHASE,
                path: None,
            }),
            _ => {}
        }
    }
}

/// Copies a step's outputs into a fresh directory, below [`OUTPUTS`].
///
/// # Errors
/// [`FileError`] where a copy cannot be written. What is wrong with an output is a diagnostic.
pub fn capture(
    from: &Path,
    declared: &Declared,
    into: &Path,
    redactor: &Redactor,
    limits: &CaptureLimits,
) -> Result<Capture, FileError> {
    let mut capture = Capture::default();
    let Ok(tree) = Tree::open(from) else {
        capture.tell(
            "output-unreadable",
            "error",
            None,
            "the output directory cannot be read",
        );
        return Ok(capture);
    };
    let mut wanted = declared.paths.clone();
    others(&tree, declared, limits, &mut wanted, &mut capture);
    wanted.sort();
    wanted.dedup();
    if wanted.len() > limits.max_files {
        capture.tell(
            "output-too-many-files",
            "error",
            None,
            "there are more outputs than a bundle takes",
        );
        return Ok(capture);
    }
    let mut total = 0;
    for path in wanted {
        if redactor.finds(path.as_str()) {
            capture.tell(
                "output-odd-name",
                "error",
                None,
                "an output's name looks like a secret",
            );
            continue;
        }
        let room = limits.max_file.min(limits.max_total.saturating_sub(total));
        match one(&tree, &path, into, redactor, room, declared.labelled)? {
            Ok(file) => {
                total += file.bytes.max(file.original_bytes);
                capture.files.push(file);
            }
            Err((code, message)) => {
                let (code, message) = match code {
                    "output-oversized" if room < limits.max_file => (
                        "output-total-exceeded",
                        "the outputs together are larger than a bundle takes",
                    ),
                    _ => (code, message),
                };
                capture.tell(code, "error", Some(path.as_path()), message);
            }
        }
    }
    Ok(capture)
}

/// Looks for what was not declared: it is told of, or goes into the bundle too.
fn others(
    tree: &Tree,
    declared: &Declared,
    limits: &CaptureLimits,
    wanted: &mut Vec<PayloadPath>,
    capture: &mut Capture,
) {
    let bounds = Bounds {
        entries: limits.max_entries,
        depth: super::path::MAX_DEPTH,
    };
    let severity = if declared.allow_others {
        "error"
    } else {
        "warning"
    };
    let walked = tree.walk(bounds, |entry| {
        let path = entry.path.as_path();
        let checked = PayloadPath::new(path);
        if checked
            .as_ref()
            .is_ok_and(|path| declared.paths.contains(path))
        {
            return;
        }
        match (entry.kind, checked) {
            (Kind::Directory, Ok(_)) => {}
            (_, Err(odd)) => {
                capture.tell("output-odd-name", severity, Some(path), &odd.to_string())
            }
            (Kind::File, Ok(path)) if declared.allow_others => {
                // One more than a bundle takes is enough to say that there are too many.
                if wanted.len() <= limits.max_files {
                    wanted.push(path);
                }
            }
            (Kind::File, Ok(_)) => capture.tell(
                "output-undeclared",
                "info",
                Some(path),
                "the file was not declared and is left out",
            ),
            (Kind::Link, _) => capture.tell("output-link", severity, Some(path), LINK),
            _ => capture.tell("output-not-regular", severity, Some(path), NOT_REGULAR),
        }
    });
    match walked {
        Walked::All => {}
        Walked::TooMany => capture.tell(
            "output-too-many-files",
            "error",
            None,
            "there are more outputs than are looked at",
        ),
        Walked::TooDeep => capture.tell(
            "output-too-deep",
            severity,
            None,
            "an output directory is deeper than is looked at",
        ),
        Walked::Unreadable => capture.tell(
            "output-unreadable",
            severity,
            None,
            "an output directory cannot be read",
        ),
    }
}

const LINK: &str = "the output is a link, or behind one";
const NOT_REGULAR: &str = "the output is not a regular file";

type Refused = (&'static str, &'static str);

/// Copies one file to a fresh inode, its secrets taken out before it is hashed.
fn one(
    tree: &Tree,
    path: &PayloadPath,
    into: &Path,
    redactor: &Redactor,
    limit: u64,
    labelled: bool,
) -> Result<Result<CapturedFile, Refused>, FileError> {
    let mut file = match tree.file(path.as_path()) {
        Ok(file) => file,
        Err(why) => return Ok(Err(refusal(why))),
    };
    if !labelled {
        match is_labelled(&file) {
            Ok(false) => {}
            Ok(true) => {
                return Ok(Err((
                    "output-labelled",
                    "the output has a CFC label, and the bundle would have none",
                )));
            }
            Err(_) => return Ok(Err(refusal(NotRead::Unavailable))),
        }
    }
    let Ok(before) = Stamp::of(&file) else {
        return Ok(Err(refusal(NotRead::Unavailable)));
    };
    if before.size > limit {
        return Ok(Err((
            "output-oversized",
            "the output is larger than a bundle takes",
        )));
    }
    if before.size >= SPARSE_FROM && before.allocated < before.size / 2 {
        return Ok(Err((
            "output-sparse",
            "the output has more holes than content",
        )));
    }
    let placed = path.below(OUTPUTS);
    let target = into.join(placed.as_path());
    if let Some(dir) = target.parent() {
        make_dirs(dir)?;
    }
    let raw = into.join(format!(".raw-{}", file_key(path)));
    let failed = |what| FileError::of(what, &target);
    let mut to = Noting {
        to: create_new(&raw, 0o600).map_err(failed("write"))?,
        failed: false,
    };
    let copied = copy(&mut file, &mut to, limit);
    let result = match copied {
        // A full disk, say: the step's output is not to blame.
        Err(err) if to.failed => return Err(failed("write")(err)),
        Ok(copied) if Stamp::of(&file).ok() == Some(before) && copied.bytes == before.size => {
            finish(redactor, &raw, &target, placed, copied).map_err(failed("write"))?
        }
        Ok(_) => Err(("output-changed", "the output changed while it was read")),
        Err(err) if err.kind() == io::ErrorKind::FileTooLarge => Err((
            "output-oversized",
            "the output is larger than a bundle takes",
        )),
        Err(_) => Err(refusal(NotRead::Unavailable)),
    };
    // Where it was moved, it is gone already.
    let _ = std::fs::remove_file(&raw);
    Ok(result)
}

/// Notes that a write failed: an error of a copy alone does not say which side it is of.
struct Noting {
    to: File,
    failed: bool,
}

impl Write for Noting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        let failed = |err: &io::Error| err.kind() != io::ErrorKind::Interrupted;
        self.failed |= written.as_ref().is_err_and(failed);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn file_key(path: &PayloadPath) -> Sha256Hex {
    Sha256Hex::of(path.as_str().as_bytes())
}

fn finish(
    redactor: &Redactor,
    raw: &Path,
    target: &Path,
    placed: PayloadPath,
    copied: super::content::Copied,
) -> io::Result<Result<CapturedFile, Refused>> {
    let mut captured = CapturedFile {
        path: placed,
        bytes: copied.bytes,
        original_bytes: copied.bytes,
        sha256: copied.sha256,
        binary: !copied.text,
        redacted: Default::default(),
    };
    if copied.text {
        let mut to = create_new(target, 0o600)?;
        match redactor.copy(&mut File::open(raw)?, &mut to) {
            Ok(kinds) if kinds.is_empty() => std::fs::remove_file(target)?,
            Ok(kinds) => {
                to.sync_all()?;
                let again = copy(&mut File::open(target)?, &mut io::sink(), u64::MAX)?;
                captured.bytes = again.bytes;
                captured.sha256 = again.sha256;
                captured.redacted = kinds;
                return Ok(Ok(captured));
            }
            Err(err) if err.kind() == io::ErrorKind::InvalidData => {
                std::fs::remove_file(target)?;
                return Ok(Err((
                    "output-sensitive",
                    "the output has a secret without end",
                )));
            }
            Err(err) => return Err(err),
        }
    }
    File::open(raw)?.sync_all()?;
    std::fs::rename(raw, target)?;
    Ok(Ok(captured))
}

fn refusal(why: NotRead) -> Refused {
    match why {
        NotRead::Missing => ("output-missing", "the declared output is not there"),
        NotRead::Link => ("output-link", LINK),
        NotRead::NotRegular => ("output-not-regular", NOT_REGULAR),
        NotRead::HardLink => ("output-hardlink", "the output has other names too"),
        NotRead::Unavailable => ("output-unreadable", "the output cannot be read"),
    }
}

#[cfg(test)]
mod tests;
