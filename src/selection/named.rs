//! A `runsc` that was named: what is named beside it, and few defaults. It has no store, no
//! helper for its network and no user namespace of its own, so nothing of those is checked.

use std::path::PathBuf;

use super::order::Asked;
use super::refusal::{Obstacle, Refusal};
use super::store::{IMAGE, LINUX_STORE};
use super::{Choice, ChosenBy, RUNSC, Selection, macos, policy};
use crate::host::Platform;
use crate::settings::{ROOTFS, Source};

pub(super) fn select(asked: &Asked<'_>, by: Source) -> Result<Selection, Refusal> {
    let native_store = match asked.host.platform {
        // The store is held apart from the mounts whatever is run, so its path has to be one.
        Platform::MacOs => macos::given_store(asked)?,
        Platform::Linux => linux_store(asked),
        Platform::Other(_) => None,
    };
    let named_rootfs = match &asked.settings.rootfs {
        // An empty one names none: the default is taken.
        Some(named) if !named.value.is_empty() => Some(asked.absolute(ROOTFS, &named.value)?),
        _ => None,
    };
    let policy = policy::choose(asked, asked.home_policy().into_iter().collect())?;
    let network = asked.network()?;
    let rootfs = match (named_rootfs, &native_store) {
        (Some(rootfs), _) => rootfs,
        (None, Some(store)) => store.join(IMAGE),
        (None, None) => return Err(asked.stop(no_rootfs(asked))),
    };
    Ok(Selection {
        choice: Choice::new(match by {
            Source::Flag => ChosenBy::Flag,
            Source::Environment => ChosenBy::Environment,
        }),
        runsc: asked.binary().unwrap_or_else(|| RUNSC.into()),
        rootfs,
        policy: policy.path(),
        network,
        rootless: false,
        helper: None,
        native_store,
        defaulted: false,
    })
}

fn linux_store(asked: &Asked<'_>) -> Option<PathBuf> {
    let home = asked.host.home.as_ref().filter(|home| home.is_absolute())?;
    Some(home.join(LINUX_STORE))
}

/// Why there is no default rootfs.
fn no_rootfs(asked: &Asked<'_>) -> Obstacle {
    match (&asked.host.platform, &asked.host.home) {
        (Platform::Linux, Some(home)) => Obstacle::HomeRelative { home: home.clone() },
        _ => Obstacle::NoRootfs,
    }
}
