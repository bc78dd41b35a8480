//! The binary.

use std::path::PathBuf;

use super::{judged, says};
use crate::doctor::gather::ask::{Answer, Reading};
use crate::doctor::gather::files::{ScratchFound, ScratchParent};
use crate::doctor::gather::programs::Runsc;
use crate::doctor::judge::runsc;
use crate::doctor::{Name, State};
use crate::trust::scratch::Found;

const FLAGS: &str = "  -host-uds value\n    \tsockets\n  -directfs\n    \tx (default true)\n  \
    -ignore-cgroups\n    \tx\n  -log string\n    \tx\n  -log-format string\n    \tx\n  \
    -network value\n    \tx\n  -overlay2 value\n    \tx\n  -platform string\n    \tspecifies which \
    platform to use: systrap (default), ptrace, kvm. (default \"systrap\")\n  -root string\n    \t\
    x\n  -rootless\n    \tx\n";

fn wrote(text: &str) -> Reading<Answer> {
    Reading::Known(Answer::Wrote(text.to_owned()))
}

#[test]
fn where_it_is() {
    let found = |at| Runsc {
        at,
        version: Reading::Skipped,
        flags: Reading::Skipped,
        cfc: Reading::Skipped,
    };
    let there = found(Ok(PathBuf::from("/bin/runsc")));
    let said = judged(|to| runsc::found(to, &there));
    says(&said, Name::Runsc, State::Pass, "/bin/runsc", &[]);
    let not = found(Err("the runsc binary /x is a directory".to_owned()));
    let said = judged(|to| runsc::found(to, &not));
    let words = ["/x is a directory", "install-store.sh"];
    says(&said, Name::Runsc, State::Fail, "none", &words);
}

#[test]
fn versions() {
    let cases: [(Reading<Answer>, State, &str, &[&str]); 8] = [
        (
            wrote("runsc version 0.0~20240729.0\nspec: 1\n"),
            State::Pass,
            "0.0~20240729.0",
            &[],
        ),
        (
            wrote("runsc version release-20260112.0"),
            State::Pass,
            "release-20260112.0",
            &[],
        ),
        (
            wrote("runsc version 0.0~20221219.0"),
            State::Fail,
            "0.0~20221219.0",
            &["of 20221219 is too old", "install release 20240729"],
        ),
        (
            wrote("runsc version VERSION_MISSING"),
            State::Fail,
            "VERSION_MISSING",
            &["does not say which release"],
        ),
        (
            Reading::Known(Answer::TimedOut),
            State::Fail,
            "not told",
            &["did not answer within 3 s"],
        ),
        (
            Reading::Known(Answer::Failed("exit status: 1".into())),
            State::Fail,
            "not told",
            &["failed (exit status: 1)"],
        ),
        (Reading::Skipped, State::Info, "not probed", &[]),
        (
            Reading::Unknown("gone".into()),
            State::Info,
            "not known: gone",
            &[],
        ),
    ];
    for (answer, state, value, words) in cases {
        let said = judged(|to| {
            runsc::version(to, &answer);
        });
        says(&said, Name::RunscVersion, state, value, words);
    }
}

#[test]
fn flags_and_platforms() {
    let said = judged(|to| runsc::flags(to, &wrote(FLAGS)));
    let platforms = "systrap (default), ptrace, kvm";
    says(&said, Name::RunscPlatforms, State::Pass, platforms, &[]);
    says(&said, Name::RunscFlags, State::Pass, "10 known", &[]);
    let older = FLAGS.replace("  -overlay2", "  -overlay");
    let said = judged(|to| runsc::flags(to, &wrote(&older)));
    let words = ["does not know --overlay2, which the driver gives it"];
    says(
        &said,
        Name::RunscFlags,
        State::Fail,
        "without --overlay2",
        &words,
    );

    let silent = judged(|to| runsc::flags(to, &Reading::Known(Answer::TimedOut)));
    let skipped = judged(|to| runsc::flags(to, &Reading::Skipped));
    for name in [Name::RunscPlatforms, Name::RunscFlags] {
        let value = "not known: it did not answer within 3 s";
        says(&silent, name, State::Info, value, &[]);
        says(&skipped, name, State::Info, "not probed", &[]);
    }
}

#[test]
fn the_flags_that_are_looked_for_are_those_that_the_driver_gives() {
    let source = include_str!("../../../plan/runsc.rs");
    let code = source.split("#[cfg(test)]").next().unwrap();
    let run = code.split("fn kill").next().unwrap();
    for word in run.split('"').filter_map(|text| text.strip_prefix("--")) {
        let flag: String = word
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
            .collect();
        // Those of subcommands, which `runsc flags` does not list, and those that are asked for
        // by the version.
        let others = [
            "bundle",
            "internal-pid-file",
            "process",
            "cwd",
            "env",
            "user",
            "pid",
        ];
        let flag = flag.as_str();
        let known = flag.starts_with("cfc") || others.contains(&flag);
        let known = known || runsc::GIVEN.contains(&flag);
        assert!(known, "--{flag} is given and not looked for");
    }
}

#[test]
fn control_sockets() {
    let open = || {
        ScratchFound::Wrong(Found::Open {
            owner: 7,
            mode: 0o777,
        })
    };
    let cases: [(Option<u32>, ScratchFound, State, &str, &[&str]); 5] = [
        (
            Some(20_240_729),
            ScratchFound::Private,
            State::Pass,
            "a file in a private directory",
            &[],
        ),
        (
            Some(20_240_729),
            ScratchFound::Absent,
            State::Pass,
            "a file in a private directory",
            &[],
        ),
        (
            Some(20_240_729),
            open(),
            State::Fail,
            "in a directory that is not private",
            &["is not private"],
        ),
        (
            Some(20_221_219),
            ScratchFound::Private,
            State::Fail,
            "open to every user",
            &["every user of this machine"],
        ),
        (
            None,
            open(),
            State::Info,
            "not known: it depends on runsc's release",
            &[],
        ),
    ];
    for (date, found, state, value, words) in cases {
        let scratch = ScratchParent {
            at: PathBuf::from("/tmp/x"),
            found,
        };
        let said = judged(|to| runsc::control_socket(to, date, &scratch));
        says(&said, Name::ControlSocket, state, value, words);
    }
}

#[test]
fn labels_are_known_by_the_flag_that_asks_for_them_and_its_kind_by_those_it_lists() {
    let front = wrote("  -cfc\n    \tkeep labels\n  -cfc-walk-limit entries\n");
    let own = wrote("  -cfc\n    \ttrack\n  -root string\n");
    let skipped = Reading::Skipped;
    let failed = Answer::Failed("exit status: 2".into());
    let words = ["does not know --cfc", "--no-cfc"];
    let silent = "not known: it does not answer";
    let version = || wrote("runsc version x");
    let by_container = "runsc-cfc before a stock runsc: labels by container";
    let tracks = "its own: labels as it tracks them";
    type Case<'a> = (
        Reading<Answer>,
        &'a Reading<Answer>,
        State,
        &'a str,
        &'a [&'a str],
    );
    let cases: [Case<'_>; 6] = [
        (version(), &front, State::Pass, by_container, &[]),
        (version(), &own, State::Pass, tracks, &[]),
        (version(), &skipped, State::Pass, "known", &[]),
        (Reading::Known(failed), &own, State::Fail, "unknown", &words),
        (
            Reading::Known(Answer::TimedOut),
            &skipped,
            State::Info,
            silent,
            &[],
        ),
        (Reading::Skipped, &skipped, State::Info, "not probed", &[]),
    ];
    for (answer, flags, state, value, words) in cases {
        let said = judged(|to| runsc::cfc(to, &answer, flags));
        says(&said, Name::RunscCfc, state, value, words);
    }
}
