//! Egress: whatever takes what a container writes to where no label follows it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::args::{Args, Command, is_true};
use super::mounts::Bind;

/// Global flags that write what containers do to files or sockets of the host.
const TOLD_ELSEWHERE: &[&str] = &[
    "coverage-report",
    "debug-log",
    "debug-log-fd",
    "log-packets",
    "pcap-log",
    "pod-init-config",
    "profile-block",
    "profile-cpu",
    "profile-heap",
    "profile-mutex",
    "profiling-metrics-log",
    "strace",
    "trace",
];

/// What a container's command line and mounts let out, where there is anything.
#[must_use]
pub fn egress(args: &Args, command: &Command, binds: &[Bind]) -> Option<String> {
    let global = |name: &str| args.global(name).map(|value| value.to_string_lossy());
    match args.global("network").map(OsStr::as_bytes) {
        Some(b"none") => {}
        Some(other) => return Some(format!("--network={}", String::from_utf8_lossy(other))),
        None => return Some("--network=sandbox, the default".into()),
    }
    for name in ["host-uds", "host-fifo"] {
        if let Some(value) = global(name).filter(|value| value != "none") {
            return Some(format!("--{name}={value}"));
        }
    }
    let switches = ["fsgofer-host-uds", "allow-flag-override"];
    if let Some(name) = switches.into_iter().find(|name| is_true(args.global(name))) {
        return Some(format!("--{name}"));
    }
    let told = TOLD_ELSEWHERE.iter().find(|name| {
        let value = args.global(name).map(OsStr::as_bytes);
        value.is_some_and(|value| !matches!(value, b"false" | b"0" | b"-1"))
    });
    if let Some(name) = told {
        return Some(format!("--{name}"));
    }
    let handed = ["pass-fd", "user-log", "console-socket"];
    if let Some(name) = handed.into_iter().find(|name| command.flag(name).is_some()) {
        return Some(format!("--{name}"));
    }
    let trees = binds.iter().flat_map(|bind| &bind.trees);
    let elsewhere = trees
        .filter(|tree| tree.writable)
        .find_map(|tree| Some((tree, tree.elsewhere.as_ref()?)));
    elsewhere.map(|(tree, kind)| {
        format!(
            "the writable mount {}, which is {kind}",
            tree.path.display()
        )
    })
}

/// Whether runsc keeps what is written to the image in memory.
#[must_use]
pub fn image_stays_as_it_is(args: &Args, read_only: bool) -> bool {
    let overlay = args.global("overlay2").map(OsStr::as_bytes);
    // Over an image that is read-only for runsc it makes no overlay.
    !read_only && matches!(overlay, Some(b"root:memory" | b"all:memory"))
}

/// An overlay whose content is in a file of the host that nobody could label.
#[must_use]
pub fn overlay_elsewhere(args: &Args) -> Option<String> {
    let overlay = args.global("overlay2")?.to_string_lossy();
    overlay.contains(":dir=").then(|| overlay.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::mounts::{FileId, Tree};
    use std::ffi::OsString;

    fn of(line: &str) -> Option<String> {
        let args = Args::parse(line.split(' ').map(OsString::from)).unwrap();
        let command = args.command.as_ref().unwrap();
        egress(&args, command, &[])
    }

    #[test]
    fn what_lets_anything_out_is_told() {
        for (line, expected) in [
            ("--network=none run c", None),
            ("run c", Some("--network=sandbox, the default")),
            ("--network host run c", Some("--network=host")),
            (
                "--network=none --network=host run c",
                Some("--network=host"),
            ),
            (
                "--network=none --host-uds=all run c",
                Some("--host-uds=all"),
            ),
            ("--network=none --host-uds=none run c", None),
            (
                "--network=none --host-fifo=open run c",
                Some("--host-fifo=open"),
            ),
            (
                "--network=none --fsgofer-host-uds run c",
                Some("--fsgofer-host-uds"),
            ),
            ("--network=none --strace=false run c", None),
            ("--network=none --strace run c", Some("--strace")),
            ("--network=none --debug-log=/x run c", Some("--debug-log")),
            ("--network=none run --pass-fd 3:3 c", Some("--pass-fd")),
        ] {
            assert_eq!(of(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_writable_mount_of_another_machine_lets_out_what_is_written_to_it() {
        let args = ["--network=none", "run", "c"].map(OsString::from);
        let args = Args::parse(args).unwrap();
        let with = |kind: Option<&str>, writable| {
            let bind = Bind {
                destination: "/work".into(),
                source: "/net".into(),
                trees: vec![Tree {
                    path: "/net".into(),
                    id: FileId(1, 2),
                    device: "0:41".into(),
                    place: "/".into(),
                    ancestors: Vec::new(),
                    writable,
                    elsewhere: kind.map(str::to_owned),
                }],
            };
            egress(&args, args.command.as_ref().unwrap(), &[bind])
        };
        let told = with(Some("nfs4"), true);
        assert_eq!(
            told.as_deref(),
            Some("the writable mount /net, which is nfs4")
        );
        assert_eq!(with(Some("nfs4"), false), None);
        assert_eq!(with(None, true), None);
    }

    #[test]
    fn only_an_overlay_in_memory_leaves_the_image_alone() {
        let stays = |line: &str, read_only| {
            let args = Args::parse(line.split(' ').map(OsString::from)).unwrap();
            image_stays_as_it_is(&args, read_only)
        };
        assert!(stays("--overlay2=root:memory run c", false));
        assert!(!stays("--overlay2=root:memory run c", true));
        assert!(!stays("run c", false));
        assert!(!stays("--overlay2=none run c", false));
    }
}
