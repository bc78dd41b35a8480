//! What is done once a container is gone, by its owner or by whoever finds that its owner was
//! killed: the labels are put on what it changed, those beside it are told, and it is forgotten,
//! in this order. Killed at any line, the next start does it again.

use std::time::Duration;

use super::attributes::Sight;
use super::doubt::Found;
use super::look::Eyes;
use super::marks::{self, Mark};
use super::mounts::MountTable;
use super::owner::{Moment, processes_of};
use super::refusal::Refusal;
use super::registry::{Locked, Other, Phase, Record, Registry, RegistryError};
use super::report::Log;
use super::run::Bounds;
use super::scene::{Change, Scene};
use super::taint::Taint;
use crate::launch::{spawn, sys};

/// How long the processes of a killed container may take to be gone: they die in about 10 ms.
const GONE: Duration = Duration::from_secs(10);

/// What settling needs.
#[derive(Debug, Clone, Copy)]
pub struct Settler<'a> {
    /// The registry.
    pub registry: &'a Registry,
    /// Whose eyes.
    pub sight: &'a Sight,
    /// How far a look goes.
    pub bounds: Bounds,
    /// Where to say what happened.
    pub log: &'a Log,
}

impl Settler<'_> {
    /// Puts a container's label on what it changed, tells those beside it, and forgets it. The
    /// label is the one that it had last.
    ///
    /// # Errors
    /// The registry cannot be written; then the registration stays, to be settled again.
    pub fn finish(
        &self,
        token: &str,
        found: &Found,
        changes: &[Change],
    ) -> Result<Taint, RegistryError> {
        loop {
            let taint = match self.registry.lock()?.read(token)? {
                Some(record) => record.taint.joined(found.taint()),
                None => Taint::nobody(),
            };
            let marks = self.label(changes, &taint);
            let locked = self.registry.lock()?;
            for mark in &marks {
                self.log.warn("cfc-mount-marked", &mark.why);
                marks::keep(&locked, mark)?;
            }
            let Some(mut record) = locked.read(token)? else {
                return Ok(Taint::nobody());
            };
            // Another one beside us has ended meanwhile, with a label that we have to take.
            if !taint.covers(&record.taint) {
                continue;
            }
            record.taint = taint.clone();
            self.tell(&locked, &record)?;
            locked.remove(token)?;
            return Ok(taint);
        }
    }

    fn label(&self, changes: &[Change], taint: &Taint) -> Vec<Mark> {
        if taint.is_public() {
            return Vec::new();
        }
        changes
            .iter()
            .filter_map(|change| marks::label(change, taint, self.sight))
            .collect()
    }

    /// Gives a container's label to every other that sees what it could write.
    ///
    /// # Errors
    /// The registry cannot be read or written.
    pub fn tell(&self, locked: &Locked<'_>, record: &Record) -> Result<(), RegistryError> {
        if record.taint.is_public() {
            return Ok(());
        }
        for other in locked.others(&record.token)? {
            let Some(mut other) = other.record else {
                continue;
            };
            if record.is_seen_by(&other) && other.taint.join(&record.taint) {
                locked.write(&other)?;
                if let Some(egress) = &other.egress {
                    let message = format!(
                        "{} is labelled now, and {} beside it has egress ({egress})",
                        record.container, other.container
                    );
                    self.log.warn("cfc-late-label", &message);
                }
            }
        }
        Ok(())
    }

    /// Looks at what those see by now that run beside this one, or beside those, and so on: what
    /// came to one of them since its start may be in what another wrote.
    ///
    /// # Errors
    /// The registry cannot be read or written.
    pub fn look_beside(&self, own: &Record) -> Result<(), RegistryError> {
        let others = self.registry.lock()?.others(&own.token)?;
        let mut left: Vec<_> = others
            .into_iter()
            .filter_map(|other| Some((other.dead.is_none(), other.record?)))
            .collect();
        let mut reached = vec![own.clone()];
        let mut at = 0;
        while let Some(one) = reached.get(at).cloned() {
            let (touching, rest) = left.into_iter().partition(|(_, other)| other.touches(&one));
            left = rest;
            for (alive, other) in Vec::from_iter(touching) {
                if alive && other.phase == Phase::Running {
                    self.raise_to_what_it_sees(&other)?;
                }
                reached.push(other);
            }
            at += 1;
        }
        Ok(())
    }

    /// Gives a container that runs the label of what it sees by now; what its label is then.
    ///
    /// # Errors
    /// The registry cannot be read or written.
    pub fn raise_to_what_it_sees(&self, record: &Record) -> Result<Option<Taint>, RegistryError> {
        let table = MountTable::read().map_err(|source| RegistryError::Io {
            path: "/proc/self/mountinfo".into(),
            step: "read",
            source,
        })?;
        let scene = Scene::again(&record.binds, &table);
        let limits = self.bounds.limits();
        let eyes = Eyes {
            sight: self.sight,
            limits: &limits,
            // Its own commands change what it sees, and so do others of its label.
            tolerant: true,
        };
        let seen = scene.before(&record.policy, &self.registry.images(), eyes);
        let locked = self.registry.lock()?;
        let mut found = seen.found;
        let links = record.links.clone().unwrap_or_default();
        found.join(marks::over(&locked, &scene.binds, &links)?);
        let Some(mut now) = locked.read(&record.token)? else {
            return Ok(None);
        };
        for doubt in found.doubts() {
            self.log.warn(doubt.code(), &doubt.to_string());
        }
        if now.taint.join(found.taint()) {
            locked.write(&now)?;
            self.tell(&locked, &now)?;
        }
        Ok(Some(now.taint))
    }

    /// Settles those whose owners were killed and that share anything with `own`.
    ///
    /// # Errors
    /// [`Refusal::Unsettled`] where a sandbox is still there; the registry cannot be used.
    pub fn dead_ones(&self, own: &Record, table: &MountTable) -> Result<(), Refusal> {
        let others = self.registry.lock()?.others(&own.token)?;
        for other in others {
            if let Some(record) = touching_dead(&other, own) {
                let record = record.clone();
                // Its lock is ours until `other` is dropped: nobody else settles it meanwhile.
                self.dead_one(&record, table)?;
            }
        }
        Ok(())
    }

    fn dead_one(&self, record: &Record, table: &MountTable) -> Result<(), Refusal> {
        let token = &record.token;
        await_processes(record)?;
        if record.phase == Phase::Looking {
            // Nothing of it ever ran. Labels that it was given were on their way to it alone.
            self.registry.lock()?.remove(token)?;
            return Ok(());
        }
        let started = match record.owner.is_of_another_boot() {
            Ok(false) => Moment::now().ok().and_then(|now| record.started.since(now)),
            _ => None,
        };
        let elsewhere = record
            .binds
            .iter()
            .flat_map(|bind| &bind.trees)
            .any(|tree| tree.elsewhere.is_some());
        // The clock of another machine is not ours.
        let since = started.filter(|_| !elsewhere);
        let scene = Scene::again(&record.binds, table);
        let limits = self.bounds.limits();
        let eyes = Eyes {
            sight: self.sight,
            limits: &limits,
            tolerant: true,
        };
        let image = scene.image(&self.registry.images(), eyes);
        let (mut found, changes) = scene.since(&record.policy, image.as_ref(), eyes, since);
        found.join(scene.found.clone());
        if let Some(image) = &image {
            found.join(image.found().clone());
        }
        let links = record.links.clone().unwrap_or_default();
        found.join(marks::over(&self.registry.lock()?, &scene.binds, &links)?);
        let taint = self.finish(token, &found, &changes)?;
        let message = format!(
            "settled {} as {taint}, whose owner was killed",
            record.container
        );
        self.log.warn("cfc-settled", &message);
        Ok(())
    }
}

/// A registration that is to be settled before `own` goes on.
pub(super) fn touching_dead<'a>(other: &'a Other, own: &Record) -> Option<&'a Record> {
    let record = other.record.as_ref()?;
    (other.dead.is_some() && record.touches(own)).then_some(record)
}

/// Proves a killed container's sandbox gone: the kernel kills it as its owner dies, and we wait
/// until it has.
pub(super) fn await_processes(record: &Record) -> Result<(), Refusal> {
    let pids = processes_of(&record.container, &record.bundle);
    let watched: Vec<_> = pids
        .iter()
        .filter_map(|pid| sys::pidfd_open(*pid).ok())
        .collect();
    let ended = spawn::all_ended(&watched, GONE);
    // What one of them started between the look and its end died with it.
    let left = processes_of(&record.container, &record.bundle);
    if ended && left.is_empty() {
        return Ok(());
    }
    Err(Refusal::Unsettled {
        container: record.container.clone(),
        pids: left,
    })
}
