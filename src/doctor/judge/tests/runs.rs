//! The default run and the real call.

use super::{judged, says};
use crate::config::NetworkMode;
use crate::doctor::gather::ask::Reading;
use crate::doctor::gather::network::Made;
use crate::doctor::gather::run::{Attempt, Default, Ended, SessionCall, Told};
use crate::doctor::judge::default;
use crate::doctor::{Name, RealCall, State};
use crate::driver::{End, ExecVia, StartFailure};
use crate::selection::{Native, Obstacle, Refusal};

fn selected(network: NetworkMode) -> Default {
    Default {
        described: "runsc (chosen)".to_owned(),
        network,
        pasta: network == NetworkMode::Sandbox,
        policy: true,
    }
}

fn refused(obstacle: Obstacle) -> Refusal {
    Refusal::Default {
        platform: Native::Linux,
        obstacle,
        takes_flags: true,
    }
}

#[test]
fn a_selection_passes_or_is_refused_in_its_own_words() {
    let said = judged(|to| default::judge(to, &Ok(selected(NetworkMode::Sandbox)), None));
    says(&said, Name::Selection, State::Pass, "runsc (chosen)", &[]);
    let refusal = Refusal::Docker {
        by: crate::settings::Source::Environment,
        has_default: true,
        takes_flags: true,
    };
    let said = judged(|to| default::judge(to, &Err(refusal.clone()), None));
    let words = [
        &*refusal.problem().to_string(),
        &*refusal.hint().to_string(),
    ];
    says(&said, Name::Selection, State::Fail, "refused", &words);
}

#[test]
fn networks() {
    let cases: [(Result<Default, Refusal>, State, &str); 4] = [
        (
            Ok(selected(NetworkMode::None)),
            State::Pass,
            "none: loopback alone",
        ),
        (
            Ok(selected(NetworkMode::Host)),
            State::Pass,
            "host: the host's own",
        ),
        (
            Ok(selected(NetworkMode::Sandbox)),
            State::Pass,
            "sandbox: runsc's own",
        ),
        (
            Err(refused(Obstacle::NoHome)),
            State::Info,
            "not known: the selection is refused",
        ),
    ];
    for (found, state, value) in cases {
        let said = judged(|to| default::network(to, &found, None));
        says(&said, Name::Network, state, value, &[]);
    }
}

#[test]
fn pastas_network_by_making_it() {
    let made = |datagrams| Reading::Known(Ok(datagrams));
    let not_made = Told {
        code: "tun-unavailable",
        text: "/dev/net/tun cannot be opened: run modprobe".to_owned(),
    };
    let cases: [(Reading<Made>, State, &str, &[&str]); 5] = [
        (made(true), State::Pass, "sandbox: pasta's", &[]),
        (
            made(false),
            State::Warn,
            "sandbox: pasta's, no UDP but name queries",
            &["datagrams of one sandbox", "nft_chain_nat"],
        ),
        (
            Reading::Known(Err(not_made)),
            State::Fail,
            "sandbox: cannot be made",
            &["/dev/net/tun cannot be opened"],
        ),
        (
            Reading::Unknown("there is no pasta".to_owned()),
            State::Fail,
            "sandbox: cannot be made",
            &["there is no pasta"],
        ),
        (Reading::Skipped, State::Info, "not probed", &[]),
    ];
    let selected = Ok(selected(NetworkMode::Sandbox));
    for (made, state, value, words) in cases {
        let said = judged(|to| default::network(to, &selected, Some(&made)));
        says(&said, Name::Network, state, value, words);
    }
}

fn ended(end: End, outcome: &'static str, exit_code: Option<u8>, log: &[&str]) -> Attempt {
    Attempt::Ended(Box::new(Ended {
        call: RealCall {
            worked: exit_code == Some(0),
            outcome,
            exit_code,
            elapsed_ms: 120.4,
            selected: "runsc".to_owned(),
            network: "none",
            no_cfc: true,
        },
        end,
        withheld: false,
        log: log.iter().map(|line| (*line).to_owned()).collect(),
    }))
}

#[test]
fn real_calls() {
    let not_started = End::NotStarted(StartFailure::Unknown);
    let stopped = |code, text: &str| {
        Attempt::Stopped(Told {
            code,
            text: text.to_owned(),
        })
    };
    let mut withheld = ended(End::Exited, "exited", None, &[]);
    if let Attempt::Ended(ended) = &mut withheld {
        ended.withheld = true;
        ended.call.no_cfc = false;
    }
    let cases: [(Attempt, State, &str, &[&str]); 8] = [
        (Attempt::Skipped, State::Info, "not probed", &[]),
        (
            Attempt::Refused(refused(Obstacle::NoHome)),
            State::Fail,
            "refused",
            &["HOME is not set", "set HOME"],
        ),
        (
            stopped(
                "scratch-not-private",
                "the scratch parent is open: remove it",
            ),
            State::Fail,
            "scratch-not-private",
            &["the scratch parent is open: remove it"],
        ),
        (
            ended(End::Exited, "exited", Some(0), &[]),
            State::Pass,
            "120 ms, by runsc-driver run --no-cfc --network none",
            &[],
        ),
        (
            ended(End::Exited, "exited", Some(3), &[]),
            State::Fail,
            "exited",
            &[
                "ended with 3",
                "runsc-driver -vv run --no-cfc --network none -- true",
            ],
        ),
        (
            withheld,
            State::Fail,
            "exited",
            &[
                "has its output withheld",
                "runsc-driver -vv run --network none -- true",
            ],
        ),
        (
            ended(not_started, "not-started", None, &["first", "last"]),
            State::Fail,
            "not-started",
            &["came out as not-started; runsc said: last"],
        ),
        (
            ended(End::TimedOut, "timed-out", None, &[]),
            State::Fail,
            "timed-out",
            &["came out as timed-out"],
        ),
    ];
    for (attempt, state, value, words) in cases {
        let said = judged(|to| default::run(to, &attempt));
        says(&said, Name::Run, state, value, words);
    }
}

#[test]
fn calls_in_a_session() {
    let not_made = Told {
        code: "start-failed",
        text: "the session did not start: look".to_owned(),
    };
    let cases: [(Reading<SessionCall>, State, &str, &[&str]); 4] = [
        (
            Reading::Known(Ok(ExecVia::ControlSocket)),
            State::Pass,
            "by the control socket",
            &[],
        ),
        (
            Reading::Known(Ok(ExecVia::CommandLine)),
            State::Info,
            "by runsc exec: this runsc's control socket does not do all that the driver asks",
            &[],
        ),
        (
            Reading::Known(Err(not_made)),
            State::Warn,
            "start-failed",
            &["the session did not start", "look"],
        ),
        (Reading::Skipped, State::Info, "not probed", &[]),
    ];
    for (call, state, value, words) in cases {
        let said = judged(|to| default::session_calls(to, &call));
        says(&said, Name::SessionCalls, state, value, words);
    }
}
