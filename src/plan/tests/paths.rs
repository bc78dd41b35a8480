//! The working directory: by its spelling, and on a real tree.

use std::path::{Path, PathBuf};

use super::{config, mount};
use crate::config::SandboxConfig;
use crate::plan::PlanError;
use crate::plan::path::{SandboxPath, check_cwd};
use crate::trust::testing::Tree;

fn resolve(config: &SandboxConfig, path: &str) -> Result<PathBuf, PlanError> {
    SandboxPath::resolve(config, Some(Path::new(path))).map(|path| path.as_path().to_owned())
}

#[test]
fn a_path_is_taken_against_the_workspace_and_has_to_lie_in_a_mount() {
    let mut config = config();
    config.mounts.push(mount("/srv/data", "/data/set", true));
    let inside = [
        ("", "/workspace"),
        (".", "/workspace"),
        ("src", "/workspace/src"),
        ("./a//b/../c/", "/workspace/a/c"),
        ("/workspace", "/workspace"),
        ("/workspace/", "/workspace"),
        ("//workspace//src", "/workspace/src"),
        ("../data/set/x", "/data/set/x"),
        ("/data/set", "/data/set"),
        ("/data/set/../set/y", "/data/set/y"),
    ];
    for (given, expected) in inside {
        assert_eq!(
            resolve(&config, given),
            Ok(PathBuf::from(expected)),
            "{given}"
        );
    }
    let outside = [
        ("/", "/"),
        ("..", "/"),
        // Above the root is nowhere, though the kernel would stay there.
        ("../..", "/.."),
        ("/../workspace", "/../workspace"),
        ("/data", "/data"),
        ("/data/settle", "/data/settle"),
        ("/workspaces", "/workspaces"),
        ("/workspace/../etc", "/etc"),
        ("../../../etc", "/../../etc"),
        ("/tmp", "/tmp"),
    ];
    for (given, path) in outside {
        assert_eq!(
            resolve(&config, given),
            Err(PlanError::CwdOutsideMounts {
                path: PathBuf::from(path),
                mounts: "/workspace, /data/set".into(),
            }),
            "{given}"
        );
    }
    assert_eq!(
        SandboxPath::resolve(&config, None).unwrap().as_path(),
        Path::new("/workspace")
    );
}

#[test]
fn a_working_directory_is_a_directory_below_its_mount() {
    let tree = Tree::new();
    let workspace = tree.dir("work");
    tree.dir("work/src/deep");
    tree.dir("outside");
    let file = tree.file("work/file", 0o600);
    tree.link("src/deep", "work/inner");
    tree.link("../outside", "work/outer");
    tree.link(tree.at("work/src"), "work/absolute");
    tree.link("nothing", "work/dangling");
    tree.link("loop", "work/loop");
    let mut config = config();
    config.mounts = vec![
        mount(&workspace, "/workspace", false),
        mount(tree.at("outside"), "/other", true),
        mount(&file, "/one-file", true),
        mount(tree.at("gone"), "/gone", true),
    ];
    for fine in [
        "", "src", "src/deep", "inner", "inner/..", "/other", "../other",
    ] {
        let cwd = SandboxPath::resolve(&config, Some(Path::new(fine))).unwrap();
        assert_eq!(check_cwd(&config, &cwd), Ok(()), "{fine}");
    }
    let out = "it leads out of its mount through a link";
    let examined = |what: &str| format!("it could not be examined ({what})");
    let refused = [
        ("nothing", &workspace, "it does not exist".to_owned()),
        ("src/nothing", &workspace, "it does not exist".to_owned()),
        ("dangling", &workspace, "it does not exist".to_owned()),
        ("file", &workspace, "it is not a directory".to_owned()),
        ("file/below", &workspace, examined("Not a directory")),
        ("outer", &workspace, out.to_owned()),
        ("outer/below", &workspace, out.to_owned()),
        ("absolute", &workspace, out.to_owned()),
        (
            "loop",
            &workspace,
            examined("Too many symbolic links encountered"),
        ),
        ("/one-file", &file, examined("Not a directory")),
        ("/gone", &tree.at("gone"), "it does not exist".to_owned()),
    ];
    for (given, host_path, reason) in refused {
        let cwd = SandboxPath::resolve(&config, Some(Path::new(given))).unwrap();
        assert_eq!(
            check_cwd(&config, &cwd),
            Err(PlanError::BadCwd {
                path: cwd.as_path().to_owned(),
                host_path: host_path.clone(),
                reason,
            }),
            "{given}"
        );
    }
}
