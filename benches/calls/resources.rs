//! What the driver itself and idle sandboxes use.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use runsc_driver::Call;
use runsc_driver::driver::Output;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::measure::rounded;
use crate::place::{Ours, Place, succeed};
use crate::stop::{self, Stop};
use crate::subjects::{in_session, pool};

/// How many calls the driver's time is measured over.
const CALLS: u32 = 50;
/// How many sessions stream.
const SESSIONS: usize = 8;
/// How much each writes, in bytes.
const STREAM: u64 = 200_000_000;

#[derive(Debug, Serialize)]
pub struct Resources {
    /// The driver's own processor time per call (user and system, its children left out), in
    /// milliseconds, by the kind of call.
    pub cpu_ms_per_call: BTreeMap<&'static str, f64>,
    /// The memory of an idle sandbox (proportional set size of its processes), in MiB, by how many
    /// there are; none where the kernel does not tell this user.
    pub idle_sandbox_mib: BTreeMap<usize, Option<f64>>,
    pub streaming: Streaming,
}

/// While sessions stream side by side.
#[derive(Debug, Serialize)]
pub struct Streaming {
    pub sessions: usize,
    pub megabytes_each: u64,
    pub seconds: f64,
    /// The driver's own processor time, user and system.
    pub cpu_seconds: f64,
    /// How far the resident set of the driver's process grew.
    pub growth_mib: f64,
}

pub fn measure(place: &Place) -> Result<Resources, Stop> {
    eprintln!("what the driver and idle sandboxes use");
    let cold = place.driver(|_| {}).map_err(Stop::Failed)?;
    let pooled = place
        .driver(|options| options.pool = pool(SESSIONS))
        .map_err(Stop::Failed)?;
    let session = || in_session(Call::new(["true"]), "cpu");
    cold.run(session()).map_err(Stop::Failed)?;
    let cpu_ms_per_call = [
        ("cold", per_call(|| cold.run(Call::new(["true"])))?),
        ("warm", warm_per_call(&pooled)?),
        ("session_socket", per_call(|| cold.run(session()))?),
    ];
    let mut idle_sandbox_mib = BTreeMap::new();
    for size in [1, SESSIONS] {
        idle_sandbox_mib.insert(size, idle(place, size).map_err(Stop::Failed)?);
    }
    Ok(Resources {
        cpu_ms_per_call: cpu_ms_per_call.into(),
        idle_sandbox_mib,
        streaming: stream(place).map_err(Stop::Failed)?,
    })
}

fn per_call(mut call: impl FnMut() -> Result<(), String>) -> Result<f64, Stop> {
    let before = cpu();
    for _ in 0..CALLS {
        stop::check()?;
        call().map_err(Stop::Failed)?;
    }
    Ok(milliseconds(cpu() - before, CALLS))
}

/// The boots of the sandboxes belong to the calls that use them.
fn warm_per_call(ours: &Ours<'_>) -> Result<f64, Stop> {
    let size = SESSIONS as u32;
    ours.fill(SESSIONS).map_err(Stop::Failed)?;
    let before = cpu();
    let bursts = CALLS.div_ceil(size);
    for _ in 0..bursts {
        for _ in 0..size {
            stop::check()?;
            ours.run(Call::new(["true"])).map_err(Stop::Failed)?;
        }
        ours.fill(SESSIONS).map_err(Stop::Failed)?;
    }
    Ok(milliseconds(cpu() - before, bursts * size))
}

fn milliseconds(time: Duration, calls: u32) -> f64 {
    rounded(time.as_secs_f64() * 1e3 / f64::from(calls))
}

/// The time that this process has spent on a processor.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(
            value.tv_sec().try_into().unwrap_or(0),
            u32::try_from(value.tv_usec()).unwrap_or(0) * 1000,
        )
    };
    time(usage.user_time()) + time(usage.system_time())
}

/// The memory of each of so many ready sandboxes.
fn idle(place: &Place, size: usize) -> Result<Option<f64>, String> {
    let ours = place.driver(|options| options.pool = pool(size))?;
    ours.fill(size)?;
    // What booted them names this directory on its command line.
    let dir = ours
        .driver
        .config()
        .scratch()
        .dir()
        .as_os_str()
        .as_bytes()
        .to_owned();
    let entries = fs::read_dir("/proc")
        .map_err(|err| err.to_string())?
        .flatten();
    let mut kib = 0;
    for entry in entries {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !line.windows(dir.len()).any(|window| window == dir) {
            continue;
        }
        let Some(pss) = pss_kib(&entry.path()) else {
            return Ok(None);
        };
        kib += pss;
    }
    if kib == 0 {
        return Err("the processes of idle sandboxes were not found".to_owned());
    }
    Ok(Some(rounded(kib as f64 / 1024.0 / size as f64)))
}

fn pss_kib(process: &std::path::Path) -> Option<u64> {
    field(
        &fs::read_to_string(process.join("smaps_rollup")).ok()?,
        "Pss:",
    )
}

/// A value in KiB in one of the kernel's tables.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn stream(place: &Place) -> Result<Streaming, String> {
    let ours = place.driver(|_| {})?;
    let names: Vec<_> = (0..SESSIONS).map(|at| format!("stream-{at}")).collect();
    for name in &names {
        ours.run(in_session(Call::new(["true"]), name))?;
    }
    // From here on the kernel keeps the largest size anew.
    fs::write("/proc/self/clear_refs", "5").map_err(|err| format!("clear_refs: {err}"))?;
    let status = || fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (resident, before) = (field(&status(), "VmRSS:"), cpu());
    let started = std::time::Instant::now();
    place.runtime.block_on(async {
        let mut calls = JoinSet::new();
        for name in &names {
            let mut call = Call::new(["head", "-c", &STREAM.to_string(), "/dev/zero"]);
            call.stdout = Output::Stream(Box::new(tokio::io::sink()));
            let (driver, call) = (Arc::clone(&ours.driver), in_session(call, name));
            calls.spawn(async move { succeed(&*driver, call).await });
        }
        calls
            .join_all()
            .await
            .into_iter()
            .collect::<Result<(), _>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let largest = field(&status(), "VmHWM:").unwrap_or(0);
    let grown = largest.saturating_sub(resident.unwrap_or(largest));
    Ok(Streaming {
        sessions: SESSIONS,
        megabytes_each: STREAM / 1_000_000,
        seconds: rounded(seconds),
        cpu_seconds: rounded((cpu() - before).as_secs_f64()),
        growth_mib: rounded(grown as f64 / 1024.0),
    })
}
