//! What was measured, and how it stands to what is aimed at.

pub mod markdown;
pub mod svg;

use serde::Serialize;

use crate::bursts::Throughput;
use crate::labels::LabelCost;
use crate::machine::Machine;
use crate::measure::{Latency, Summary};
use crate::network::NetworkCost;
use crate::peers::Absent;
use crate::resources::Resources;
use crate::whole::Whole;

#[derive(Debug, Serialize)]
pub struct Report {
    pub schema: &'static str,
    pub driver: &'static str,
    pub quick: bool,
    pub machine: Machine,
    /// The medians, each under its own name.
    #[serde(flatten, serialize_with = "medians")]
    pub medians: Ratios,
    pub ratios: Ratios,
    pub latency_ms: Vec<Latency>,
    pub calls_per_second: Option<Throughput>,
    pub resources: Option<Resources>,
    pub network_cost: Option<Vec<NetworkCost>>,
    pub whole_commands: Option<Vec<Whole>>,
    pub label_cost: Option<Vec<LabelCost>>,
    /// What was not measured, and why.
    pub absent: Vec<Absent>,
}

/// Medians of what was measured in the same rounds. Those of single calls are of times, so that
/// less is better; those of bursts are of rates, so that more is.
#[derive(Debug, Clone, Serialize)]
pub struct Ratios {
    pub cold_over_runsc: Summary,
    pub warm_over_runsc: Summary,
    pub warm_output_over_runsc: Summary,
    pub socket_over_exec: Summary,
    pub command_line_over_exec: Summary,
    pub socket_minus_raw_ms: Summary,
    pub cold8_over_runsc8: Summary,
    pub warm8_over_cold8: Summary,
}

fn medians<S: serde::Serializer>(ratios: &Ratios, to: S) -> Result<S::Ok, S::Error> {
    let whole = serde_json::to_value(ratios).map_err(serde::ser::Error::custom)?;
    let whole = whole.as_object().into_iter().flatten();
    to.collect_map(whole.map(|(name, found)| (name, &found["median"])))
}

/// What is aimed at.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Goal {
    /// Whether the whole interval keeps to it.
    pub fn is_met(self, found: &Summary) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(found.high <= most),
            Self::AtLeast(least) => Some(found.low >= least),
            Self::None => None,
        }
    }
}

impl Report {
    /// Each ratio: what it is of, what was found, what is aimed at.
    pub fn ratios(&self) -> [(&'static str, &Summary, Goal); 8] {
        let ratios = &self.ratios;
        // Rootless, the driver saves one of runsc's own starts.
        let cold = if self.machine.user == "root" {
            1.03
        } else {
            0.95
        };
        [
            (
                "cold call / `runsc run`",
                &ratios.cold_over_runsc,
                Goal::AtMost(cold),
            ),
            (
                "warm call, takedown included / `runsc run`",
                &ratios.warm_over_runsc,
                Goal::AtMost(0.12),
            ),
            (
                "warm call, until its output / `runsc run`",
                &ratios.warm_output_over_runsc,
                Goal::None,
            ),
            (
                "session call by socket / `runsc exec`",
                &ratios.socket_over_exec,
                Goal::AtMost(0.30),
            ),
            (
                "session call by command line / `runsc exec`",
                &ratios.command_line_over_exec,
                Goal::None,
            ),
            (
                "session call by socket − raw exchange, ms",
                &ratios.socket_minus_raw_ms,
                Goal::AtMost(1.5),
            ),
            (
                "rate of 8 cold calls at once / of 8 `runsc run`",
                &ratios.cold8_over_runsc8,
                Goal::AtLeast(0.97),
            ),
            (
                "rate of 8 warm calls at once / of 8 cold calls",
                &ratios.warm8_over_cold8,
                Goal::AtLeast(3.0),
            ),
        ]
    }
}

/// One object on one line.
pub fn json(report: &Report) -> String {
    serde_json::to_string(report).unwrap()
}
