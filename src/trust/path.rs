//! The walk: from a path as it is written to the path that the filesystem leads to, one name at a
//! time, so that a `..` leaves the directory that the names before it led to.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{TrustedPath, shown};
use crate::host::Host;

/// How many links one path may lead through, as on Linux.
const MAX_LINKS: usize = 40;

/// How refusals call the binary. [`find_program`] knows by it which variable to name.
pub const RUNSC: &str = "the runsc binary";

/// Why a path was not resolved.
#[derive(Debug, thiserror::Error)]
#[error("{setting} {} {fault}", shown(path))]
pub struct PathError {
    /// What the path was given for.
    pub setting: String,
    /// The path, or the program's name, as it was given.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It is relative.
    #[error("is relative: give an absolute path on the host")]
    NotAbsolute,
    /// It opens with a tilde.
    #[error("opens with '~', which only a shell expands: write the directory out")]
    Tilde,
    /// A `.` or `..` follows a name that does not exist.
    #[error(
        "has a '{dots}' after {}, which does not exist, so it leads nowhere yet: write the path \
         without it",
        shown(missing)
    )]
    DotsAfterMissing {
        /// The first name that does not exist, with what it is in.
        missing: PathBuf,
        /// `.` or `..`.
        dots: &'static str,
    },
    /// A `.` or `..` follows a name that is not a directory.
    #[error("has a '{dots}' after {}, which is not a directory", shown(reached))]
    DotsAfterFile {
        /// What is not a directory.
        reached: PathBuf,
        /// `.` or `..`.
        dots: &'static str,
    },
    /// A link leads to nothing.
    #[error(
        "leads through the link {}, whose target is missing: whoever makes the target decides \
         where the path leads",
        shown(link)
    )]
    DanglingLink {
        /// The link.
        link: PathBuf,
    },
    /// Links lead in a circle, or nearly.
    #[error("leads through more than {MAX_LINKS} links")]
    TooManyLinks,
    /// The system does not say what is at a name.
    #[error("cannot be followed past {}: {reason}", shown(at))]
    NotExamined {
        /// The name that was asked about, with what it is in.
        at: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// It is a relative program's, and there is no working directory to take it against.
    #[error("is relative, and the working directory cannot be told: give an absolute path")]
    NoCwd,
    /// A program's name is empty.
    #[error("is an empty name: give an absolute path")]
    EmptyProgram,
    /// No entry of `PATH` has the program.
    #[error(
        "is an executable file in no directory of PATH: install it, or {}",
        Elsewhere(*variable)
    )]
    NotOnPath {
        /// The variable that could name it by its path, where there is one.
        variable: Option<&'static str>,
    },
}

/// How to name a program that is not on `PATH`.
struct Elsewhere(Option<&'static str>);

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(variable) => write!(f, "set {variable} to its absolute path"),
            None => f.write_str("add its directory to PATH"),
        }
    }
}

impl Fault {
    fn of(self, setting: &str, path: &(impl AsRef<Path> + ?Sized)) -> PathError {
        PathError {
            setting: setting.to_owned(),
            path: path.as_ref().to_owned(),
            fault: self,
        }
    }
}

impl PathError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.fault {
            Fault::NotAbsolute => "path-not-absolute",
            Fault::Tilde => "path-opens-with-tilde",
            Fault::DotsAfterMissing { .. } => "path-dots-after-missing",
            Fault::DotsAfterFile { .. } => "path-dots-after-file",
            Fault::DanglingLink { .. } => "path-dangling-link",
            Fault::TooManyLinks => "path-too-many-links",
            Fault::NotExamined { .. } => "path-not-examined",
            Fault::NoCwd => "path-no-working-directory",
            Fault::EmptyProgram => "program-empty",
            Fault::NotOnPath { .. } => "program-not-found",
        }
    }
}

/// A name still to be followed, and the link whose target it is from.
struct Name {
    text: OsString,
    link: Option<Rc<Path>>,
}

impl Name {
    fn dots(&self) -> Option<&'static str> {
        match self.text.as_bytes() {
            b"." => Some("."),
            b".." => Some(".."),
            _ => None,
        }
    }
}

/// The names of a path. Not `Path::components`, which drops `.` and with it the question whether
/// the name before it is a directory.
fn names(path: &Path, link: Option<&Rc<Path>>) -> Vec<Name> {
    path.as_os_str()
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(|name| Name {
            text: OsStr::from_bytes(name).to_owned(),
            link: link.cloned(),
        })
        .collect()
}

/// Resolves an absolute path. What does not exist yet is accepted below what does.
///
/// A hard link is not told from the file. The answer is as good as the directories that it names:
/// whoever can rename them can move it.
///
/// # Errors
/// [`PathError`], with `setting` as the name of what the path was given for.
pub fn walk(setting: &str, path: &Path) -> Result<TrustedPath, PathError> {
    follow(path)
        .map(TrustedPath)
        .map_err(|fault| fault.of(setting, path))
}

fn follow(path: &Path) -> Result<PathBuf, Fault> {
    refuse_tilde(path.as_os_str())?;
    if !path.is_absolute() {
        return Err(Fault::NotAbsolute);
    }
    let mut pending = VecDeque::from(names(path, None));
    let mut reached = PathBuf::from("/");
    let mut in_directory = true;
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if let Some(dots) = name.dots() {
            if !in_directory {
                return Err(Fault::DotsAfterFile { reached, dots });
            }
            if dots == ".." {
                reached.pop();
            }
            continue;
        }
        let next = reached.join(&name.text);
        let found = match std::fs::symlink_metadata(&next) {
            Ok(found) => found,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                if let Some(link) = name.link {
                    let link = link.to_path_buf();
                    return Err(Fault::DanglingLink { link });
                }
                // A link's names come before all others, so the rest is the caller's own too.
                if let Some(dots) = pending.iter().find_map(Name::dots) {
                    let missing = next;
                    return Err(Fault::DotsAfterMissing { missing, dots });
                }
                let mut whole = as_spelled(reached)?;
                whole.push(name.text);
                whole.extend(pending.into_iter().map(|name| name.text));
                return Ok(whole);
            }
            Err(reason) => return Err(Fault::NotExamined { at: next, reason }),
        };
        if !found.is_symlink() {
            in_directory = found.is_dir();
            reached = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Fault::TooManyLinks);
        }
        let target = match std::fs::read_link(&next) {
            Ok(target) => target,
            Err(reason) => return Err(Fault::NotExamined { at: next, reason }),
        };
        if target.as_os_str().is_empty() {
            return Err(Fault::DanglingLink { link: next });
        }
        if target.is_absolute() {
            reached = PathBuf::from("/");
        }
        let link = Rc::from(next);
        for name in names(&target, Some(&link)).into_iter().rev() {
            pending.push_front(name);
        }
    }
    as_spelled(reached)
}

/// On a volume that ignores case, the spelling that the directories have.
#[cfg(target_os = "macos")]
#[expect(
    clippy::disallowed_methods,
    reason = "no link is left to hide: it only restores the names' own case"
)]
fn as_spelled(reached: PathBuf) -> Result<PathBuf, Fault> {
    std::fs::canonicalize(&reached).map_err(|reason| Fault::NotExamined {
        at: reached,
        reason,
    })
}

/// Elsewhere a name has one spelling. (The type is macOS's, where this can fail.)
#[cfg(not(target_os = "macos"))]
fn as_spelled(reached: PathBuf) -> Result<PathBuf, Fault> {
    Ok(reached)
}

fn refuse_tilde(path: &OsStr) -> Result<(), Fault> {
    if path.as_bytes().starts_with(b"~") {
        return Err(Fault::Tilde);
    }
    Ok(())
}

/// Resolves a program: an absolute path as it is, one with a slash against the working directory,
/// and a bare name on `PATH`. A path may lead to something that does not exist or cannot be
/// executed; a bare name does not.
///
/// # Errors
/// [`PathError`], with `setting` as the name of what the program was given for.
pub fn find_program(setting: &str, name: &OsStr, host: &Host) -> Result<TrustedPath, PathError> {
    if name.is_empty() {
        return Err(Fault::EmptyProgram.of(setting, name));
    }
    refuse_tilde(name).map_err(|fault| fault.of(setting, name))?;
    if !name.as_bytes().contains(&b'/') {
        let variable = (setting == RUNSC).then_some("CF_HARNESS_RUNSC_BINARY");
        return program_on_path(name, host)
            .ok_or_else(|| Fault::NotOnPath { variable }.of(setting, name));
    }
    let path = Path::new(name);
    if path.is_absolute() {
        return walk(setting, path);
    }
    match &host.cwd {
        Some(cwd) => walk(setting, &cwd.join(path)),
        None => Err(Fault::NoCwd.of(setting, path)),
    }
}

/// The first entry of `PATH` that has this bare name as an executable file. An empty entry is the
/// working directory and a relative one is below it; one that cannot be followed is passed over.
#[must_use]
pub fn program_on_path(name: &OsStr, host: &Host) -> Option<TrustedPath> {
    host.path
        .as_ref()?
        .as_bytes()
        .split(|byte| *byte == b':')
        .find_map(|entry| {
            let entry = Path::new(OsStr::from_bytes(entry));
            let dir = if entry.is_absolute() {
                entry.to_owned()
            } else {
                host.cwd.as_ref()?.join(entry)
            };
            let found = walk("PATH", &dir.join(name)).ok()?;
            is_executable(found.as_path()).then_some(found)
        })
}

/// Whether it is a regular file that somebody may execute.
pub(crate) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
