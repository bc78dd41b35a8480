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

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::decide::{Beside, Decision, Starting, decide};
use super::policy::CallLabels;
use super::taint::Taint;

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

/// One step, as four numbers.
type Step = [u8; 4];

fn taint(atoms: Atoms) -> Taint {
    let bits = (0..8).filter(|bit| atoms & (1 << bit) != 0);
    Taint::of(bits.map(|bit| json!(bit)))
}

fn atoms(taint: &Taint) -> Atoms {
    let bits = taint.atoms().into_iter().filter_map(|atom| atom.as_u64());
    bits.fold(0, |all, bit| all | (1 << bit))
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

    // ---- The front -------------------------------------------------------------

    fn start(&mut self, slot: usize, which: u8, egress: bool) {
        if self.slots[slot].is_some() {
            return;
        }
        // Each mount is not there, read-only, or writable.
        let mounts: Vec<_> = MOUNTS
            .iter()
            .enumerate()
            .map(|(at, dirs)| (*dirs, which / 3_u8.pow(at as u32) % 3))
            .filter(|(_, how)| *how > 0)
            .map(|(dirs, how)| (dirs, how == 2))
            .collect();
        let all = |writable: bool| {
            let wanted = mounts.iter().filter(|(_, rw)| *rw || !writable);
            wanted.fold(0, |all, (dirs, _)| all | dirs)
        };
        self.slots[slot] = Some(Container {
            phase: Phase::Looking(0),
            dead: false,
            egress,
            sees: all(false),
            writes: all(true),
            mounts,
            knows: 0,
            taint: 0,
            started: self.clock,
            links: None,
            found: 0,
            linked: BTreeSet::new(),
            snapshot: BTreeMap::new(),
            changes: Vec::new(),
            put: 0,
        });
    }

    /// The next step of a front.
    fn advance(&mut self, slot: usize) -> Result<(), String> {
        let Some(mut own) = self.slots[slot].take() else {
            return Ok(());
        };
        if own.dead {
            self.slots[slot] = Some(own);
            return Ok(());
        }
        match own.phase {
            Phase::Looking(0) => {
                self.look_beside(&mut own);
                self.settle_dead(&mut own);
                self.settle_marks(own.sees);
                own.found = 0;
                own.linked.clear();
                own.snapshot.clear();
                own.phase = Phase::Looking(1);
            }
            Phase::Looking(at) if at <= DIRS => {
                if has(own.sees, at - 1) {
                    self.look_before(&mut own, at - 1);
                }
                own.phase = Phase::Looking(at + 1);
            }
            Phase::Looking(_) => {
                if !self.start_or_wait(&mut own) {
                    return Ok(());
                }
            }
            Phase::Running => {}
            Phase::Over(0) => {
                self.look_beside(&mut own);
                self.settle_dead(&mut own);
                own.found = 0;
                own.changes.clear();
                own.phase = Phase::Over(1);
            }
            Phase::Over(at) if at <= DIRS => {
                if has(own.sees, at - 1) && self.off != Off::After {
                    self.look_after(&mut own, at - 1);
                }
                own.phase = Phase::Over(at + 1);
            }
            Phase::Over(_) => {
                own.found |= self.marked(own.sees, &own.linked);
                own.phase = Phase::Looked;
            }
            Phase::Looked => {
                own.put = own.taint | own.found;
                let changes = own.changes.clone();
                self.label(&changes, own.put, &own);
                own.phase = Phase::Labelled;
            }
            Phase::Labelled => {
                if own.taint & !own.put != 0 {
                    own.phase = Phase::Looked;
                } else {
                    own.taint |= own.put;
                    self.tell(&own);
                    if own.put == 0 {
                        self.observed += 1;
                        if own.knows != 0 {
                            return Err(format!("slot {slot} printed {:b}", own.knows));
                        }
                    }
                    return Ok(());
                }
            }
        }
        self.slots[slot] = Some(own);
        Ok(())
    }

    fn look_before(&self, own: &mut Container, dir: usize) {
        for id in self.listed(dir) {
            let thing = match id {
                Id::File(at) => self.files[at],
                Id::Dir(at) => self.dirs[at],
            };
            own.found |= thing.label;
            own.snapshot.insert(id, thing.changed);
            if let Id::File(at) = id
                && self.links(at) > 1
            {
                own.linked.insert(at);
            }
        }
    }

    fn look_after(&self, own: &mut Container, dir: usize) {
        for id in self.listed(dir) {
            let thing = match id {
                Id::File(at) => self.files[at],
                Id::Dir(at) => self.dirs[at],
            };
            if own.snapshot.get(&id) != Some(&thing.changed) {
                own.found |= thing.label;
                if has(own.writes, dir) {
                    own.changes.push(id);
                }
            }
        }
    }

    /// Whether it is still there: it was not refused.
    fn start_or_wait(&mut self, own: &mut Container) -> bool {
        own.links = Some(own.linked.clone());
        let off = self.off;
        let touches = |other: &Container| own.is_seen_by(other, off) || other.is_seen_by(own, off);
        if off != Off::Settle && self.anyone(|other| other.dead && touches(other)) {
            own.phase = Phase::Looking(0);
            return true;
        }
        // What it was told meanwhile counts too.
        let read = own.found | own.taint | self.marked(own.sees, &own.linked);
        let running: Vec<_> = self
            .slots
            .iter()
            .flatten()
            .filter(|other| !other.dead && other.registered_running())
            .map(|other| {
                let into = off != Off::TakeBeside && other.is_seen_by(own, off);
                let out_of = off != Off::Wait && own.is_seen_by(other, off);
                (taint(other.taint), other.egress, into, out_of)
            })
            .collect();
        let beside: Vec<_> = running
            .iter()
            .map(|(taint, egress, into, out_of)| Beside {
                taint,
                egress: *egress,
                into: *into,
                out_of: *out_of,
            })
            .collect();
        let starting = Starting {
            call: &Taint::public(),
            read: &taint(read),
            egress: own.egress && off != Off::Egress,
            enforcing: true,
            call_labels: CallLabels::Allow,
        };
        match decide(&starting, &beside) {
            Decision::Refuse { .. } => return false,
            Decision::Wait { .. } => own.phase = Phase::Looking(0),
            Decision::Start { read } => {
                own.taint = atoms(&read);
                own.phase = Phase::Running;
                own.started = self.clock;
            }
        }
        true
    }

    /// What those see by now that run beside this one, or beside those, and so on.
    fn look_beside(&mut self, own: &mut Container) {
        if self.off == Off::Beside {
            return;
        }
        let off = self.off;
        let mut reached = vec![own.clone()];
        let mut left: Vec<_> = (0..SLOTS).collect();
        loop {
            let before = left.len();
            left.retain(|slot| {
                let Some(other) = &self.slots[*slot] else {
                    return false;
                };
                let touches = |a: &Container| a.is_seen_by(other, off) || other.is_seen_by(a, off);
                let touched = reached.iter().any(touches);
                if touched {
                    reached.push(other.clone());
                }
                !touched
            });
            if left.len() == before {
                break;
            }
        }
        for slot in (0..SLOTS).filter(|slot| !left.contains(slot)) {
            let Some(mut other) = self.slots[slot].take() else {
                continue;
            };
            if !other.dead && other.registered_running() {
                for dir in (0..DIRS).filter(|dir| has(other.sees, *dir)) {
                    for id in self.listed(dir) {
                        other.taint |= self.thing(id).label;
                    }
                }
                self.tell(&other);
                if other.is_seen_by(own, off) {
                    own.taint |= other.taint;
                }
            }
            self.slots[slot] = Some(other);
        }
    }

    fn settle_dead(&mut self, own: &mut Container) {
        for slot in 0..SLOTS {
            let off = self.off;
            let touching = |other: &Container| {
                other.dead && (own.is_seen_by(other, off) || other.is_seen_by(own, off))
            };
            let Some(dead) = self.slots[slot].take_if(|other| touching(other)) else {
                continue;
            };
            if off == Off::Settle || !dead.registered_running() {
                continue;
            }
            let mut changes = Vec::new();
            let mut label = dead.taint | self.marked(dead.sees, &dead.linked);
            for dir in (0..DIRS).filter(|dir| has(dead.sees, *dir)) {
                for id in self.listed(dir) {
                    let thing = *self.thing(id);
                    label |= thing.label;
                    if thing.changed >= dead.started && has(dead.writes, dir) {
                        changes.push(id);
                    }
                }
            }
            self.label(&changes, label, &dead);
            let dead = Container {
                taint: label,
                ..dead
            };
            self.tell(&dead);
            // It is off its slot while it settles.
            if dead.is_seen_by(own, self.off) {
                own.taint |= label;
            }
        }
    }

    fn label(&mut self, changes: &[Id], label: Atoms, by: &Container) {
        if label == 0 || self.off == Off::Changes {
            return;
        }
        let mut failed = Vec::new();
        for id in changes {
            if self.off == Off::Directories && matches!(id, Id::Dir(_)) {
                continue;
            }
            let thing = self.thing(*id);
            if thing.stubborn && thing.label & label != label {
                failed.push(*id);
            } else {
                thing.label |= label;
            }
        }
        if !failed.is_empty() && self.off != Off::Marks {
            self.marks.push((by.writes, label, failed));
        }
    }

    fn settle_marks(&mut self, sees: Dirs) {
        let marks = std::mem::take(&mut self.marks);
        for (dirs, label, files) in marks {
            if dirs & sees != 0 && !files.iter().any(|id| self.thing(*id).stubborn) {
                for id in &files {
                    self.thing(*id).label |= label;
                }
            } else {
                self.marks.push((dirs, label, files));
            }
        }
    }

    fn tell(&mut self, own: &Container) {
        for other in self.slots.iter_mut().flatten() {
            if own.is_seen_by(other, self.off) {
                other.taint |= own.taint;
            }
        }
    }

    // ---- The containers --------------------------------------------------------

    /// A command of a container that runs.
    fn command(&mut self, slot: usize, what: u8, from: usize, to: usize) -> Result<(), String> {
        let Some(mut own) = self.slots[slot].take() else {
            return Ok(());
        };
        if own.phase == Phase::Running && !own.dead {
            self.do_command(&mut own, what, from, to);
        }
        let sent = own.egress && own.knows != 0 && own.phase == Phase::Running;
        let knows = own.knows;
        self.slots[slot] = Some(own);
        if sent {
            return Err(format!("slot {slot} sent {knows:b}"));
        }
        Ok(())
    }

    fn do_command(&mut self, own: &mut Container, what: u8, from: usize, to: usize) {
        let (dir, name) = (from / NAMES, from % NAMES);
        let (dir_to, name_to) = (to / NAMES, to % NAMES);
        let writes = |dir| has(own.writes, dir);
        let one_mount = |a, b| {
            own.mounts
                .iter()
                .any(|(dirs, rw)| *rw && has(*dirs, a) && has(*dirs, b))
        };
        let free = self.names[dir_to][name_to].is_none();
        match what {
            0 if has(own.sees, dir) => {
                own.knows |= self.dirs[dir].secret;
                if let Some(file) = self.names[dir][name] {
                    own.knows |= self.files[file].secret;
                }
            }
            // It writes what it knows, over what is there or into a new file.
            1 if writes(dir) => match self.names[dir][name] {
                Some(file) => {
                    let changed = self.clock;
                    let file = &mut self.files[file];
                    (file.secret, file.changed) = (own.knows, changed);
                }
                None => self.create(dir, name, own.knows, 0),
            },
            2 if one_mount(dir, dir_to) && free && self.may_take(dir, name) => {
                self.names[dir_to][name_to] = self.names[dir][name].take();
                self.renamed(dir_to, name_to, [dir, dir_to], own.knows);
            }
            3 if one_mount(dir, dir_to) && free => {
                self.names[dir_to][name_to] = self.names[dir][name];
                self.renamed(dir_to, name_to, [dir_to; 2], own.knows);
            }
            4 if writes(dir) && self.may_take(dir, name) && self.is_within(own, dir, name) => {
                if let Some(file) = self.names[dir][name].take() {
                    self.files[file].changed = self.clock;
                    self.entry(dir, own.knows);
                }
            }
            _ => {}
        }
    }

    fn may_take(&self, dir: usize, name: usize) -> bool {
        self.names[dir][name].is_some_and(|file| !self.files[file].late)
    }

    /// Whether a file has no name where the container cannot write it.
    fn is_within(&self, own: &Container, dir: usize, name: usize) -> bool {
        let file = self.names[dir][name];
        (0..DIRS).all(|dir| has(own.writes, dir) || !self.names[dir].contains(&file))
    }

    fn create(&mut self, dir: usize, name: usize, secret: Atoms, label: Atoms) {
        self.files.push(Thing {
            secret,
            label,
            changed: self.clock,
            ..Thing::default()
        });
        self.names[dir][name] = Some(self.files.len() - 1);
        // A label that the host gave is of the content, and its name is no secret.
        self.entry(dir, if label == 0 { secret } else { 0 });
    }

    fn renamed(&mut self, dir: usize, name: usize, dirs: [usize; 2], knows: Atoms) {
        if let Some(file) = self.names[dir][name] {
            self.files[file].changed = self.clock;
            for dir in dirs {
                self.entry(dir, knows);
            }
        }
    }

    /// An entry was made, moved or removed: names tell too.
    fn entry(&mut self, dir: usize, knows: Atoms) {
        self.dirs[dir].secret |= knows;
        self.dirs[dir].changed = self.clock;
    }

    // ---- The host --------------------------------------------------------------

    fn host(&mut self, what: u8, from: usize, to: usize) {
        let (dir, name) = (from / NAMES, from % NAMES);
        let (dir_to, name_to) = (to / NAMES, to % NAMES);
        let sent =
            |world: &Self, dir| world.anyone(|c| c.egress) && world.anyone(|c| has(c.sees, dir));
        let written = |world: &Self, dir| world.anyone(|c| has(c.writes, dir));
        let is_linked =
            |world: &Self| world.names[dir][name].is_some_and(|file| world.links(file) > 1);
        match what {
            0..=3 if self.names[dir][name].is_none() => {
                let atom = if what < 2 { 0 } else { what - 1 };
                if atom == 0 || !sent(self, dir) {
                    self.create(dir, name, atom, atom);
                    let late = atom != 0 && self.anyone(|c| has(c.sees, dir));
                    if let Some(file) = self.files.last_mut() {
                        file.late = late;
                        file.stubborn = atom == 0 && to.is_multiple_of(4);
                    }
                }
            }
            4 if self.may_take(dir, name) && !(written(self, dir) && is_linked(self)) => {
                self.names[dir][name] = None;
                self.entry(dir, 0);
            }
            5 | 6 if self.names[dir_to][name_to].is_none() => {
                let free = !written(self, dir) && !written(self, dir_to) && !sent(self, dir_to);
                let seen = self.anyone(|c| has(c.sees, dir_to) || has(c.sees, dir));
                if free
                    && !seen
                    && self.may_take(dir, name)
                    && self.marked(1 << dir, &BTreeSet::new()) == 0
                {
                    self.names[dir_to][name_to] = self.names[dir][name];
                    if what == 5 {
                        self.names[dir][name] = None;
                    }
                    self.renamed(dir_to, name_to, [dir, dir_to], 0);
                }
            }
            // Somebody mends what could not be labelled.
            7 => {
                if let Some(file) = self.names[dir][name] {
                    self.files[file].stubborn = false;
                }
            }
            _ => {}
        }
    }

    // ---- The program and what has to hold --------------------------------------

    fn step(&mut self, [what, slot, from, to]: Step) -> Result<(), String> {
        self.clock += 1;
        let slot = usize::from(slot) % SLOTS;
        let (at_from, at_to) = (
            usize::from(from) % (DIRS * NAMES),
            usize::from(to) % (DIRS * NAMES),
        );
        match what % 32 {
            0..=2 => self.start(slot, from % 27, to % 4 == 0),
            3..=11 => {
                // A few steps at once, or it would rarely get anywhere.
                for _ in 0..=(from % 6) {
                    self.advance(slot)?;
                }
            }
            12 => {
                if let Some(own) = &mut self.slots[slot]
                    && own.phase == Phase::Running
                    && !own.dead
                {
                    own.phase = Phase::Over(0);
                }
            }
            13 => {
                if let Some(own) = &mut self.slots[slot] {
                    own.dead = true;
                }
            }
            14..=19 => self.command(slot, 0, at_from, at_to)?,
            20..=23 => self.command(slot, 1, at_from, at_to)?,
            24..=26 => self.command(slot, 2 + to % 3, at_from, at_to)?,
            _ => self.host(from % 8, at_to, (slot + usize::from(from)) % (DIRS * NAMES)),
        }
        self.forget_late();
        self.at_rest()
    }

    /// What came late is as any other once all that ran then is settled.
    fn forget_late(&mut self) {
        for at in 0..self.files.len() {
            let names = |dir: &usize| self.names[*dir].contains(&Some(at));
            let dirs: Vec<_> = (0..DIRS).filter(names).collect();
            if !self.anyone(|c| dirs.iter().any(|dir| has(c.sees, *dir))) {
                self.files[at].late = false;
            }
        }
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

    fn run(off: Off, program: &[Step]) -> Result<usize, String> {
        let mut world = Self::new(off);
        for step in program {
            world.step(*step)?;
        }
        // All come to their ends.
        for _ in 0..64 {
            for slot in 0..SLOTS {
                if let Some(own) = &mut world.slots[slot]
                    && own.phase == Phase::Running
                {
                    own.phase = Phase::Over(0);
                }
                world.advance(slot)?;
            }
            world.at_rest()?;
        }
        Ok(world.observed)
    }
}

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn program(&mut self) -> Vec<Step> {
        let length = 20 + self.next() % 120;
        let mut program: Vec<Step> = (0..length)
            .map(|_| (self.next() as u32).to_le_bytes())
            .collect();
        // In some the host comes first, or there would be little to start over.
        let first = if length.is_multiple_of(2) { 6 } else { 0 };
        for step in program.iter_mut().take(first) {
            step[0] |= 0b1_1111;
        }
        program
    }
}

/// What is left of a program when every step that the leak does not need is taken out.
fn shortest(off: Off, mut program: Vec<Step>) -> Vec<Step> {
    let mut at = 0;
    while at < program.len() {
        let step = program.remove(at);
        if World::run(off, &program).is_ok() {
            program.insert(at, step);
            at += 1;
        }
    }
    program
}

/// How many programs are tried.
const PROGRAMS: usize = 10_000;

fn explore(off: Off) -> Result<usize, String> {
    let mut numbers = Numbers(0x5eed_1234_5678_9abc);
    let mut observed = 0;
    for number in 0..PROGRAMS {
        let program = numbers.program();
        match World::run(off, &program) {
            Ok(count) => observed += count,
            Err(leak) => {
                let short = shortest(off, program);
                return Err(format!("program {number}: {leak}; {short:?}"));
            }
        }
    }
    Ok(observed)
}

#[test]
fn no_program_leaks() {
    let observed = explore(Off::Nothing).unwrap();
    // There was something to leak by.
    assert!(observed > PROGRAMS / 2, "{observed}");
}

#[test]
fn without_any_one_of_the_rules_some_program_leaks() {
    for off in [
        Off::Settle,
        Off::Directories,
        Off::Changes,
        Off::Egress,
        Off::Marks,
        Off::After,
    ] {
        assert!(explore(off).is_err(), "{off:?} is no rule: nothing leaks");
    }
}

/// What a program is made of, for those that are written by hand.
mod steps {
    use super::{NAMES, Step};

    /// The first name in `/a`, in `/a/b` and in `/c`.
    pub const A: u8 = 0;
    pub const B: u8 = NAMES as u8;
    pub const C: u8 = 2 * NAMES as u8;

    pub fn put_public(at: u8) -> Step {
        [31, 1, 0, at]
    }
    pub fn put_labelled(at: u8) -> Step {
        [31, 1, 2, at]
    }
    pub fn link(from: u8, to: u8) -> Step {
        // The eighth of it says that it is a link, and the ninth, where to.
        let number = (0..72).find(|n| n % 8 == 6 && n % 9 == to);
        [31, 0, number.unwrap_or_default(), from]
    }
    /// Its mounts are `/a`, `/a/b` and `/c`: not there, read-only or writable.
    pub fn start(slot: u8, mounts: [u8; 3], egress: bool) -> Step {
        [
            0,
            slot,
            mounts[0] + 3 * mounts[1] + 9 * mounts[2],
            u8::from(!egress),
        ]
    }
    pub fn advance(slot: u8) -> Step {
        [3, slot, 5, 0]
    }
    /// The first step of a front by itself.
    pub fn look(slot: u8) -> Step {
        [3, slot, 0, 0]
    }
    pub fn read(slot: u8, at: u8) -> Step {
        [14, slot, at, 0]
    }
    pub fn write(slot: u8, at: u8) -> Step {
        [20, slot, at, 0]
    }
    pub fn end(slot: u8) -> Step {
        [12, slot, 0, 0]
    }
}

#[test]
fn what_is_rare_is_written_by_hand() {
    use steps::{A, B, C, advance, end, link, look, put_labelled, put_public, read, start, write};
    let attacks: [(Off, Vec<Step>); 4] = [
        (
            Off::TakeBeside,
            vec![
                put_labelled(A),
                // It has looked at those beside it before the other comes.
                start(1, [0, 0, 1], true),
                look(1),
                start(0, [1, 0, 2], false),
                advance(0),
                read(0, A),
                write(0, C),
                advance(1),
                read(1, C),
            ],
        ),
        (
            Off::Wait,
            vec![
                put_labelled(A),
                start(1, [0, 0, 1], true),
                advance(1),
                start(0, [1, 0, 2], false),
                advance(0),
                read(0, A),
                write(0, C),
                read(1, C),
            ],
        ),
        (
            Off::Beside,
            vec![
                start(0, [1, 0, 2], false),
                advance(0),
                start(1, [0, 0, 1], false),
                advance(1),
                put_labelled(A),
                read(0, A),
                write(0, C),
                read(1, C),
                end(1),
                advance(1),
                advance(1),
            ],
        ),
        (
            Off::Links,
            vec![
                put_public(A),
                link(A, C),
                put_labelled(B),
                start(1, [0, 0, 1], true),
                advance(1),
                start(0, [2, 0, 0], false),
                advance(0),
                read(0, B),
                write(0, A),
                read(1, C),
            ],
        ),
    ];
    for (off, program) in attacks {
        assert!(World::run(off, &program).is_err(), "{off:?} is no rule");
        assert!(World::run(Off::Nothing, &program).is_ok(), "{off:?}");
    }
}
