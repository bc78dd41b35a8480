//! Linux's default: the store's runsc, rootless for anybody but root, and pasta for its network.

use std::path::PathBuf;

use super::order::Asked;
use super::policy;
use super::refusal::{NamespaceNeed, Obstacle, Parameter, Refusal};
use super::store::{HOME_POLICY, IMAGE, LINUX_PIECES, LINUX_STORE, RUNSC};
use super::{Choice, ChosenBy, Native, NetworkHelper, Selection, program, store};
use crate::config::NetworkMode;
use crate::host::{Sysctl, USER_NAMESPACE_SYSCTLS};

/// What each of [`USER_NAMESPACE_SYSCTLS`] forbids with, in the order they are read.
pub(crate) const PARAMETERS: [Parameter; 3] = [
    Parameter {
        name: USER_NAMESPACE_SYSCTLS[0],
        forbids: "0",
        meaning: "nobody can make a user namespace",
        lift: "15000",
    },
    Parameter {
        name: USER_NAMESPACE_SYSCTLS[1],
        forbids: "0",
        meaning: "only root can make a user namespace",
        lift: "1",
    },
    Parameter {
        name: USER_NAMESPACE_SYSCTLS[2],
        forbids: "1",
        meaning: "AppArmor lets no unconfined user make a user namespace",
        lift: "0",
    },
];

const ROOT: u32 = 0;

pub(super) fn select(asked: &Asked<'_>) -> Result<Selection, Refusal> {
    let binary = asked.binary();
    // A named binary runs as it is.
    let rootless = binary.is_none() && user(asked, NamespaceNeed::Runsc)? != ROOT;
    let store = asked.home()?.join(LINUX_STORE);
    let rootfs = asked.rootfs_of_default()?;
    let policy = policy::choose(asked, vec![store.join(HOME_POLICY)])?;

    asked.set_up(&store, &LINUX_PIECES, store::look_through, &policy)?;

    let network = asked.network()?;
    Ok(Selection {
        choice: Choice::new(ChosenBy::Default {
            platform: Native::Linux,
            native_store: store.clone(),
        }),
        runsc: binary.unwrap_or_else(|| store.join(RUNSC).into()),
        rootfs: rootfs.unwrap_or_else(|| store.join(IMAGE)),
        policy: policy.path(),
        network,
        rootless,
        helper: match network {
            NetworkMode::Sandbox => Some(helper(asked)?),
            NetworkMode::None | NetworkMode::Host => None,
        },
        native_store: Some(store),
        defaulted: true,
    })
}

/// The user, once it is known that one who is not root may make a user namespace. Root needs
/// none, and no parameter is looked at for it.
fn user(asked: &Asked<'_>, need: NamespaceNeed) -> Result<u32, Refusal> {
    let Some(uid) = asked.host.uid else {
        return Err(asked.stop(Obstacle::UserUnknown { need }));
    };
    if uid == ROOT {
        return Ok(uid);
    }
    for parameter in PARAMETERS {
        let obstacle = match asked.host.sysctl(parameter.name) {
            Sysctl::Value(value) if value == parameter.forbids => Obstacle::NamespaceForbidden {
                uid,
                need,
                parameter,
            },
            Sysctl::Unreadable(reason) => Obstacle::NamespaceUnknown {
                uid,
                need,
                parameter,
                reason: reason.clone(),
            },
            Sysctl::Value(_) | Sysctl::Absent => continue,
        };
        return Err(asked.stop(obstacle));
    }
    Ok(uid)
}

/// What gives the container its network. pasta makes a user namespace for anybody but root,
/// whatever binary is run in it; as root it mounts a `/proc`, which takes a mount namespace.
fn helper(asked: &Asked<'_>) -> Result<NetworkHelper, Refusal> {
    let find = |name: &str, missing: Obstacle| -> Result<PathBuf, Refusal> {
        program::on_path(name, asked.host, asked.look).ok_or_else(|| asked.stop(missing))
    };
    let pasta = find("pasta", Obstacle::NoPasta)?;
    let setpriv = find("setpriv", Obstacle::NoSetpriv)?;
    let unshare = match user(asked, NamespaceNeed::Pasta)? {
        ROOT => Some(find("unshare", Obstacle::NoUnshare)?),
        _ => None,
    };
    Ok(NetworkHelper {
        pasta,
        setpriv,
        unshare,
    })
}
