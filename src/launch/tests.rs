//! What a child sees of this process: the descriptors that were donated to it, at their numbers,
//! and nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use super::LaunchError;
use super::spawn::{Donation, SpawnRequest, begin, run_bounded};
use crate::plan::CommandLine;

/// Longer than a child takes that does not hang.
const NOT_HUNG: Duration = Duration::from_secs(30);

fn sh(script: &str, donations: Vec<Donation>) -> SpawnRequest {
    let command = CommandLine {
        program: PathBuf::from("/bin/sh"),
        args: vec!["-c".into(), script.into()],
    };
    SpawnRequest {
        donations,
        ..SpawnRequest::plain(command, true)
    }
}

fn output(request: SpawnRequest) -> String {
    let (status, output) = run_bounded(request, NOT_HUNG).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    String::from_utf8(output).unwrap()
}

/// Whatever has become of the pids in it, all in a PID namespace ends with its first process.
#[test]
#[cfg(target_os = "linux")]
fn a_pid_namespace_ends_with_its_child() {
    use std::io::{BufRead, BufReader};

    use crate::plan::IdMap;

    let within = |script: &str| SpawnRequest {
        user_namespace: Some(IdMap {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
        }),
        pid_namespace: true,
        ..sh(script, Vec::new())
    };
    let (status, output) = run_bounded(within("echo $$ /proc/[0-9]*; exit 7"), NOT_HUNG).unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), "1 /proc/1\n");
    assert_eq!(status.unwrap().code(), Some(7));

    let script = "setsid sh -c 'setsid sleep 1000 & echo up; wait' & wait";
    let (child, pipes) = begin(within(script)).unwrap();
    let mut lines = BufReader::new(File::from(pipes.stdout.unwrap())).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    // One process alone, and no group: what is left would hold the pipe open.
    let child = nix::unistd::Pid::from_raw(child.pid().cast_signed());
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(lines.next().is_none());
}

/// Prints what the descriptors lead to, as a process sees them that the shell becomes.
const LIST: &str = "exec ls -l /proc/self/fd";

/// Number and target of each descriptor; the one on the listed directory itself is left out.
fn listed(text: &str) -> BTreeMap<i32, String> {
    text.lines()
        .filter_map(|line| {
            let (left, target) = line.split_once(" -> ")?;
            let number = left.rsplit(' ').next()?.parse().ok()?;
            Some((number, target.to_owned()))
        })
        .filter(|(_, target)| !(target.starts_with("/proc/") && target.ends_with("/fd")))
        .collect()
}

/// Without the standard three: nothing on 0, pipes on 1 and 2.
#[track_caller]
fn beside_standard(mut found: BTreeMap<i32, String>) -> BTreeMap<i32, String> {
    assert_eq!(found.remove(&0).as_deref(), Some("/dev/null"));
    for number in [1, 2] {
        let target = found.remove(&number).unwrap();
        assert!(target.starts_with("pipe:"), "{number}: {target}");
    }
    found
}

struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn with(&self, name: &str, text: &str) -> File {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path(name))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    fn named(&self, pairs: &[(i32, &str)]) -> BTreeMap<i32, String> {
        pairs
            .iter()
            .map(|(number, name)| (*number, self.path(name).to_str().unwrap().to_owned()))
            .collect()
    }
}

fn donation(file: File, number: i32) -> Donation {
    Donation {
        file: file.into(),
        number,
    }
}

/// Moves a file to this number; what was there is put back at the end.
struct At {
    number: i32,
    was: Option<OwnedFd>,
}

impl At {
    #[expect(unsafe_code, reason = "a descriptor by its number")]
    fn put(file: File, number: i32) -> (Self, File) {
        use nix::fcntl::{FcntlArg, fcntl};
        if file.as_raw_fd() == number {
            return (Self { number, was: None }, file);
        }
        // SAFETY: the number is only looked at, and a copy is made where it is open.
        let there = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        let was = fcntl(there, FcntlArg::F_DUPFD_CLOEXEC(100))
            .ok()
            // SAFETY: it was just made.
            .map(|copy| unsafe { OwnedFd::from_raw_fd(copy) });
        // SAFETY: what was open there is kept by its copy and put back.
        let moved = unsafe { nix::unistd::dup2_raw(&file, number) }.unwrap();
        (Self { number, was }, File::from(moved))
    }
}

impl Drop for At {
    #[expect(unsafe_code, reason = "a descriptor by its number")]
    fn drop(&mut self) {
        if let Some(was) = self.was.take() {
            // SAFETY: it puts back what `put` found there.
            let _ = unsafe { nix::unistd::dup2_raw(&was, self.number) }.map(IntoRawFd::into_raw_fd);
        }
    }
}

#[test]
fn a_child_has_its_standard_streams_and_nothing_of_ours() {
    let files = Files::new();
    // Open here, and one of them not even marked to be closed.
    let _plain = files.with("plain", "");
    let inherited = files.with("inherited", "");
    nix::fcntl::fcntl(
        &inherited,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let found = listed(&output(sh(LIST, Vec::new())));
    assert_eq!(beside_standard(found), BTreeMap::new());
}

#[test]
fn donations_arrive_at_their_numbers() {
    let files = Files::new();
    let donations = vec![
        donation(files.with("context", "from outside"), 3),
        donation(files.with("result", ""), 4),
    ];
    let found = listed(&output(sh(LIST, donations)));
    assert_eq!(
        beside_standard(found),
        files.named(&[(3, "context"), (4, "result")])
    );
}

#[test]
fn donations_are_read_and_written_through_their_numbers() {
    let files = Files::new();
    let donations = vec![
        donation(files.with("context", "from outside"), 3),
        donation(files.with("result", ""), 4),
    ];
    assert_eq!(
        output(sh("cat <&3; printf 'from inside' >&4", donations)),
        "from outside"
    );
    let mut written = String::new();
    File::open(files.path("result"))
        .unwrap()
        .read_to_string(&mut written)
        .unwrap();
    assert_eq!(written, "from inside");
}

/// In a process of their own, where nobody else uses the numbers.
#[test]
fn numbers_that_sources_have_already_are_no_trouble() {
    let command = CommandLine {
        program: std::env::current_exe().unwrap(),
        args: [
            "--ignored",
            "--exact",
            "--test-threads=1",
            "launch::tests::alone_sources_that_cross_over",
            "launch::tests::alone_a_program_that_cannot_be_executed",
        ]
        .map(Into::into)
        .into(),
    };
    let said = output(SpawnRequest::plain(command, true));
    assert!(said.contains("2 passed; 0 failed"), "{said}");
}

#[test]
#[ignore = "takes descriptors by their numbers: another test runs it in a process of its own"]
fn alone_sources_that_cross_over() {
    let cases: [(&str, [(i32, i32); 2]); 5] = [
        ("crossed", [(4, 3), (3, 4)]),
        ("straight", [(3, 3), (4, 4)]),
        ("one in the other's place", [(4, 3), (9, 4)]),
        ("the other in the one's place", [(9, 3), (3, 4)]),
        ("shifted", [(3, 4), (4, 5)]),
    ];
    for (what, [first, second]) in cases {
        let files = Files::new();
        let (first_put, first_file) = At::put(files.with("first", ""), first.0);
        let (second_put, second_file) = At::put(files.with("second", ""), second.0);
        let donations = vec![
            donation(first_file, first.1),
            donation(second_file, second.1),
        ];
        let found = listed(&output(sh(LIST, donations)));
        drop((second_put, first_put));
        assert_eq!(
            beside_standard(found),
            files.named(&[(first.1, "first"), (second.1, "second")]),
            "{what}"
        );
    }
}

#[test]
#[ignore = "takes descriptors by their numbers: another test runs it in a process of its own"]
fn alone_a_program_that_cannot_be_executed() {
    let files = Files::new();
    let program = files.path("nothing");
    let request = SpawnRequest {
        donations: vec![
            donation(files.with("context", ""), 3),
            donation(files.with("result", ""), 4),
        ],
        ..SpawnRequest::plain(
            CommandLine {
                program: program.clone(),
                args: Vec::new(),
            },
            true,
        )
    };
    let refused = run_bounded(request, NOT_HUNG).unwrap_err();
    assert!(
        matches!(&refused, LaunchError::Execute { program: named, source }
            if *named == program && source.kind() == std::io::ErrorKind::NotFound),
        "{refused:?}"
    );
    // What the child says of its failure did not land in one of them.
    for name in ["context", "result"] {
        assert_eq!(files.path(name).metadata().unwrap().len(), 0, "{name}");
    }
}
