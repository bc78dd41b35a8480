//! What the commands of containers, and the host beside them, do to files.

use std::collections::BTreeSet;

use super::{Atoms, Container, DIRS, NAMES, Phase, Thing, World, has};

impl World {
    /// A command of a container that runs.
    pub(super) fn command(
        &mut self,
        slot: usize,
        what: u8,
        from: usize,
        to: usize,
    ) -> Result<(), String> {
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

    pub(super) fn host(&mut self, what: u8, from: usize, to: usize) {
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
}
