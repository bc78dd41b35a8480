//! Many calls at once: bursts, and loops side by side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runsc_driver::Call;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::measure::{Subject, rounded, timed};
use crate::place::{Ours, Place, finish, succeed};
use crate::stop::{self, Stop};
use crate::subjects::{in_session, pool};

/// How many calls a burst has.
pub const BURST: usize = 8;
pub const RUNSC_8: &str = "8 runsc run at once";
pub const COLD_8: &str = "8 cold calls at once";
pub const WARM_8: &str = "8 warm calls at once";

/// Eight bare `runsc run` at once.
pub struct Runsc8<'a>(pub &'a Place);

impl Subject for Runsc8<'_> {
    fn name(&self) -> &str {
        RUNSC_8
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| {
            std::thread::scope(|scope| {
                let place = self.0;
                let run = |at| scope.spawn(move || one(place, at));
                let all: Vec<_> = (0..BURST).map(run).collect();
                all.into_iter().try_for_each(|run| run.join().unwrap())
            })
        })
    }
}

/// One bare run beside others.
fn one(place: &Place, at: usize) -> Result<(), String> {
    finish(&mut place.bare_run("bundle", &format!("bare-{at}")))
}

/// Eight calls of the driver at once: cold, or each in a ready sandbox of a full and quiet pool.
pub struct Calls8<'a> {
    place: &'a Place,
    ours: Ours<'a>,
    ready: bool,
}

impl<'a> Calls8<'a> {
    pub fn cold(place: &'a Place) -> Result<Self, String> {
        let ours = place.driver(|_| {})?;
        let ready = false;
        Ok(Self { place, ours, ready })
    }

    pub fn warm(place: &'a Place) -> Result<Self, String> {
        let ours = place.driver(|options| options.pool = pool(BURST))?;
        let ready = true;
        ours.fill(BURST)?;
        Ok(Self { place, ours, ready })
    }
}

impl Subject for Calls8<'_> {
    fn name(&self) -> &str {
        if self.ready { WARM_8 } else { COLD_8 }
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| {
            self.place.runtime.block_on(async {
                let mut calls = JoinSet::new();
                for _ in 0..BURST {
                    let driver = Arc::clone(&self.ours.driver);
                    calls.spawn(async move { succeed(&*driver, Call::new(["true"])).await });
                }
                calls
                    .join_all()
                    .await
                    .into_iter()
                    .collect::<Result<(), String>>()
            })
        })
    }

    fn after(&mut self) -> Result<(), String> {
        if self.ready {
            self.ours.fill(BURST)
        } else {
            Ok(())
        }
    }
}

/// How many loops run side by side.
const AT_ONCE: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// How long they do.
const LONG: Duration = Duration::from_secs(5);

/// Calls per second, by how many loops run at once.
#[derive(Debug, Serialize)]
pub struct Throughput {
    pub runsc_run: BTreeMap<usize, f64>,
    pub cold: BTreeMap<usize, f64>,
    /// Calls back to back over a pool of eight: what of them finds a ready sandbox depends on how
    /// fast the machine boots them beside the calls.
    pub pool_steady: BTreeMap<usize, f64>,
    pub session_socket: BTreeMap<usize, f64>,
}

/// Measures all of them at every width.
pub fn throughput(place: &Place) -> Result<Throughput, Stop> {
    eprintln!(
        "calls per second at {AT_ONCE:?} at once, {} s each",
        LONG.as_secs()
    );
    let cold = place.driver(|_| {}).map_err(Stop::Failed)?;
    let pooled = place
        .driver(|options| options.pool = pool(BURST))
        .map_err(Stop::Failed)?;
    let mut told = Throughput {
        runsc_run: BTreeMap::new(),
        cold: BTreeMap::new(),
        pool_steady: BTreeMap::new(),
        session_socket: BTreeMap::new(),
    };
    for width in AT_ONCE {
        told.runsc_run.insert(width, bare(place, width)?);
        told.cold
            .insert(width, loops(place, &cold, width, || Call::new(["true"]))?);
        let session = || in_session(Call::new(["true"]), "loops");
        cold.run(session()).map_err(Stop::Failed)?;
        told.session_socket
            .insert(width, loops(place, &cold, width, session)?);
    }
    for width in AT_ONCE {
        pooled.fill(BURST).map_err(Stop::Failed)?;
        told.pool_steady
            .insert(width, loops(place, &pooled, width, || Call::new(["true"]))?);
    }
    Ok(told)
}

/// Loops of bare `runsc run`.
fn bare(place: &Place, width: usize) -> Result<f64, Stop> {
    let started = Instant::now();
    let ran = std::thread::scope(|scope| {
        let run = |at: usize| {
            scope.spawn(move || {
                let mut count = 0_u32;
                while started.elapsed() < LONG && !stop::is_asked_for() {
                    one(place, at)?;
                    count += 1;
                }
                Ok(count)
            })
        };
        let all: Vec<_> = (0..width).map(run).collect();
        all.into_iter()
            .map(|run| run.join().unwrap())
            .sum::<Result<u32, String>>()
    });
    per_second(ran, started)
}

/// Loops of the driver's calls.
fn loops(place: &Place, ours: &Ours<'_>, width: usize, call: fn() -> Call) -> Result<f64, Stop> {
    let started = Instant::now();
    let ran = place.runtime.block_on(async {
        let mut loops = JoinSet::new();
        for _ in 0..width {
            let driver = Arc::clone(&ours.driver);
            loops.spawn(async move {
                let mut count = 0_u32;
                while started.elapsed() < LONG && !stop::is_asked_for() {
                    succeed(&*driver, call()).await?;
                    count += 1;
                }
                Ok(count)
            });
        }
        loops.join_all().await.into_iter().sum()
    });
    per_second(ran, started)
}

fn per_second(ran: Result<u32, String>, started: Instant) -> Result<f64, Stop> {
    stop::check()?;
    let count = ran.map_err(Stop::Failed)?;
    Ok(rounded(f64::from(count) / started.elapsed().as_secs_f64()))
}
