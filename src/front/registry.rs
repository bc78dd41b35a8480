//! The registry: every container that runs under the front, told to every other.
//!
//! It is a directory of one user, beside the store's `bin`. One lock is held for each step that
//! reads what others are doing and says what this one does. A registration is two files: a lock
//! that the kernel drops when its owner ends, however it ends, and what is registered. The latter
//! is written whole and renamed, and removed last of all: until every label is on its file, the
//! next start finds it and goes on where the owner was killed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::mounts::{Bind, FileId};
use super::owner::{Moment, Owner};
use super::path_text;
use super::policy::Policy;
use super::taint::Taint;
use crate::launch::stand_in::Signals;

/// Why the registry cannot be used. Without one nothing is started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A file or directory of it cannot be used.
    #[error("the registry's {path:?} cannot be {step}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could write to it.
    #[error("the registry {path:?} is not a directory of this user alone (mode 0700)")]
    NotPrivate {
        /// Where it is.
        path: PathBuf,
    },
}

fn failed(path: &Path, step: &'static str) -> impl FnOnce(io::Error) -> RegistryError {
    let path = path.to_owned();
    move |source| RegistryError::Io { path, step, source }
}

/// How far a container has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It looks at what it would see. Nothing of it runs.
    Looking,
    /// It runs, or has ended and is not settled.
    Running,
}

/// A container, as others need to know it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name of its files.
    pub token: String,
    /// The container's id.
    pub container: String,
    /// runsc's state directory.
    #[serde(with = "path_text")]
    pub state_dir: PathBuf,
    /// The bundle.
    #[serde(with = "path_text")]
    pub bundle: PathBuf,
    /// Who runs it.
    pub owner: Owner,
    /// How far it has come.
    pub phase: Phase,
    /// What it sees of the host.
    pub binds: Vec<Bind>,
    /// Files that it sees and that have other names; none before it has looked.
    pub links: Option<Links>,
    /// Its label so far.
    pub taint: Taint,
    /// Its egress, where it has one.
    pub egress: Option<String>,
    /// Since when it may have changed files.
    pub started: Moment,
    /// Its policy.
    pub policy: Policy,
}

/// Files with several names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// Whether there are more than are listed.
    pub more: bool,
    /// Their inodes, sorted.
    pub ids: Vec<FileId>,
}

/// How many files with several names a registration lists.
const MOST_LINKS: usize = 4096;
/// What is being written, until it is whole.
const PARTIAL: &str = "partial";

impl Links {
    /// These, sorted.
    #[must_use]
    pub fn of(mut ids: Vec<FileId>) -> Self {
        let more = ids.len() > MOST_LINKS;
        ids.truncate(MOST_LINKS);
        Self { more, ids }
    }

    /// Whether some file may be in both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        if self.more || other.more {
            return !self.ids.is_empty() && !other.ids.is_empty();
        }
        self.ids
            .iter()
            .any(|id| other.ids.binary_search(id).is_ok())
    }
}

impl Record {
    /// Whether what this one may write is seen by another.
    #[must_use]
    pub fn is_seen_by(&self, other: &Self) -> bool {
        super::mounts::shows_writes(&self.binds, &other.binds)
            || (self.binds.iter().any(Bind::writable) && self.shares_links(other))
    }

    /// A file with several names may be in both though their trees are apart.
    fn shares_links(&self, other: &Self) -> bool {
        match (&self.links, &other.links) {
            (Some(own), Some(others)) => own.meets(others),
            // One that has not looked yet may see any of them.
            (Some(links), None) | (None, Some(links)) => !links.ids.is_empty(),
            (None, None) => false,
        }
    }

    /// Whether they share anything at all.
    #[must_use]
    pub fn touches(&self, other: &Self) -> bool {
        self.is_seen_by(other) || other.is_seen_by(self)
    }
}

/// A registration of somebody else.
#[derive(Debug)]
pub struct Other {
    /// The name of its files.
    pub token: String,
    /// What is registered; none where it cannot be read.
    pub record: Option<Record>,
    /// Its lock, where its owner is gone: whoever holds it settles it.
    pub dead: Option<Flock<File>>,
}

/// The registry of this user.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

/// The registry, while nobody else reads or writes it.
#[derive(Debug)]
pub struct Locked<'a> {
    registry: &'a Registry,
    _lock: Flock<File>,
}

/// A registration of ours. Its lock goes with this process.
#[derive(Debug)]
pub struct Own {
    /// What is registered.
    pub record: Record,
    _lock: Flock<File>,
}

impl Registry {
    /// The registry of a store: `registry` in it, or, where that is one for several users (sticky,
    /// as `/tmp` is), this user's own in there.
    ///
    /// # Errors
    /// It cannot be made, or is not private.
    pub fn open(store: &Path) -> Result<Self, RegistryError> {
        let mut dir = store.join("registry");
        let shared = std::fs::metadata(&dir).is_ok_and(|found| found.mode() & 0o1002 == 0o1002);
        if shared {
            dir = dir.join(outside_uid().to_string());
        }
        let registry = Self { dir };
        registry.make_dir(&registry.dir)?;
        let found =
            std::fs::symlink_metadata(&registry.dir).map_err(failed(&registry.dir, "examined"))?;
        let private = found.is_dir()
            && found.mode() & 0o077 == 0
            && found.uid() == rustix::process::geteuid().as_raw();
        if !private {
            return Err(RegistryError::NotPrivate { path: registry.dir });
        }
        for name in ["live", "marks", "images"] {
            registry.make_dir(&registry.dir.join(name))?;
        }
        Ok(registry)
    }

    /// The registry of a store, where there is one already.
    ///
    /// # Errors
    /// It is there, and cannot be used.
    pub fn existing(store: &Path) -> Result<Option<Self>, RegistryError> {
        if store.join("registry").exists() {
            return Self::open(store).map(Some);
        }
        Ok(None)
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where indexes of images are kept.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.dir.join("images")
    }

    fn make_dir(&self, dir: &Path) -> Result<(), RegistryError> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => Err(failed(dir, "made")(err)),
            _ => Ok(()),
        }
    }

    /// Waits until nobody else reads or writes it. Whoever does, does so for moments.
    ///
    /// # Errors
    /// The lock cannot be taken.
    pub fn lock(&self) -> Result<Locked<'_>, RegistryError> {
        let path = self.dir.join("lock");
        let file = lock_file(&path).map_err(failed(&path, "opened"))?;
        let lock = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| failed(&path, "locked")(errno.into()))?;
        Ok(Locked {
            registry: self,
            _lock: lock,
        })
    }

    /// Waits until the owner of a registration has ended, at most this long, or a signal came;
    /// whether it has ended.
    #[must_use]
    pub(crate) fn await_end(&self, token: &str, limit: Duration, signals: &Signals) -> bool {
        let Ok(file) = lock_file(&self.lock_path(token)) else {
            return true;
        };
        let Ok((ended, held)) = io::pipe() else {
            return false;
        };
        let wait = move || {
            // The kernel wakes us as it drops the owner's lock.
            let _ = Flock::lock(file, FlockArg::LockShared);
            drop(held);
        };
        let waiting = std::thread::Builder::new()
            .name("runsc-cfc-wait".to_owned())
            .spawn(wait);
        // The thread of a wait that was given up goes with this process.
        waiting.is_ok() && signals.or_readable(&ended.into(), limit)
    }

    fn lock_path(&self, token: &str) -> PathBuf {
        self.dir.join("live").join(format!("{token}.lock"))
    }

    fn record_path(&self, token: &str) -> PathBuf {
        self.dir.join("live").join(format!("{token}.json"))
    }
}

impl Locked<'_> {
    /// Registers a container.
    ///
    /// # Errors
    /// The files cannot be made.
    pub fn register(&self, record: Record) -> Result<Own, RegistryError> {
        let path = self.registry.lock_path(&record.token);
        let file = lock_file(&path).map_err(failed(&path, "made"))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(&path, "locked")(errno.into()))?;
        self.write(&record)?;
        Ok(Own {
            record,
            _lock: lock,
        })
    }

    /// Writes what is registered of a container, its own or another's. It is on the disk before
    /// this returns where there is a label to lose.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, record: &Record) -> Result<(), RegistryError> {
        let path = self.registry.record_path(&record.token);
        self.put(&path, record, !record.taint.is_public())
    }

    /// What is registered of a container by now; none where it is gone.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(&self, token: &str) -> Result<Option<Record>, RegistryError> {
        let path = self.registry.record_path(token);
        get(&path).map_err(failed(&path, "read"))
    }

    /// Every registration but one.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn others(&self, own: &str) -> Result<Vec<Other>, RegistryError> {
        let dir = self.registry.dir.join("live");
        let mut others = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(failed(&dir, "read"))? {
            let entry = entry.map_err(failed(&dir, "read"))?;
            let name = entry.file_name();
            let token = name.to_str().and_then(|name| name.strip_suffix(".lock"));
            let Some(token) = token.filter(|token| *token != own) else {
                continue;
            };
            if let Some(other) = self.other(token)? {
                others.push(other);
            }
        }
        Ok(others)
    }

    fn other(&self, token: &str) -> Result<Option<Other>, RegistryError> {
        let (lock, path) = (
            self.registry.lock_path(token),
            self.registry.record_path(token),
        );
        let file = lock_file(&lock).map_err(failed(&lock, "opened"))?;
        let dead = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
        match get(&path) {
            Ok(Some(record)) => Ok(Some(Other {
                token: token.to_owned(),
                record: Some(record),
                dead,
            })),
            // Killed before it was registered, or after all was done.
            Ok(None) => {
                if dead.is_some() {
                    self.remove(token)?;
                }
                Ok(None)
            }
            Err(_) => Ok(Some(Other {
                token: token.to_owned(),
                record: None,
                dead,
            })),
        }
    }

    /// Removes a registration of which nothing is left to do.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, token: &str) -> Result<(), RegistryError> {
        let record = self.registry.record_path(token);
        // Its lock is the last, by which whoever is killed here is found.
        for path in [
            record.with_extension(PARTIAL),
            record,
            self.registry.lock_path(token),
        ] {
            match std::fs::remove_file(&path) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&path, "removed")(err));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Every mark, with where it is kept; one that cannot be read has nothing in it.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn marks<T: DeserializeOwned>(&self) -> Result<Vec<(PathBuf, Option<T>)>, RegistryError> {
        let dir = self.registry.dir.join("marks");
        let mut marks = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(failed(&dir, "read"))? {
            let path = entry.map_err(failed(&dir, "read"))?.path();
            if path.extension().is_some_and(|kind| kind == PARTIAL) {
                // Nobody else writes now: its writer was killed, before what it tells of was done.
                let _ = std::fs::remove_file(&path);
            }
            if path.extension().is_some_and(|kind| kind == "json") {
                let mark = get(&path).ok().flatten();
                marks.push((path, mark));
            }
        }
        Ok(marks)
    }

    /// Keeps a mark.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_mark(&self, token: &str, mark: &impl Serialize) -> Result<(), RegistryError> {
        let path = self
            .registry
            .dir
            .join("marks")
            .join(format!("{token}.json"));
        self.put(&path, mark, true)
    }

    fn put(&self, path: &Path, value: &impl Serialize, sync: bool) -> Result<(), RegistryError> {
        let partial = path.with_extension(PARTIAL);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&partial)?;
            file.write_all(&serde_json::to_vec(value)?)?;
            if sync {
                file.sync_all()?;
            }
            std::fs::rename(&partial, path)?;
            if let (true, Some(dir)) = (sync, path.parent()) {
                File::open(dir)?.sync_all()?;
            }
            Ok(())
        };
        write().map_err(failed(path, "written"))
    }
}

/// A new name for a registration or a mark.
///
/// # Errors
/// The system gives no random bytes.
pub fn token() -> Result<String, RegistryError> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes)
        .map_err(|err| failed(Path::new("token"), "made")(io::Error::other(err)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn get<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(err) => return Err(err),
    };
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Our uid as the namespace around ours has it, where this process is root of a namespace.
fn outside_uid() -> u32 {
    let uid = rustix::process::geteuid().as_raw();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let line = |line: &str| -> Option<u32> {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside, count) = (
            fields.next()?.ok()?,
            fields.next()?.ok()?,
            fields.next()?.ok()?,
        );
        let at = uid.checked_sub(inside).filter(|at| *at < count)?;
        outside.checked_add(at)
    };
    map.lines().find_map(line).unwrap_or(uid)
}
