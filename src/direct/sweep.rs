//! What dead drivers left beside this one's tree, looked for as the tree is made.

use std::path::Path;
use std::time::Duration;

use super::Shared;
use crate::leftovers::{self, Fate, Options, Why};

/// How long a start may look.
const LIMIT: Duration = Duration::from_secs(3);

/// Sweeps on a thread of its own: no call waits for it, and close does.
pub(super) fn begin(shared: &Shared) {
    let Some(parent) = shared.config.scratch.verified_parent.clone() else {
        return;
    };
    let (user, token) = (shared.host.uid, shared.calls.count());
    let work = move || {
        sweep(&parent, user);
        drop(token);
    };
    let name = "runsc-sweep".to_owned();
    if let Err(err) = std::thread::Builder::new().name(name).spawn(work) {
        tracing::warn!(%err, "what dead drivers left was not looked for");
    }
}

fn sweep(parent: &Path, user: Option<u32>) {
    let options = Options {
        dry_run: false,
        limit: LIMIT,
    };
    let report = match leftovers::sweep(parent, user, options) {
        Ok(report) => report,
        Err(err) => {
            tracing::warn!(%err, "what dead drivers left was not looked for");
            return;
        }
    };
    for found in report.leftovers {
        let (path, stopped) = (found.path.display(), &found.stopped);
        match &found.fate {
            Fate::Removed => tracing::info!(%path, ?stopped, "removed what a dead driver left"),
            Fate::Left(Why::InUse) => {}
            Fate::Left(why) => tracing::info!(%path, ?stopped, %why, "left"),
        }
    }
}
