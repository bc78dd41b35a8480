//! The driver's ways to run a command, and those of bare runsc.

use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use runsc_driver::driver::{ExecVia, Output};
use runsc_driver::{Call, Driver, Pool};
use tokio::io::AsyncReadExt;

use crate::measure::{Subject, timed};
use crate::place::{Ours, Place, finish, succeed};
use crate::raw;

pub const RUNSC_RUN: &str = "runsc run";
pub const COLD: &str = "cold call";
pub const WARM: &str = "warm call";
pub const WARM_OUTPUT: &str = "warm call, until its output";
pub const RUNSC_EXEC: &str = "runsc exec";
pub const BY_COMMAND_LINE: &str = "session call, command line";
pub const BY_SOCKET: &str = "session call, socket";
pub const RAW: &str = "raw exchange over the socket";

/// A pool of this size that never gives up.
pub fn pool(size: usize) -> Option<Pool> {
    let idle_timeout = Duration::from_secs(24 * 3600);
    Some(Pool { size, idle_timeout })
}

/// A bare `runsc run` of the driver's own bundle.
pub struct RunscRun<'a>(pub &'a Place);

impl Subject for RunscRun<'_> {
    fn name(&self) -> &str {
        RUNSC_RUN
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| finish(&mut self.0.bare_run("bundle", "bare")))
    }
}

/// A call that boots its own sandbox.
pub struct Cold<'a>(Ours<'a>);

impl<'a> Cold<'a> {
    pub fn new(place: &'a Place) -> Result<Self, String> {
        Ok(Self(place.driver(|_| {})?))
    }
}

impl Subject for Cold<'_> {
    fn name(&self) -> &str {
        COLD
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.0.run(Call::new(["true"])))
    }
}

/// A call in a ready sandbox, the confirmation that it is gone included. Its successor is booted
/// before anybody else is measured.
pub struct Warm<'a>(Ours<'a>);

impl<'a> Warm<'a> {
    pub fn new(place: &'a Place) -> Result<Self, String> {
        let ours = place.driver(|options| options.pool = pool(1))?;
        ours.fill(1)?;
        Ok(Self(ours))
    }
}

impl Subject for Warm<'_> {
    fn name(&self) -> &str {
        WARM
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.0.run(Call::new(["true"])))
    }

    fn after(&mut self) -> Result<(), String> {
        self.0.fill(1)
    }
}

/// The same, until the first byte of its output came: what a caller that streams waits for. The
/// sandbox goes after that.
pub struct WarmOutput<'a> {
    place: &'a Place,
    warm: Warm<'a>,
}

impl<'a> WarmOutput<'a> {
    pub fn new(place: &'a Place) -> Result<Self, String> {
        let warm = Warm::new(place)?;
        Ok(Self { place, warm })
    }
}

impl Subject for WarmOutput<'_> {
    fn name(&self) -> &str {
        WARM_OUTPUT
    }

    fn call(&mut self) -> Result<Duration, String> {
        let (mut reader, writer) = tokio::io::duplex(64);
        let mut call = Call::new(["echo", "here"]);
        call.stdout = Output::Stream(Box::new(writer));
        let started = Instant::now();
        self.place.runtime.block_on(async {
            let first = async {
                let read = reader.read_u8().await.map(|_| started.elapsed());
                read.map_err(|err| err.to_string())
            };
            let (ran, first) = tokio::join!(succeed(&*self.warm.0.driver, call), first);
            ran.and(first)
        })
    }

    fn after(&mut self) -> Result<(), String> {
        self.warm.after()
    }
}

/// A bare container that its standard input keeps.
pub struct Held<'a> {
    place: &'a Place,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl<'a> Held<'a> {
    const ID: &'static str = "held";

    pub fn start(place: &'a Place) -> Result<Self, String> {
        let mut command = place.bare_run("held", Self::ID);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|err| err.to_string())?;
        let stdin = child.stdin.take();
        let mut held = Self {
            place,
            child,
            stdin,
        };
        // It runs once an exec in it does.
        let due = Instant::now() + Duration::from_secs(30);
        while let Err(why) = held.exec() {
            if Instant::now() > due || !matches!(held.child.try_wait(), Ok(None)) {
                return Err(format!("a bare container did not come up: {why}"));
            }
        }
        Ok(held)
    }

    fn exec(&self) -> Result<(), String> {
        finish(self.place.bare().args(["exec", Self::ID, "true"]))
    }

    fn raw(&self) -> Result<(), String> {
        raw::run_true(&self.place.bare_state(), Self::ID)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A bare `runsc exec` in a container that runs.
pub struct RunscExec<'a>(pub &'a Held<'a>);

impl Subject for RunscExec<'_> {
    fn name(&self) -> &str {
        RUNSC_EXEC
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.0.exec())
    }
}

/// The least that a start over the control socket and the wait for its end can take.
pub struct Raw<'a>(pub &'a Held<'a>);

impl Subject for Raw<'_> {
    fn name(&self) -> &str {
        RAW
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.0.raw())
    }
}

/// A call in a session of the driver's.
pub struct SessionCall<'a> {
    ours: Ours<'a>,
    via: ExecVia,
}

impl<'a> SessionCall<'a> {
    pub fn new(place: &'a Place, via: ExecVia) -> Result<Self, String> {
        let ours = place.driver_by(via, |_| {})?;
        let session = Self { ours, via };
        session.ours.run(in_session(Call::new(["true"]), "bench"))?;
        let used = session
            .ours
            .driver
            .sessions()
            .first()
            .and_then(|found| found.via);
        if used != Some(via) {
            return Err(format!("the session is served by {used:?}, not by {via:?}"));
        }
        Ok(session)
    }
}

pub fn in_session(mut call: Call, name: &str) -> Call {
    call.session = Some(name.to_owned());
    call
}

impl Subject for SessionCall<'_> {
    fn name(&self) -> &str {
        match self.via {
            ExecVia::ControlSocket => BY_SOCKET,
            ExecVia::CommandLine => BY_COMMAND_LINE,
        }
    }

    fn call(&mut self) -> Result<Duration, String> {
        timed(|| self.ours.run(in_session(Call::new(["true"]), "bench")))
    }
}
