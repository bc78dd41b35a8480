//! Linux's default.

use crate::config::NetworkMode;
use crate::selection::linux::PARAMETERS;
use crate::selection::store::{Fault, LINUX_PIECES, StoreProblem};
use crate::selection::tests::support::Machine;
use crate::selection::{NamespaceNeed, Obstacle, Refusal, Selection};

mod binary;
mod files;
mod network;
mod store;
mod user;

const MAX: &str = "user.max_user_namespaces";
const CLONE: &str = "kernel.unprivileged_userns_clone";
const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

fn forbidden(machine: &Machine, need: NamespaceNeed, at: usize) -> Result<Selection, Refusal> {
    machine.refused(Obstacle::NamespaceForbidden {
        uid: 1000,
        need,
        parameter: PARAMETERS[at],
    })
}

fn not_set_up(machine: &Machine, problems: Vec<StoreProblem>) -> Result<Selection, Refusal> {
    machine.refused(Obstacle::NotSetUp {
        store: machine.store(),
        problems,
    })
}

/// `runsc` is piece 0 and the image piece 1.
fn piece(at: usize, fault: Fault) -> StoreProblem {
    StoreProblem::Piece {
        piece: LINUX_PIECES[at],
        fault,
    }
}

fn no_policy(machine: &Machine) -> StoreProblem {
    StoreProblem::NoPolicy {
        looked: vec![machine.home_policy()],
    }
}

fn without_helper(machine: &Machine, network: NetworkMode) -> Result<Selection, Refusal> {
    Ok(Selection {
        network,
        helper: None,
        ..machine.default_selection()
    })
}

/// A binary of one's own runs as it is, under a pasta that makes a user namespace all the same.
fn own_binary(machine: &Machine) -> Selection {
    Selection {
        runsc: "my-runsc".into(),
        rootless: false,
        ..machine.default_selection()
    }
}
