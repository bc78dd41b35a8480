//! A model of the rules: random programs of up to four containers and a host over three mounts
//! that overlap, each step of the front by itself, so that anything may come between two.
//!
//! The decision is the real one; files, looks, labels and registrations are modelled as the front
//! treats them. What is checked after each step: no secret is in an output that is observed, in
//! what goes out, or in a file or directory at rest without its label or a mark over it. Each rule
//! that is switched off makes the explorer find a leak: that it finds none with all of them on says
//! something.
//!
//! What docs/labels.md names as not covered the host does not do here: it moves nothing out of a
//! mount that a container is writing to, brings no labelled file to where a container runs while
//! one with egress does, and one that it brings while a container runs is there until its end. And
//! nobody removes the name, in a mount that a container writes to, of a file that has another one
//! outside of it.

mod explore;
mod front;
mod moves;

use std::collections::{BTreeMap, BTreeSet};

/// Which atoms: of a secret where it came from, of a label what it says.
type Atoms = u8;
/// Directories, a bit each: `/a`, `/a/b` and `/c`.
type Dirs = u8;

const DIRS: usize = 3;
const NAMES: usize = 3;
/// `/a` with `/a/b` in it, `/a/b` alone, and `/c`.
const MOUNTS: [Dirs; 3] = [0b011, 0b010, 0b100];
const SLOTS: usize = 4;

/// The rules that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    Nothing,
    /// One that starts does not take the labels of those that write what it sees.
    TakeBeside,
    /// One that is labelled does not wait for lower ones beside it.
    Wait,
    /// What came to those beside since they started is not looked for.
    Beside,
    /// What a killed one changed is forgotten.
    Settle,
    /// Directories get no labels.
    Directories,
    /// What changed gets no labels.
    Changes,
    /// What can read a label may have egress.
    Egress,
    /// Files with two names are not looked for.
    Links,
    /// What cannot be labelled leaves no mark.
    Marks,
    /// There is no look at the end.
    After,
}

#[derive(Debug, Clone, Copy, Default)]
struct Thing {
    secret: Atoms,
    label: Atoms,
    changed: u32,
    /// Its label cannot be raised.
    stubborn: bool,
    /// It came with a label while containers ran that see it.
    late: bool,
}

/// A file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    File(usize),
    Dir(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// How many directories it has looked at.
    Looking(usize),
    Running,
    /// It has ended; how many directories were looked at since.
    Over(usize),
    /// Its changes are known, and not yet labelled.
    Looked,
    /// They are labelled, and it is to be forgotten.
    Labelled,
}

#[derive(Debug, Clone)]
struct Container {
    phase: Phase,
    /// Its owner was killed, and with it all of it.
    dead: bool,
    egress: bool,
    sees: Dirs,
    writes: Dirs,
    /// Each of its mounts, for what stays within one.
    mounts: Vec<(Dirs, bool)>,
    /// What it has read, and so whatever it writes or prints.
    knows: Atoms,
    /// What is registered.
    taint: Atoms,
    started: u32,
    links: Option<BTreeSet<usize>>,
    /// What its own looks saw.
    found: Atoms,
    linked: BTreeSet<usize>,
    snapshot: BTreeMap<Id, u32>,
    changes: Vec<Id>,
    /// What its changes were labelled with.
    put: Atoms,
}

#[derive(Debug)]
struct World {
    off: Off,
    clock: u32,
    files: Vec<Thing>,
    dirs: [Thing; DIRS],
    names: [[Option<usize>; NAMES]; DIRS],
    slots: [Option<Container>; SLOTS],
    marks: Vec<(Dirs, Atoms, Vec<Id>)>,
    /// How often something was observed, so that there is something to leak by.
    observed: usize,
}

fn has(dirs: Dirs, dir: usize) -> bool {
    dirs & (1 << dir) != 0
}

impl Container {
    fn registered_running(&self) -> bool {
        !matches!(self.phase, Phase::Looking(_))
    }

    fn is_seen_by(&self, other: &Self, off: Off) -> bool {
        let links = off != Off::Links
            && self.writes != 0
            && match (&self.links, &other.links) {
                (Some(own), Some(others)) => !own.is_disjoint(others),
                (Some(links), None) | (None, Some(links)) => !links.is_empty(),
                (None, None) => false,
            };
        self.writes & other.sees != 0 || links
    }
}

impl World {
    fn new(off: Off) -> Self {
        Self {
            off,
            clock: 1,
            files: Vec::new(),
            dirs: [Thing::default(); DIRS],
            names: [[None; NAMES]; DIRS],
            slots: [const { None }; SLOTS],
            marks: Vec::new(),
            observed: 0,
        }
    }

    fn thing(&mut self, id: Id) -> &mut Thing {
        match id {
            Id::File(at) => &mut self.files[at],
            Id::Dir(at) => &mut self.dirs[at],
        }
    }

    /// What is in a directory, itself first.
    fn listed(&self, dir: usize) -> Vec<Id> {
        let files = self.names[dir].iter().flatten().map(|at| Id::File(*at));
        std::iter::once(Id::Dir(dir)).chain(files).collect()
    }

    fn links(&self, file: usize) -> usize {
        self.names
            .iter()
            .flatten()
            .filter(|at| **at == Some(file))
            .count()
    }

    fn anyone(&self, which: impl Fn(&Container) -> bool) -> bool {
        self.slots.iter().flatten().any(which)
    }

    /// The marks over directories, and over files that have other names too.
    fn marked(&self, dirs: Dirs, linked: &BTreeSet<usize>) -> Atoms {
        let is_linked = |id: &Id| matches!(id, Id::File(at) if linked.contains(at));
        let over = self
            .marks
            .iter()
            .filter(|(at, _, files)| at & dirs != 0 || files.iter().any(is_linked));
        over.fold(0, |all, (_, label, _)| all | label)
    }

    fn at_rest(&self) -> Result<(), String> {
        let unsettled = |dir: usize| self.anyone(|c| has(c.writes, dir) && c.registered_running());
        for dir in 0..DIRS {
            for id in self.listed(dir) {
                let (thing, dirs): (_, Vec<_>) = match id {
                    Id::Dir(at) => (self.dirs[at], vec![at]),
                    Id::File(at) => {
                        let named = |dir: &usize| self.names[*dir].contains(&Some(at));
                        (self.files[at], (0..DIRS).filter(named).collect())
                    }
                };
                let linked = match id {
                    Id::File(at) => BTreeSet::from([at]),
                    Id::Dir(_) => BTreeSet::new(),
                };
                let marked = self.marked(1 << dir, &linked);
                let lacks = thing.secret & !(thing.label | marked);
                if lacks != 0 && !dirs.into_iter().any(unsettled) {
                    return Err(format!("{id:?} in {dir} holds {lacks:b} without a label"));
                }
            }
        }
        Ok(())
    }
}
