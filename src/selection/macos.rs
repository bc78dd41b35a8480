//! macOS's default: the shim, the image and the VM of the cfc-vm store. Nothing here is compiled
//! for a Mac alone; none of it has run on one.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::order::Asked;
use super::policy;
use super::refusal::{Obstacle, Refusal, Unresolved};
use super::store::{IMAGE, MACOS_PIECES, MACOS_POLICY, MACOS_STORE, RUNSC};
use super::{Choice, ChosenBy, Native, Selection, store};
use crate::settings::VM_HOME;
use crate::trust::walk;

/// The one processor that the VM runs on, by Rust's name for it.
const APPLE_SILICON: &str = "aarch64";

/// How a refusal calls the store.
pub(super) const STORE: &str = "the macOS store";

pub(super) fn select(asked: &Asked<'_>) -> Result<Selection, Refusal> {
    if asked.host.arch != APPLE_SILICON {
        return Err(asked.stop(Obstacle::Architecture {
            arch: asked.host.arch.clone(),
        }));
    }
    let store = store_where_it_is(asked)?;
    let rootfs = asked.rootfs_of_default()?;
    let binary = asked.binary();
    let defaults = asked.home_policy().into_iter();
    let policy = policy::choose(asked, defaults.chain([store.join(MACOS_POLICY)]).collect())?;

    asked.set_up(&store, &MACOS_PIECES, store::look_at, &policy)?;

    Ok(Selection {
        choice: Choice::new(ChosenBy::Default {
            platform: Native::MacOs,
            native_store: store.clone(),
        }),
        runsc: binary.unwrap_or_else(|| OsString::from(store.join(RUNSC))),
        rootfs: rootfs.unwrap_or_else(|| store.join(IMAGE)),
        policy: policy.path(),
        network: asked.network()?,
        rootless: false,
        helper: None,
        native_store: Some(store),
        defaulted: true,
    })
}

/// The store's path as given: `CFC_VM_HOME` verbatim, as the macOS `runsc` reads it, or under the
/// home; none where there is neither. Refused where it is not absolute.
pub(super) fn given_store(asked: &Asked<'_>) -> Result<Option<PathBuf>, Refusal> {
    let named = asked.host.variables.get(VM_HOME);
    if let Some(value) = named.filter(|value| value.as_os_str() != OsStr::new("")) {
        let store = PathBuf::from(value);
        return match store.is_absolute() {
            true => Ok(Some(store)),
            false => Err(asked.stop(Obstacle::StoreRelative { store })),
        };
    }
    if asked.host.home.is_none() {
        return Ok(None);
    }
    Ok(Some(asked.home()?.join(MACOS_STORE)))
}

/// The store, where its path as given is the one that it is at. The macOS `runsc` compares a
/// rootfs with its store's path by their spelling, while the driver hands it resolved paths.
fn store_where_it_is(asked: &Asked<'_>) -> Result<PathBuf, Refusal> {
    let Some(given) = given_store(asked)? else {
        return Err(asked.stop(Obstacle::NoHome));
    };
    let resolved = match walk(STORE, &given) {
        Ok(resolved) => resolved.as_path().to_owned(),
        Err(error) => {
            let reason = Unresolved(Arc::new(error));
            return Err(asked.stop(Obstacle::StoreUnresolved { reason }));
        }
    };
    if resolved != tidied(&given) {
        return Err(asked.stop(Obstacle::StoreElsewhere { given, resolved }));
    }
    Ok(resolved)
}

/// An absolute path without `.`, `..` and the slashes that say nothing, by its spelling alone.
fn tidied(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                tidy.pop();
            }
            other => tidy.push(other),
        }
    }
    tidy
}
