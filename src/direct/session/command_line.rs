//! A call in a session by a `runsc exec` of its own.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::Shared;
use super::super::attached::{Attached, Ending, Ends};
use super::super::labels;
use super::Session;
use super::exec::{Entered, HowEnded, Running, give_up};
use super::stop::Command;
use crate::driver::{Call, Error, LostReason};
use crate::launch::LaunchError;
use crate::launch::bundle::BundleDir;
use crate::launch::spawn::{self, Child, Pipes, SpawnRequest};
use crate::plan::Request;
use crate::plan::exec::{ExecPlan, exec};
use crate::plan::id::call_dir_name;

/// Starts the command. From the moment that the child exists it has an owner.
pub(super) async fn begin(entered: Entered, call: Call) -> Result<Running, Error> {
    let (shared, session) = (Arc::clone(&entered.shared), Arc::clone(&entered.session));
    let (slot, counted) = shared.calls.enter(&entered.key).ok_or(Error::Closed)?;
    let plan = lay_out(&shared, &session, &call)?;
    let dir = BundleDir::bare(&plan.dir)?;
    if let Some(process) = &plan.process_json {
        dir.write(&plan.process_file, process)?;
    }
    let on_overrun = call.on_overrun;
    let (ends, donations) = Ends::of(call, plan.context.as_deref(), false)?;
    let request = SpawnRequest {
        command: plan.command,
        // runsc reaches its container from outside the network's namespaces.
        enter: None,
        user_namespace: plan.user_namespace,
        overlay: None,
        read_only: Vec::new(),
        pid_namespace: false,
        stdin: ends.wants_stdin(),
        output: true,
        donations,
    };

    let (sender, receiver) = oneshot::channel();
    let token = Box::new((counted, Arc::clone(&shared)));
    let (filled, owners) = (
        Arc::clone(&slot),
        (Arc::clone(&shared), Arc::clone(&session)),
    );
    let pid_file = plan.pid_file;
    let reply = move |started: Result<(Child, Pipes), LaunchError>| {
        let started = started.and_then(|(child, pipes)| {
            let end = child.end().map_err(LaunchError::Pipe)?;
            filled.fill(Command::client(child, dir, pid_file, owners, token));
            Ok((pipes, end))
        });
        let _ = sender.send(started);
    };
    spawn::submit(request, Box::new(reply));
    let started = receiver.await.map_err(|_| LaunchError::NoLauncher)?;
    let (pipes, end) = match started {
        Ok(started) => started,
        Err(err) => {
            // A command that could not be run takes the session with it.
            give_up(&shared, &session, Some(LostReason::NotStopped)).await?;
            return Err(err.into());
        }
    };
    Ok(Running {
        entered,
        slot,
        attached: Attached::join(ends, pipes, Ending::child(end)?)?,
        on_overrun,
        ended: HowEnded::Client { log: plan.log },
    })
}

fn lay_out(shared: &Shared, session: &Session, call: &Call) -> Result<ExecPlan, Error> {
    let scratch = shared.scratch()?;
    let name = call_dir_name(&shared.config.run_tag).map_err(Error::NoRandomness)?;
    let context = labels::context(&shared.config, &shared.sequence, call)?;
    let request = Request {
        argv: &call.argv,
        cwd: call.cwd.as_deref(),
        env: &call.env,
        context: context.as_deref(),
        host_uds: false,
    };
    let dir = scratch.bundles_dir().join(name);
    let (config, host, state_dir) = (&shared.config, &shared.host, scratch.state_dir());
    Ok(exec(
        config,
        host,
        &state_dir,
        dir,
        &session.container.id,
        request,
    )?)
}
