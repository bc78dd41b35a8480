//! The allocator: one for all children of a session, the host's own and its scripts'.
//!
//! An ordinal leaves the process only after its record is on disk. The ledger is held under a
//! kernel lock for as long as the allocator lives, so that a killed host frees it, and a second
//! host is refused rather than queued.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use super::template::Block;
use crate::cfc::json as strict;
use crate::handoff::digest::{MAX_WHOLE, whole};
use crate::handoff::files::{self, FileError};

/// The largest ledger: some hundred thousand reservations.
const MAX_LEDGER: u64 = 64 * 1024 * 1024;

/// Whom a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The host's own children.
    Engine,
    /// A script's.
    Workflow,
}

impl Owner {
    fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Workflow => "workflow",
        }
    }
}

/// Why there is no block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Another allocator has the ledger.
    #[error("another host holds the ledger {0:?}: end it, or name another directory")]
    Held(PathBuf),
    /// A file of the ledger cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A record that is not the last one cannot be read.
    #[error("line {line} of the ledger {path:?} is no record: what was handed out cannot be told")]
    Corrupt {
        /// The ledger.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// A block of no ordinals, or of more than there are.
    #[error("there is no block of {0} ordinals to hand out")]
    NoSuchBlock(u64),
    /// An earlier write failed and could not be taken back, so the ledger's end is unknown.
    #[error("an earlier write to the ledger {0:?} failed half-way: open it again")]
    Broken(PathBuf),
}

impl LedgerError {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held(_) => "ledger-held",
            Self::File(_) => "ledger-file",
            Self::Corrupt { .. } => "ledger-corrupt",
            Self::NoSuchBlock(_) => "no-such-block",
            Self::Broken(_) => "ledger-broken",
        }
    }
}

/// Hands out blocks of ordinals that nobody else was or will be given.
#[derive(Debug)]
pub struct Allocator {
    path: PathBuf,
    state: Mutex<State>,
    /// Held, never read: the kernel lets go of it however this process ends.
    _lock: Flock<File>,
}

#[derive(Debug)]
struct State {
    ledger: File,
    /// The ledger's length up to its last whole record.
    length: u64,
    next: u64,
    broken: bool,
}

impl Allocator {
    /// Opens the ledger of a session's directory, which is made where it is missing. No ordinal
    /// below `floor` is handed out: one past the highest child that is known from elsewhere.
    ///
    /// # Errors
    /// [`LedgerError`] where it is held, cannot be used or cannot be read.
    pub fn open(dir: &Path, floor: u64) -> Result<Self, LedgerError> {
        files::make_dirs(dir)?;
        let lock_path = dir.join("subagents.lock");
        let lock = files::open_append(&lock_path)?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    nix::Error::EWOULDBLOCK => LedgerError::Held(dir.to_owned()),
                    errno => FileError::of("lock", &lock_path)(errno.into()).into(),
                },
            )?;
        let path = dir.join("subagents.jsonl");
        let mut ledger = files::open_append(&path)?;
        let (length, highest) = recover(&path, &mut ledger)?;
        // The records, the file and the directory that names it are there after a crash.
        ledger.sync_all().map_err(FileError::of("sync", &path))?;
        files::sync_dir(dir)?;
        Ok(Self {
            state: Mutex::new(State {
                ledger,
                length,
                next: floor.max(highest + 1).max(1),
                broken: false,
            }),
            path,
            _lock: lock,
        })
    }

    /// Hands out the next block of so many ordinals. It is taken from then on, whether or not a
    /// child is ever started.
    ///
    /// # Errors
    /// [`LedgerError`]; nothing was handed out, and the next call offers the same ordinals.
    pub fn reserve(&self, count: u64, owner: Owner) -> Result<Block, LedgerError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.broken {
            return Err(LedgerError::Broken(self.path.clone()));
        }
        let block = Block::new(state.next, count).ok_or(LedgerError::NoSuchBlock(count))?;
        let record = json!({
            "event": "allocated",
            "first": block.first(),
            "count": block.count(),
            "owner": owner.as_str(),
        });
        let line = format!("{record}\n");
        let length = state.length;
        let written = state
            .ledger
            .write_all(line.as_bytes())
            .and_then(|()| state.ledger.sync_data());
        if let Err(err) = written {
            // What is there of the record must not meet the next one.
            state.broken = state.ledger.set_len(length).is_err();
            return Err(FileError::of("write", &self.path)(err).into());
        }
        state.length = length + line.len() as u64;
        state.next = block.last() + 1;
        Ok(block)
    }

    /// The ordinal that the next block begins with, as long as nobody else is faster.
    #[must_use]
    pub fn next_first(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.next
    }
}

/// The length up to the last whole record, to which a torn tail is cut, and the highest ordinal.
fn recover(path: &Path, ledger: &mut File) -> Result<(u64, u64), LedgerError> {
    let failed = |what| FileError::of(what, path);
    let mut bytes = Vec::new();
    ledger.seek(SeekFrom::Start(0)).map_err(failed("read"))?;
    let mut bounded = (&mut *ledger).take(MAX_LEDGER + 1);
    bounded.read_to_end(&mut bytes).map_err(failed("read"))?;
    if bytes.len() as u64 > MAX_LEDGER {
        return Err(failed("read")(io::ErrorKind::FileTooLarge.into()).into());
    }
    let (mut length, mut highest) = (0, 0);
    let mut lines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .enumerate()
        .peekable();
    while let Some((at, line)) = lines.next() {
        let whole_line = line.ends_with(b"\n");
        match (allocated(line), whole_line) {
            (Some(block), _) => {
                highest = highest.max(block.last());
                length += line.len() as u64;
                if !whole_line {
                    // A record without its end may still have been told: it counts, and ends here.
                    ledger.write_all(b"\n").map_err(failed("repair"))?;
                    length += 1;
                }
            }
            (None, true) if lines.peek().is_some() || !line.trim_ascii().is_empty() => {
                return Err(LedgerError::Corrupt {
                    path: path.to_owned(),
                    line: at + 1,
                });
            }
            (None, _) => ledger.set_len(length).map_err(failed("repair"))?,
        }
    }
    Ok((length, highest))
}

fn allocated(line: &[u8]) -> Option<Block> {
    let record = strict::read(line).ok()?;
    if record.get("event").and_then(Value::as_str) != Some("allocated") {
        return None;
    }
    let block = Block::new(whole(record.get("first")?)?, whole(record.get("count")?)?)?;
    (block.last() < MAX_WHOLE).then_some(block)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn open(dir: &Path) -> Allocator {
        Allocator::open(dir, 1).unwrap()
    }

    fn pair(block: Block) -> (u64, u64) {
        (block.first(), block.count())
    }

    fn write(path: &Path, bytes: &[u8]) {
        File::create(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn blocks_are_disjoint_whoever_they_are_for_and_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a/b");
        let allocator = open(&at);
        assert_eq!(
            pair(allocator.reserve(32, Owner::Workflow).unwrap()),
            (1, 32)
        );
        assert_eq!(pair(allocator.reserve(1, Owner::Engine).unwrap()), (33, 1));
        drop(allocator);
        let allocator = open(&at);
        assert_eq!(
            pair(allocator.reserve(2, Owner::Workflow).unwrap()),
            (34, 2)
        );
        drop(allocator);
        let allocator = Allocator::open(&at, 100).unwrap();
        assert_eq!(pair(allocator.reserve(1, Owner::Engine).unwrap()), (100, 1));
        assert_eq!(
            std::fs::read_to_string(at.join("subagents.jsonl"))
                .unwrap()
                .lines()
                .next(),
            Some(r#"{"event":"allocated","first":1,"count":32,"owner":"workflow"}"#)
        );
    }

    #[test]
    fn a_second_host_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path());
        assert!(matches!(
            Allocator::open(dir.path(), 1),
            Err(LedgerError::Held(_))
        ));
        drop(first);
        open(dir.path());
    }

    #[test]
    fn simultaneous_reservations_are_disjoint() {
        let dir = tempfile::tempdir().unwrap();
        let allocator = Arc::new(open(dir.path()));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let allocator = Arc::clone(&allocator);
                std::thread::spawn(move || {
                    (0..20)
                        .map(|_| allocator.reserve(3, Owner::Workflow).unwrap().first())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let mut firsts: Vec<_> = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect();
        firsts.sort_unstable();
        let expected: Vec<_> = (0..160).map(|at| 1 + 3 * at).collect();
        assert_eq!(firsts, expected);
    }

    #[test]
    fn a_torn_tail_costs_itself_alone() {
        let whole = r#"{"event":"allocated","first":1,"count":4,"owner":"workflow"}"#;
        let rows: &[(&[u8], u64)] = &[
            (b"", 5),
            (b"{\"event\":\"allo", 5),
            (b"\xc3", 5),
            (
                b"{\"event\":\"allocated\",\"first\":5,\"count\":2,\"owner\":\"\xc3",
                5,
            ),
            // It could be told before its end was written, so it counts.
            (
                b"{\"event\":\"allocated\",\"first\":5,\"count\":2,\"owner\":\"engine\"}",
                7,
            ),
        ];
        for (tail, next) in rows {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("subagents.jsonl");
            let mut bytes = format!("{whole}\n").into_bytes();
            bytes.extend_from_slice(tail);
            write(&path, &bytes);
            let allocator = open(dir.path());
            assert_eq!(allocator.reserve(1, Owner::Engine).unwrap().first(), *next);
            drop(allocator);
            assert_eq!(
                open(dir.path()).reserve(1, Owner::Engine).unwrap().first(),
                next + 1
            );
        }
    }

    #[test]
    fn a_bad_record_elsewhere_stops_everything() {
        let good = "{\"event\":\"allocated\",\"first\":1,\"count\":4,\"owner\":\"workflow\"}\n";
        for bad in [
            "x\n",
            "{}\n",
            "\n",
            "{\"event\":\"allocated\",\"first\":0,\"count\":4}\n",
        ] {
            let dir = tempfile::tempdir().unwrap();
            write(
                &dir.path().join("subagents.jsonl"),
                format!("{good}{bad}{good}").as_bytes(),
            );
            let err = Allocator::open(dir.path(), 1).unwrap_err();
            assert!(matches!(err, LedgerError::Corrupt { line: 2, .. }), "{err}");
        }
    }

    #[test]
    fn no_link_is_followed_and_no_block_of_nothing_given() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join("subagents.jsonl")).unwrap();
        assert_eq!(
            Allocator::open(dir.path(), 1).unwrap_err().code(),
            "ledger-file"
        );
        let dir = tempfile::tempdir().unwrap();
        let allocator = open(dir.path());
        for count in [0, u64::MAX] {
            assert_eq!(
                allocator.reserve(count, Owner::Engine).unwrap_err().code(),
                "no-such-block"
            );
        }
        assert_eq!(allocator.reserve(1, Owner::Engine).unwrap().first(), 1);
    }
}
