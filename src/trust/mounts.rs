//! Containment: what the sandbox can reach through its mounts, held apart from what decides over
//! the sandbox.
//!
//! A path with a `..` after a link is read in two ways: the kernel follows the link first, and a
//! program that folds the `..` by its spelling does not. Mounts and the scratch directory are
//! compared in both.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::TrustedPath;
use super::path::{PathError, walk};

mod error;

pub use error::{DefaultNote, MountError, MountName};

/// How refusals call the scratch directory.
pub(crate) const SCRATCH: &str = "the scratch directory";

/// Whether a canonical path is a directory or below it.
pub(crate) fn is_within(path: &Path, dir: &Path, fold_case: bool) -> bool {
    folded(path, fold_case).starts_with(folded(dir, fold_case))
}

fn folded(path: &Path, fold_case: bool) -> Cow<'_, Path> {
    if !fold_case {
        return Cow::Borrowed(path);
    }
    let lower = match path.to_str() {
        Some(text) => OsString::from(text.to_lowercase()),
        None => OsString::from_vec(path.as_os_str().as_bytes().to_ascii_lowercase()),
    };
    Cow::Owned(PathBuf::from(lower))
}

/// Folds `.` and `..` by the spelling alone. A `..` with nothing before it is kept.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match (part, out.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                out.pop();
            }
            (part, _) => out.push(part),
        }
    }
    out
}

/// The two ways in which a path is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readings {
    /// As the kernel does: links first.
    pub(crate) real: PathBuf,
    /// As a program that folds `..` first does.
    pub(crate) folded: PathBuf,
}

impl Readings {
    pub(crate) fn of(setting: &str, path: &Path) -> Result<Self, PathError> {
        let TrustedPath(real) = walk(setting, path)?;
        let mut spelled = normalized(path);
        // The root's own parent is the root, in both readings.
        while let Ok(rest) = spelled.strip_prefix("/..") {
            spelled = Path::new("/").join(rest);
        }
        let TrustedPath(folded) = walk(setting, &spelled)?;
        Ok(Self { real, folded })
    }

    fn each(&self) -> [&Path; 2] {
        [&self.real, &self.folded]
    }

    /// Whether any reading of this is within any reading of that.
    fn within(&self, dir: &Self, fold_case: bool) -> bool {
        self.each()
            .iter()
            .any(|path| dir.each().iter().any(|dir| is_within(path, dir, fold_case)))
    }
}

/// One mount, as containment sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: MountName,
    pub(crate) readings: Readings,
    pub(crate) read_only: bool,
}

/// All mounts, to hold things against.
pub(crate) struct Mounts<'a> {
    pub(crate) sources: &'a [Source],
    pub(crate) fold_case: bool,
    pub(crate) note: DefaultNote,
}

impl Mounts<'_> {
    fn writable(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| !source.read_only)
    }

    /// The writable mount that a canonical path is inside, where there is one.
    fn holding(&self, real: &Path) -> Option<Box<MountName>> {
        self.writable()
            .find(|source| {
                let within = |dir| is_within(real, dir, self.fold_case);
                source.readings.each().into_iter().any(within)
            })
            .map(|source| Box::new(source.name.clone()))
    }

    /// The writable mount that is inside a canonical directory, where there is one.
    fn inside(&self, dir: &Path) -> Option<Box<MountName>> {
        self.writable()
            .find(|source| {
                let within = |path| is_within(path, dir, self.fold_case);
                source.readings.each().into_iter().any(within)
            })
            .map(|source| Box::new(source.name.clone()))
    }

    /// The scratch directory: in no mount, since a bundle or result must not even be read through
    /// one, and with no writable mount inside. `home` is what may hold no writable mount: the
    /// directory itself, or the parent of all the default ones.
    pub(crate) fn check_scratch(
        &self,
        given: &Path,
        readings: &Readings,
        home: &Readings,
        default_scratch: bool,
    ) -> Result<(), MountError> {
        for source in self.sources {
            if readings.within(&source.readings, self.fold_case) {
                return Err(MountError::ScratchInMount {
                    scratch: given.to_owned(),
                    default_scratch,
                    mount: Box::new(source.name.clone()),
                });
            }
            if !source.read_only && source.readings.within(home, self.fold_case) {
                return Err(MountError::MountInScratch {
                    mount: Box::new(source.name.clone()),
                    scratch: home.real.clone(),
                });
            }
        }
        Ok(())
    }

    /// A file that decides over the sandbox: in no writable mount.
    pub(crate) fn check_trusted(
        &self,
        setting: &str,
        given: &Path,
        real: &TrustedPath,
    ) -> Result<(), MountError> {
        match self.holding(real.as_path()) {
            None => Ok(()),
            Some(mount) => Err(MountError::TrustedInMount {
                setting: setting.to_owned(),
                path: given.to_owned(),
                real: other(given, real),
                mount,
                note: self.note.clone(),
            }),
        }
    }

    /// The rootfs: no writable mount inside.
    pub(crate) fn check_rootfs(&self, rootfs: &TrustedPath) -> Result<(), MountError> {
        match self.inside(rootfs.as_path()) {
            None => Ok(()),
            Some(mount) => Err(MountError::MountInRootfs {
                mount,
                rootfs: rootfs.as_path().to_owned(),
                note: self.note.clone(),
            }),
        }
    }

    /// The native store: apart from every writable mount, both ways, whether or not this run
    /// takes anything from it.
    pub(crate) fn check_store(
        &self,
        setting: &'static str,
        given: &Path,
        real: &TrustedPath,
    ) -> Result<(), MountError> {
        if let Some(mount) = self.holding(real.as_path()) {
            return Err(MountError::StoreInMount {
                setting,
                store: given.to_owned(),
                real: other(given, real),
                mount,
                note: self.note.clone(),
            });
        }
        if let Some(mount) = self.inside(real.as_path()) {
            return Err(MountError::MountInStore {
                setting,
                mount,
                store: real.as_path().to_owned(),
                note: self.note.clone(),
            });
        }
        Ok(())
    }
}

/// Where a path leads, where that is not what was given.
fn other(given: &Path, real: &TrustedPath) -> Option<PathBuf> {
    (given != real.as_path()).then(|| real.0.clone())
}

/// The places in the sandbox, each with the mount that is there: no two may overlap, whatever the
/// order in which they would be made.
pub(crate) fn check_overlap(places: &[(&MountName, &Path)]) -> Result<(), MountError> {
    for (index, (second, second_at)) in places.iter().enumerate() {
        for (first, first_at) in &places[..index] {
            // The sandbox is Linux, whatever the host is.
            if is_within(second_at, first_at, false) || is_within(first_at, second_at, false) {
                return Err(MountError::Overlap {
                    first: Box::new((*first).clone()),
                    first_at: first_at.to_path_buf(),
                    second: Box::new((*second).clone()),
                    second_at: second_at.to_path_buf(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
