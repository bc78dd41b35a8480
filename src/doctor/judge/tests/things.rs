//! The machine, its network's programs, and its resources.

use std::path::{Path, PathBuf};

use super::{judged, says};
use crate::doctor::gather::ask::{Answer, Reading};
use crate::doctor::gather::machine::{Cgroups, Room};
use crate::doctor::gather::programs::Programs;
use crate::doctor::judge::{machine, network, resources};
use crate::doctor::{Name, State};
use crate::host::{Host, Platform};
use crate::selection::Obstacle;
use crate::settings::tests::bare_host;

#[test]
fn platforms_and_processors() {
    let other = || Platform::Other("freebsd".to_owned());
    let platforms: [(Platform, State, &str, &[&str]); 3] = [
        (Platform::Linux, State::Pass, "Linux", &[]),
        (
            Platform::MacOs,
            State::Info,
            "macOS: nothing of this driver has run on one",
            &[],
        ),
        (other(), State::Fail, "freebsd", &["no default on freebsd"]),
    ];
    for (platform, state, value, words) in platforms {
        let said = judged(|to| machine::platform(to, &platform));
        says(&said, Name::Platform, state, value, words);
    }
    let processors: [(Platform, &str, State, &[&str]); 6] = [
        (Platform::Linux, "x86_64", State::Pass, &[]),
        (Platform::Linux, "aarch64", State::Pass, &[]),
        (
            Platform::Linux,
            "riscv64",
            State::Fail,
            &["not built for riscv64"],
        ),
        (Platform::MacOs, "aarch64", State::Pass, &[]),
        (Platform::MacOs, "x86_64", State::Fail, &["Apple silicon"]),
        (other(), "x86_64", State::Info, &[]),
    ];
    for (platform, arch, state, words) in processors {
        let host = Host {
            platform,
            arch: arch.to_owned(),
            ..bare_host()
        };
        let said = judged(|to| machine::arch(to, &host));
        says(&said, Name::Arch, state, arch, words);
    }
}

#[test]
fn kernels() {
    let cases: [(Option<&str>, State, &str, &[&str]); 8] = [
        (Some("6.18.44-fc"), State::Pass, "6.18.44-fc", &[]),
        (Some("5.12.0"), State::Pass, "5.12.0", &[]),
        (Some("10.0"), State::Pass, "10.0", &[]),
        (
            Some("5.11.3"),
            State::Warn,
            "5.11.3",
            &["read-only", "5.12"],
        ),
        (
            Some("5.10.0-30-amd64"),
            State::Fail,
            "5.10.0-30-amd64",
            &["too old", "5.11"],
        ),
        (Some("4.19"), State::Fail, "4.19", &["too old"]),
        (Some("odd"), State::Info, "odd", &[]),
        (None, State::Info, "not known", &[]),
    ];
    for (release, state, value, words) in cases {
        let said = judged(|to| machine::kernel(to, release));
        says(&said, Name::Kernel, state, value, words);
    }
}

#[test]
fn what_pasta_does_with_proc_is_told_by_what_was_measured() {
    let wrote = |text: &str| Reading::Known(Answer::Wrote(text.to_owned()));
    let unknown = "not known: it depends on pasta's release";
    let cases: [(Reading<Answer>, bool, State, &str, &[&str]); 9] = [
        (
            wrote("pasta 0.0~git20250503.587980c-2\nx"),
            true,
            State::Pass,
            "mounts its own",
            &[],
        ),
        (
            wrote("pasta 2025_09_19.623dbf6"),
            true,
            State::Pass,
            "mounts its own",
            &[],
        ),
        (
            wrote("pasta 0.0~git20230309.7c7625d-1"),
            true,
            State::Info,
            "leaves the host's, which does not matter",
            &[],
        ),
        (
            wrote("pasta 0.0~git20240220.1e6f92b-1"),
            true,
            State::Info,
            unknown,
            &[],
        ),
        (
            wrote("pasta unknown version"),
            true,
            State::Info,
            unknown,
            &[],
        ),
        (wrote(""), true, State::Info, unknown, &[]),
        (
            Reading::Known(Answer::TimedOut),
            true,
            State::Info,
            unknown,
            &[],
        ),
        (Reading::Skipped, true, State::Info, "not probed", &[]),
        (
            wrote("pasta 0.0~git20230309"),
            false,
            State::Info,
            "not needed",
            &[],
        ),
    ];
    for (answer, wanted, state, value, words) in cases {
        let said = judged(|to| network::pasta_proc(to, &answer, wanted));
        says(&said, Name::PastaProc, state, value, words);
    }
}

#[test]
fn pasta_and_its_release() {
    let cases: [(Option<Answer>, State, &str, &[&str]); 4] = [
        (
            Some(Answer::Wrote("pasta 0.0~git20230309\nmore".to_owned())),
            State::Pass,
            "/usr/bin/pasta, 0.0~git20230309",
            &[],
        ),
        (
            Some(Answer::Wrote(String::new())),
            State::Pass,
            "/usr/bin/pasta, which does not tell its release",
            &[],
        ),
        (
            Some(Answer::NotStarted("Exec format error".to_owned())),
            State::Warn,
            "/usr/bin/pasta",
            &["does not tell its version", "install passt again"],
        ),
        (
            None,
            State::Fail,
            "missing",
            &["no entry of PATH holds pasta"],
        ),
    ];
    for (answer, state, value, words) in cases {
        let programs = Programs {
            pasta: answer.is_some().then(|| PathBuf::from("/usr/bin/pasta")),
            pasta_version: answer.map_or(Reading::Skipped, Reading::Known),
            setpriv: None,
            unshare: None,
            nft: None,
            tun: Ok(()),
        };
        let said = judged(|to| network::pasta(to, &programs, true));
        says(&said, Name::Pasta, state, value, words);
    }
}

#[test]
fn a_program_is_missed_only_where_it_is_needed() {
    let at = Path::new("/usr/bin/setpriv");
    let cases: [(Option<&Path>, Option<Obstacle>, State, &str, &[&str]); 4] = [
        (
            Some(at),
            Some(Obstacle::NoSetpriv),
            State::Pass,
            "/usr/bin/setpriv",
            &[],
        ),
        (Some(at), None, State::Pass, "/usr/bin/setpriv", &[]),
        (None, None, State::Info, "missing, and not needed", &[]),
        (
            None,
            Some(Obstacle::NoSetpriv),
            State::Fail,
            "missing",
            &["no entry of PATH holds setpriv", "install util-linux"],
        ),
    ];
    for (at, missing, state, value, words) in cases {
        let said = judged(|to| network::program(to, Name::Setpriv, at, missing));
        says(&said, Name::Setpriv, state, value, words);
    }
}

#[test]
fn the_tunnel_device() {
    let denied = || Err("Permission denied (os error 13)".to_owned());
    let cases: [(Result<(), String>, bool, State, &str, &[&str]); 3] = [
        (Ok(()), true, State::Pass, "can be opened", &[]),
        (denied(), false, State::Info, "not needed", &[]),
        (
            denied(),
            true,
            State::Fail,
            "Permission denied (os error 13)",
            &["/dev/net/tun cannot be opened", "chmod 0666"],
        ),
    ];
    for (tun, wanted, state, value, words) in cases {
        let said = judged(|to| network::tun(to, &tun, wanted));
        says(&said, Name::Tun, state, value, words);
    }
}

#[test]
fn memory_and_room() {
    let mib = 1024 * 1024;
    let memory: [(Option<u64>, State, &str, &[&str]); 3] = [
        (None, State::Info, "not known", &[]),
        (Some(256 * mib), State::Pass, "256.0 MiB available", &[]),
        (
            Some(255 * mib),
            State::Warn,
            "255.0 MiB available",
            &["memory is short"],
        ),
    ];
    for (bytes, state, value, words) in memory {
        let said = judged(|to| resources::memory(to, bytes));
        says(&said, Name::Memory, state, value, words);
    }
    let room = |bytes| Room {
        path: PathBuf::from("/t\u{1b}mp"),
        bytes,
    };
    let rooms: [(Option<Room>, State, &str, &[&str]); 3] = [
        (None, State::Info, "not known", &[]),
        (
            Some(room(64 * mib)),
            State::Pass,
            "64.0 MiB free at /t\\u{1b}mp",
            &[],
        ),
        (
            Some(room(0)),
            State::Warn,
            "0 B free at /t\\u{1b}mp",
            &["room is short", "make some"],
        ),
    ];
    for (found, state, value, words) in rooms {
        let judge = |to: &mut _| {
            resources::room(to, Name::DiskTemp, found.as_ref(), 64 * mib, "make some");
        };
        says(&judged(judge), Name::DiskTemp, state, value, words);
    }
}

#[test]
fn control_groups() {
    let cases = [
        ("", false, "", "not known"),
        (
            "4:memory:/x\n1:cpu:/",
            false,
            "",
            "version 1; no run is limited by them",
        ),
        (
            "1:cpu:/\n0::/",
            false,
            "",
            "versions 1 and 2; no run is limited by them",
        ),
        (
            "0::/u",
            false,
            "cpu",
            "version 2, not delegated; no run is limited by them",
        ),
        (
            "0::/u",
            true,
            "cpu pids",
            "version 2, delegated (cpu pids); no run is limited by them",
        ),
    ];
    for (membership, writable, controllers, value) in cases {
        let found = Cgroups {
            membership: membership.to_owned(),
            writable,
            controllers: controllers.to_owned(),
        };
        let said = judged(|to| resources::cgroups(to, &found));
        says(&said, Name::Cgroups, State::Info, value, &[]);
    }
}

#[test]
fn reapers() {
    let cases: [(Reading<bool>, State, &str, &[&str]); 4] = [
        (
            Reading::Known(true),
            State::Pass,
            "an orphan was reaped within 0.3 s",
            &[],
        ),
        (
            Reading::Known(false),
            State::Warn,
            "an orphan was not reaped within 0.3 s",
            &["slowly or never", "--init"],
        ),
        (
            Reading::Unknown("no sh".into()),
            State::Info,
            "not known: no sh",
            &[],
        ),
        (Reading::Skipped, State::Info, "not probed", &[]),
    ];
    for (reaped, state, value, words) in cases {
        let said = judged(|to| resources::reaper(to, &reaped));
        says(&said, Name::Reaper, state, value, words);
    }
}
