//! A real directory to lay files out in, and a machine to pretend to be on.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::host::{Host, Platform};

/// A temporary directory by its real path.
pub(crate) struct Tree {
    _dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = super::walk("the test", dir.path()).unwrap();
        Self {
            _dir: dir,
            root: root.as_path().to_owned(),
        }
    }

    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn dir(&self, path: &str) -> PathBuf {
        let dir = self.at(path);
        DirBuilder::new().recursive(true).create(&dir).unwrap();
        dir
    }

    pub(crate) fn file(&self, path: &str, mode: u32) -> PathBuf {
        let file = self.at(path);
        DirBuilder::new()
            .recursive(true)
            .create(file.parent().unwrap())
            .unwrap();
        File::create(&file).unwrap();
        self.mode(path, mode);
        file
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
    }

    /// A link at `path`; the target is as given, so relative to the link or absolute.
    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) -> PathBuf {
        let link = self.at(path);
        std::os::unix::fs::symlink(target, &link).unwrap();
        link
    }

    /// Every path below the root, sorted.
    pub(crate) fn listing(&self, below: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![self.at(below)];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    pending.push(entry.path());
                }
                let path = entry.path();
                let path = path.strip_prefix(&self.root).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
        found.sort();
        found
    }
}

/// Runs it as a user whom permission bits bind: the thread is nobody to the filesystem where the
/// test is root's, and itself where it is not.
#[cfg(target_os = "linux")]
pub(crate) fn bound_by_modes<T>(check: impl FnOnce() -> T) -> T {
    use nix::unistd::{Uid, geteuid, setfsuid};
    struct Back(Uid);
    impl Drop for Back {
        fn drop(&mut self) {
            setfsuid(self.0);
        }
    }
    let _back = geteuid()
        .is_root()
        .then(|| Back(setfsuid(Uid::from_raw(65534))));
    check()
}

/// A Linux machine of the user that the test runs as, whose files are all in the tree.
pub(crate) fn host(tree: &Tree) -> Host {
    Host {
        platform: Platform::Linux,
        arch: "x86_64".to_owned(),
        uid: Some(nix::unistd::geteuid().as_raw()),
        gid: Some(nix::unistd::getegid().as_raw()),
        home: Some(tree.at("home")),
        path: Some("".into()),
        temp_dir: tree.at("tmp"),
        cwd: Some(tree.at("cwd")),
        variables: BTreeMap::new(),
        sysctls: BTreeMap::new(),
    }
}
