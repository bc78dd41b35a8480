use super::*;
use crate::trust::testing::Tree;

#[test]
fn within_is_by_whole_names() {
    let cases = [
        ("/a", "/a", false, true),
        ("/a/b", "/a", false, true),
        ("/a/b", "/a/", false, true),
        ("/ab", "/a", false, false),
        ("/a", "/a/b", false, false),
        ("/a", "/", false, true),
        ("/", "/", false, true),
        ("/A/b", "/a", false, false),
        ("/A/b", "/a", true, true),
        ("/ä", "/Ä", true, true),
        ("/a", "/B", true, false),
    ];
    for (path, dir, fold_case, expected) in cases {
        let within = is_within(Path::new(path), Path::new(dir), fold_case);
        assert_eq!(within, expected, "{path} in {dir}, {fold_case}");
    }
    use std::os::unix::ffi::OsStrExt;
    let path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
    assert!(is_within(path(b"/A\xff/b"), path(b"/a\xff"), true));
    assert!(!is_within(path(b"/A\xff/b"), path(b"/a\xfe"), true));
}

#[test]
fn a_path_is_normalized_by_its_spelling() {
    let cases = [
        ("/a//b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/a/..", "/"),
        ("/", "/"),
        ("/..", "/.."),
        ("/a/../../b", "/../b"),
        ("/../../a", "/../../a"),
        ("../a/..", ".."),
    ];
    for (path, expected) in cases {
        assert_eq!(
            normalized(Path::new(path)).as_os_str(),
            Path::new(expected).as_os_str()
        );
    }
}

#[test]
fn a_path_has_two_readings() {
    let tree = Tree::new();
    tree.dir("a/b");
    tree.dir("c");
    tree.link("a/b", "l");
    let read = |path: &str| {
        let Readings { real, folded } = Readings::of("the workspace", &tree.at(path)).unwrap();
        (real, folded)
    };
    assert_eq!(read("l"), (tree.at("a/b"), tree.at("a/b")));
    assert_eq!(read("l/../c"), (tree.at("a/c"), tree.at("c")));
    assert_eq!(read("a/../c"), (tree.at("c"), tree.at("c")));
    let root = Readings::of("the workspace", Path::new("/../../.")).unwrap();
    assert_eq!(
        root,
        Readings {
            real: "/".into(),
            folded: "/".into()
        }
    );
    let err = Readings::of("the workspace", &tree.at("none/../c")).unwrap_err();
    assert_eq!(err.code(), "path-dots-after-missing");
}

#[test]
fn places_in_the_sandbox_are_apart() {
    let name = |setting: &str| MountName {
        setting: setting.to_owned(),
        path: PathBuf::from("/host"),
        workspace: false,
    };
    let (one, two) = (name("one"), name("two"));
    let cases = [
        ("/a", "/b", true),
        ("/a", "/ab", true),
        ("/a", "/A", true),
        ("/a", "/a", false),
        ("/a", "/a/b", false),
        ("/a/b", "/a", false),
    ];
    for (first, second, apart) in cases {
        let places = [
            (&name("other"), Path::new("/other")),
            (&one, Path::new(first)),
            (&two, Path::new(second)),
        ];
        let expected = MountError::Overlap {
            first: Box::new(one.clone()),
            first_at: first.into(),
            second: Box::new(two.clone()),
            second_at: second.into(),
        };
        let result = check_overlap(&places);
        assert_eq!(result, if apart { Ok(()) } else { Err(expected) });
    }
}
