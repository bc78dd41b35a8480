//! The whole measurement, step by step.

use std::time::Duration;

use runsc_driver::driver::ExecVia;

use crate::bursts::{self, COLD_8, Calls8, RUNSC_8, Runsc8, WARM_8};
use crate::machine::Machine;
use crate::measure::{Effort, Latency, Rounds};
use crate::peers::{self, Absent};
use crate::place::Place;
use crate::report::{Ratios, Report};
use crate::stop::Stop;
use crate::subjects::{
    BY_COMMAND_LINE, BY_SOCKET, COLD, Cold, Held, RAW, RUNSC_EXEC, RUNSC_RUN, Raw, RunscExec,
    RunscRun, SessionCall, WARM, WARM_OUTPUT, Warm, WarmOutput,
};
use crate::{labels, network, resources, whole};

/// How many rounds there are unless told otherwise.
const ROUNDS: usize = 200;
/// The most that the slow ones get.
const PEER_ROUNDS: usize = 20;
const LABEL_ROUNDS: usize = 20;
const NETWORK_ROUNDS: usize = 50;

pub fn run(pairs: Option<usize>, quick: bool) -> Result<Report, Stop> {
    let place = Place::new().map_err(Stop::Failed)?;
    let machine = Machine::read(&place.runsc, place.root);
    let rounds = pairs.unwrap_or(ROUNDS);
    // Within a minute, with what is done around the rounds.
    let effort = |seconds| Effort {
        rounds,
        budget: if quick {
            Duration::from_secs(seconds)
        } else {
            Duration::MAX
        },
    };
    let (calls, mut latency_ms) = calls(&place, effort(14))?;
    let (session, latencies) = sessions(&place, effort(4))?;
    latency_ms.extend(latencies);
    let (burst, latencies) = burst(&place, effort(18))?;
    latency_ms.extend(latencies);
    let ratios = Ratios {
        cold_over_runsc: calls.ratio(COLD, RUNSC_RUN),
        warm_over_runsc: calls.ratio(WARM, RUNSC_RUN),
        warm_output_over_runsc: calls.ratio(WARM_OUTPUT, RUNSC_RUN),
        socket_over_exec: session.ratio(BY_SOCKET, RUNSC_EXEC),
        command_line_over_exec: session.ratio(BY_COMMAND_LINE, RUNSC_EXEC),
        socket_minus_raw_ms: session.difference_ms(BY_SOCKET, RAW),
        // Rates: the times the other way round.
        cold8_over_runsc8: burst.ratio(RUNSC_8, COLD_8),
        warm8_over_cold8: burst.ratio(COLD_8, WARM_8),
    };
    let mut report = Report {
        schema: "runsc-driver/bench/v2",
        driver: env!("CARGO_PKG_VERSION"),
        quick,
        machine,
        medians: ratios.clone(),
        ratios,
        latency_ms,
        calls_per_second: None,
        resources: None,
        network_cost: None,
        whole_commands: None,
        label_cost: None,
        absent: Vec::new(),
    };
    if !quick {
        rest(&place, rounds, &mut report)?;
    }
    Ok(report)
}

/// One call at a time, of each kind that needs no session.
fn calls(place: &Place, effort: Effort) -> Result<(Rounds, Vec<Latency>), Stop> {
    let mut cold = Cold::new(place).map_err(Stop::Failed)?;
    let mut warm = Warm::new(place).map_err(Stop::Failed)?;
    let mut output = WarmOutput::new(place).map_err(Stop::Failed)?;
    let mut bare = RunscRun(place);
    let rounds = Rounds::measure(
        "one call",
        &mut [&mut bare, &mut cold, &mut warm, &mut output],
        effort,
    )?;
    let latencies = rounds.latencies(RUNSC_RUN);
    Ok((rounds, latencies))
}

/// One call at a time in a container that runs.
fn sessions(place: &Place, effort: Effort) -> Result<(Rounds, Vec<Latency>), Stop> {
    let held = Held::start(place).map_err(Stop::Failed)?;
    let mut by_line = SessionCall::new(place, ExecVia::CommandLine).map_err(Stop::Failed)?;
    let mut by_socket = SessionCall::new(place, ExecVia::ControlSocket).map_err(Stop::Failed)?;
    let (mut exec, mut raw) = (RunscExec(&held), Raw(&held));
    let subjects: &mut [&mut dyn crate::measure::Subject] =
        &mut [&mut exec, &mut by_line, &mut by_socket, &mut raw];
    let rounds = Rounds::measure("one call in a session", subjects, effort)?;
    let latencies = rounds.latencies(RUNSC_EXEC);
    Ok((rounds, latencies))
}

/// Eight calls at once.
fn burst(place: &Place, effort: Effort) -> Result<(Rounds, Vec<Latency>), Stop> {
    let mut cold = Calls8::cold(place).map_err(Stop::Failed)?;
    let mut warm = Calls8::warm(place).map_err(Stop::Failed)?;
    let mut bare = Runsc8(place);
    let rounds = Rounds::measure("a burst", &mut [&mut bare, &mut cold, &mut warm], effort)?;
    let latencies = rounds.latencies(RUNSC_8);
    Ok((rounds, latencies))
}

/// What takes longer than a minute.
fn rest(place: &Place, rounds: usize, report: &mut Report) -> Result<(), Stop> {
    let effort = |most| Effort {
        rounds: rounds.min(most),
        budget: Duration::from_secs(60),
    };
    let (latencies, absent) = peers::measure(place, effort(PEER_ROUNDS))?;
    report.latency_ms.extend(latencies);
    report.absent = absent;
    report.calls_per_second = Some(bursts::throughput(place)?);
    report.resources = Some(resources::measure(place)?);
    let mut lacks = |subject: &str, why: String| {
        eprintln!("  absent: {subject}: {why}");
        let subject = subject.to_owned();
        report.absent.push(Absent { subject, why });
    };
    match whole::measure(place, rounds.min(50)) {
        Ok(Some(whole)) => report.whole_commands = Some(whole),
        Ok(None) => lacks("hyperfine", "not installed".to_owned()),
        Err(Stop::Failed(why)) => lacks("hyperfine", why),
        Err(Stop::Signal) => return Err(Stop::Signal),
    }
    match network::measure(place, effort(NETWORK_ROUNDS)) {
        Ok(cost) => report.network_cost = Some(cost),
        Err(Stop::Failed(why)) => lacks("the default network", why),
        Err(Stop::Signal) => return Err(Stop::Signal),
    }
    match labels::measure(place, effort(LABEL_ROUNDS)) {
        Ok(Some(cost)) => report.label_cost = Some(cost),
        Ok(None) => lacks("labels", "the store's runsc does not track them".to_owned()),
        Err(Stop::Failed(why)) => lacks("labels", why),
        Err(Stop::Signal) => return Err(Stop::Signal),
    }
    Ok(())
}
