use std::os::unix::fs::PermissionsExt;

use super::parent::{look_before, verify_parent_by};
use super::*;
use crate::trust::testing::Tree;

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o7777
}

#[test]
fn a_fresh_parent_is_made_private_and_accepted_again() {
    let tree = Tree::new();
    let parent = tree.at("not/yet/cf-harness-runsc");
    for _ in 0..2 {
        verify_parent(&parent).unwrap();
        assert_eq!(mode(&parent), 0o700);
        assert_eq!(
            tree.listing(""),
            ["not", "not/yet", "not/yet/cf-harness-runsc"]
        );
    }
}

#[test]
fn a_parent_that_others_can_reach_into_is_refused() {
    let tree = Tree::new();
    let uid = nix::unistd::geteuid();
    tree.dir("private");
    tree.mode("private", 0o700);
    tree.link("private", "link");
    tree.link("nowhere", "dangling");
    tree.file("file", 0o600);
    for name in ["0755", "0710", "0701", "1777"] {
        tree.dir(name);
        tree.mode(name, u32::from_str_radix(name, 8).unwrap());
    }
    let open =
        |mode: &str| format!("belongs to uid {uid} and has mode {mode}, which lets others in");
    let cases = [
        ("link", "is a symbolic link".to_owned()),
        ("dangling", "is a symbolic link".to_owned()),
        ("file", "is not a directory".to_owned()),
        ("0755", open("0755")),
        ("0710", open("0710")),
        ("0701", open("0701")),
        ("1777", open("1777")),
    ];
    let before = tree.listing("");
    for (name, found) in cases {
        let parent = tree.at(name);
        let err = verify_parent(&parent).unwrap_err();
        let sentence = format!(
            "the scratch parent {} {found}: remove it, or set TMPDIR to a directory of your own",
            parent.display()
        );
        assert_eq!(
            (err.code(), err.to_string()),
            ("scratch-not-private", sentence)
        );
    }
    assert_eq!(tree.listing(""), before);
}

#[test]
fn a_parent_of_another_user_is_refused_and_the_probe_is_taken_away() {
    let tree = Tree::new();
    let parent = tree.at("parent");
    let foreign = verify_parent_by(&parent, |path| Ok(if path == parent { 7 } else { 8 }));
    let ours = verify_parent_by(&parent, |_| Ok(7));
    let untold = verify_parent_by(&parent, |_| Err(io::Error::other("no owner")));
    assert!(ours.is_ok());
    let told = |result: Result<(), ScratchError>| {
        let err = result.unwrap_err();
        (err.code(), err.to_string())
    };
    let sentence = |found| {
        format!(
            "the scratch parent {} {found}: remove it, or set TMPDIR to a directory of your own",
            parent.display()
        )
    };
    assert_eq!(
        told(foreign),
        (
            "scratch-not-private",
            sentence(
                "belongs to uid 7 (mode 0700), and what this process makes in it belongs to uid 8"
            )
        )
    );
    assert_eq!(
        told(untold),
        (
            "scratch-not-verified",
            sentence("cannot be examined: no owner")
        )
    );
    assert_eq!(tree.listing(""), ["parent"]);
}

#[test]
fn a_parent_that_cannot_be_made_is_refused() {
    let tree = Tree::new();
    tree.file("file", 0o600);
    let parent = tree.at("file/parent");
    let err = verify_parent(&parent).unwrap_err();
    assert_eq!(err.code(), "scratch-not-verified");
    let sentence = err.to_string();
    let start = format!("the scratch parent {} cannot be made: ", parent.display());
    assert!(sentence.starts_with(&start), "{sentence}");
    assert!(
        sentence.ends_with("set TMPDIR to a directory of your own"),
        "{sentence}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_parent_that_cannot_be_written_is_refused() {
    use crate::trust::testing::bound_by_modes;
    let tree = Tree::new();
    tree.mode("", 0o755);
    tree.dir("parent");
    tree.mode("parent", 0o500);
    let err = bound_by_modes(|| verify_parent(&tree.at("parent"))).unwrap_err();
    let sentence = format!(
        "the scratch parent {} cannot be written to: Permission denied (os error 13): remove it, \
         or set TMPDIR to a directory of your own",
        tree.at("parent").display()
    );
    assert_eq!(
        (err.code(), err.to_string()),
        ("scratch-not-verified", sentence)
    );
    assert_eq!(tree.listing(""), ["parent"]);
}

/// What is refused before anything is started is what the verification refuses, in its words.
#[test]
fn a_look_refuses_what_the_verification_would_and_makes_nothing() {
    let tree = Tree::new();
    let user = Some(nix::unistd::geteuid().as_raw());
    tree.dir("private");
    tree.mode("private", 0o700);
    tree.dir("open");
    tree.mode("open", 0o755);
    tree.link("private", "link");
    tree.file("file", 0o600);
    let before = tree.listing("");
    for good in ["private", "absent", "not/yet/there"] {
        look_before(&tree.at(good), user).unwrap();
    }
    for bad in ["open", "link", "file"] {
        let refused = look_before(&tree.at(bad), user).unwrap_err();
        let verified = verify_parent(&tree.at(bad)).unwrap_err();
        assert_eq!(
            (refused.code(), refused.to_string()),
            (verified.code(), verified.to_string())
        );
    }
    // Another user's by the process's word is this user's where the filesystem says so.
    look_before(&tree.at("private"), user.map(|user| user + 1)).unwrap();
    assert_eq!(tree.listing(""), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_look_refuses_what_cannot_be_written_or_made() {
    use crate::trust::testing::bound_by_modes;
    let tree = Tree::new();
    tree.mode("", 0o755);
    tree.dir("parent");
    tree.mode("parent", 0o500);
    tree.dir("tmp");
    tree.mode("tmp", 0o555);
    for (parent, step) in [("parent", "written to"), ("tmp/cf-harness-runsc", "made")] {
        // Where the test is root's, the directory is another user's to the thread.
        let user = nix::unistd::geteuid().as_raw();
        let err = bound_by_modes(|| look_before(&tree.at(parent), Some(user))).unwrap_err();
        let sentence = format!(
            "the scratch parent {} cannot be {step}: ",
            tree.at(parent).display()
        );
        assert_eq!(err.code(), "scratch-not-verified");
        assert!(err.to_string().starts_with(&sentence), "{err}");
    }
    assert_eq!(tree.listing(""), ["parent", "tmp"]);
}

#[test]
fn the_default_tree_is_private_and_goes_when_it_is_empty() {
    let tree = Tree::new();
    let parent = tree.at("tmp/cf-harness-runsc");
    let config = Scratch {
        dir: parent.join("run-1"),
        verified_parent: Some(parent.clone()),
    };
    let made = ScratchTree::create(&config).unwrap();
    assert_eq!(made.dir(), parent.join("run-1"));
    assert_eq!(made.state_dir(), parent.join("run-1/state"));
    assert_eq!(made.bundles_dir(), parent.join("run-1/bundles"));
    for dir in [made.dir(), &made.state_dir(), &made.bundles_dir()] {
        assert_eq!(mode(dir), 0o700);
    }
    let err = ScratchTree::create(&config).unwrap_err();
    assert_eq!(err.code(), "scratch-not-made", "{err}");
    assert!(
        made.state_dir().is_dir(),
        "a tree of another runtime is left alone"
    );

    let foreign = tree.file("tmp/cf-harness-runsc/run-1/state/foreign", 0o600);
    made.remove();
    assert_eq!(
        tree.listing("tmp/cf-harness-runsc"),
        [
            "tmp/cf-harness-runsc/run-1",
            "tmp/cf-harness-runsc/run-1/owner",
            "tmp/cf-harness-runsc/run-1/state",
            "tmp/cf-harness-runsc/run-1/state/foreign"
        ]
    );
    std::fs::remove_file(foreign).unwrap();
    made.remove();
    made.remove();
    assert_eq!(tree.listing("tmp"), ["tmp/cf-harness-runsc"]);
}

#[test]
fn nothing_is_made_below_a_parent_that_fails() {
    let tree = Tree::new();
    tree.dir("parent");
    tree.mode("parent", 0o755);
    let config = Scratch {
        dir: tree.at("parent/run-1"),
        verified_parent: Some(tree.at("parent")),
    };
    let err = ScratchTree::create(&config).unwrap_err();
    assert_eq!(err.code(), "scratch-not-private");
    assert_eq!(tree.listing(""), ["parent"]);
}

#[test]
fn of_a_named_directory_only_what_was_made_is_removed() {
    let tree = Tree::new();
    let named = |dir: &str| Scratch {
        dir: tree.at(dir),
        verified_parent: None,
    };

    // Nobody's parent is verified: this one is open to all.
    tree.dir("theirs");
    tree.mode("theirs", 0o777);
    let made = ScratchTree::create(&named("theirs")).unwrap();
    assert_eq!(
        tree.listing(""),
        ["theirs", "theirs/bundles", "theirs/owner", "theirs/state"]
    );
    made.remove();
    assert_eq!(tree.listing(""), ["theirs"]);
    assert_eq!(mode(&tree.at("theirs")), 0o777);

    tree.dir("theirs/state");
    let made = ScratchTree::create(&named("theirs")).unwrap();
    made.remove();
    assert_eq!(tree.listing(""), ["theirs", "theirs/state"]);

    let made = ScratchTree::create(&named("theirs/x/y")).unwrap();
    for dir in [
        "theirs/x",
        "theirs/x/y",
        "theirs/x/y/state",
        "theirs/x/y/bundles",
    ] {
        assert_eq!(mode(&tree.at(dir)), 0o700);
    }
    made.remove();
    assert_eq!(tree.listing(""), ["theirs", "theirs/state"]);
}

#[test]
fn what_is_in_the_way_of_a_named_directory_is_left() {
    let tree = Tree::new();
    tree.file("file", 0o600);
    tree.dir("a");
    tree.dir("elsewhere");
    tree.link("../elsewhere", "a/bundles");
    let cases = [
        ("file", "file", "is not a directory"),
        ("a", "a/bundles", "is a symbolic link"),
    ];
    let before = tree.listing("");
    for (dir, wrong, found) in cases {
        let config = Scratch {
            dir: tree.at(dir),
            verified_parent: None,
        };
        let err = ScratchTree::create(&config).unwrap_err();
        let sentence = format!(
            "the scratch directory {} {found}: name another one",
            tree.at(wrong).display()
        );
        assert_eq!(
            (err.code(), err.to_string()),
            ("scratch-in-the-way", sentence)
        );
        assert_eq!(tree.listing(""), before, "what was made is taken away");
    }
    let config = Scratch {
        dir: tree.at("file/x/y"),
        verified_parent: None,
    };
    let err = ScratchTree::create(&config).unwrap_err();
    assert_eq!(err.code(), "scratch-not-made", "{err}");
}

#[test]
fn names_are_bounded_and_plain() {
    let long = "0123456789".repeat(5);
    let cases = [
        ("run.a_B-9", "run.a_B-9", "run.a_B-9"),
        ("", "", ""),
        ("a/b c\n../é", "a-b-c-..--", "a-b-c-..--"),
        (&long, "012345678901234567890123", "012345678901"),
        ("../../etc", "..-..-etc", "..-..-etc"),
    ];
    for (run_id, dir, tag) in cases {
        for (name, start) in [
            (dir_name(run_id).unwrap(), dir),
            (run_tag(run_id).unwrap(), tag),
        ] {
            let random = name.strip_prefix(&format!("{start}-")).unwrap();
            assert_eq!(random.len(), 8, "{name}");
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            assert!(random.chars().all(hex), "{name}");
        }
    }
    assert_eq!(sanitized(&long), long[..40]);
    assert_ne!(dir_name(&long).unwrap(), dir_name(&long).unwrap());
}
