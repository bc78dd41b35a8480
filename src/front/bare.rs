//! Runs without a policy: they keep no labels, so they get none to lose.

use super::args::{Args, Command};
use super::attributes::Sight;
use super::doubt::Found;
use super::look::{Against, Eyes, look};
use super::marks;
use super::mounts::MountTable;
use super::policy::Unseen;
use super::refusal::Refusal;
use super::registry::{Links, Registry};
use super::run::{Bounds, Front};
use super::scene::Scene;
use super::spec::Spec;

/// Refuses a container that would see labels or marks. Whatever cannot be looked at is the stock
/// runsc's to fail on.
///
/// # Errors
/// [`Refusal::Unpoliced`].
pub fn check(front: &Front<'_>, args: &Args, command: &Command) -> Result<(), Refusal> {
    let starts = matches!(command.name.as_slice(), b"run" | b"create");
    if !starts || args.ignore_labels {
        return Ok(());
    }
    let bundle = front.bundle(command);
    let (Ok(spec), Ok(table)) = (Spec::open(&bundle), MountTable::read()) else {
        return Ok(());
    };
    let Ok(scene) = Scene::of(&spec, &table, false) else {
        return Ok(());
    };
    let sight = Sight {
        trusted: false,
        uid: rustix::process::geteuid().as_raw(),
        root_outside: false,
        unseen: Unseen::None,
    };
    let limits = Bounds::of(args).limits();
    let eyes = Eyes {
        sight: &sight,
        limits: &limits,
        tolerant: true,
    };
    // The image is what its maker handed out; what people label are their own files.
    let mut found = Found::default();
    let mut links = Vec::new();
    for bind in scene.binds.iter().skip(1) {
        let seen = look(&bind.source, eyes, Against::Nothing);
        found.join(seen.found);
        links.extend(seen.links);
    }
    links.sort_unstable();
    if let Some(registry) = Registry::existing(&front.store)? {
        let locked = registry.lock()?;
        found.join(marks::over(&locked, &scene.binds, &Links::of(links))?);
    }
    if found.is_labelled() {
        return Err(Refusal::Unpoliced { why: found.why() });
    }
    Ok(())
}
