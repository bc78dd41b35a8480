//! The text of every refusal, whole.

use crate::selection::linux::PARAMETERS;
use crate::selection::store::{Fault, Piece, StoreProblem};
use crate::selection::{Choice, ChosenBy, NamespaceNeed, Native, Obstacle, Refusal};

use Native::{Linux, MacOs};

mod before;
mod network;
mod place;
mod store;
mod user;

fn default(platform: Native, obstacle: Obstacle, takes_flags: bool) -> Refusal {
    Refusal::Default {
        platform,
        obstacle,
        takes_flags,
    }
}

fn named(obstacle: Obstacle, takes_flags: bool) -> Refusal {
    Refusal::Named {
        obstacle,
        takes_flags,
    }
}

fn forbidden(need: NamespaceNeed, at: usize) -> Obstacle {
    Obstacle::NamespaceForbidden {
        uid: 1000,
        need,
        parameter: PARAMETERS[at],
    }
}

fn lacks(piece: Piece, fault: Fault) -> Obstacle {
    Obstacle::NotSetUp {
        store: "/store".into(),
        problems: vec![StoreProblem::Piece { piece, fault }],
    }
}

fn nothing_in(pieces: &[Piece]) -> Obstacle {
    let missing = |piece: &Piece| StoreProblem::Piece {
        piece: *piece,
        fault: Fault::Missing,
    };
    let no_policy = StoreProblem::NoPolicy {
        looked: vec!["/home/p.json".into(), "/store/p.json".into()],
    };
    Obstacle::NotSetUp {
        store: "/store".into(),
        problems: pieces.iter().map(missing).chain([no_policy]).collect(),
    }
}

/// Checks texts, and that each is its problem and its hint.
fn check(cases: impl IntoIterator<Item = (Refusal, &'static str)>) {
    for (refusal, text) in cases {
        assert_eq!(refusal.code(), "invalid-request");
        assert_eq!(refusal.to_string(), text);
        let parts = format!("{}; {}", refusal.problem(), refusal.hint());
        assert!(text.ends_with(&parts), "{text}");
    }
}

#[test]
fn how_a_runtime_was_selected() {
    let store = |platform, store: &str| ChosenBy::Default {
        platform,
        native_store: store.into(),
    };
    let cases = [
        (ChosenBy::Flag, "runsc (named by --sandbox-runtime)"),
        (
            ChosenBy::Environment,
            "runsc (named by CF_HARNESS_SANDBOX_RUNTIME)",
        ),
        (
            store(Native::Linux, "/s"),
            "runsc (default on Linux: the native store at /s)",
        ),
        (
            store(Native::MacOs, "/a b"),
            "runsc (default on macOS: the native store at /a b)",
        ),
    ];
    for (by, text) in cases {
        assert_eq!(Choice::new(by).to_string(), text);
    }
}
