//! A store with the front in it, a small image, and runs of both.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::memfd::{MFdFlags, memfd_create};
use runsc_driver::cfc::Policy;
use runsc_driver::cfc::result::parse;
use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use serde_json::{Value, json};

use crate::common::{end_processes_of, is_root, store};

pub const USER: &str = "user.commonfabric.cfc.contentLabel";
pub const TRUSTED: &str = "trusted.cfc.contentLabel";
/// What no container may let out.
pub const SECRET: &str = "sesame-7d1f";

const PROGRAMS: &[&str] = &[
    "dash", "cat", "chmod", "cp", "head", "ln", "ls", "mkdir", "mkfifo", "mv", "readlink", "rm",
    "sleep", "stat", "touch",
];
const LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libselinux.so.1",
    "libacl.so.1",
    "libattr.so.1",
    "libpcre2-8.so.0",
];

/// The front under test, also where nextest runs it from an archive.
fn front_path() -> PathBuf {
    std::env::var_os("NEXTEST_BIN_EXE_runsc-cfc")
        .map_or_else(|| env!("CARGO_BIN_EXE_runsc-cfc").into(), PathBuf::from)
}

/// A test's own store, image and mounts.
pub struct Lab {
    pub dir: tempfile::TempDir,
    pub store: PathBuf,
    pub image: PathBuf,
    pub policy: PathBuf,
    pub state: PathBuf,
    count: AtomicUsize,
}

/// A call.
#[derive(Clone)]
pub struct Call<'a> {
    pub script: &'a str,
    pub mounts: Vec<(&'a Path, &'a str, &'a str)>,
    pub network: &'a str,
    pub mode: Option<&'a str>,
    pub labels: Vec<(&'a str, &'a str)>,
    pub flags: Vec<&'a str>,
    pub cfc: bool,
    /// Instead of a context that can be used.
    pub raw_context: Option<&'a str>,
    pub stdin: Option<&'a str>,
    /// What the front is started with: none, or a program and its arguments.
    pub under: Vec<&'a str>,
}

impl<'a> Call<'a> {
    pub fn new(script: &'a str, mounts: &[(&'a Path, &'a str)]) -> Self {
        Self {
            script,
            mounts: mounts
                .iter()
                .map(|(source, at)| (*source, *at, "rw"))
                .collect(),
            network: "none",
            mode: None,
            labels: Vec::new(),
            flags: Vec::new(),
            cfc: true,
            raw_context: None,
            stdin: None,
            under: Vec::new(),
        }
    }
}

/// A call that was started.
pub struct Started {
    pub child: Child,
    pub id: String,
    result: std::fs::File,
    log: PathBuf,
}

/// What became of a call.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub result: Vec<u8>,
    pub log: Vec<Value>,
    pub id: String,
}

impl Ran {
    pub fn policy(&self) -> Policy {
        parse(Ok(&self.result), &self.id).policy()
    }

    /// The atoms of the label.
    pub fn label(&self) -> Vec<Value> {
        parse(Ok(&self.result), &self.id)
            .label()
            .confidentiality
            .clone()
    }

    #[track_caller]
    pub fn assert_observed(&self) {
        assert_eq!(
            (self.policy(), self.code),
            (Policy::Observed, Some(0)),
            "{self:?}"
        );
    }

    #[track_caller]
    pub fn assert_opaque(&self) {
        assert_eq!(self.policy(), Policy::Opaque, "{self:?}");
    }

    /// Withheld for exactly these text atoms.
    #[track_caller]
    pub fn assert_labelled(&self, atoms: &[&str]) {
        self.assert_opaque();
        assert_eq!(
            self.label(),
            atoms.iter().map(|a| json!(a)).collect::<Vec<_>>(),
            "{self:?}"
        );
    }

    /// Withheld from everyone, and the log says why.
    #[track_caller]
    pub fn assert_doubt(&self, code: &str) {
        self.assert_opaque();
        let nobody = |atom: &Value| atom["type"] == "runsc-cfc/atom/Nobody";
        assert!(self.label().iter().any(nobody), "{self:?}");
        self.assert_told(code);
    }

    #[track_caller]
    pub fn assert_told(&self, code: &str) {
        assert!(
            self.log.iter().any(|record| record["code"] == code),
            "{code}: {self:?}"
        );
    }

    #[track_caller]
    pub fn assert_refused(&self, code: &str) {
        let errors: Vec<_> = self.log.iter().filter(|r| r["level"] == "error").collect();
        assert_eq!(errors.len(), 1, "{self:?}");
        assert_eq!(errors[0]["code"], code, "{self:?}");
        assert_eq!(self.code, Some(128), "{self:?}");
        assert_eq!(self.result, b"", "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
    }
}

/// What a test that failed left running goes before its directory.
impl Drop for Lab {
    fn drop(&mut self) {
        end_processes_of(self.dir.path());
    }
}

impl Lab {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("runsc-cfc-test-")
            .tempdir()
            .unwrap();
        let store = dir.path().join("store");
        Self::of(dir, store)
    }

    /// The same with its store elsewhere.
    pub fn at(store: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::of(dir, store)
    }

    fn of(dir: tempfile::TempDir, store: PathBuf) -> Self {
        let at = |name: &str| dir.path().join(name);
        let lab = Self {
            store,
            image: at("image"),
            policy: at("policy.json"),
            state: at("state"),
            count: AtomicUsize::new(0),
            dir,
        };
        for path in [&lab.store.join("bin"), &lab.state, &lab.image.join("lib64")] {
            fs::create_dir_all(path).unwrap();
        }
        // A link, since it is big; a copy where it is elsewhere, by another process: a child that
        // is forked meanwhile would hold it open for writing, and it could not be executed.
        let (front, here) = (front_path(), lab.store.join("bin/runsc"));
        if fs::hard_link(&front, &here).is_err() {
            let copied = Command::new("cp").arg(&front).arg(&here).status().unwrap();
            assert!(copied.success());
        }
        symlink(stock(), lab.store.join("bin/runsc-gvisor")).unwrap();
        make_image(&lab.image);
        lab.set_policy(json!({}));
        lab
    }

    pub fn front(&self) -> PathBuf {
        self.store.join("bin/runsc")
    }

    pub fn set_policy(&self, policy: Value) {
        fs::write(&self.policy, policy.to_string()).unwrap();
    }

    /// The policy that labels one pattern with one atom.
    pub fn label_paths(&self, pattern: &str, atom: &str) {
        self.set_policy(json!({"path_labels": [
            {"pattern": pattern, "label": {"confidentiality": [atom]}}
        ]}));
    }

    pub fn mount(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join("mounts").join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Starts a container with `sh -c`.
    pub fn start(&self, call: &Call<'_>) -> Started {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.start_as(call, &format!("c-{number}"))
    }

    pub fn start_as(&self, call: &Call<'_>, id: &str) -> Started {
        let bundle = self.dir.path().join("bundles").join(id);
        fs::create_dir_all(&bundle).unwrap();
        let config = self.config(call);
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        let args: Vec<std::ffi::OsString> =
            vec!["--bundle".into(), bundle.clone().into(), id.into()];
        self.invoke(call, id, "run", args, bundle.join("log"))
    }

    /// Executes in a container.
    pub fn exec(&self, call: &Call<'_>, container: &str) -> Ran {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let args = ["--cwd", "/", container, "/bin/sh", "-c", call.script];
        let log = self.dir.path().join(format!("exec-{number}.log"));
        let args = args.iter().map(Into::into).collect();
        self.invoke(call, container, "exec", args, log).finish()
    }

    fn invoke(
        &self,
        call: &Call<'_>,
        id: &str,
        verb: &str,
        args: Vec<std::ffi::OsString>,
        log: PathBuf,
    ) -> Started {
        let memfd = |name: &str| memfd_create(name, MFdFlags::MFD_CLOEXEC).unwrap();
        let result = memfd("result");
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        words.extend(call.under.iter().map(Into::into));
        words.push(self.front().into());
        words.extend([
            "--root".into(),
            self.state.clone().into(),
            "--ignore-cgroups".into(),
            format!("--network={}", call.network).into(),
            "--overlay2=root:memory".into(),
        ]);
        if !is_root() || call.under.contains(&"-r") {
            words.push("--rootless".into());
        }
        let mut log_flag = std::ffi::OsString::from("--log=");
        log_flag.push(&log);
        words.extend([log_flag, "--log-format=json".into()]);
        words.extend(call.flags.iter().map(Into::into));
        let mut mappings = Vec::new();
        if call.cfc {
            words.extend([
                "--cfc".into(),
                "--cfc-policy".into(),
                self.policy.clone().into(),
            ]);
        }
        words.push(verb.into());
        if call.cfc {
            if let Some(context) = context(call) {
                let mut file = fs::File::from(memfd("context"));
                file.write_all(context.as_bytes()).unwrap();
                std::io::Seek::rewind(&mut file).unwrap();
                mappings.push((OwnedFd::from(file), 3));
                words.extend(["--cfc-invocation-context-fd".into(), "3".into()]);
            }
            mappings.push((result.try_clone().unwrap(), 4));
            words.extend(["--cfc-result-fd".into(), "4".into()]);
        }
        words.extend(args);
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdin(if call.stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mappings = mappings
            .into_iter()
            .map(|(parent_fd, child_fd)| FdMapping {
                parent_fd,
                child_fd,
            })
            .collect();
        command.fd_mappings(mappings).unwrap();
        let mut child = command.spawn().unwrap();
        if let Some(text) = call.stdin {
            child
                .stdin
                .take()
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        }
        Started {
            child,
            id: id.to_owned(),
            result: result.into(),
            log,
        }
    }

    pub fn run(&self, call: &Call<'_>) -> Ran {
        self.start(call).finish()
    }

    /// A script over one mount, at `/work`.
    pub fn sh(&self, mount: &Path, script: &str) -> Ran {
        self.run(&Call::new(script, &[(mount, "/work")]))
    }

    fn config(&self, call: &Call<'_>) -> Value {
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}),
        ];
        for (source, destination, mode) in &call.mounts {
            fs::create_dir_all(self.image.join(&destination[1..])).ok();
            mounts.push(json!({
                "destination": destination, "type": "bind", "source": source,
                "options": ["rbind", mode],
            }));
        }
        let kinds = ["pid", "network", "ipc", "uts", "mount"];
        let kinds = kinds
            .iter()
            .filter(|kind| **kind != "network" || call.network != "host");
        json!({
            "ociVersion": "1.1.0",
            "process": {
                "terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": "/",
                "args": ["/bin/sh", "-c", call.script], "env": ["PATH=/bin"],
            },
            "root": {"path": self.image, "readonly": false},
            "hostname": "lab",
            "mounts": mounts,
            "linux": {"namespaces": kinds.map(|kind| json!({"type": kind})).collect::<Vec<_>>()},
        })
    }

    pub fn label_command(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(self.front());
        command.arg("label").args(words).output().unwrap()
    }

    /// Registrations and marks: what is left once nothing runs.
    pub fn registered(&self, kind: &str) -> Vec<String> {
        let dir = self.store.join("registry").join(kind);
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    pub fn assert_settled(&self) {
        assert_eq!(self.registered("live"), Vec::<String>::new());
    }
}

impl Started {
    pub fn finish(mut self) -> Ran {
        use std::io::{Read, Seek};
        let output = self.child.wait_with_output().unwrap();
        let mut result = Vec::new();
        self.result.rewind().unwrap();
        self.result.read_to_end(&mut result).unwrap();
        let log = fs::read(&self.log).unwrap_or_default();
        let log = serde_json::Deserializer::from_slice(&log).into_iter();
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            result,
            log: log.collect::<Result<_, _>>().unwrap(),
            id: self.id,
        }
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The stock runsc of whoever runs the tests.
pub fn stock() -> PathBuf {
    let bin = store().join("bin");
    let beside = bin.join("runsc-gvisor");
    if beside.exists() {
        beside
    } else {
        bin.join("runsc")
    }
}

fn make_image(image: &Path) {
    let from = store().join("images/kitchensink");
    fs::create_dir_all(image.join("bin")).unwrap();
    fs::create_dir_all(image.join("lib/x86_64-linux-gnu")).unwrap();
    for name in PROGRAMS {
        fs::copy(from.join("bin").join(name), image.join("bin").join(name)).unwrap();
    }
    let lib = "lib/x86_64-linux-gnu";
    for name in LIBRARIES {
        fs::copy(
            from.join("usr").join(lib).join(name),
            image.join(lib).join(name),
        )
        .unwrap();
    }
    let loader = "ld-linux-x86-64.so.2";
    fs::copy(
        from.join("usr").join(lib).join(loader),
        image.join("lib64").join(loader),
    )
    .unwrap();
    symlink("dash", image.join("bin/sh")).unwrap();
    // Nothing else has to be made in it, which a look would find changed.
    for name in ["proc", "tmp", "work", "other", "dev", "sys", "etc", "root"] {
        fs::create_dir_all(image.join(name)).unwrap();
    }
}

fn context(call: &Call<'_>) -> Option<String> {
    if let Some(raw) = call.raw_context {
        return Some(raw.to_owned());
    }
    let mode = call.mode?;
    let entries: Vec<_> = call
        .labels
        .iter()
        .map(|(root, atom)| json!({"path": [root], "label": {"confidentiality": [atom]}}))
        .collect();
    let mut context = json!({
        "type": "cf-harness.cfc-invocation-context", "version": 1, "sequence": 1,
        "runId": "r", "createdAt": "2026-01-02T03:04:05.000Z", "toolId": "bash",
        "operation": "command", "cfcEnforcementMode": mode, "cwd": "/",
        "runManifest": {"present": false}, "inputs": {},
    });
    if !entries.is_empty() {
        context["cfcInputLabels"] = json!({"version": 1, "entries": entries});
    }
    Some(context.to_string())
}

/// Writes a file of the host's.
pub fn put(path: &Path, text: &str) {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

/// Labels a file as its owner would.
pub fn label(path: &Path, atom: &str) {
    let value = json!({"confidentiality": [atom]}).to_string();
    set(path, USER, value.as_bytes()).unwrap();
}

pub fn set(path: &Path, name: &str, value: &[u8]) -> rustix::io::Result<()> {
    lsetxattr(path, name, value, XattrFlags::empty())
}

pub fn unset(path: &Path, name: &str) {
    lremovexattr(path, name).unwrap();
}

/// The label that a file's owner sees, as JSON.
pub fn label_of(path: &Path) -> Option<Value> {
    let mut value = vec![0_u8; 65_536];
    let length = lgetxattr(path, USER, &mut value[..]).ok()?;
    Some(serde_json::from_slice(&value[..length]).unwrap())
}

/// The atoms of a label that are text.
pub fn atoms(path: &Path) -> Vec<String> {
    let label = label_of(path).unwrap_or(Value::Null);
    let atoms = label["confidentiality"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    atoms
        .iter()
        .map(|atom| atom.as_str().map_or_else(|| "nobody".into(), Into::into))
        .collect()
}

/// Takes every label of a file away, as a careless host might.
pub fn clear(path: &Path) {
    for name in [USER, TRUSTED] {
        let _ = lremovexattr(path, name);
    }
}

/// How often something is done: what a variable says, or so often.
pub fn number_of(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}
