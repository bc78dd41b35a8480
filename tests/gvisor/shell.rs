//! `runsc-driver shell`: lines from a pipe and from a terminal, and every way out.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

use crate::common::{NOT_HUNG, Place, Ran, pidfd, wait_for, wait_readable};

/// `runsc-driver shell`, which names the place on its command line.
fn command(place: &Place, flags: &[&str]) -> Command {
    let mut command = place.command(["shell", "--no-cfc", "--workspace"]);
    command.arg(&place.workspace).args(flags);
    command
}

fn start(place: &Place, lines: &str) -> Child {
    let mut child = command(place, &[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    // Held, where the shell is to wait for more.
    child.stdin = Some(stdin);
    child
}

fn ran(place: &Place, lines: &str) -> Ran {
    Ran::of(start(place, lines).wait_with_output().unwrap())
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

#[test]
fn lines_from_a_pipe_run_one_after_another_in_one_session() {
    let place = Place::new();
    let lines = "echo kept > /tmp/f\n\nmkdir sub; cd sub\ncat /tmp/f; pwd\nfalse\necho $?.$X; \
                 X=1\necho a \\\n  b\nprintf end";
    ran(&place, lines).assert(0, "kept\n/workspace/sub\n0.\na b\nend", "");
    place.assert_gone();
}

#[test]
fn the_status_is_the_last_commands_or_that_of_exit() {
    let place = Place::new();
    ran(&place, "(exit 9)\n").assert(9, "", "");
    ran(&place, "(exit 9)\nexit\necho never\n").assert(9, "", "");
    ran(&place, "exit 3\necho never\n").assert(3, "", "");
    ran(&place, "").assert(0, "", "");
    ran(&place, "exec nosuch\n").assert_says(127, &["nosuch"]);
    place.assert_gone();
}

#[test]
fn a_directory_outside_the_mounts_is_not_followed_and_one_that_is_gone_is_left() {
    let place = Place::new();
    let shell = ran(
        &place,
        "cd /etc\npwd\nmkdir sub; cd sub\nrmdir ../sub\npwd\npwd\n",
    );
    assert_eq!(
        (shell.code, shell.out().as_str()),
        (Some(0), "/workspace\n/workspace\n")
    );
    shell.assert_says(
        0,
        &["/etc lies in no mount", "[bad-cwd]", "now in /workspace"],
    );
    place.assert_gone();
}

#[test]
fn refusals_say_what_to_do_and_start_nothing() {
    let place = Place::new();
    let refused = |args: &[&str], words: &[&str]| {
        let ran = Ran::of(place.command(args).output().unwrap());
        ran.assert_says(125, words);
        assert_eq!(
            crate::common::walk(&place.tmp),
            Vec::<std::path::PathBuf>::new()
        );
    };
    refused(&["shell"], &["--no-cfc", "[enforcing-mode]"]);
    refused(
        &["shell", "--no-cfc", "--session", "a b"],
        &["1 to 32", "[invalid-name]"],
    );
    refused(&["shell", "--no-cfc", "--workspace", "nosuch"], &["nosuch"]);
}

#[test]
fn an_interrupt_stops_the_command_and_not_the_session() {
    let place = Place::new();
    let lines = "echo kept > /tmp/f\ntouch up; sleep 777; echo never\n\
                 cat /tmp/f; ps -eo args | grep '^sleep'; true\n";
    let mut child = start(&place, lines);
    wait_for(&place.workspace, "up");
    send(&child, Signal::SIGINT);
    drop(child.stdin.take());
    Ran::of(child.wait_with_output().unwrap()).assert(0, "kept\n", "runsc-driver: stopped\n");
    place.assert_gone();

    // Of the last one, the status says so.
    std::fs::remove_file(place.workspace.join("up")).unwrap();
    let mut child = start(&place, "touch up; sleep 777\n");
    wait_for(&place.workspace, "up");
    send(&child, Signal::SIGINT);
    drop(child.stdin.take());
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, Some(130));
    place.assert_gone();
}

#[test]
fn a_signal_to_end_takes_everything_down_first() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL] {
        for lines in [
            "sleep 500 &\ntouch up\n",
            "sleep 500 &\ntouch up; sleep 777\n",
        ] {
            let place = Place::new();
            let child = start(&place, lines);
            wait_for(&place.workspace, "up");
            send(&child, signal);
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.signal(),
                Some(signal as i32),
                "{lines}: {said}"
            );
            match signal {
                Signal::SIGKILL => place.assert_no_process_within(Duration::from_secs(2)),
                _ => place.assert_gone(),
            }
        }
    }
}

/// A shell at a terminal of its own.
struct Typed {
    child: Child,
    keys: File,
    terminal: OwnedFd,
    shown: String,
}

impl Typed {
    fn start(place: &Place) -> Self {
        let pty = openpty(None, None).unwrap();
        let shell = command(place, &["--session", "mine"]);
        // It becomes the leader of a session whose terminal this is.
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(shell.get_program())
            .args(shell.get_args());
        for (name, value) in shell.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm")
            .current_dir(&place.workspace)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            child,
            keys: File::from(pty.master),
            terminal: pty.slave,
            shown: String::new(),
        }
    }

    fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, and forgets what came before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let due = Instant::now() + NOT_HUNG;
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            let left = due.saturating_duration_since(Instant::now());
            assert!(
                wait_readable(&self.keys, left),
                "{text:?} did not come: {:?}",
                self.shown
            );
            let mut bytes = [0; 4096];
            let count = self.keys.read(&mut bytes).unwrap();
            self.shown
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    fn is_as_it_was(&self) -> bool {
        let flags = tcgetattr(&self.terminal).unwrap().local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminal_has_a_prompt_a_history_and_ctrl_c() {
    let place = Place::new();
    let mut shell = Typed::start(&place);
    shell.shows("mine /workspace$ ");
    shell.keys("mkdir sub; cd sub\r");
    shell.shows("mine /workspace/sub$ ");
    shell.keys("echo $((40 + 2))\r");
    shell.shows("\n42\r\n");
    shell.shows("$ ");
    // The line before, edited: its last 5 characters are other ones.
    shell.keys("\u{1b}[A\u{7f}\u{7f}\u{7f}\u{7f}3))\r");
    shell.shows("\n43\r\n");
    shell.shows("$ ");
    // What is typed so far is dropped.
    shell.keys("echo ne\u{3}");
    shell.shows("$ ");
    shell.keys("touch up; sleep 777\r");
    wait_for(&place.workspace.join("sub"), "up");
    assert!(shell.is_as_it_was(), "a command found a raw terminal");
    shell.keys("\u{3}");
    shell.shows("stopped");
    shell.shows("mine /workspace/sub$ ");
    shell.keys("ps -eo args | grep '^sleep' || echo none\r");
    shell.shows("\nnone\r\n");
    shell.shows("$ ");
    shell.keys("(exit 5)\r");
    shell.shows("\n");
    shell.shows("$ ");
    shell.keys("\u{4}");
    let end = pidfd(shell.child.id()).unwrap();
    assert!(wait_readable(&end, NOT_HUNG));
    assert_eq!(shell.child.wait().unwrap().code(), Some(5));
    assert!(shell.is_as_it_was());
    place.assert_gone();
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_as_it_was() {
    let place = Place::new();
    let mut shell = Typed::start(&place);
    shell.shows("mine /workspace$ ");
    shell.keys("echo half");
    shell.shows("half");
    assert!(!shell.is_as_it_was(), "the control: a line is being edited");
    send(&shell.child, Signal::SIGTERM);
    let status = shell.child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
    assert!(shell.is_as_it_was());
    place.assert_gone();
}
