//! The order of the first checks, up to where the platforms part, and what all paths share.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::look::Look;
use super::policy::Policy;
use super::refusal::{Obstacle, Refusal};
use super::store::{Fault, HOME_POLICY, LINUX_STORE, Piece, StoreProblem};
use super::{Native, RUNSC, Selection, linux, macos, named};
use crate::config::NetworkMode;
use crate::host::{Host, Platform};
use crate::settings::{BINARY, DefaultRule, Entrypoint, NamedNetwork, ROOTFS, Setting, Settings};

/// The driver that is gone, by name.
pub(super) const DOCKER: &str = "docker";

/// What the rules read, and whose refusal a stop becomes.
pub(super) struct Asked<'a> {
    pub(super) settings: &'a Settings,
    pub(super) host: &'a Host,
    pub(super) look: &'a dyn Look,
    /// The platform whose default is asked for; none where `runsc` was named.
    pub(super) default_of: Option<Native>,
    pub(super) takes_flags: bool,
}

pub(super) fn select(
    settings: &Settings,
    host: &Host,
    entrypoint: &Entrypoint,
    look: &dyn Look,
) -> Result<Selection, Refusal> {
    let takes_flags = entrypoint.takes_flags;
    let native = match &host.platform {
        Platform::Linux => Ok(Native::Linux),
        Platform::MacOs => Ok(Native::MacOs),
        Platform::Other(name) => Err(name),
    };
    let mut asked = Asked {
        settings,
        host,
        look,
        default_of: None,
        takes_flags,
    };
    if let Some(runtime) = &settings.runtime {
        return if runtime.value == RUNSC {
            named::select(&asked, runtime.source)
        } else if runtime.value == DOCKER {
            Err(Refusal::Docker {
                by: runtime.source,
                has_default: entrypoint.default == DefaultRule::Platform && native.is_ok(),
                takes_flags,
            })
        } else {
            Err(Refusal::UnknownRuntime {
                value: runtime.value.clone(),
                by: runtime.source,
            })
        };
    }
    if let DefaultRule::Refuse { who } = entrypoint.default {
        return Err(Refusal::MustBeNamed { who, takes_flags });
    }
    let native = native.map_err(|name| Refusal::NoNativeRuntime {
        platform: name.clone(),
    })?;
    asked.default_of = Some(native);
    match native {
        Native::Linux => linux::select(&asked),
        Native::MacOs => macos::select(&asked),
    }
}

impl Asked<'_> {
    /// The refusal that this obstacle is, here.
    pub(super) fn stop(&self, obstacle: Obstacle) -> Refusal {
        let takes_flags = self.takes_flags;
        match self.default_of {
            Some(platform) => Refusal::Default {
                platform,
                obstacle,
                takes_flags,
            },
            None => Refusal::Named {
                obstacle,
                takes_flags,
            },
        }
    }

    /// A named path, absolute. It is joined and not folded: what a `..` leaves depends on the
    /// links before it. One that opens with `~` stays as it is, for the trust check to refuse,
    /// since joining would make it a file of a directory named `~`.
    pub(super) fn absolute(&self, setting: Setting, value: &OsStr) -> Result<PathBuf, Refusal> {
        let path = Path::new(value);
        if path.is_absolute() || value.as_bytes().starts_with(b"~") {
            return Ok(path.to_owned());
        }
        match &self.host.cwd {
            Some(cwd) => Ok(cwd.join(path)),
            None => Err(self.stop(Obstacle::NoWorkingDirectory {
                setting,
                value: value.to_owned(),
            })),
        }
    }

    /// The home, absolute: the store is under it.
    pub(super) fn home(&self) -> Result<&Path, Refusal> {
        match &self.host.home {
            None => Err(self.stop(Obstacle::NoHome)),
            Some(home) if !home.is_absolute() => {
                Err(self.stop(Obstacle::HomeRelative { home: home.clone() }))
            }
            Some(home) => Ok(home),
        }
    }

    /// The rootfs that was named for a default, where one was; an empty one is refused, since a
    /// default runs only from one.
    pub(super) fn rootfs_of_default(&self) -> Result<Option<PathBuf>, Refusal> {
        match &self.settings.rootfs {
            None => Ok(None),
            Some(named) if named.value.is_empty() => Err(self.stop(Obstacle::EmptyRootfs)),
            Some(named) => self.absolute(ROOTFS, &named.value).map(Some),
        }
    }

    /// The default policy of the home. A relative home is taken against the working directory, so
    /// that a policy that is there is not passed over.
    pub(super) fn home_policy(&self) -> Option<PathBuf> {
        let home = self.host.home.as_ref()?;
        let home = match home.is_absolute() {
            true => home.clone(),
            false => self.host.cwd.as_ref()?.join(home),
        };
        Some(home.join(LINUX_STORE).join(HOME_POLICY))
    }

    /// The network: the flag in the driver's words, or the variable in Docker's.
    pub(super) fn network(&self) -> Result<NetworkMode, Refusal> {
        let value = match &self.settings.network {
            None => return Ok(NetworkMode::default()),
            Some(NamedNetwork::Flag(mode)) => return Ok(*mode),
            Some(NamedNetwork::Variable(value)) => value,
        };
        match value.as_bytes() {
            b"none" => Ok(NetworkMode::None),
            b"bridge" => Ok(NetworkMode::Sandbox),
            b"host" => Ok(NetworkMode::Host),
            _ => Err(Refusal::UnknownNetwork {
                value: value.clone(),
            }),
        }
    }

    /// The binary that was named, where one was.
    pub(super) fn binary(&self) -> Option<OsString> {
        Some(self.settings.binary.as_ref()?.value.clone())
    }

    /// Refuses where a store lacks a piece that no setting stands in for, or there is no policy:
    /// everything at once.
    pub(super) fn set_up(
        &self,
        store: &Path,
        pieces: &[Piece],
        fault_of: fn(&dyn Look, &Path, Piece) -> Option<Fault>,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        let named = |setting: Setting| match setting {
            BINARY => self.settings.binary.is_some(),
            ROOTFS => self.settings.rootfs.is_some(),
            _ => false,
        };
        let needed = pieces
            .iter()
            .filter(|piece| !piece.unless.is_some_and(named));
        let mut problems: Vec<_> = needed
            .filter_map(|piece| {
                Some(StoreProblem::Piece {
                    piece: *piece,
                    fault: fault_of(self.look, store, *piece)?,
                })
            })
            .collect();
        if let Policy::Absent(looked) = policy {
            problems.push(StoreProblem::NoPolicy {
                looked: looked.clone(),
            });
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(self.stop(Obstacle::NotSetUp {
                store: store.to_owned(),
                problems,
            })),
        }
    }
}
