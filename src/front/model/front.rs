//! The steps of a front: its looks, its registration, and what it labels.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::decide::{Beside, Decision, Starting, decide};
use super::super::policy::CallLabels;
use super::super::taint::Taint;
use super::{Atoms, Container, DIRS, Dirs, Id, MOUNTS, Off, Phase, SLOTS, World, has};

fn taint(atoms: Atoms) -> Taint {
    let bits = (0..8).filter(|bit| atoms & (1 << bit) != 0);
    Taint::of(bits.map(|bit| json!(bit)))
}

fn atoms(taint: &Taint) -> Atoms {
    let bits = taint.atoms().into_iter().filter_map(|atom| atom.as_u64());
    bits.fold(0, |all, bit| all | (1 << bit))
}

impl World {
    pub(super) fn start(&mut self, slot: usize, which: u8, egress: bool) {
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
    pub(super) fn advance(&mut self, slot: usize) -> Result<(), String> {
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
}
