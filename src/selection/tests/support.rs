//! Made-up machines: a host and a store in a directory of the test's own.

use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use tempfile::TempDir;

use crate::host::{Platform, Sysctl};
use crate::selection::look::{Disk, Kind, Look};
use crate::selection::store::{HOME_POLICY, IMAGE, LINUX_STORE, MACOS_STORE, RUNSC};
use crate::selection::*;
use crate::settings::tests::bare_host;
use crate::settings::{Flags, RUNTIME};
use crate::trust::walk;

/// The disk, with errors in places: root itself can read a file that nobody may.
#[derive(Default)]
pub(in crate::selection) struct Denying {
    pub(in crate::selection) unexaminable: Vec<PathBuf>,
    pub(in crate::selection) unreadable: Vec<PathBuf>,
    pub(in crate::selection) unexecutable: Vec<PathBuf>,
}

fn unless(denied: &[PathBuf], path: &Path) -> Result<(), Errno> {
    match denied.iter().any(|denied| denied == path) {
        true => Err(Errno::EACCES),
        false => Ok(()),
    }
}

impl Look for Denying {
    fn stat(&self, path: &Path) -> Result<Kind, Errno> {
        unless(&self.unexaminable, path).and_then(|()| Disk.stat(path))
    }
    fn lstat(&self, path: &Path) -> Result<Kind, Errno> {
        unless(&self.unexaminable, path).and_then(|()| Disk.lstat(path))
    }
    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        Disk.read_link(path)
    }
    fn readable(&self, path: &Path) -> Result<(), Errno> {
        unless(&self.unreadable, path).and_then(|()| Disk.readable(path))
    }
    fn executable(&self, path: &Path) -> Result<(), Errno> {
        unless(&self.unexecutable, path).and_then(|()| Disk.executable(path))
    }
}

fn real(path: &Path) -> PathBuf {
    walk("the test's directory", path)
        .unwrap()
        .as_path()
        .to_owned()
}

/// A machine that a default runs on, to be broken.
pub(in crate::selection) struct Machine {
    dir: TempDir,
    pub(in crate::selection) host: Host,
    pub(in crate::selection) flags: Flags,
    pub(in crate::selection) look: Denying,
    native: Native,
    named_by: Source,
}

impl Machine {
    /// Linux with a whole store, and pasta, setpriv and unshare in `<root>/bin`.
    pub(in crate::selection) fn linux(uid: u32) -> Self {
        let machine = Self::new(Native::Linux);
        for program in ["pasta", "setpriv", "unshare"] {
            machine.file(machine.root().join("bin").join(program), 0o755);
        }
        let store = machine.store();
        machine.file(store.join(RUNSC), 0o755);
        machine.directory(store.join(IMAGE));
        machine.file(store.join(HOME_POLICY), 0o644);
        Self {
            host: Host {
                uid: Some(uid),
                gid: Some(uid),
                path: Some(machine.root().join("bin").into()),
                ..machine.host
            },
            ..machine
        }
    }

    /// macOS with a whole store, its own policy included.
    pub(in crate::selection) fn macos() -> Self {
        let machine = Self::new(Native::MacOs);
        let store = machine.store();
        machine.file(store.join(RUNSC), 0o755);
        machine.file(store.join("bin/cfc-vm"), 0o755);
        machine.file(store.join("config.json"), 0o644);
        machine.directory(store.join(IMAGE));
        machine.file(store.join("ext4/kitchensink.ext4"), 0o644);
        machine.file(store.join("policy.json"), 0o644);
        Self {
            host: Host {
                platform: Platform::MacOs,
                arch: "aarch64".to_owned(),
                uid: Some(501),
                ..machine.host
            },
            ..machine
        }
    }

    fn new(native: Native) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The temporary directory may itself be behind a link.
        let root = real(dir.path());
        Self {
            host: Host {
                home: Some(root.join("home")),
                cwd: Some(root.join("cwd")),
                ..bare_host()
            },
            dir,
            flags: Flags::default(),
            look: Denying::default(),
            native,
            named_by: Source::Flag,
        }
    }

    pub(in crate::selection) fn root(&self) -> PathBuf {
        real(self.dir.path())
    }

    pub(in crate::selection) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Where the store is unless it was moved.
    pub(in crate::selection) fn store(&self) -> PathBuf {
        self.home().join(match self.native {
            Native::Linux => LINUX_STORE,
            Native::MacOs => MACOS_STORE,
        })
    }

    pub(in crate::selection) fn home_policy(&self) -> PathBuf {
        self.home().join(LINUX_STORE).join(HOME_POLICY)
    }

    pub(in crate::selection) fn file(&self, path: impl AsRef<Path>, mode: u32) {
        std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path)
            .unwrap();
    }

    pub(in crate::selection) fn directory(&self, path: impl AsRef<Path>) {
        std::fs::create_dir_all(path).unwrap();
    }

    pub(in crate::selection) fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) {
        std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Removes what is at a path, a tree too.
    pub(in crate::selection) fn remove(&self, path: impl AsRef<Path>) {
        match std::fs::symlink_metadata(&path).unwrap().is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }

    /// Moves what is at a path to `<root>/moved` and leaves a link to it.
    pub(in crate::selection) fn move_behind_link(&self, path: impl AsRef<Path>) {
        let moved = self.root().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        self.link(path, moved);
    }

    pub(in crate::selection) fn set(&mut self, variable: &str, value: impl Into<OsString>) {
        self.host
            .variables
            .insert(variable.to_owned(), value.into());
    }

    pub(in crate::selection) fn sysctl(&mut self, name: &str, value: &str) {
        let value = Sysctl::Value(value.to_owned());
        self.host.sysctls.insert(name.to_owned(), value);
    }

    pub(in crate::selection) fn select(
        &self,
        entrypoint: &Entrypoint,
    ) -> Result<Selection, Refusal> {
        let settings = Settings::new(&self.flags, &self.host);
        order::select(&settings, &self.host, entrypoint, &self.look)
    }

    /// What the unbroken machine selects with nothing named.
    pub(in crate::selection) fn default_selection(&self) -> Selection {
        let store = self.store();
        let root = self.host.uid == Some(0);
        let linux = self.native == Native::Linux;
        Selection {
            choice: Choice::new(ChosenBy::Default {
                platform: self.native,
                native_store: store.clone(),
            }),
            runsc: store.join(RUNSC).into(),
            rootfs: store.join(IMAGE),
            policy: Some(match self.native {
                Native::Linux => self.home_policy(),
                Native::MacOs => store.join("policy.json"),
            }),
            network: NetworkMode::Sandbox,
            rootless: linux && !root,
            helper: linux.then(|| NetworkHelper {
                pasta: self.root().join("bin/pasta"),
                setpriv: self.root().join("bin/setpriv"),
                unshare: root.then(|| self.root().join("bin/unshare")),
            }),
            native_store: Some(store),
            defaulted: true,
        }
    }

    /// The same machine, with `runsc` named.
    pub(in crate::selection) fn naming_runsc(mut self, by: Source) -> Self {
        match by {
            Source::Flag => self.flags.sandbox_runtime = Some("runsc".into()),
            Source::Environment => self.set(RUNTIME.variable, "runsc"),
        }
        self.named_by = by;
        self
    }

    /// What the unbroken machine selects where `runsc` is named.
    pub(in crate::selection) fn named_selection(&self) -> Selection {
        Selection {
            choice: Choice::new(match self.named_by {
                Source::Flag => ChosenBy::Flag,
                Source::Environment => ChosenBy::Environment,
            }),
            runsc: "runsc".into(),
            policy: match self.native {
                Native::Linux => Some(self.home_policy()),
                Native::MacOs => None,
            },
            rootless: false,
            helper: None,
            defaulted: false,
            ..self.default_selection()
        }
    }

    /// The refusal that this obstacle is to the batch CLI's default.
    pub(in crate::selection) fn refused(&self, obstacle: Obstacle) -> Result<Selection, Refusal> {
        Err(Refusal::Default {
            platform: self.native,
            obstacle,
            takes_flags: true,
        })
    }
}

/// A case: what it shows, how the machine is changed, and what is then selected.
pub(in crate::selection) type Case = (
    &'static str,
    fn(&mut Machine),
    fn(&Machine) -> Result<Selection, Refusal>,
);

/// Runs a case at the batch CLI, and where no flag is given at an entrypoint without flags too,
/// which differs in what a refusal names and in nothing else.
pub(in crate::selection) fn check(mut machine: Machine, (shows, change, expected): Case) {
    change(&mut machine);
    let expected = expected(&machine);
    assert_eq!(machine.select(&Entrypoint::BATCH), expected, "{shows}");
    if let Err(refusal) = &expected {
        says_all(shows, refusal);
    }
    if machine.flags != Flags::default() {
        return;
    }
    let mut expected = expected;
    if let Err(
        Refusal::Default { takes_flags, .. }
        | Refusal::Named { takes_flags, .. }
        | Refusal::Docker { takes_flags, .. },
    ) = &mut expected
    {
        *takes_flags = false;
    }
    assert_eq!(
        machine.select(&Entrypoint::ENVIRONMENT),
        expected,
        "{shows}"
    );
    if let Err(refusal) = &expected {
        says_all(shows, refusal);
        assert!(!refusal.to_string().contains("--"), "{shows}: {refusal}");
    }
}

/// What the text of every refusal says.
fn says_all(shows: &str, refusal: &Refusal) {
    let text = refusal.to_string();
    let (problem, hint) = (refusal.problem().to_string(), refusal.hint().to_string());
    assert_eq!(refusal.code(), "invalid-request");
    assert!(!problem.is_empty() && !hint.is_empty(), "{shows}: {text}");
    assert!(text.ends_with(&format!("{problem}; {hint}")), "{shows}");
    if let Refusal::Default { platform, .. } = refusal {
        let says = format!(
            "no sandbox runtime is named, so the default on {platform} applies, its native runtime: "
        );
        assert!(text.starts_with(&says), "{shows}: {text}");
    }
}
