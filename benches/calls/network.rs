//! What the default network costs: a call, a session's start and a call in a session on it, each
//! beside the same without a network.

use std::time::Duration;

use runsc_driver::config::{NetworkHelper, NetworkLayout};
use runsc_driver::selection::find_program;
use runsc_driver::{Call, Driver, Host, NetworkMode, SandboxOptions};
use serde::Serialize;

use crate::measure::{Effort, Rounds, Subject, Summary, timed};
use crate::place::{Ours, Place, succeed};
use crate::stop::Stop;
use crate::subjects::in_session;

const ON: &str = "default network";
const OFF: &str = "no network";

/// On the default network over without one.
#[derive(Debug, Serialize)]
pub struct NetworkCost {
    pub what: &'static str,
    pub sandbox_over_none: Summary,
}

/// What is measured, each in a driver of its own for either network.
const KINDS: [(&str, Kind, NetworkLayout); 4] = [
    ("a call", Kind::Call, NetworkLayout::Holder),
    (
        "a call with pasta around it",
        Kind::Call,
        NetworkLayout::Wrap,
    ),
    (
        "a session's start, first call and end",
        Kind::Session,
        NetworkLayout::Holder,
    ),
    (
        "a call in a session",
        Kind::InSession,
        NetworkLayout::Holder,
    ),
];

#[derive(Clone, Copy)]
enum Kind {
    Call,
    Session,
    InSession,
}

pub fn measure(place: &Place, effort: Effort) -> Result<Vec<NetworkCost>, Stop> {
    let cost = |(what, kind, layout)| {
        let subject = |name, networked| {
            let ours = place.driver(|options| {
                if networked {
                    network(options, layout);
                }
            })?;
            let mut subject = On {
                name,
                ours,
                kind,
                place,
            };
            // A session that is only called in is there before.
            subject.call()?;
            Ok::<_, String>(subject)
        };
        let mut on = subject(ON, true).map_err(Stop::Failed)?;
        let mut off = subject(OFF, false).map_err(Stop::Failed)?;
        let rounds = Rounds::measure(what, &mut [&mut on, &mut off], effort)?;
        Ok(NetworkCost {
            what,
            sandbox_over_none: rounds.ratio(ON, OFF),
        })
    };
    KINDS.into_iter().map(cost).collect()
}

fn network(options: &mut SandboxOptions, layout: NetworkLayout) {
    let host = Host::read();
    let find = |name: &str| find_program(name, &host);
    options.network = NetworkMode::Sandbox;
    options.network_layout = layout;
    options.session_egress = true;
    // What is missing is the configuration's to refuse.
    options.network_helper = find("pasta").zip(find("setpriv")).map(|(pasta, setpriv)| {
        let unshare = find("unshare");
        NetworkHelper {
            pasta,
            setpriv,
            unshare,
        }
    });
}

struct On<'a> {
    name: &'static str,
    place: &'a Place,
    ours: Ours<'a>,
    kind: Kind,
}

impl Subject for On<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn call(&mut self) -> Result<Duration, String> {
        let call = Call::new(["true"]);
        timed(|| match self.kind {
            Kind::Call => self.ours.run(call),
            Kind::InSession => self.ours.run(in_session(call, "kept")),
            Kind::Session => self.place.runtime.block_on(async {
                let child = self
                    .ours
                    .driver
                    .child("session")
                    .map_err(|err| err.to_string())?;
                let ran = succeed(&*child, in_session(call, "new")).await;
                child.close().await;
                ran
            }),
        })
    }
}
