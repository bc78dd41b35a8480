//! Which sockets a sandbox would see. runsc's permission to connect is for all of them at once, so
//! it is given only where there is none but the broker's.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::driver::Description;
use crate::handoff::beneath::{Bounds, Kind, Tree, Walked};

/// How far is looked: some times as many as a large image has.
const BOUNDS: Bounds = Bounds {
    entries: 2_000_000,
    depth: 128,
};

/// Why the permission to connect is not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0} has a socket, which the step could connect to: take it away")]
    Visible(String),
    #[error("{0} cannot be looked through for sockets: show less of the host, or make it readable")]
    Untold(String),
}

impl Refused {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Visible(_) => "socket-visible",
            Self::Untold(_) => "sockets-untold",
        }
    }
}

/// Looks through the image and everything that is mounted, but for the broker's own directory.
pub(super) fn check(sandbox: &Description, broker: &Path) -> Result<(), Refused> {
    look(&sandbox.cfc.image, "the image")?;
    for mount in &sandbox.cfc.mounts {
        if mount.host_path != broker {
            let name = mount.name.as_deref().unwrap_or("workspace");
            look(&mount.host_path, &format!("the mount `{name}`"))?;
        }
    }
    Ok(())
}

fn look(path: &Path, what: &str) -> Result<(), Refused> {
    let untold = || Refused::Untold(what.to_owned());
    let found = std::fs::symlink_metadata(path).map_err(|_| untold())?;
    if found.file_type().is_socket() {
        return Err(Refused::Visible(what.to_owned()));
    }
    if !found.is_dir() {
        return Ok(());
    }
    let tree = Tree::open(path).map_err(|_| untold())?;
    let mut seen = false;
    let walked = tree.walk(BOUNDS, |entry| seen |= entry.kind == Kind::Socket);
    match (seen, walked) {
        (true, _) => Err(Refused::Visible(what.to_owned())),
        (false, Walked::All) => Ok(()),
        (false, _) => Err(untold()),
    }
}
