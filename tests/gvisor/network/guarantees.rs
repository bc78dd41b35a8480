//! What the network guarantees, in either layout.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use runsc_driver::Driver;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::End;
use serde_json::{Value, json};

use super::super::{APART, connect, datagrams, echo, greeter, kill_pid, on_network, pastas};
use super::LAYOUT;
use crate::common::{NOT_HUNG, Place, Ran, install, is_root};
use crate::library::{made_with, out, sh, started, up};

/// `runsc-driver run` on the network.
fn run(place: &Place, flags: &[&str], script: &str) -> Ran {
    let flags = [&["--network-layout", LAYOUT.as_str()], flags].concat();
    super::super::run(place, &flags, script)
}

fn driver(place: &Place) -> Arc<DirectDriver> {
    Arc::new(made_with(place, |options| on_network(options, LAYOUT)))
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
fn a_command_ends_as_it_does_on_any_network() {
    let place = Place::new();
    let ended = |script: &str| {
        let told = run(&place, &["--json"], script).json();
        ["outcome", "exitCode", "exitCause"].map(|field| told[field].clone())
    };
    for (script, code, cause) in [
        ("exit 0", 0, "exit"),
        ("exit 128", 128, "exit"),
        ("exit 137", 137, "ambiguous"),
        ("kill -9 $$", 137, "ambiguous"),
        ("exit 255", 255, "exit"),
    ] {
        let expected: [Value; 3] = ["exited".into(), code.into(), cause.into()];
        assert_eq!(ended(script), expected, "{script}");
    }
    let layout = LAYOUT.as_str();
    let none = [
        "run",
        "--no-cfc",
        "--network-layout",
        layout,
        "--",
        "no-such-program",
    ];
    let ran = Ran::of(place.command(none).output().unwrap());
    ran.assert_says(127, &["no-such-program"]);
    place.assert_gone();
}

#[test]
fn standard_input_gets_through() {
    let place = Place::new();
    let mut child = place
        .command(["run", "--no-cfc", "--network-layout", LAYOUT.as_str()])
        .args(["--", "sh", "-c", "wc -c; echo done >&2"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&[b'x'; 300_000])
        .unwrap();
    Ran::of(child.wait_with_output().unwrap()).assert(0, "300000\n", "done\n");
    place.assert_gone();
}

/// The context goes in and the result comes out: the label that came in comes back.
#[test]
fn labels_are_kept() {
    let place = Place::new();
    let ran = |flags: &[&str]| {
        let args = ["run", "--json", "--network-layout", LAYOUT.as_str()];
        let mut command = place.command(args);
        command.args(flags).args(["--", "echo", "hi"]);
        let told = Ran::of(command.output().unwrap()).json();
        let verdict = told["cfc"]["verdict"].clone();
        (
            verdict,
            told["cfc"]["label"].clone(),
            told["stdout"]["data"].clone(),
        )
    };
    let public = ("observed".into(), json!({}), "hi\n".into());
    assert_eq!(ran(&[]), public);
    let secret = json!({ "confidentiality": ["secret"] });
    let withheld = ("opaque".into(), secret, Value::Null);
    assert_eq!(ran(&["--cfc-label", "secret"]), withheld);
    place.assert_gone();
}

#[tokio::test]
async fn a_call_that_is_dropped_and_a_driver_that_closes_leave_nothing() {
    for close in [false, true] {
        let place = Place::new();
        let driver = driver(&place);
        let running = started(&driver, sh("touch up; sleep 100 & sleep 100"), &place).await;
        if close {
            driver.close().await;
            assert_eq!(running.await.unwrap().end, End::Cancelled);
        } else {
            drop(running);
            driver.close().await;
        }
        place.assert_gone();
    }
}

#[test]
fn nothing_can_connect_in() {
    let place = Place::new();
    let mut child = place
        .command(["run", "--no-cfc", "--network-layout", LAYOUT.as_str()])
        .args(["--", "python3", "-c"])
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
fn a_list_is_kept_for_datagrams_too() {
    let place = Place::new();
    let (one, two, three) = (echo(), echo(), echo());
    let ask = |to: &str| {
        [one, two, three]
            .map(|port| format!("{DATAGRAM} {to} {port}"))
            .join("; ")
    };
    let script = format!("{}; {}", ask("host.docker.internal"), ask("10.0.2.2"));
    // The control: without a list, all three.
    run(&place, &[], &script).assert(0, &"q\n".repeat(6), "");
    run(&place, &["--egress", "loopback"], &script).assert(0, &"q\n".repeat(6), "");
    let list = format!("host.docker.internal:{one},10.0.2.2:{two}");
    let kept = "q\nq\nPermissionError\n".repeat(2);
    run(&place, &["--egress", &list], &script).assert(0, &kept, "");
    let refused = "PermissionError\n".repeat(6);
    run(&place, &["--egress", "none"], &script).assert(0, &refused, "");
}

/// A kernel that cannot keep datagrams apart lets none out, and all else goes on.
#[test]
fn where_datagrams_cannot_be_kept_apart_none_leave() {
    let place = Place::new();
    let bin = place.dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    // As nft says it of a kernel without address translation.
    let nft = "#!/bin/sh
rules=$(cat)
case $rules in *snat*) echo 'Error: Could not process rule: No such file' >&2; exit 1 ;; esac
echo \"$rules\" | exec /usr/sbin/nft -f -
";
    install(&bin.join("nft"), nft);
    let (datagrams, server) = (echo(), greeter("hello"));
    let script = format!(
        "{DATAGRAM} 10.0.2.2 {datagrams}; {}",
        connect("10.0.2.2", server)
    );
    let ran = |path: String| {
        let args = [
            "run",
            "--no-cfc",
            "--network-layout",
            LAYOUT.as_str(),
            "--",
            "sh",
            "-c",
        ];
        let mut command = place.command(args);
        Ran::of(command.arg(&script).env("PATH", path).output().unwrap())
    };
    let path = std::env::var("PATH").unwrap();
    ran(path.clone()).assert(0, "q\nhello at once\n", "");
    let without = ran(format!("{}:{path}", bin.display()));
    assert_eq!(
        without.out(),
        "PermissionError\nhello at once\n",
        "{without:?}"
    );
    place.assert_gone();
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

#[tokio::test(flavor = "multi_thread")]
async fn no_datagram_of_one_sandbox_comes_to_another() {
    const ROUNDS: usize = 20;
    let place = Place::new();
    let port = echo();
    let driver = driver(&place);
    driver.run(sh("true")).await.unwrap();
    assert_eq!(driver.describe().cfc.udp, Some("open"));
    for round in 0..ROUNDS {
        let calls = ["a", "b"].map(|tag| {
            let (driver, call) = (Arc::clone(&driver), sh(&datagrams(tag, port)));
            tokio::spawn(async move { driver.run(call).await.unwrap() })
        });
        for call in calls {
            assert_eq!(out(&call.await.unwrap()), APART, "round {round}");
        }
    }
    driver.close().await;
    place.assert_gone();
}

/// Two sandboxes that know each other's ports, and send to them by the host at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn two_sandboxes_that_agree_cannot_speak_by_the_host() {
    let place = Place::new();
    // What the host sees of a sandbox is where it would be spoken to.
    let seen = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    seen.set_read_timeout(Some(NOT_HUNG)).unwrap();
    let port = seen.local_addr().unwrap().port();
    let script = |tag: &str| {
        format!(
            "python3 -c '
import socket, time, os
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"0.0.0.0\", 0)); s.settimeout(0.05)
s.sendto(b\"{tag}\", (\"10.0.2.2\", {port})); s.settimeout(20)
other = int(s.recv(99)); s.settimeout(0.05)
got, refused, end = set(), 0, time.monotonic() + 2
while time.monotonic() < end:
    for to in (\"10.0.2.2\", other), (\"10.0.2.15\", other):
        try: s.sendto(b\"from {tag}\", to)
        except OSError: refused += 1
    try: got.add(s.recv(99))
    except OSError: pass
print(got or \"nothing\", \"refused\" if refused else \"sent\")'"
        )
    };
    let driver = driver(&place);
    let calls = ["a", "b"].map(|tag| {
        let (driver, call) = (Arc::clone(&driver), sh(&script(tag)));
        tokio::spawn(async move { driver.run(call).await.unwrap() })
    });
    let told = tokio::task::spawn_blocking(move || {
        let mut buffer = [0; 9];
        let from = [(); 2].map(|()| seen.recv_from(&mut buffer).unwrap().1);
        for (to, other) in [(from[0], from[1]), (from[1], from[0])] {
            seen.send_to(other.port().to_string().as_bytes(), to)
                .unwrap();
        }
        // Somebody else on the host is no answer.
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for to in from {
            other.send_to(b"from elsewhere", to).unwrap();
        }
        from
    });
    let [a, b] = told.await.unwrap();
    assert_ne!(a.port(), b.port());
    for call in calls {
        assert_eq!(out(&call.await.unwrap()), "nothing refused\n");
    }
    driver.close().await;
    place.assert_gone();
}

/// The command, with a file of ours in place of one of the machine's: as root, in a mount namespace
/// of its own.
fn with_bound(place: &Place, ours: &Path, at: &str, script: &str) -> Ran {
    let layout = LAYOUT.as_str();
    let words = ["run", "--no-cfc", "--network-layout", layout];
    let mut driver = place.command(words);
    driver.args(["--", "sh", "-c", script]);
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

/// Newer pastas start there; of an older one it is said why it does not.
#[test]
fn a_machine_that_is_not_connected_is_served_or_told_so() {
    if !is_root() {
        return; // Only root can take the machine's network away from a driver alone.
    }
    let place = Place::new();
    let driver = place.command(["run", "--no-cfc", "--network-layout", LAYOUT.as_str()]);
    let mut command = std::process::Command::new("unshare");
    command
        .args(["--net", "--"])
        .arg(driver.get_program())
        .args(driver.get_args());
    command
        .args(["--", "echo", "served"])
        .current_dir(&place.workspace)
        .env("TMPDIR", &place.tmp);
    let ran = Ran::of(command.output().unwrap());
    if ran.code == Some(0) {
        ran.assert(0, "served\n", "");
    } else {
        ran.assert_says(
            125,
            &["no IPv4 default route", "connect it", "[pasta-failed]"],
        );
    }
    place.assert_no_process_within(Duration::from_secs(2));
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
