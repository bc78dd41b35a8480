use super::*;
use crate::trust::testing::{Tree, host};

/// Directories, files and links for the walk.
fn laid_out() -> Tree {
    let tree = Tree::new();
    tree.dir("a/b");
    tree.file("a/f", 0o644);
    tree.link("a", "l");
    tree.link(tree.at("a"), "labs");
    tree.link("a/b", "lb");
    tree.link("../a/./b", "a/lb2");
    tree.link("a/f", "lf");
    tree.link("nowhere", "dangling");
    tree.link("a/none/x", "dangling-deep");
    tree.link("none/../a", "dangling-dots");
    tree.link("a/f/..", "through-file");
    tree.link("dangling", "dangling-twice");
    tree.link("loop2", "loop1");
    tree.link("loop1", "loop2");
    // Forty links from c40, forty-one from c41.
    tree.link("a", "c1");
    for link in 2..=41 {
        tree.link(format!("c{}", link - 1), &format!("c{link}"));
    }
    tree
}

#[test]
fn a_walk_leads_where_the_filesystem_does() {
    let tree = laid_out();
    let cases = [
        ("", ""),
        ("a", "a"),
        ("a/f", "a/f"),
        ("a//b///", "a/b"),
        ("a/./b/..", "a"),
        ("l/b", "a/b"),
        ("labs/b", "a/b"),
        ("a/lb2", "a/b"),
        // The parent of where the link leads, not of the link.
        ("lb/..", "a"),
        ("lb/../f", "a/f"),
        ("lf", "a/f"),
        ("c40/b", "a/b"),
        ("none", "none"),
        ("none/x//y/", "none/x/y"),
        ("l/none", "a/none"),
        ("lb/../none", "a/none"),
    ];
    for (given, expected) in cases {
        let path = PathBuf::from(format!("{}/{given}", tree.root.display()));
        let real = walk("the rootfs", &path).unwrap();
        assert_eq!(real.as_path(), tree.at(expected), "{given}");
        let bytes = real.as_path().as_os_str().as_bytes();
        assert!(!bytes.ends_with(b"/") || given.is_empty(), "{given}");
    }
    let above = walk("the rootfs", Path::new("/../..")).unwrap();
    assert_eq!(above.as_path(), Path::new("/"));
}

#[test]
fn a_walk_refuses_what_could_lead_elsewhere_later() {
    let tree = laid_out();
    let long = format!("a/{}", "n".repeat(300));
    // The path, the code, and the name that the sentence has to have beside setting and path.
    let cases = [
        ("none/../a", "path-dots-after-missing", "none"),
        ("none/x/./y", "path-dots-after-missing", "none"),
        ("l/none/..", "path-dots-after-missing", "a/none"),
        ("a/f/..", "path-dots-after-file", "a/f"),
        ("a/f/.", "path-dots-after-file", "a/f"),
        ("lf/../b", "path-dots-after-file", "a/f"),
        ("through-file", "path-dots-after-file", "a/f"),
        ("dangling", "path-dangling-link", "dangling"),
        ("dangling/x", "path-dangling-link", "dangling"),
        ("dangling/..", "path-dangling-link", "dangling"),
        ("dangling-twice", "path-dangling-link", "dangling"),
        ("dangling-deep", "path-dangling-link", "dangling-deep"),
        ("dangling-dots", "path-dangling-link", "dangling-dots"),
        ("loop1", "path-too-many-links", "loop1"),
        ("loop1/x", "path-too-many-links", "loop1"),
        ("c41", "path-too-many-links", "c41"),
        ("a/f/x", "path-not-examined", "a/f/x"),
        ("lf/x", "path-not-examined", "a/f/x"),
        (&long, "path-not-examined", &long),
        ("a/\0", "path-not-examined", "a/\\u{0}"),
    ];
    for (given, code, named) in cases {
        let path = PathBuf::from(format!("{}/{given}", tree.root.display()));
        let err = walk("the rootfs", &path).unwrap_err();
        let sentence = err.to_string();
        assert_eq!(err.code(), code, "{sentence}");
        let start = format!("the rootfs {} ", shown(&path));
        assert!(sentence.starts_with(&start), "{sentence}");
        let named = format!("{}/{named}", tree.root.display());
        assert!(sentence.contains(&named), "{sentence}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_walk_refuses_a_directory_that_it_may_not_search() {
    use crate::trust::testing::bound_by_modes;
    let tree = Tree::new();
    tree.file("closed/x", 0o644);
    tree.file("closed/runsc", 0o755);
    tree.mode("", 0o755);
    let walked = |path: &str| bound_by_modes(|| walk("the CFC policy", &tree.at(path)));
    assert_eq!(walked("closed/x").unwrap().as_path(), tree.at("closed/x"));
    tree.mode("closed", 0o600);
    for path in ["closed/x", "closed/none"] {
        let err = walked(path).unwrap_err();
        let sentence = format!(
            "the CFC policy {0} cannot be followed past {0}: Permission denied (os error 13)",
            tree.at(path).display()
        );
        assert_eq!(
            (err.code(), err.to_string()),
            ("path-not-examined", sentence)
        );
    }
    let host = Host {
        path: Some(tree.at("closed").into()),
        ..host(&tree)
    };
    let found = bound_by_modes(|| program_on_path(OsStr::new("runsc"), &host));
    tree.mode("closed", 0o700);
    assert_eq!(found, None);
}

#[test]
fn a_walk_starts_at_the_root_alone() {
    let cases = [
        (
            "",
            "the rootfs \"\" is relative: give an absolute path on the host",
        ),
        (
            "x/y",
            "the rootfs x/y is relative: give an absolute path on the host",
        ),
        (
            "~/x",
            "the rootfs ~/x opens with '~', which only a shell expands: write the directory out",
        ),
        (
            "~me\n",
            "the rootfs ~me\\n opens with '~', which only a shell expands: write the directory out",
        ),
    ];
    for (given, sentence) in cases {
        let err = walk("the rootfs", Path::new(given)).unwrap_err();
        assert_eq!(err.to_string(), sentence);
    }
}

/// macOS's volumes hold text alone.
#[cfg(not(target_os = "macos"))]
#[test]
fn bytes_that_are_no_text_are_walked_all_the_same() {
    let tree = Tree::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir(tree.at(name)).unwrap();
    tree.link(name, "l");
    let real = walk("the rootfs", &tree.at("l")).unwrap();
    assert_eq!(real.as_path(), tree.at(name));
}

#[test]
fn a_program_is_found_as_a_shell_would_and_by_its_real_path() {
    let tree = Tree::new();
    tree.file("one/runsc", 0o644);
    tree.file("two/runsc", 0o755);
    tree.file("cwd/runsc", 0o700);
    tree.file("cwd/rel/runsc", 0o710);
    tree.dir("dir/runsc");
    tree.dir("linked");
    tree.link("../two/runsc", "linked/runsc");
    tree.link("nowhere", "broken");
    tree.file("plain", 0o644);
    let t = tree.root.display();
    // The name, PATH, and where it leads.
    let cases = [
        ("runsc", format!("{t}/one:{t}/two"), "two/runsc"),
        ("runsc", format!("{t}/dir:{t}/two"), "two/runsc"),
        (
            "runsc",
            format!("{t}/none:{t}/broken:{t}/plain:~:{t}/two"),
            "two/runsc",
        ),
        ("runsc", format!("{t}/linked:{t}/one"), "two/runsc"),
        ("runsc", format!(":{t}/two"), "cwd/runsc"),
        ("runsc", format!("{t}/one:"), "cwd/runsc"),
        ("runsc", String::new(), "cwd/runsc"),
        ("runsc", format!("rel:{t}/two"), "cwd/rel/runsc"),
        ("runsc", "./rel".to_owned(), "cwd/rel/runsc"),
        ("./runsc", format!("{t}/two"), "cwd/runsc"),
        ("rel/runsc", format!("{t}/two"), "cwd/rel/runsc"),
        ("../two/runsc", String::new(), "two/runsc"),
        // Named as a path, it is where it leads, whatever is there.
        ("./none", format!("{t}/two"), "cwd/none"),
        ("../one/runsc", String::new(), "one/runsc"),
    ];
    for (name, path, expected) in cases {
        let mut host = host(&tree);
        host.path = Some(path.clone().into());
        let found = find_program(RUNSC, OsStr::new(name), &host).unwrap();
        assert_eq!(found.as_path(), tree.at(expected), "{name} on {path}");
    }
    let absolute = tree.at("linked/runsc");
    let found = find_program(RUNSC, absolute.as_os_str(), &host(&tree)).unwrap();
    assert_eq!(found.as_path(), tree.at("two/runsc"));
}

#[test]
fn a_program_that_cannot_be_found_is_refused() {
    let tree = Tree::new();
    tree.file("one/runsc", 0o644);
    let mut host = host(&tree);
    host.path = Some(tree.at("one").into());
    let without_path = Host {
        path: None,
        ..host.clone()
    };
    let without_cwd = Host {
        cwd: None,
        path: Some("".into()),
        ..host.clone()
    };
    let cases = [
        (
            "the runsc binary",
            "",
            &host,
            "program-empty",
            "the runsc binary \"\" is an empty name: give an absolute path",
        ),
        (
            "the runsc binary",
            "~/runsc",
            &host,
            "path-opens-with-tilde",
            "the runsc binary ~/runsc opens with '~', which only a shell expands: write the \
             directory out",
        ),
        (
            "the runsc binary",
            "runsc",
            &host,
            "program-not-found",
            "the runsc binary runsc is an executable file in no directory of PATH: install it, or \
             set CF_HARNESS_RUNSC_BINARY to its absolute path",
        ),
        (
            "the network helper",
            "pasta",
            &without_path,
            "program-not-found",
            "the network helper pasta is an executable file in no directory of PATH: install it, \
             or add its directory to PATH",
        ),
        (
            "the runsc binary",
            "runsc",
            &without_cwd,
            "program-not-found",
            "the runsc binary runsc is an executable file in no directory of PATH: install it, or \
             set CF_HARNESS_RUNSC_BINARY to its absolute path",
        ),
        (
            "the runsc binary",
            "bin/runsc",
            &without_cwd,
            "path-no-working-directory",
            "the runsc binary bin/runsc is relative, and the working directory cannot be told: \
             give an absolute path",
        ),
    ];
    for (setting, name, host, code, sentence) in cases {
        let err = find_program(setting, OsStr::new(name), host).unwrap_err();
        assert_eq!((err.code(), err.to_string().as_str()), (code, sentence));
    }
}
