//! Rounds: in each, every subject is called once, so that a ratio within a round is of two things
//! that met the same machine.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::stop::{self, Stop};

/// Something that is measured.
pub trait Subject {
    fn name(&self) -> &str;
    /// Gets ready; not timed.
    fn before(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// One call, and how long it took.
    fn call(&mut self) -> Result<Duration, String>;
    /// Leaves the machine quiet for the next subject; not timed.
    fn after(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// How long some work takes.
pub fn timed<T>(work: impl FnOnce() -> Result<T, String>) -> Result<Duration, String> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

/// How many rounds to measure: as many as were asked for, but no more than the time allows.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    pub budget: Duration,
}

/// Fewer rounds than these are not worth their time.
const FEWEST: usize = 3;

/// What each subject took in each round.
#[derive(Debug)]
pub struct Rounds {
    names: Vec<String>,
    /// By subject, then by round, in seconds.
    seconds: Vec<Vec<f64>>,
}

impl Rounds {
    /// Measures subjects in turn, after one round for what is only slow once: the page cache, the
    /// version probe, the scratch tree.
    pub fn measure(
        what: &str,
        subjects: &mut [&mut dyn Subject],
        effort: Effort,
    ) -> Result<Self, Stop> {
        let names: Vec<_> = subjects
            .iter()
            .map(|subject| subject.name().to_owned())
            .collect();
        eprintln!("{what}: {}", names.join(", "));
        for subject in subjects.iter_mut() {
            once(*subject)?;
        }
        let mut seconds = vec![Vec::new(); subjects.len()];
        let started = Instant::now();
        for round in 0..effort.rounds {
            if round >= FEWEST && started.elapsed() > effort.budget {
                eprintln!("  {round} of {} rounds: the time is over", effort.rounds);
                break;
            }
            if round > 0 && round % 50 == 0 {
                eprintln!("  {round} of {} rounds", effort.rounds);
            }
            // Who goes first changes from round to round, so that nobody has the warmer machine.
            for step in 0..subjects.len() {
                let at = (round + step) % subjects.len();
                seconds[at].push(once(&mut *subjects[at])?.as_secs_f64());
            }
        }
        Ok(Self { names, seconds })
    }

    fn of(&self, name: &str) -> &[f64] {
        let at = self.names.iter().position(|named| named == name);
        &self.seconds[at.unwrap_or_else(|| panic!("{name} was not measured"))]
    }

    /// How often `first` takes as long as `second`, in the same rounds.
    pub fn ratio(&self, first: &str, second: &str) -> Summary {
        let pairs = self.of(first).iter().zip(self.of(second));
        Summary::of(pairs.map(|(first, second)| first / second).collect())
    }

    /// How much longer `first` takes than `second` in the same rounds, in milliseconds.
    pub fn difference_ms(&self, first: &str, second: &str) -> Summary {
        let pairs = self.of(first).iter().zip(self.of(second));
        Summary::of(
            pairs
                .map(|(first, second)| (first - second) * 1e3)
                .collect(),
        )
    }

    /// Each subject's times, with their ratio to one of them.
    pub fn latencies(&self, base: &str) -> Vec<Latency> {
        let latency = |name: &String| {
            let mut ms: Vec<_> = self.of(name).iter().map(|seconds| seconds * 1e3).collect();
            ms.sort_by(f64::total_cmp);
            let over = (name != base).then(|| self.ratio(name, base));
            Latency {
                subject: name.clone(),
                n: ms.len(),
                p50: percentile(&ms, 50.0),
                p95: percentile(&ms, 95.0),
                p99: percentile(&ms, 99.0),
                base: base.to_owned(),
                over,
            }
        };
        self.names.iter().map(latency).collect()
    }
}

fn once(subject: &mut dyn Subject) -> Result<Duration, Stop> {
    stop::check()?;
    let name = subject.name().to_owned();
    let mut whole = || {
        subject.before()?;
        let took = subject.call()?;
        subject.after()?;
        Ok::<_, String>(took)
    };
    // What a signal broke is no failure.
    let took = whole().map_err(|why| Stop::Failed(format!("{name}: {why}")));
    stop::check()?;
    took
}

/// One subject's times, in milliseconds.
#[derive(Debug, Serialize)]
pub struct Latency {
    pub subject: String,
    pub n: usize,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// What it is compared with, in the same rounds.
    pub base: String,
    pub over: Option<Summary>,
}

/// A median with its 95 % interval.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub n: usize,
}

impl Summary {
    /// The interval is by order statistics: of n values, the median lies between those whose ranks
    /// are 1.96 standard deviations of a binomial (n, 1/2) from the middle. It assumes nothing of
    /// how the values are spread. Below six values it is all of them, and means less.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let last = (n - 1) as f64;
        let spread = 1.96 * (n as f64).sqrt() / 2.0;
        let at = |rank: f64| values[rank.clamp(0.0, last) as usize];
        Self {
            median: rounded((values[(n - 1) / 2] + values[n / 2]) / 2.0),
            low: rounded(at((last / 2.0 - spread).floor())),
            high: rounded(at((last / 2.0 + spread).ceil())),
            n,
        }
    }
}

/// The value that so many per cent are not above (nearest rank).
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    rounded(sorted[rank.clamp(1, sorted.len()) - 1])
}

/// Four digits behind the point say more than the machine does.
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
