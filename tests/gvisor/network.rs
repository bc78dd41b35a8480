//! The default network: pasta's, in a namespace of the driver's. The only peers are servers of the
//! test's own, on this machine's loopback.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use runsc_driver::config::{NetworkHelper, Pool};
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{End, SessionRefusal};
use runsc_driver::selection::find_program;
use runsc_driver::{Call, Driver, Error, Host, NetworkMode, SandboxOptions};

use crate::common::{NOT_HUNG, Place, Ran, is_root, walk};
use crate::library::{made_with, out, sh, up};

/// `runsc-driver run` with a network; the default one unless the flags name another.
fn run(place: &Place, flags: &[&str], script: &str) -> Ran {
    let args = [&["run", "--no-cfc"], flags, &["--", "sh", "-c", script]].concat();
    Ran::of(place.command(args).output().unwrap())
}

/// Puts a driver on the default network.
pub fn on_network(options: &mut SandboxOptions) {
    let host = Host::read();
    let find = |name: &str| find_program(name, &host).unwrap_or_else(|| panic!("no {name}"));
    options.network = NetworkMode::Sandbox;
    options.network_helper = Some(NetworkHelper {
        pasta: find("pasta"),
        setpriv: find("setpriv"),
        unshare: Some(find("unshare")),
    });
}

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made_with(place, on_network))
}

fn with_sessions(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made_with(place, |options| {
        on_network(options);
        options.session_egress = true;
    }))
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

#[test]
fn a_call_reaches_the_hosts_loopback_by_name_and_sees_none_of_its_interfaces() {
    let place = Place::new();
    let port = greeter("hello");
    let script = format!(
        "{}; echo err >&2; tail -n +3 /proc/net/dev | wc -l; exit 7",
        connect("host.docker.internal", port)
    );
    // Standard error is the command's alone: pasta's own words do not get there.
    run(&place, &[], &script).assert(7, "hello at once\n2\n", "err\n");
    let addresses = "python3 -c 'import socket
print(sorted(name for _, name in socket.if_nameindex())[-1])'; cat /etc/hosts";
    let ran = run(&place, &[], addresses);
    assert!(ran.out().starts_with("lo\n"), "{ran:?}");
    assert!(
        ran.out().contains("10.0.2.2\thost.docker.internal\n"),
        "{ran:?}"
    );
    place.assert_gone();
}

#[test]
fn nothing_can_connect_in() {
    let place = Place::new();
    let mut child = place
        .command(["run", "--no-cfc", "--", "python3", "-c"])
        .arg(
            "import socket
s = socket.create_server(('0.0.0.0', 0)); port = s.getsockname()[1]
socket.create_connection(('127.0.0.1', port)).close(); s.accept()
print(port, flush=True); s.settimeout(20)
try: s.accept(); print('somebody connected')
except TimeoutError: print('nobody connected')",
        )
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The control: from inside, it was connected to.
    let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
    for address in [[127, 0, 0, 1], [10, 0, 2, 15]] {
        let to = SocketAddr::from((address, port));
        let connected = TcpStream::connect_timeout(&to, Duration::from_secs(1));
        assert!(connected.is_err(), "{to} is open from outside");
    }
    kill_pid(child.id(), Signal::SIGTERM);
    child.wait().unwrap();
    assert_eq!(lines.next().map(Result::unwrap), None);
    place.assert_no_process_within(Duration::from_secs(2));
}

#[test]
fn a_timeout_is_a_timeout_and_ends_all() {
    let place = Place::new();
    let script = "sleep 4 && touch late & sleep 100";
    let started = Instant::now();
    let ran = run(&place, &["--timeout", "2s"], script);
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert!(started.elapsed() < NOT_HUNG);
    place.assert_gone();
    assert!(!place.workspace.join("late").exists());
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
fn the_networks_files_cannot_be_written() {
    let place = Place::new();
    let script = "for f in hosts resolv.conf; do echo x >>/etc/$f; done 2>/dev/null; \
                  grep -c ^x /etc/hosts /etc/resolv.conf";
    run(&place, &[], script).assert(1, "/etc/hosts:0\n/etc/resolv.conf:0\n", "");
}

#[test]
fn a_list_lets_two_of_three_servers_be_reached_and_refuses_the_third_at_once() {
    let place = Place::new();
    let (one, two, three) = (greeter("one"), greeter("two"), greeter("three"));
    let all = |to: &str| [one, two, three].map(|port| connect(to, port)).join("; ");
    let script = format!("{}; {}", all("host.docker.internal"), all("10.0.2.2"));
    // The control: without a list, all three.
    let open = "one at once\ntwo at once\nthree at once\n".repeat(2);
    run(&place, &[], &script).assert(0, &open, "");
    let list = format!("host.docker.internal:{one},10.0.2.2:{two}");
    let closed = "one at once\ntwo at once\nConnectionRefusedError at once\n".repeat(2);
    run(&place, &["--egress", &list], &script).assert(0, &closed, "");

    // A network that holds the gateway does not open the host.
    let around = format!("10.0.0.0/8:{one}");
    let refused = "ConnectionRefusedError at once\n".repeat(6);
    run(&place, &["--egress", &around], &script).assert(0, &refused, "");
    run(&place, &["--egress", "none"], &script).assert(0, &refused, "");
    run(&place, &["--egress", "loopback"], &script).assert(0, &open, "");
    place.assert_gone();
}

/// In Python, what sending a datagram comes to.
const DATAGRAM: &str = "python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
try: s.connect((sys.argv[1], int(sys.argv[2]))); s.send(b\"q\"); print(s.recv(9).decode())
except OSError as err: print(type(err).__name__)'";

#[test]
fn under_a_list_no_datagram_leaves_that_is_not_on_it_nor_any_name_query() {
    let place = Place::new();
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let list = format!("host.docker.internal:{}", greeter("x"));
    // To another resolver, to the one that would be there, to the server.
    let script = format!(
        "{DATAGRAM} 192.0.2.53 53; {DATAGRAM} 127.0.0.53 53; {DATAGRAM} 10.0.2.2 {port}; \
         getent hosts example.org || echo no name"
    );
    let expected = "PermissionError\nConnectionRefusedError\nPermissionError\nno name\n";
    let ran = run(&place, &["--egress", &list], &script);
    assert_eq!(ran.out(), expected, "{ran:?}");
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut [0; 9]).is_err(), "a datagram came through");
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

#[test]
fn raw_and_packet_sockets_are_not_to_be_had() {
    const TRY: &str = "python3 -c '
import socket
for family, kind, protocol in [
    (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    (socket.AF_PACKET, socket.SOCK_RAW, 768),
    (socket.AF_PACKET, socket.SOCK_DGRAM, 768),
]:
    try: socket.socket(family, kind, protocol); print(\"open\")
    except OSError as err: print(\"refused\")'";
    let place = Place::new();
    run(&place, &[], TRY).assert(0, "refused\nrefused\nrefused\n", "");
    if is_root() {
        // The control: outside the sandbox they are.
        use nix::libc;
        for (family, kind, protocol) in [
            (libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
            (libc::AF_PACKET, libc::SOCK_RAW, 768),
        ] {
            assert!(opens(family, kind, protocol), "{family}");
        }
    }
}

fn opens(family: i32, kind: i32, protocol: i32) -> bool {
    use std::os::fd::FromRawFd;
    // SAFETY: numbers alone; the descriptor is ours.
    #[allow(unsafe_code)]
    unsafe {
        let fd = nix::libc::socket(family, kind, protocol);
        fd >= 0 && {
            drop(std::os::fd::OwnedFd::from_raw_fd(fd));
            true
        }
    }
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

#[tokio::test]
async fn the_end_of_pasta_is_the_end_of_its_call() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let place = Place::new();
        let driver = driver(&place);
        let running = tokio::spawn({
            let driver = Arc::clone(&driver);
            async move { driver.run(sh("touch up; sleep 100 & sleep 100")).await }
        });
        up(&place).await;
        let pasta = pastas(&place);
        assert_eq!(pasta.len(), 1);
        kill_pid(*pasta.first().unwrap(), signal);
        let outcome = tokio::time::timeout(NOT_HUNG, running).await;
        let outcome = outcome.unwrap().unwrap().unwrap();
        assert_eq!(outcome.end, End::Lost, "{signal}");
        assert!(
            outcome
                .evidence
                .log
                .iter()
                .any(|line| line.contains("pasta ended"))
        );
        place.assert_no_process_within(Duration::from_secs(2));
        driver.close().await;
        place.assert_gone();
    }
}

#[tokio::test]
async fn sessions_are_refused_unless_they_may_have_the_network() {
    let place = Place::new();
    let driver = driver(&place);
    assert!(!driver.describe().sessions);
    let refused = driver.run(in_session("a", "true")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Session(SessionRefusal::StartFailed { .. })),
        "{refused:?}"
    );
    assert_eq!(refused.code(), "start-failed");
    driver.close().await;

    let driver = with_sessions(&place);
    assert!(driver.describe().sessions);
    let outcome = driver.run(in_session("a", "echo in")).await.unwrap();
    assert_eq!(out(&outcome), "in\n");
    driver.close().await;
    place.assert_gone();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_a_connection_open_across_calls() {
    let place = Place::new();
    let (port, lines) = line_server();
    let driver = with_sessions(&place);
    let first = format!(
        "setsid python3 -c '
import os, socket, time
s = socket.create_connection((\"host.docker.internal\", {port})); s.sendall(b\"first\\n\")
while not os.path.exists(\"/tmp/go\"): time.sleep(0.02)
s.sendall(b\"second\\n\"); time.sleep(100)' </dev/null >/dev/null 2>&1 &"
    );
    let outcome = driver.run(in_session("s", &first)).await.unwrap();
    assert_eq!(outcome.end, End::Exited, "{outcome:?}");
    let line = |lines: &Receiver<String>| lines.recv_timeout(NOT_HUNG).unwrap();
    assert_eq!(line(&lines), "first");
    driver.run(in_session("s", "touch /tmp/go")).await.unwrap();
    assert_eq!(line(&lines), "second");
    driver.close().await;
    place.assert_gone();
}

/// A server that takes one connection and tells its lines.
fn line_server() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, lines) = channel();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    (port, lines)
}

#[tokio::test]
async fn the_end_of_pasta_is_the_end_of_its_session() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let place = Place::new();
        let driver = with_sessions(&place);
        driver.run(in_session("s", "true")).await.unwrap();
        kill_pid(*pastas(&place).first().unwrap(), signal);
        place.assert_no_process_within(Duration::from_secs(2));
        let lost = driver.run(in_session("s", "true")).await.unwrap_err();
        assert_eq!(lost.code(), "session-lost", "{lost:?}");
        driver.close().await;
        place.assert_gone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_that_are_booted_ahead_have_the_network_too() {
    let place = Place::new();
    let pool = Pool {
        size: 2,
        idle_timeout: NOT_HUNG,
    };
    let driver = Arc::new(made_with(&place, |options| {
        on_network(options);
        options.pool = Some(pool);
    }));
    assert_eq!(driver.prepare().await.unwrap(), 2);
    assert_eq!(pastas(&place).len(), 2);
    let script = connect("host.docker.internal", greeter("hello"));
    let outcome = driver.run(sh(&script)).await.unwrap();
    assert_eq!(out(&outcome), "hello at once\n");
    driver.close().await;
    place.assert_gone();
}

/// The children of a process that are copies of it: they have executed nothing.
fn copies(pid: u32) -> Vec<u32> {
    let line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = line(pid);
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let children = threads.flatten().flatten().flat_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let pids: Vec<u32> = list.split(' ').filter_map(|pid| pid.parse().ok()).collect();
        pids
    });
    children.filter(|child| line(*child) == own).collect()
}

#[test]
fn the_end_of_a_holder_leaves_nothing() {
    const TRIES: usize = 12;
    let mut killed = 0;
    for attempt in 0..TRIES {
        let place = Place::new();
        let mut child = place
            .command(["run", "--no-cfc", "--", "true"])
            .spawn()
            .unwrap();
        let mut seen = 0;
        while let Ok(None) = child.try_wait() {
            // Those of the probe are the first ones, then the call's own.
            for copy in copies(child.id()) {
                seen += 1;
                if seen > attempt * 4 {
                    let pid = Pid::from_raw(copy.try_into().unwrap());
                    killed += usize::from(kill(pid, Signal::SIGKILL).is_ok());
                }
            }
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        // It failed and says so, or was done with what was killed.
        assert!(matches!(ran.code, Some(0 | 125)), "{ran:?}");
        place.assert_no_process_within(Duration::from_secs(2));
        let left = walk(&place.tmp);
        // At the most the parent of the scratch trees.
        assert!(left.len() <= 1, "{left:?}");
    }
    assert!(killed > 0, "no holder was met");
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

/// In Python: sends datagrams from port 5000, and counts the answers that are another's.
fn datagrams(tag: &str, port: u16) -> String {
    format!(
        "python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", 5000)); s.settimeout(0.2)
own = foreign = refused = 0
for i in range(200):
    try: s.sendto(b\"{tag}%d\" % i, (\"10.0.2.2\", {port}))
    except PermissionError: refused += 1; continue
    try: got = s.recv(99)
    except OSError: continue
    if got.startswith(b\"{tag}\"): own += 1
    else: foreign += 1
print(foreign, \"refused\" if refused == 200 else \"sent\" if refused == 0 else \"both\")'"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn no_datagram_of_one_sandbox_comes_to_another() {
    const ROUNDS: usize = 20;
    let place = Place::new();
    let port = echo();
    let driver = with_sessions(&place);
    driver.run(sh("true")).await.unwrap();
    // What was found out of this pasta, once.
    let expected = match driver.describe().cfc.udp {
        Some("open") => "0 sent\n",
        Some("resolver-only") => "0 refused\n",
        other => panic!("{other:?}"),
    };
    for round in 0..ROUNDS {
        let calls = ["a", "b"].map(|tag| {
            let driver = Arc::clone(&driver);
            // The last rounds in sessions, which are kept.
            let script = datagrams(tag, port);
            let call = match round < ROUNDS / 2 {
                true => sh(&script),
                false => in_session(tag, &script),
            };
            tokio::spawn(async move { driver.run(call).await.unwrap() })
        });
        for call in calls {
            assert_eq!(out(&call.await.unwrap()), expected, "round {round}");
        }
    }
    driver.close().await;
    place.assert_gone();
}

/// The command, with a file of ours in place of one of the machine's: as root, in a mount namespace
/// of its own.
fn with_bound(place: &Place, ours: &Path, at: &str, script: &str) -> Ran {
    let driver = place.command(["run", "--no-cfc", "--", "sh", "-c", script]);
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "--", "sh", "-c"])
        .arg(format!("mount --bind \"$0\" {at} && exec \"$@\""))
        .arg(ours)
        .arg(driver.get_program())
        .args(driver.get_args())
        .current_dir(&place.workspace)
        .env("TMPDIR", &place.tmp);
    Ran::of(command.output().unwrap())
}

#[test]
fn a_resolver_on_the_hosts_loopback_is_asked_over_udp_and_tcp() {
    if !is_root() {
        return; // Only root can give a run another resolv.conf; the relay has a test of its own.
    }
    const RESOLVER: [u8; 4] = [127, 53, 0, 7];
    let place = Place::new();
    let udp = UdpSocket::bind((Ipv4Addr::from(RESOLVER), 53)).unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::from(RESOLVER), 53)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(&[&buffer[..length], b" over udp"].concat(), from);
        }
    });
    thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut buffer = [0; 512];
            let length = stream.read(&mut buffer).unwrap_or(0);
            let _ = stream.write_all(&[&buffer[..length], b" over tcp"].concat());
        }
    });
    let conf = place.dir.path().join("resolv.conf");
    let mut file = fs::File::create(&conf).unwrap();
    file.write_all(b"nameserver 127.53.0.7\nsearch a.test\n")
        .unwrap();
    let script = "cat /etc/resolv.conf; python3 -c '
import socket
for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
    s = socket.socket(socket.AF_INET, kind); s.settimeout(20)
    s.connect((\"127.0.0.53\", 53)); s.sendall(b\"hi\"); print(s.recv(99).decode())'";
    let expected = "nameserver 127.0.0.53\nsearch a.test\nhi over udp\nhi over tcp\n";
    with_bound(&place, &conf, "/etc/resolv.conf", script).assert(0, expected, "");
}

#[test]
fn a_tunnel_device_that_cannot_be_opened_is_found_before_pasta_is_started() {
    if !is_root() {
        return; // Only root can put another file in the device's place.
    }
    let place = Place::new();
    // A directory cannot be opened for writing, by root either.
    let devices = place.dir.path().join("net");
    fs::create_dir_all(devices.join("tun")).unwrap();
    let ran = with_bound(&place, &devices, "/dev/net", "touch ran");
    ran.assert_says(
        125,
        &[
            "/dev/net/tun cannot be opened",
            "modprobe tun",
            "[tun-unavailable]",
        ],
    );
    assert!(!place.workspace.join("ran").exists());
    place.assert_no_process_within(Duration::ZERO);
}
