//! The default network: pasta's, in both layouts. The only peers are servers of the test's own, on
//! this machine's loopback.

mod around;
mod beside;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::config::{NetworkHelper, NetworkLayout};
use runsc_driver::selection::find_program;
use runsc_driver::{Call, Host, NetworkMode, SandboxOptions};

use crate::common::{Place, Ran, is_root};
use crate::library::sh;

/// `runsc-driver run` with a network; the default one unless the flags name another.
fn run(place: &Place, flags: &[&str], script: &str) -> Ran {
    let args = [&["run", "--no-cfc"], flags, &["--", "sh", "-c", script]].concat();
    Ran::of(place.command(args).output().unwrap())
}

/// Puts a driver on the default network.
pub fn on_network(options: &mut SandboxOptions, layout: NetworkLayout) {
    let host = Host::read();
    let find = |name: &str| find_program(name, &host).unwrap_or_else(|| panic!("no {name}"));
    options.network = NetworkMode::Sandbox;
    options.network_layout = layout;
    options.network_helper = Some(NetworkHelper {
        pasta: find("pasta"),
        setpriv: find("setpriv"),
        unshare: Some(find("unshare")),
    });
}

fn in_session(name: &str, script: &str) -> Call {
    let mut call = sh(script);
    call.session = Some(name.to_owned());
    call
}

/// A server on the host's loopback that greets whoever connects.
fn greeter(greeting: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(greeting.as_bytes());
        }
    });
    port
}

/// In Python, what a connection to a server comes to, and whether at once.
fn connect(to: &str, port: u16) -> String {
    format!(
        "python3 -c '
import socket, time
start = time.monotonic()
try:
    with socket.create_connection((\"{to}\", {port}), 20) as s: said = s.recv(99).decode()
except OSError as err: said = type(err).__name__
print(said, \"at once\" if time.monotonic() - start < 5 else \"late\")'"
    )
}

fn kill_pid(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
}

/// The pastas that name this place on their command lines.
fn pastas(place: &Place) -> BTreeSet<u32> {
    let is_pasta = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("pas"))
    };
    place.processes().into_iter().filter(is_pasta).collect()
}

/// Echoes datagrams back, until it is dropped.
fn echo() -> u16 {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            let _ = server.send_to(&buffer[..length], from);
        }
    });
    port
}

/// What [`datagrams`] tells of a sandbox that gets its own answers and no other.
const APART: &str = "0 foreign, most own\n";

/// In Python: sends datagrams from port 5000, and counts the answers that are another's, and those
/// that did not come.
fn datagrams(tag: &str, port: u16) -> String {
    format!(
        "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 5000)); s.settimeout(0.2)
own = foreign = lost = 0
for i in range(200):
    s.sendto(b\"{tag}%d\" % i, (\"10.0.2.2\", {port}))
    try: got = s.recv(99)
    except OSError: lost += 1; continue
    if got.startswith(b\"{tag}\"): own += 1
    else: foreign += 1
print(foreign, \"foreign,\", \"most\" if own > 190 else own, \"own\")'"
    )
}

#[test]
fn a_mount_at_or_over_a_file_of_the_networks_is_refused() {
    let place = Place::new();
    fs::File::create(place.workspace.join("mine")).unwrap();
    for at in [
        "/etc/hosts",
        "/etc/../etc/hosts",
        "/etc",
        "/etc/resolv.conf",
    ] {
        let source = if at == "/etc" { "." } else { "mine" };
        let ran = run(&place, &["--ro-bind", source, at], "true");
        ran.assert_says(125, &["the driver puts there", "[sandbox-path-reserved]"]);
    }
    // The control: without the network the place is free.
    let flags = ["--network", "none", "--ro-bind", "mine", "/etc/hosts"];
    run(&place, &flags, "cat /etc/hosts").assert(0, "", "");
    place.assert_gone();
}

#[test]
fn an_egress_policy_is_kept_or_refused() {
    let place = Place::new();
    let cases: [(&[&str], i32, &str); 4] = [
        (
            &["--network", "none", "--egress", "none"],
            125,
            "[egress-not-enforceable]",
        ),
        (
            &["--network", "host", "--egress", "loopback"],
            125,
            "[egress-not-enforceable]",
        ),
        (&["--egress", "localhost:80"], 2, "own loopback"),
        (
            &["--egress", "no-such-name.invalid:80"],
            125,
            "[egress-name-unresolved]",
        ),
    ];
    for (flags, code, words) in cases {
        run(&place, flags, "touch ran").assert_says(code, &[words]);
    }
    assert!(!place.workspace.join("ran").exists());
    place.assert_no_process_within(Duration::ZERO);
}

/// The control of all that keeps datagrams apart: a pasta by itself gives the answers to one
/// namespace's to another that came later to the same port.
#[test]
fn a_bare_pasta_mixes_the_datagrams_of_two_namespaces() {
    const ASK: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 5000)); s.settimeout(0.5)
for line in sys.stdin:
    s.sendto(line.strip().encode(), (\"10.0.2.2\", int(sys.argv[1])))
    try: print(s.recv(99).decode(), flush=True)
    except OSError: print(\"nothing\", flush=True)";
    let port = echo().to_string();
    let start = || {
        let mut pasta = std::process::Command::new("pasta");
        pasta
            .args([
                "--config-net",
                "--quiet",
                "-4",
                "-a",
                "10.0.2.15",
                "-n",
                "24",
            ])
            .args([
                "-g", "10.0.2.2", "-t", "none", "-u", "none", "-T", "none", "-U", "none",
            ]);
        if is_root() {
            pasta.args(["--netns-only", "--runas", "0"]);
        }
        let mut child = pasta
            .args(["--", "python3", "-c", ASK, &port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let mut sides = [start(), start()];
    let mut ask = |side: usize, word: &str| {
        let (child, lines) = &mut sides[side];
        writeln!(child.stdin.as_mut().unwrap(), "{word}").unwrap();
        lines.next().unwrap().unwrap()
    };
    // The control's control: each alone gets its own.
    assert_eq!(ask(0, "a1"), "a1");
    assert_eq!(ask(1, "b1"), "b1");
    assert_eq!(ask(0, "a2"), "nothing");
    assert_eq!(ask(1, "b2"), "a2");
    for (mut child, _) in sides {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
