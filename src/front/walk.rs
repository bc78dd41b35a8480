//! The walk over a tree of the host: every entry once, by a few threads, within bounds.
//!
//! A directory is opened below the tree's root without following any link, so that a container
//! that runs beside cannot lead the walk elsewhere. Threads have a working directory of their own:
//! an entry's attributes are then reached by its name alone.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, accessat, fstat, openat2,
    statat,
};
use rustix::io::Errno;

use super::attributes::Sight;
use super::doubt::{Doubt, Found};

/// How often a directory that changes is read before it is given up on.
const ATTEMPTS: usize = 16;
/// More than this many threads only wait for the kernel's locks.
const MOST_THREADS: usize = 4;
/// How many entries the kernel gives at a time.
const BUFFER: usize = 32 * 1024;

/// How far a look goes.
#[derive(Debug)]
pub struct Limits {
    entries: AtomicU64,
    until: Instant,
    hit: AtomicBool,
}

impl Limits {
    /// This many entries, and this long from now on.
    #[must_use]
    pub fn new(entries: u64, time: Duration) -> Self {
        Self {
            entries: AtomicU64::new(entries),
            until: Instant::now() + time,
            hit: AtomicBool::new(false),
        }
    }

    /// Takes so many entries; whether they were within the bounds.
    pub(super) fn take(&self, count: u64) -> bool {
        let enough = self
            .entries
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(count)
            });
        if enough.is_err() || Instant::now() > self.until {
            self.hit.store(true, Ordering::Relaxed);
        }
        !self.hit.load(Ordering::Relaxed)
    }
}

/// One entry of a tree.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Its directory, below the tree's root; empty for that itself.
    pub dir: &'a [u8],
    /// Its name there; empty for the tree's root.
    pub name: &'a [u8],
    /// Where this thread reaches it, unless it is renamed.
    pub reach: &'a CStr,
    /// What it is.
    pub stat: &'a Stat,
}

impl Entry<'_> {
    /// Its path below the tree's root.
    pub(super) fn below(&self) -> Vec<u8> {
        below(self.dir, self.name)
    }
}

/// What is done with each entry. A directory that changed while it was read is read again.
pub trait Visit: Send {
    /// An entry.
    fn visit(&mut self, entry: &Entry<'_>);
    /// A directory is about to be read.
    fn open(&mut self, dir: &[u8]);
    /// It is read again: what was kept of its entries is to be forgotten.
    fn again(&mut self);
}

/// What a walk needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// The tree.
    pub root: &'a Path,
    /// Whose eyes.
    pub sight: &'a Sight,
    /// How far.
    pub limits: &'a Limits,
    /// Whether directories may keep changing: a container that runs beside does it, whose label
    /// is known.
    pub tolerant: bool,
}

impl Walk<'_> {
    /// Visits every entry, with one visitor for each thread.
    pub fn run<V: Visit>(&self, make: impl Fn() -> V + Sync) -> (Vec<V>, Found) {
        let mut found = Found::default();
        let (mut first, root) = (make(), self.root);
        let Ok(reach) = CString::new(root.as_os_str().as_bytes()) else {
            found.doubt(Doubt::unforeseen(root, "its path has a NUL"));
            return (vec![first], found);
        };
        let stat = match rustix::fs::lstat(&reach) {
            Ok(stat) => stat,
            Err(errno) => {
                found.doubt(Doubt::unforeseen(root, errno));
                return (vec![first], found);
            }
        };
        first.open(b"");
        first.visit(&Entry {
            dir: b"",
            name: b"",
            reach: &reach,
            stat: &stat,
        });
        let mut visitors = vec![first];
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.directory(&stat, &make, &mut visitors, &mut found);
        }
        if self.limits.hit.load(Ordering::Relaxed) {
            found.doubt(Doubt::at(Doubt::WalkBound, root));
        }
        (visitors, found)
    }

    fn directory<V: Visit>(
        &self,
        stat: &Stat,
        make: &(impl Fn() -> V + Sync),
        visitors: &mut Vec<V>,
        found: &mut Found,
    ) {
        let root = match File::open(self.root) {
            Ok(root) => root,
            Err(err) => {
                if self.could_be_seen(stat.st_uid, || accessat_here(self.root)) {
                    found.doubt(Doubt::at(Doubt::UnreadableDirectory, self.root));
                }
                let _ = err;
                return;
            }
        };
        let queue = Queue::new(Job {
            dir: Vec::new(),
            owner: stat.st_uid,
        });
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.clamp(1, MOST_THREADS);
        let results: Vec<_> = std::thread::scope(|scope| {
            let work = || {
                let mut visitor = make();
                let mut found = Found::default();
                self.work(&root, &queue, &mut visitor, &mut found);
                (visitor, found)
            };
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running.into_iter().map(|thread| thread.join()).collect()
        });
        for result in results {
            match result {
                Ok((visitor, seen)) => {
                    visitors.push(visitor);
                    found.join(seen);
                }
                Err(_) => found.doubt(Doubt::unforeseen(self.root, "a thread of the walk failed")),
            }
        }
    }

    fn work<V: Visit>(&self, root: &File, queue: &Queue, visitor: &mut V, found: &mut Found) {
        // A panic must not leave the others waiting for this thread's directories.
        let _done = queue.worker();
        if let Err(errno) = unshare(CloneFlags::CLONE_FS) {
            found.doubt(Doubt::unforeseen(self.root, errno));
            queue.stop();
            return;
        }
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        while let Some(job) = queue.next() {
            let mut children = Vec::new();
            self.read(root, &job, visitor, found, &mut children, &mut buffer);
            queue.finish(children);
        }
    }

    fn read<V: Visit>(
        &self,
        root: &File,
        job: &Job,
        visitor: &mut V,
        found: &mut Found,
        children: &mut Vec<Job>,
        buffer: &mut [MaybeUninit<u8>],
    ) {
        let at = || under(self.root, &job.dir);
        let dir = match open_dir(root, &job.dir) {
            Ok(dir) => dir,
            // It was removed, or something else is in its place, since its parent was read.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return,
            Err(Errno::ACCESS | Errno::PERM) => {
                if self.could_be_seen(job.owner, || searchable(root, &job.dir)) {
                    found.doubt(Doubt::at(Doubt::UnreadableDirectory, &at()));
                }
                return;
            }
            Err(errno) => return found.doubt(Doubt::unforeseen(&at(), errno)),
        };
        if let Err(errno) = rustix::process::fchdir(&dir) {
            if errno == Errno::ACCESS {
                // Its names are seen and nothing in it can be reached, by the container neither
                // unless it is its own.
                if self.could_be_seen(job.owner, || false) {
                    found.doubt(Doubt::at(Doubt::UnreadableDirectory, &at()));
                }
                return;
            }
            return found.doubt(Doubt::unforeseen(&at(), errno));
        }
        visitor.open(&job.dir);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                visitor.again();
                children.clear();
            }
            let before = fstat(&dir).map(|stat| changed_at(&stat));
            let read = self.entries(&dir, job, visitor, children, buffer);
            if let Err(errno) = read {
                return found.doubt(Doubt::unforeseen(&at(), errno));
            }
            if before == fstat(&dir).map(|stat| changed_at(&stat)) {
                return;
            }
        }
        if !self.tolerant {
            found.doubt(Doubt::at(Doubt::ChangedDuringLook, &at()));
        }
    }

    fn entries<V: Visit>(
        &self,
        dir: &File,
        job: &Job,
        visitor: &mut V,
        children: &mut Vec<Job>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<(), Errno> {
        rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))?;
        let mut listing = RawDir::new(dir, buffer);
        let mut count = 0;
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let reach = entry.file_name();
            let name = reach.to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            count += 1;
            if count % 256 == 0 && !self.limits.take(256) {
                return Ok(());
            }
            let stat = match statat(dir, reach, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            };
            visitor.visit(&Entry {
                dir: &job.dir,
                name,
                reach,
                stat: &stat,
            });
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                children.push(Job {
                    dir: below(&job.dir, name),
                    owner: stat.st_uid,
                });
            }
        }
        self.limits.take(count % 256);
        Ok(())
    }

    /// Whether the container could see into a directory that we cannot read: its own it can make
    /// readable, and one that it may enter it can read by names that it knows.
    fn could_be_seen(&self, owner: u32, may_enter: impl FnOnce() -> bool) -> bool {
        self.sight.is_own(owner) || may_enter()
    }
}

/// Opens a directory below another, whatever links are put in the way.
pub(super) fn open_dir(root: &File, below: &[u8]) -> Result<File, Errno> {
    open_below(root, below, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens an entry below a directory, a link itself, whatever links are put in the way.
pub(super) fn open_below(root: &File, below: &[u8], flags: OFlags) -> Result<File, Errno> {
    let below = if below.is_empty() { b"." } else { below };
    openat2(
        root,
        below,
        flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH,
    )
    .map(File::from)
}

fn searchable(root: &File, below: &[u8]) -> bool {
    open_below(root, below, OFlags::PATH)
        .is_ok_and(|dir| accessat(&dir, ".", Access::EXEC_OK, AtFlags::EACCESS).is_ok())
}

fn accessat_here(path: &Path) -> bool {
    accessat(rustix::fs::CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// When a file's inode or content last changed.
pub(super) fn changed_at(stat: &Stat) -> (i64, u64) {
    (stat.st_ctime, stat.st_ctime_nsec)
}

fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() {
        return name.to_vec();
    }
    [dir, name].join(&b'/')
}

/// A path below a root.
pub(super) fn under(root: &Path, below: &[u8]) -> PathBuf {
    if below.is_empty() {
        root.to_owned()
    } else {
        root.join(std::ffi::OsStr::from_bytes(below))
    }
}

/// A directory to read.
struct Job {
    dir: Vec<u8>,
    owner: u32,
}

/// The directories that are still to be read. It is empty for good once nobody reads one.
struct Queue {
    state: Mutex<Pending>,
    changed: Condvar,
}

struct Pending {
    jobs: Vec<Job>,
    busy: usize,
    stopped: bool,
}

/// Stops the others where a thread ends before the queue did.
struct Worker<'a>(&'a Queue);

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl Queue {
    fn new(first: Job) -> Self {
        Self {
            state: Mutex::new(Pending {
                jobs: vec![first],
                busy: 0,
                stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self) -> Worker<'_> {
        Worker(self)
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, children: Vec<Job>) {
        let mut state = self.lock();
        state.busy -= 1;
        let wake = !children.is_empty() || (state.busy == 0 && state.jobs.is_empty());
        state.jobs.extend(children);
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::front::policy::Unseen;

    /// Changes the directory that is read, as many times as it is told to.
    struct Meddler<'a> {
        dir: &'a Path,
        left: &'a AtomicU64,
    }

    impl Visit for Meddler<'_> {
        fn visit(&mut self, entry: &Entry<'_>) {
            let more = |left: u64| left.checked_sub(1);
            let is_root = entry.name.is_empty();
            let left = &self.left;
            if is_root
                || left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                    .is_err()
            {
                return;
            }
            // Until its time is another: the clock of files ticks.
            let time = || changed_at(&rustix::fs::stat(self.dir).unwrap());
            let (before, made) = (time(), self.dir.join("made"));
            while time() == before {
                File::create(&made).unwrap();
                std::fs::remove_file(&made).unwrap();
            }
        }

        fn open(&mut self, _: &[u8]) {}
        fn again(&mut self) {}
    }

    #[test]
    fn a_directory_that_changes_each_time_it_is_read_is_in_doubt() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("file")).unwrap();
        let sight = Sight::probe(dir.path(), Unseen::None).unwrap();
        let doubts = |times: u64, tolerant| {
            let (left, limits) = (
                AtomicU64::new(times),
                Limits::new(1000, Duration::from_secs(60)),
            );
            let walk = Walk {
                root: dir.path(),
                sight: &sight,
                limits: &limits,
                tolerant,
            };
            let meddler = || Meddler {
                dir: dir.path(),
                left: &left,
            };
            let (_, found) = walk.run(meddler);
            found.doubts().to_vec()
        };
        assert_eq!(doubts(0, false), []);
        // Once more it is read.
        assert_eq!(doubts(1, false), []);
        let at = dir.path().display().to_string();
        assert_eq!(doubts(1000, false), [Doubt::ChangedDuringLook(at)]);
        assert_eq!(doubts(1000, true), []);
    }
}
