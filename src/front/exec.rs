//! `exec` in a container that runs under the front: the labels that come with it are the
//! container's from before the command starts, and its result is the container's label so far.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Instant;

use super::args::Command;
use super::attributes::Sight;
use super::context::{CallContext, adopt};
use super::decide::{Beside, Decision, Starting, decide};
use super::doubt::{Doubt, Found};
use super::refusal::Refusal;
use super::registry::{Locked, Phase, Record, Registry, RegistryError};
use super::report::{result, write_result};
use super::run::{Bounds, Front, interrupted, unreadable};
use super::settle::Settler;
use super::taint::Taint;
use crate::launch::LaunchError;
use crate::launch::stand_in::{Signals, StandIn, end_as};

/// Executes in a container, with labels.
///
/// # Errors
/// [`Refusal`]: nothing was started, and the descriptor of the result is as it was.
pub fn exec(front: &Front<'_>, command: &Command) -> Result<ExitCode, Refusal> {
    let signals = Signals::hold().map_err(LaunchError::Pipe)?;
    let result_fd = adopt("cfc-result-fd", command.result_fd)?;
    let context = CallContext::read(adopt("cfc-invocation-context-fd", command.context_fd)?);
    let policy = front.policy()?;
    let registry = Registry::open(&front.store)?;
    let sight = Sight::probe(registry.dir(), policy.unseen_trusted_labels)
        .map_err(|source| front.registry_io(&registry, source))?;
    let exec = Exec {
        front,
        named: command.operands.first().cloned().unwrap_or_default(),
        context,
        settler: Settler {
            registry: &registry,
            sight: &sight,
            bounds: Bounds::of(front.args),
            log: &front.log,
        },
    };
    let record = exec.raise(&signals)?;
    let child = StandIn::start(&front.stock, &front.args.stock, signals)?;
    let status = child.wait();
    let mut taint = exec.so_far(record.as_ref());
    let status = status.unwrap_or_else(|err| {
        front.log.warn("cfc-doubt-unforeseen", &err.to_string());
        taint.join(&Taint::nobody());
        ExitStatus::from_raw(0)
    });
    if let Some(fd) = result_fd {
        let id = match &record {
            Some(record) => record.container.clone(),
            None => exec.named.to_string_lossy().into_owned(),
        };
        if let Err(err) = write_result(fd, &result(&id, status.into_raw(), &taint)) {
            front.log.warn("cfc-result-not-written", &err.to_string());
        }
    }
    Ok(end_as(status))
}

struct Exec<'a> {
    front: &'a Front<'a>,
    /// The container, perhaps abbreviated.
    named: std::ffi::OsString,
    context: CallContext,
    settler: Settler<'a>,
}

impl Exec<'_> {
    /// Gives the container the labels of the call, as soon as those beside it allow that. None
    /// where the front does not know the container.
    fn raise(&self, signals: &Signals) -> Result<Option<Record>, Refusal> {
        let due = Instant::now() + self.settler.bounds.wait();
        loop {
            let locked = self.settler.registry.lock()?;
            let Some(mut record) = self.find(&locked)? else {
                // What such a container writes nobody labels.
                return match self.context.found.taint().is_public() {
                    true => Ok(None),
                    false => Err(Refusal::NotOurs {
                        container: self.named.to_string_lossy().into_owned(),
                    }),
                };
            };
            let whole = record.taint.joined(self.context.found.taint());
            if whole == record.taint {
                return Ok(Some(record));
            }
            let others = locked.others(&record.token)?;
            let mut read = Found::default();
            unreadable(&others, &mut read);
            let running: Vec<_> = others
                .iter()
                .filter_map(|other| other.record.as_ref())
                .filter(|other| other.phase == Phase::Running)
                .map(|other| (other, record.is_seen_by(other)))
                .filter(|(_, out_of)| *out_of)
                .collect();
            let beside: Vec<_> = running
                .iter()
                .map(|(other, out_of)| Beside {
                    taint: &other.taint,
                    egress: other.egress.is_some(),
                    into: false,
                    out_of: *out_of,
                })
                .collect();
            let none = Taint::public();
            let starting = Starting {
                call: &whole,
                read: &none,
                egress: record.egress.is_some(),
                enforcing: self.context.enforcing,
                call_labels: record.policy.egress.call_labels,
            };
            match decide(&starting, &beside) {
                Decision::Start { .. } => {
                    record.taint = whole;
                    locked.write(&record)?;
                    return Ok(Some(record));
                }
                Decision::Refuse { .. } => {
                    return Err(Refusal::CallEgress {
                        egress: record.egress.unwrap_or_default(),
                    });
                }
                Decision::Wait { beside, .. } => {
                    let on = running[beside].0.clone();
                    drop((others, locked));
                    let left = due.saturating_duration_since(Instant::now());
                    let registry = self.settler.registry;
                    if left.is_zero() || !registry.await_end(&on.token, left, signals) {
                        interrupted(signals)?;
                        return Err(Refusal::LowerBeside {
                            why: self.context.found.why(),
                            beside: on.container,
                        });
                    }
                }
            }
        }
    }

    /// The registration of the container: of the id, or the only one that begins like it, as
    /// runsc takes it.
    fn find(&self, locked: &Locked<'_>) -> Result<Option<Record>, RegistryError> {
        let state_dir = self.front.state_dir();
        let named = self.named.as_bytes();
        let mut begin: Vec<_> = locked
            .others("")?
            .into_iter()
            .filter(|other| other.dead.is_none())
            .filter_map(|other| other.record)
            .filter(|record| record.phase == Phase::Running && record.state_dir == state_dir)
            .filter(|record| record.container.as_bytes().starts_with(named))
            .collect();
        if let Some(at) = begin
            .iter()
            .position(|record| record.container.as_bytes() == named)
        {
            return Ok(Some(begin.swap_remove(at)));
        }
        let only = begin.len() == 1 && !named.is_empty();
        Ok(begin.pop().filter(|_| only))
    }

    /// The container's label by now: what is registered, and what it sees.
    fn so_far(&self, record: Option<&Record>) -> Taint {
        let Some(record) = record else {
            self.doubt(&Doubt::NotUnderstood(
                "the container was not started by this front".into(),
            ));
            return Taint::nobody();
        };
        self.look(record).unwrap_or_else(|err| {
            self.doubt(&Doubt::Unforeseen(err.to_string()));
            Taint::nobody()
        })
    }

    fn look(&self, record: &Record) -> Result<Taint, RegistryError> {
        self.settler.look_beside(record)?;
        let Some(taint) = self.settler.raise_to_what_it_sees(record)? else {
            // It ended with a label of its own, which is told nowhere any more.
            self.doubt(&Doubt::NotUnderstood("the container has ended".into()));
            return Ok(Taint::nobody());
        };
        Ok(taint)
    }

    fn doubt(&self, doubt: &Doubt) {
        self.front.log.warn(doubt.code(), &doubt.to_string());
    }
}
