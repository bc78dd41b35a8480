//! Would a run work here, and if not, what is there to do?
//!
//! [`diagnose`] reads and asks (`gather`), judges what it got (`judge`, pure) and returns data.
//! It takes the very path of `runsc-driver run`: settings, selection, configuration, driver, and a
//! call in a real sandbox. Where the default network or labels are not to be had here, that call is
//! made without them, and what the default lacks is a failure with its reason.

mod gather;
mod judge;
mod name;
mod report;

pub use name::{Group, Name};
pub use report::{Check, Diagnosis, Problem, RealCall, State};

use crate::driver::CancellationToken;
use crate::host::Host;

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// These checks alone; all where there is none.
    pub only: Vec<Name>,
    /// Only read: no process is started and nothing is written.
    pub no_probe: bool,
    /// Ends the real call early.
    pub cancel: CancellationToken,
}

impl Options {
    fn wants(&self, names: &[Name]) -> bool {
        self.only.is_empty() || names.iter().any(|name| self.only.contains(name))
    }

    /// Whether something is to be started for one of these.
    fn probes(&self, names: &[Name]) -> bool {
        !self.no_probe && self.wants(names)
    }
}

/// Looks at this machine. It wants a tokio runtime with I/O and time, to itself: the probes before
/// the real call block, each for 3 seconds at most.
pub async fn diagnose(host: &Host, options: &Options) -> Diagnosis {
    let readings = gather::gather(host, options).await;
    judge::judge(&readings).finish(&options.only, readings.real_call())
}
