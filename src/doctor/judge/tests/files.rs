//! The store, the policy, the image and the scratch parent.

use std::path::PathBuf;

use super::{judged, says};
use crate::doctor::gather::files::{
    Image, MOUNT_POINTS, PieceFound, Point, PolicyFile, PolicyText, ScratchFound, ScratchParent,
    Store,
};
use crate::doctor::judge::{resources, store};
use crate::doctor::{Name, State};
use crate::selection::Native;
use crate::selection::store::{Fault, LINUX_PIECES, MACOS_PIECES};
use crate::settings::BINARY;
use crate::trust::scratch::Found;

fn linux(faults: [Option<Fault>; 2]) -> Store {
    let pieces = LINUX_PIECES.into_iter().zip(faults);
    let pieces = pieces.map(|(piece, fault)| PieceFound {
        piece,
        instead: None,
        fault,
    });
    Store {
        native: Native::Linux,
        at: PathBuf::from("/home/store"),
        pieces: pieces.collect(),
    }
}

fn policy(named: bool, found: Option<PolicyText>) -> PolicyFile {
    let at = PathBuf::from("/home/store/cfc-policy.json");
    PolicyFile {
        named,
        looked: vec![at.clone()],
        found: found.map(|text| (at, text)),
    }
}

#[test]
fn a_whole_store_passes_piece_by_piece() {
    let found = policy(false, Some(PolicyText::Object));
    let said = judged(|to| store::store(to, Some(&linux([None, None])), &found, true));
    says(&said, Name::Store, State::Pass, "/home/store", &[]);
    says(&said, Name::StoreRunsc, State::Pass, "bin/runsc", &[]);
    says(
        &said,
        Name::StoreImage,
        State::Pass,
        "images/kitchensink",
        &[],
    );
    let at = "/home/store/cfc-policy.json";
    says(&said, Name::StorePolicy, State::Pass, at, &[]);
    assert!(said.ok);
}

#[test]
fn everything_that_a_store_lacks_is_one_problem() {
    let missing = linux([Some(Fault::Missing), Some(Fault::NotThat)]);
    let said = judged(|to| store::store(to, Some(&missing), &policy(false, None), true));
    says(
        &said,
        Name::StoreRunsc,
        State::Fail,
        "bin/runsc is missing",
        &[],
    );
    let value = "images/kitchensink is not a directory";
    says(&said, Name::StoreImage, State::Fail, value, &[]);
    says(&said, Name::StorePolicy, State::Fail, "missing", &[]);
    let words = [
        "the store at /home/store is not set up: bin/runsc is missing; images/kitchensink is not \
         a directory; a CFC policy is missing, looked for at /home/store/cfc-policy.json",
        "set it up there with gVisor's Linux installer",
        "CF_HARNESS_RUNSC_BINARY",
    ];
    says(&said, Name::Store, State::Fail, "/home/store", &words);
    assert_eq!(said.problems.len(), 1);
}

#[test]
fn what_is_named_or_not_asked_for_is_not_missed() {
    let mut named = linux([Some(Fault::Missing), None]);
    named.pieces[0].instead = Some(BINARY);
    let elsewhere = policy(true, Some(PolicyText::Object));
    let said = judged(|to| store::store(to, Some(&named), &elsewhere, true));
    let value = "not needed: a runsc binary is named";
    says(&said, Name::StoreRunsc, State::Info, value, &[]);
    let value = "not needed: another is named";
    says(&said, Name::StorePolicy, State::Info, value, &[]);
    says(&said, Name::Store, State::Pass, "/home/store", &[]);

    let none = policy(false, None);
    let said = judged(|to| store::store(to, Some(&linux([None, None])), &none, false));
    says(&said, Name::StorePolicy, State::Info, "none", &[]);
    says(&said, Name::Store, State::Pass, "/home/store", &[]);
    let said = judged(|to| store::store(to, None, &none, true));
    says(
        &said,
        Name::Store,
        State::Info,
        "not known: there is no place for one",
        &[],
    );
}

#[test]
fn a_macos_store_has_its_own_pieces() {
    let link = Fault::Link {
        link: PathBuf::from("/s/bin"),
        target: PathBuf::from("/elsewhere"),
    };
    let pieces = MACOS_PIECES.map(|piece| PieceFound {
        piece,
        instead: None,
        fault: (piece.path == "bin/cfc-vm").then(|| link.clone()),
    });
    let mac = Store {
        native: Native::MacOs,
        at: PathBuf::from("/s"),
        pieces: pieces.to_vec(),
    };
    let found = policy(false, Some(PolicyText::Object));
    let said = judged(|to| store::store(to, Some(&mac), &found, true));
    let value = "bin/cfc-vm is reached through a symbolic link, /s/bin to /elsewhere";
    says(&said, Name::StoreVmDaemon, State::Fail, value, &[]);
    says(&said, Name::StoreVmConfig, State::Pass, "config.json", &[]);
    let disk = "ext4/kitchensink.ext4";
    says(&said, Name::StoreVmDisk, State::Pass, disk, &[]);
    says(
        &said,
        Name::Store,
        State::Fail,
        "/s",
        &["macOS installer", "/elsewhere"],
    );
}

#[test]
fn policies() {
    let at = "/home/store/cfc-policy.json";
    let cases: [(PolicyFile, bool, State, &str, &[&str]); 8] = [
        (
            policy(false, Some(PolicyText::Object)),
            true,
            State::Pass,
            at,
            &[],
        ),
        (
            policy(false, Some(PolicyText::NoObject)),
            true,
            State::Fail,
            "is JSON and no object",
            &[at, "is JSON and no object", "--sandbox-cfc-policy"],
        ),
        (
            policy(true, Some(PolicyText::NoJson("line 1".into()))),
            true,
            State::Fail,
            "is no JSON (line 1)",
            &[at, "mend it"],
        ),
        (
            policy(false, Some(PolicyText::Unreadable("denied".into()))),
            true,
            State::Fail,
            "could not be read (denied)",
            &[at],
        ),
        (
            policy(true, None),
            true,
            State::Fail,
            "missing",
            &["does not exist"],
        ),
        (
            policy(true, None),
            false,
            State::Fail,
            "missing",
            &["does not exist"],
        ),
        // The store's problem tells it.
        (policy(false, None), true, State::Fail, "missing", &[]),
        (policy(false, None), false, State::Info, "none", &[]),
    ];
    for (found, needed, state, value, words) in cases {
        let said = judged(|to| store::policy(to, &found, needed));
        says(&said, Name::Policy, state, value, words);
    }
}

fn image(differs: &[(&str, Point)]) -> Image {
    let point = |point: &crate::doctor::gather::files::MountPoint| {
        let differs = differs.iter().find(|(at, _)| *at == point.at);
        let there = match point.directory {
            true => Point::Directory,
            false => Point::NoDirectory,
        };
        (*point, differs.map_or(there, |(_, found)| found.clone()))
    };
    Image {
        at: PathBuf::from("/img"),
        owner: 7,
        points: MOUNT_POINTS.iter().map(point).collect(),
    }
}

#[test]
fn images() {
    let owners: [(Option<u32>, State, &[&str]); 3] = [
        (Some(7), State::Pass, &[]),
        (None, State::Pass, &[]),
        (
            Some(0),
            State::Fail,
            &["/img belongs to uid 7 and this is uid 0", "of your own"],
        ),
    ];
    for (uid, state, words) in owners {
        let said = judged(|to| store::owner(to, uid, &image(&[])));
        says(&said, Name::ImageOwner, state, "uid 7", words);
    }
    let all = MOUNT_POINTS.map(|point| point.at).join(", ");
    let cases: [(&[(&str, Point)], State, &str, &[&str]); 4] = [
        (&[], State::Pass, &all, &[]),
        (
            &[
                ("/workspace", Point::Missing),
                ("/etc/hosts", Point::Missing),
            ],
            State::Warn,
            "without /workspace, /etc/hosts",
            &[
                "lacks /workspace, /etc/hosts",
                "overlay",
                "an empty file for /etc/hosts",
            ],
        ),
        (
            &[
                ("/etc/hosts", Point::Directory),
                ("/fabric", Point::Missing),
            ],
            State::Fail,
            "not as they have to be: /etc/hosts",
            &["something else at /etc/hosts"],
        ),
        (
            &[
                ("/tmp", Point::NoDirectory),
                ("/dev", Point::Unknown("x".into())),
            ],
            State::Fail,
            "not as they have to be: /dev, /tmp",
            &["something else at /dev, /tmp"],
        ),
    ];
    for (differs, state, value, words) in cases {
        let said = judged(|to| store::mount_points(to, &image(differs)));
        says(&said, Name::ImageMountPoints, state, value, words);
    }
}

#[test]
fn scratch_parents() {
    let wrong = ScratchFound::Wrong;
    let fix = "set TMPDIR to a directory of your own";
    let (owner, mode) = (7, 0o777);
    let cases: [(ScratchFound, State, &str, &[&str]); 6] = [
        (ScratchFound::Private, State::Pass, "/t", &[]),
        (ScratchFound::Absent, State::Pass, "/t, to be made", &[]),
        (
            wrong(Found::Link),
            State::Fail,
            "/t",
            &["/t is a symbolic link", fix],
        ),
        (
            wrong(Found::NotDirectory),
            State::Fail,
            "/t",
            &["is not a directory", fix],
        ),
        (
            wrong(Found::Open { owner, mode }),
            State::Fail,
            "/t",
            &["mode 0777, which lets others in", fix],
        ),
        (
            ScratchFound::Unknown("denied".into()),
            State::Fail,
            "/t",
            &["cannot be examined"],
        ),
    ];
    for (found, state, value, words) in cases {
        let at = PathBuf::from("/t");
        let said = judged(|to| resources::scratch(to, &ScratchParent { at, found }));
        says(&said, Name::Scratch, state, value, words);
    }
}
