use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;
use crate::config::Scratch;
use crate::launch::spawn::{self, Child, Pipes, SpawnRequest};
use crate::plan::CommandLine;
use crate::trust::scratch::owner::start_time_of;
use crate::trust::scratch::{NotAnOwner, OWNER_FILE, STATE, ScratchTree};
use crate::trust::testing::Tree;

/// Longer than anything takes that does not hang.
const NOT_HUNG: Duration = Duration::from_secs(30);
const NOW: Options = Options {
    dry_run: false,
    limit: NOT_HUNG,
};
const DRY: Options = Options {
    dry_run: true,
    limit: NOT_HUNG,
};

/// A parent with nothing in it.
struct Place {
    tree: Tree,
    parent: PathBuf,
}

impl Place {
    fn new() -> Self {
        let tree = Tree::new();
        let parent = tree.dir(PARENT_NAME);
        tree.mode(PARENT_NAME, 0o700);
        Self { tree, parent }
    }

    fn config(&self, name: &str) -> Scratch {
        Scratch {
            dir: self.parent.join(name),
            verified_parent: Some(self.parent.clone()),
        }
    }

    /// A directory with an owner's file that says this.
    fn said(&self, name: &str, text: &[u8]) -> PathBuf {
        let dir = self.tree.dir(&format!("{PARENT_NAME}/{name}"));
        let file = self
            .tree
            .file(&format!("{PARENT_NAME}/{name}/{OWNER_FILE}"), 0o600);
        let mut file = std::fs::File::options().write(true).open(file).unwrap();
        file.write_all(text).unwrap();
        dir
    }

    /// A tree that is as a killed driver leaves it.
    fn tree_of(&self, name: &str, owner: &Owner) -> PathBuf {
        let dir = self.said(name, &serde_json::to_vec(owner).unwrap());
        let file = |path: &str| {
            self.tree
                .file(&format!("{PARENT_NAME}/{name}/{path}"), 0o600)
        };
        file("state/c-1_sandbox:c-1.state");
        file("bundles/c-1/config.json");
        dir
    }

    fn sweep(&self, options: Options) -> Report {
        let user = nix::unistd::geteuid().as_raw();
        sweep(&self.parent, Some(user), options).unwrap()
    }

    /// What became of each, by name.
    fn fates(&self, options: Options) -> BTreeMap<String, Fate> {
        let found = self.sweep(options).leftovers.into_iter();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        found.map(|found| (name(&found.path), found.fate)).collect()
    }

    fn listing(&self) -> Vec<String> {
        self.tree.listing(PARENT_NAME)
    }
}

/// An owner that is no more: its pid is this process's, which was started later.
fn dead() -> Owner {
    let now = Owner::this_process();
    Owner {
        start_time: now.start_time - 1,
        ..now
    }
}

fn left(why: Why) -> Fate {
    Fate::Left(why)
}

#[test]
fn what_a_dead_owner_left_goes_and_what_it_links_to_stays() {
    let place = Place::new();
    let dir = place.tree_of("run-1", &dead());
    let outside = place.tree.file("outside/kept", 0o600);
    let link = format!("{PARENT_NAME}/run-1/bundles/c-1/");
    place.tree.link(&outside, &format!("{link}file"));
    place
        .tree
        .link(outside.parent().unwrap(), &format!("{link}directory"));
    // An overlay's own directory lets nobody in.
    place.tree.dir(&format!("{link}work/work"));
    place.tree.mode(&format!("{link}work/work"), 0o000);
    let before = place.listing();

    let dry = place.sweep(DRY);
    assert_eq!(place.listing(), before);
    let report = place.sweep(NOW);
    let expected = Leftover {
        path: dir,
        owner: Some(dead()),
        stopped: vec![],
        fate: Fate::Removed,
    };
    let expected = [expected];
    assert_eq!(dry.leftovers, expected);
    assert_eq!(report.leftovers, expected);
    assert!(report.is_complete());
    assert_eq!(
        place.tree.listing(""),
        [PARENT_NAME, "outside", "outside/kept"]
    );
    assert_eq!(place.fates(NOW), BTreeMap::new());
}

#[test]
fn a_live_owners_tree_is_not_touched() {
    let place = Place::new();
    let live = ScratchTree::create(&place.config("run-1")).unwrap();
    let before = place.listing();
    for options in [DRY, NOW] {
        let report = place.sweep(options);
        let expected = Leftover {
            path: place.parent.join("run-1"),
            owner: Some(Owner::this_process()),
            stopped: vec![],
            fate: left(Why::InUse),
        };
        assert_eq!(report.leftovers, [expected]);
        assert!(report.is_complete());
        assert_eq!(place.listing(), before);
    }
    // Its owner let go of it with something in it, and lives.
    let kept = place
        .tree
        .file(&format!("{PARENT_NAME}/run-1/state/kept"), 0o600);
    live.remove();
    drop(live);
    assert_eq!(place.fates(NOW)["run-1"], left(Why::OwnerRuns));
    assert!(kept.exists());
}

#[test]
fn what_is_not_known_to_be_a_dead_owners_stays_with_the_reason() {
    let place = Place::new();
    let owner = |edit: fn(&mut Owner)| {
        let mut owner = dead();
        edit(&mut owner);
        serde_json::to_vec(&owner).unwrap()
    };
    place.tree_of("elsewhere", &dead());
    std::fs::rename(place.parent.join("elsewhere"), place.tree.at("elsewhere")).unwrap();
    place
        .tree
        .link("../elsewhere", &format!("{PARENT_NAME}/link"));
    place.tree.file(&format!("{PARENT_NAME}/file"), 0o600);
    place
        .tree
        .file(&format!("{PARENT_NAME}/nobodys/state/x"), 0o600);
    place.tree.file(&format!("{PARENT_NAME}/.new-1/x"), 0o600);
    place.tree.dir(&format!("{PARENT_NAME}/linked"));
    place.tree.link(
        "../../elsewhere/owner",
        &format!("{PARENT_NAME}/linked/{OWNER_FILE}"),
    );
    place
        .tree
        .dir(&format!("{PARENT_NAME}/directory/{OWNER_FILE}"));
    place.said("empty", b"");
    place.said("malformed", b"what");
    place.said("newer", br#"{"schema":"runsc-driver/owner/v2"}"#);
    place.said("long", &[b' '; 5000]);
    place.said(
        "namespace",
        &owner(|owner| owner.pid_namespace = "pid:[1]".into()),
    );
    place.said("no-namespace", &owner(|owner| owner.pid_namespace.clear()));
    place.said("no-boot", &owner(|owner| owner.boot_id.clear()));
    nix::unistd::mkfifo(
        &{
            place.tree.dir(&format!("{PARENT_NAME}/pipe"));
            place.parent.join("pipe").join(OWNER_FILE)
        },
        nix::sys::stat::Mode::S_IRUSR,
    )
    .unwrap();
    let before = place.tree.listing("");

    let not = |wrong| left(Why::NotAnOwner(wrong));
    let expected: BTreeMap<_, _> = [
        (".new-1", left(Why::NoOwner)),
        ("directory", not(NotAnOwner::NotAFile)),
        ("empty", not(NotAnOwner::Empty)),
        ("file", left(Why::NotADirectory(Found::NotDirectory))),
        ("link", left(Why::NotADirectory(Found::Link))),
        ("linked", not(NotAnOwner::NotAFile)),
        ("long", not(NotAnOwner::NotAFile)),
        ("malformed", not(NotAnOwner::Malformed)),
        ("namespace", left(Why::OtherNamespace)),
        ("no-namespace", left(Why::OtherNamespace)),
        ("newer", not(NotAnOwner::UnknownSchema)),
        ("no-boot", left(Why::OtherMachine)),
        ("nobodys", left(Why::NoOwner)),
        ("pipe", not(NotAnOwner::NotAFile)),
    ]
    .map(|(name, fate)| (name.to_owned(), fate))
    .into();
    for options in [DRY, NOW] {
        assert_eq!(place.fates(options), expected);
        assert_eq!(place.tree.listing(""), before);
    }
}

#[test]
fn beginnings_and_ends_of_trees_go() {
    let place = Place::new();
    for empty in [".owner-probe-01234567", ".new-0", "run-0"] {
        place.tree.dir(&format!("{PARENT_NAME}/{empty}"));
    }
    place.said(".new-1", b"");
    place.said(".new-2", b"{\"schema\":\"runsc-dri");
    place.said(
        ".new-3",
        &serde_json::to_vec(&Owner::this_process()).unwrap(),
    );
    assert_eq!(place.fates(DRY).len(), 6);
    assert_eq!(place.listing().len(), 9);
    let fates = place.fates(NOW);
    assert!(
        fates.values().all(|fate| *fate == Fate::Removed),
        "{fates:?}"
    );
    assert_eq!(place.listing(), Vec::<String>::new());
}

#[test]
fn an_earlier_boots_tree_goes_without_a_look_at_pids() {
    let place = Place::new();
    // The same pid and start, which say nothing after a boot.
    let owner = Owner {
        boot_id: "another".into(),
        ..Owner::this_process()
    };
    place.tree_of("run-1", &owner);
    assert_eq!(place.fates(NOW)["run-1"], Fate::Removed);
}

#[test]
fn what_is_another_users_or_mounted_stays() {
    let place = Place::new();
    let dir = place.tree_of("run-1", &dead());
    let before = place.listing();
    let found = std::fs::symlink_metadata(&place.parent).unwrap();
    let sweep = |ours, device| Sweep {
        dry_run: false,
        due: Instant::now() + NOT_HUNG,
        ours,
        device,
        now: Owner::this_process(),
    };
    let other = sweep(found.uid() + 1, found.dev()).entry(&dir).unwrap();
    let owner = found.uid();
    assert_eq!(other.fate, left(Why::OtherUser { owner }));
    let mounted = sweep(found.uid(), found.dev() + 1).entry(&dir).unwrap();
    assert_eq!(mounted.fate, left(Why::Mounted { at: dir.clone() }));
    // Met on the way down, too.
    let deep = remove::tree(&dir, found.dev() + 1, Instant::now() + NOT_HUNG);
    assert_eq!(deep, Err(Why::Mounted { at: dir.clone() }));
    assert_eq!(place.listing(), before);
    assert_eq!(
        sweep(found.uid(), found.dev()).entry(&dir).unwrap().fate,
        Fate::Removed
    );
}

#[test]
fn a_sweep_without_time_touches_nothing_and_says_so() {
    let place = Place::new();
    let dir = place.tree_of("run-1", &dead());
    let before = place.listing();
    let report = place.sweep(Options {
        limit: Duration::ZERO,
        ..NOW
    });
    assert_eq!(report.leftovers[0].fate, left(Why::OutOfTime));
    assert!(!report.is_complete());
    // Nor does a removal that began go on.
    let device = std::fs::symlink_metadata(&dir).unwrap().dev();
    assert_eq!(
        remove::tree(&dir, device, Instant::now()),
        Err(Why::OutOfTime)
    );
    assert_eq!(place.listing(), before);
}

#[test]
fn a_parent_that_is_not_ours_alone_is_not_looked_into() {
    let place = Place::new();
    place.tree_of("run-1", &dead());
    place.tree.link(PARENT_NAME, "link");
    let before = place.tree.listing("");
    let user = Some(nix::unistd::geteuid().as_raw());
    let code = |parent: &str, options| {
        let swept = sweep(&place.tree.at(parent), user, options);
        swept
            .map(|report| report.leftovers.len())
            .map_err(|err| err.code())
    };
    assert_eq!(code("link", NOW), Err("scratch-not-private"));
    assert_eq!(code("absent", NOW), Ok(0));
    place.tree.mode(PARENT_NAME, 0o755);
    assert_eq!(code(PARENT_NAME, NOW), Err("scratch-not-private"));
    place.tree.mode(PARENT_NAME, 0o700);
    let foreign = sweep(&place.parent, user.map(|user| user + 1), DRY);
    assert_eq!(foreign.unwrap_err().code(), "scratch-not-private");
    assert_eq!(place.tree.listing(""), before);
}

/// A process whose command line is that of a sandbox, for as long as its input is held.
fn sandbox(words: [String; 2]) -> (Child, Pipes) {
    let mut args = vec!["-c".into(), "read x".into()];
    args.extend(words.map(Into::into));
    let command = CommandLine {
        program: "/bin/sh".into(),
        args,
    };
    let request = SpawnRequest {
        stdin: true,
        ..SpawnRequest::plain(command, false)
    };
    let (sender, started) = channel();
    spawn::submit(
        request,
        Box::new(move |result| sender.send(result).unwrap()),
    );
    started.recv().unwrap().unwrap()
}

#[test]
fn a_dead_owners_processes_are_stopped_and_nobody_elses() {
    let place = Place::new();
    let dir = place.tree_of("run-1", &dead());
    let other = place.tree_of("run-10", &dead());
    let root = |dir: &Path| format!("--root={}", dir.join(STATE).display());
    let (mut its, _held) = sandbox([root(&dir), "boot".into()]);
    let (mut others, _open) = sandbox([root(&dir.join("x")), "boot".into()]);
    let (mut looks, _up) = sandbox([root(&dir), "list".into()]);
    std::fs::rename(&other, place.tree.at("run-10")).unwrap();

    let dry = place.sweep(DRY).leftovers;
    assert_eq!(dry[0].stopped, [its.pid()]);
    assert_eq!(its.status().unwrap(), None);

    let report = place.sweep(NOW).leftovers;
    assert_eq!(report[0].stopped, [its.pid()]);
    assert_eq!(report[0].fate, Fate::Removed);
    assert_eq!(its.wait(NOT_HUNG).unwrap().unwrap().signal(), Some(9));
    for process in [&mut others, &mut looks] {
        assert_eq!(process.status().unwrap(), None);
    }
}

/// Its pid may have been a process of the tree's; it is another's now.
#[test]
fn a_process_that_is_older_than_the_owner_is_not_signalled() {
    let place = Place::new();
    let dir = place.parent.join("run-1");
    let root = format!("--root={}", dir.join(STATE).display());
    let (mut older, _held) = sandbox([root, "boot".into()]);
    let owner = Owner {
        start_time: start_time_of(older.pid()).unwrap() + 1,
        ..dead()
    };
    place.tree_of("run-1", &owner);
    let report = place.sweep(NOW).leftovers;
    assert_eq!(report[0].stopped, Vec::<u32>::new());
    assert_eq!(older.status().unwrap(), None);
}

/// Trees come and go, and dead ones are taken away, all at once: none is lost and none refused.
#[test]
fn sweeps_meet_neither_each_other_nor_those_that_start() {
    const DEAD: usize = 40;
    const ROUNDS: usize = 50;
    let place = Place::new();
    for number in 0..DEAD {
        place.tree_of(&format!("dead-{number}"), &dead());
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sweepers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut removed = 0;
                    while !over.load(Ordering::Relaxed) {
                        let found = place.sweep(NOW).leftovers;
                        let trees = found.iter().filter(|found| found.owner == Some(dead()));
                        removed += trees.filter(|found| found.fate == Fate::Removed).count();
                    }
                    removed
                })
            })
            .collect();
        let starters: Vec<_> = (0..3)
            .map(|starter| {
                let place = &place;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let config = place.config(&format!("live-{starter}-{round}"));
                        let tree = ScratchTree::create(&config).unwrap();
                        for dir in [tree.state_dir(), tree.bundles_dir()] {
                            assert!(dir.is_dir(), "{dir:?} was taken away");
                        }
                        tree.remove();
                        assert!(!tree.dir().exists());
                    }
                })
            })
            .collect();
        let started: Vec<_> = starters.into_iter().map(|starter| starter.join()).collect();
        over.store(true, Ordering::Relaxed);
        for started in started {
            started.unwrap();
        }
        let removed: usize = sweepers
            .into_iter()
            .map(|sweeper| sweeper.join().unwrap())
            .sum();
        assert_eq!(removed, DEAD, "each is removed once");
    });
    assert_eq!(place.listing(), Vec::<String>::new());
}
