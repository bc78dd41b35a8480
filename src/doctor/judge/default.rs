//! The default run, and the real calls.

use crate::config::NetworkMode;
use crate::doctor::Name;
use crate::doctor::gather::ask::Reading;
use crate::doctor::gather::network::Made;
use crate::doctor::gather::run::{Attempt, Default, Ended, SessionCall};
use crate::doctor::report::{Findings, Words};
use crate::driver::{End, ExecVia};
use crate::selection::Refusal;

pub(super) fn judge(
    to: &mut Findings,
    default: &Result<Default, Refusal>,
    pasta: Option<&Reading<Made>>,
) {
    match default {
        Ok(default) => to.pass(Name::Selection, &default.described),
        Err(refusal) => to.fail_covered(
            Name::Selection,
            "refused",
            super::words(refusal),
            super::covered(refusal),
        ),
    }
    network(to, default, pasta);
}

pub(super) fn network(
    to: &mut Findings,
    default: &Result<Default, Refusal>,
    pasta: Option<&Reading<Made>>,
) {
    let name = Name::Network;
    if let Some(made) = pasta {
        return pasta_network(to, made);
    }
    match default {
        Ok(default) => to.pass(
            name,
            match default.network {
                NetworkMode::None => "none: loopback alone",
                NetworkMode::Sandbox => "sandbox: runsc's own",
                NetworkMode::Host => "host: the host's own",
            },
        ),
        Err(_) => to.info(name, "not known: the selection is refused"),
    }
}

fn pasta_network(to: &mut Findings, made: &Reading<Made>) {
    let name = Name::Network;
    match made {
        Reading::Known(Ok(true)) => to.pass(name, "sandbox: pasta's"),
        Reading::Known(Ok(false)) => to.warn(
            name,
            "sandbox: pasta's, no UDP but name queries",
            Words::new(
                "datagrams of one sandbox would come to another that sends from the same port, so \
                 no UDP leaves a sandbox but its name queries",
                "where UDP is needed, load the kernel's modules nft_chain_nat and nft_ct, \
                 with which each sandbox has ports of its own",
            ),
        ),
        Reading::Known(Err(told)) => to.fail_covered(
            name,
            "sandbox: cannot be made",
            Words::whole(&told.text),
            cause(told.code),
        ),
        Reading::Unknown(reason) => to.fail_covered(
            name,
            "sandbox: cannot be made",
            Words::whole(reason),
            &[Name::Pasta],
        ),
        Reading::Skipped => to.info(name, "not probed"),
    }
}

pub(super) fn run(to: &mut Findings, attempt: &Attempt) {
    let name = Name::Run;
    match attempt {
        Attempt::Skipped => to.info(name, "not probed"),
        Attempt::Refused(refusal) => to.fail_covered(
            name,
            "refused",
            super::words(refusal),
            super::covered(refusal),
        ),
        Attempt::Stopped(told) => {
            to.fail_covered(name, told.code, Words::whole(&told.text), cause(told.code));
        }
        Attempt::Ended(ended) if ended.call.worked => to.pass(
            name,
            format!(
                "{:.0} ms, by {}",
                ended.call.elapsed_ms,
                ended.call.command()
            ),
        ),
        Attempt::Ended(ended) => to.fail_covered(
            name,
            ended.call.outcome,
            failed(ended),
            // Where none can be made, that is why.
            &[Name::UserNamespaces],
        ),
    }
}

fn failed(ended: &Ended) -> Words {
    let what = match (ended.end, ended.call.exit_code) {
        (End::Exited, Some(code)) => format!("ended with {code} and the wrong output"),
        (End::Exited, None) if ended.withheld => {
            "has its output withheld: its label is not public".to_owned()
        }
        _ => format!("came out as {}", ended.call.outcome),
    };
    let said = match ended.log.last() {
        Some(line) => format!("; runsc said: {line}"),
        None => String::new(),
    };
    Words::new(
        format!("a call in a real sandbox {what}{said}"),
        format!(
            "see `{} -- true`",
            ended.call.command().replacen(" run", " -vv run", 1)
        ),
    )
}

pub(super) fn session_calls(to: &mut Findings, call: &Reading<SessionCall>) {
    let name = Name::SessionCalls;
    match call {
        Reading::Known(Ok(ExecVia::ControlSocket)) => to.pass(name, "by the control socket"),
        Reading::Known(Ok(ExecVia::CommandLine)) => to.info(
            name,
            "by runsc exec: this runsc's control socket does not do all that the driver asks",
        ),
        Reading::Known(Err(told)) => {
            to.warn_covered(
                name,
                told.code,
                Words::whole(&told.text),
                &[Name::Run, Name::UserNamespaces],
            );
        }
        Reading::Unknown(_) | Reading::Skipped => to.info(name, call.why_not()),
    }
}

/// The checks that tell the same, where they failed.
fn cause(code: &str) -> &'static [Name] {
    match code {
        "user-namespace-unavailable" => &[
            Name::UserNamespaces,
            Name::MaxUserNamespaces,
            Name::UnprivilegedUsernsClone,
            Name::ApparmorUserns,
        ],
        "tun-unavailable" => &[Name::Tun],
        "nft-missing" => &[Name::Nft],
        "runsc-too-old" | "runsc-unknown" => &[Name::RunscVersion],
        "runsc-not-executable" => &[Name::Runsc],
        "foreign-rootfs" => &[Name::ImageOwner],
        "rootfs-not-a-directory" => &[Name::Store],
        "scratch-not-private" | "scratch-not-verified" => &[Name::Scratch],
        _ => &[],
    }
}
