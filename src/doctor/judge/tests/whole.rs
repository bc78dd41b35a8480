//! Whole diagnoses of made-up machines, with nothing started. Each change changes exactly the
//! checks that it has to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::doctor::{Diagnosis, Name, Options, State, diagnose};
use crate::host::{Host, Platform};
use crate::selection::store::{LINUX_PIECES, MACOS_PIECES, Piece, Want};
use crate::settings::VM_HOME;
use crate::settings::tests::bare_host;
use crate::trust::walk;

struct Made {
    _dir: tempfile::TempDir,
    root: PathBuf,
    store: PathBuf,
    host: Host,
}

fn put(path: &Path, mode: u32, text: &str) {
    use std::io::Write;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

fn made(platform: Platform, store: &str, pieces: &[Piece], policy: &str) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let root = walk("the test's directory", dir.path()).unwrap();
    let root = root.as_path().to_owned();
    let store = root.join(store);
    for piece in pieces {
        match piece.want {
            Want::Directory => fs::create_dir_all(store.join(piece.path)).unwrap(),
            Want::Executable => put(&store.join(piece.path), 0o755, ""),
            Want::File => put(&store.join(piece.path), 0o644, ""),
        }
    }
    put(&store.join(policy), 0o644, "{}");
    let temp_dir = root.join("tmp");
    fs::DirBuilder::new().mode(0o700).create(&temp_dir).unwrap();
    Made {
        host: Host {
            platform,
            home: Some(root.clone()),
            cwd: Some(root.clone()),
            temp_dir,
            uid: Some(nix::unistd::geteuid().as_raw()),
            ..bare_host()
        },
        _dir: dir,
        root,
        store,
    }
}

fn mac() -> Made {
    let mut made = made(Platform::MacOs, "vm", &MACOS_PIECES, "policy.json");
    made.host.arch = "aarch64".to_owned();
    let store = made.store.clone().into_os_string();
    made.host.variables.insert(VM_HOME.to_owned(), store);
    made
}

fn linux() -> Made {
    let store = crate::selection::store::LINUX_STORE;
    let made = made(Platform::Linux, store, &LINUX_PIECES, "cfc-policy.json");
    let bin = made.root.join("bin");
    for program in ["pasta", "setpriv", "unshare"] {
        put(&bin.join(program), 0o755, "");
    }
    Made {
        host: Host {
            path: Some(bin.into()),
            ..made.host
        },
        ..made
    }
}

fn look(made: &Made) -> Diagnosis {
    let options = Options {
        no_probe: true,
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(diagnose(&made.host, &options))
}

/// The checks whose states differ, with the state that each came to.
fn changes(before: &Diagnosis, after: &Diagnosis) -> BTreeMap<Name, State> {
    let states = |diagnosis: &Diagnosis| -> BTreeMap<Name, State> {
        let checks = diagnosis.checks.iter();
        checks.map(|check| (check.name, check.state)).collect()
    };
    let before = states(before);
    let mut after = states(after);
    assert!(before.keys().eq(after.keys()), "another set of checks");
    after.retain(|name, state| before[name] != *state);
    after
}

#[test]
fn a_link_in_a_macos_store_changes_its_piece_and_what_is_made_of_it() {
    let made = mac();
    let before = look(&made);
    let failed: Vec<_> = before
        .checks
        .iter()
        .filter(|check| check.state == State::Fail)
        .map(|check| check.name)
        .collect();
    assert_eq!(failed, [], "{before:#?}");

    let image = made.store.join("images/kitchensink");
    fs::rename(&image, made.root.join("elsewhere")).unwrap();
    symlink(made.root.join("elsewhere"), &image).unwrap();
    let after = look(&made);
    let expected = [
        (Name::Store, State::Fail),
        (Name::StoreImage, State::Fail),
        (Name::Selection, State::Fail),
        (Name::Network, State::Info),
        (Name::Run, State::Fail),
    ];
    assert_eq!(changes(&before, &after), BTreeMap::from(expected));
    let told: Vec<_> = after.problems.iter().map(|problem| problem.check).collect();
    assert_eq!(told, [Name::Store]);
    let target = made.root.join("elsewhere");
    assert!(
        after.problems[0]
            .headline
            .contains(&*target.to_string_lossy())
    );
}

#[test]
fn a_store_moved_away_is_one_problem_with_every_piece() {
    let made = linux();
    let before = look(&made);
    fs::rename(&made.store, made.root.join("away")).unwrap();
    let after = look(&made);
    let expected = [
        (Name::Runsc, State::Fail),
        (Name::Store, State::Fail),
        (Name::StoreRunsc, State::Fail),
        (Name::StoreImage, State::Fail),
        (Name::StorePolicy, State::Fail),
        (Name::Policy, State::Fail),
        (Name::ImageOwner, State::Info),
        (Name::ImageMountPoints, State::Info),
        (Name::Selection, State::Fail),
        (Name::Run, State::Fail),
    ];
    let mut expected = BTreeMap::from(expected);
    // The made-up image is empty.
    expected.insert(Name::ImageMountPoints, State::Info);
    assert_eq!(changes(&before, &after), expected);
    let told: Vec<_> = after.problems.iter().map(|problem| problem.check).collect();
    let of_store: Vec<_> = told.iter().filter(|name| **name == Name::Store).collect();
    assert_eq!(of_store.len(), 1, "{after:#?}");
    assert!(
        !told.contains(&Name::Run) && !told.contains(&Name::Selection),
        "{told:?}"
    );
}

#[test]
fn no_pasta_is_told_by_pasta() {
    let made = linux();
    let before = look(&made);
    fs::remove_file(made.root.join("bin/pasta")).unwrap();
    let after = look(&made);
    let expected = [(Name::Pasta, State::Fail), (Name::Selection, State::Fail)];
    assert_eq!(changes(&before, &after), BTreeMap::from(expected));
    let pasta = after
        .problems
        .iter()
        .find(|problem| problem.check == Name::Pasta);
    let pasta = pasta.unwrap();
    assert!(
        pasta.headline.contains("no entry of PATH holds pasta"),
        "{pasta:?}"
    );
    assert!(
        pasta.fix.as_ref().unwrap().contains("install passt"),
        "{pasta:?}"
    );
}

#[test]
fn nothing_is_written_where_nothing_is_to_be_probed() {
    let made = linux();
    look(&made);
    assert_eq!(fs::read_dir(&made.host.temp_dir).unwrap().count(), 0);
}
