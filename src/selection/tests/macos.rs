//! macOS's default, on made-up stores.

use std::path::PathBuf;

use crate::selection::store::{Fault, MACOS_PIECES, StoreProblem};
use crate::selection::tests::support::{Case, Machine, check};
use crate::selection::{Choice, ChosenBy, Native, Obstacle, Refusal, Selection};

mod machine;
mod pieces;
mod place;
mod policy;

const SHIM: usize = 0;
const DAEMON: usize = 1;
const CONFIG: usize = 2;
const IMAGE: usize = 3;
const BLOCK_IMAGE: usize = 4;

fn piece(at: usize, fault: Fault) -> StoreProblem {
    StoreProblem::Piece {
        piece: MACOS_PIECES[at],
        fault,
    }
}

fn not_set_up(machine: &Machine, problems: Vec<StoreProblem>) -> Result<Selection, Refusal> {
    machine.refused(Obstacle::NotSetUp {
        store: machine.store(),
        problems,
    })
}

fn lacks(machine: &Machine, at: usize, fault: Fault) -> Result<Selection, Refusal> {
    not_set_up(machine, vec![piece(at, fault)])
}

fn no_policy(machine: &Machine) -> StoreProblem {
    StoreProblem::NoPolicy {
        looked: vec![machine.home_policy(), machine.store().join("policy.json")],
    }
}

fn link(machine: &Machine, at: &str, target: &str) -> Fault {
    Fault::Link {
        link: machine.store().join(at),
        target: machine.root().join(target),
    }
}

/// What the store at another place gives.
fn at(store: PathBuf, machine: &Machine) -> Selection {
    Selection {
        choice: Choice::new(ChosenBy::Default {
            platform: Native::MacOs,
            native_store: store.clone(),
        }),
        runsc: store.join("bin/runsc").into(),
        rootfs: store.join("images/kitchensink"),
        policy: Some(store.join("policy.json")),
        native_store: Some(store),
        ..machine.default_selection()
    }
}

fn run(cases: &[Case]) {
    for case in cases {
        check(Machine::macos(), *case);
    }
}
