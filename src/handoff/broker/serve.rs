//! One launch, from the connection to the child's end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::admission::{KindSpec, Refusal};
use super::client::{Client, Letting};
use super::record::{Ending, Launched};
use super::wire::{Frame, Hello, MAX_HELLO, failure_line};
use crate::driver::{Call, End, Error, Outcome as Ran, Output, Stdin};
use crate::handoff::child::{Ended, Listener, Request};
use crate::handoff::journal::{Failure, Outcome};
use crate::launch::deadline::Deadline;

/// How much of a child's output is on its way at once.
const PIPE: usize = 64 * 1024;
/// How much of a child's standard error is kept.
const STDERR: usize = 16 * 1024;

/// Serves one connection.
pub(super) async fn serve(shared: Arc<Shared>, mut client: Client) {
    let mut request = None;
    match ask(&shared, &mut client, &mut request).await {
        Ok((ordinal, spec, request)) => launch(&shared, client, ordinal, &spec, request).await,
        Err(Answer::Refused(refusal)) => {
            shared.recorder.refused(refusal, request);
            client.refuse(refusal, shared.limits.hello).await;
        }
        Err(Answer::Replayed(outcome)) => replay(&shared, client, &outcome).await,
    }
}

/// What a launch comes to where no child is started.
enum Answer {
    Refused(Refusal),
    Replayed(Outcome),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

async fn ask(
    shared: &Shared,
    client: &mut Client,
    asked: &mut Option<Request>,
) -> Result<(u64, KindSpec, Request), Answer> {
    let within = Deadline::after(Some(shared.limits.hello));
    let hello = client
        .line(MAX_HELLO, within)
        .await
        .map_err(|refusal| match refusal {
            Refusal::TooLarge => Refusal::BadHello,
            other => other,
        })?;
    let hello = Hello::parse(&hello).ok_or(Refusal::BadHello)?;
    let line = client
        .line(shared.limits.max_request, within)
        .await
        .map_err(|refusal| match refusal {
            Refusal::BadHello => Refusal::BadRequest,
            other => other,
        })?;
    let request = Request::parse(&line).map_err(|_| Refusal::BadRequest)?;
    if request.id != hello.child || request.kind != hello.kind {
        return Err(Refusal::BadRequest.into());
    }
    *asked = Some(request.clone());
    if shared.closing.is_cancelled() {
        return Err(Refusal::Closed.into());
    }
    if let Some(outcome) = shared.recorder.replayed(&request) {
        return Err(Answer::Replayed(outcome));
    }
    let (ordinal, spec) = shared.admit(&request.id, &request.kind)?;
    Ok((ordinal, spec, request))
}

/// Answers with what an earlier run came to. Nothing is spent and nothing is written.
async fn replay(shared: &Shared, mut client: Client, outcome: &Outcome) {
    let line = match outcome {
        Outcome::Finished { value, .. } => {
            format!("{}\n", serde_json::json!({ "subrun_report": value })).into_bytes()
        }
        Outcome::DidNotFinish { failure, .. } => failure_line(failure.word()),
    };
    let within = Deadline::after(Some(shared.limits.hello));
    if client.send(Frame::Output(&line), within.passed()).await {
        client.send(Frame::Exit(0), within.passed()).await;
    }
}

/// Closes a launch's bracket where its task goes away in the middle.
struct Bracket<'a> {
    shared: &'a Shared,
    launched: Option<Launched>,
}

impl Bracket<'_> {
    fn close(&mut self, ending: impl FnOnce(&Launched) -> Ending) {
        if let Some(launched) = self.launched.take() {
            let ending = ending(&launched);
            self.shared.recorder.finished(launched, ending);
        }
    }
}

impl Drop for Bracket<'_> {
    fn drop(&mut self) {
        self.close(|launched| {
            let attempt = Listener::default().attempt(&launched.request.id, torn_down());
            Ending::Cancelled(attempt)
        });
    }
}

fn torn_down() -> Option<String> {
    Some("the child was taken down".to_owned())
}

async fn launch(
    shared: &Shared,
    mut client: Client,
    ordinal: u64,
    spec: &KindSpec,
    request: Request,
) {
    let slot = tokio::select! {
        biased;
        () = shared.closing.cancelled() => None,
        _ = client.let_go() => None,
        slot = shared.slots.acquire() => slot.ok(),
    };
    let Some(_slot) = slot else {
        shared.recorder.never_started(ordinal, request);
        client.refuse(Refusal::Closed, shared.limits.hello).await;
        return;
    };
    let line = Request {
        max_steps: lower(request.max_steps, spec.max_steps),
        ..request.clone()
    }
    .line();
    let child = request.id.clone();
    let mut bracket = Bracket {
        shared,
        launched: Some(shared.recorder.started(ordinal, request)),
    };
    let (listener, done) = run(shared, &mut client, spec, line, &child).await;
    let said = listener.has_report();
    match done {
        Done::Ended(ended) => {
            let outcome = listener.resolve(&child, &ended);
            last_words(shared, &mut client, &outcome, &ended).await;
            bracket.close(|_| Ending::Resolved(outcome));
        }
        // A report that came in time counts, whoever stopped listening since.
        Done::LetGo if said => {
            let outcome = listener.resolve(&child, &Ended::TimedOut);
            bracket.close(|_| Ending::Resolved(outcome));
        }
        Done::LetGo | Done::Closing => {
            let attempt = listener.attempt(&child, torn_down());
            bracket.close(|_| Ending::Cancelled(attempt));
        }
    }
}

/// The lower of two limits.
fn lower(asked: Option<u64>, most: Option<u64>) -> Option<u64> {
    match (asked, most) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, most) => asked.or(most),
    }
}

/// Tells the script what the child did not: that it did not start, or was taken down.
async fn last_words(shared: &Shared, client: &mut Client, outcome: &Outcome, ended: &Ended) {
    let within = Deadline::after(Some(shared.limits.hello));
    let code = match (outcome, ended) {
        (_, Ended::Exited(code)) => *code,
        (Outcome::Finished { .. }, _) => 0,
        (Outcome::DidNotFinish { failure, .. }, _) => {
            if let (Failure::Failed(reason), Ended::Broken(_)) = (failure, ended) {
                let line = failure_line(reason);
                client.send(Frame::Output(&line), within.passed()).await;
            }
            0
        }
    };
    client.send(Frame::Exit(code), within.passed()).await;
}

/// How a child's run came to its end.
enum Done {
    Ended(Ended),
    /// The script let go of it and it gave nothing in its grace.
    LetGo,
    /// The step ended.
    Closing,
}

/// Why a child is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Deadline,
    LetGo,
    TooMuch,
    Closing,
}

async fn run(
    shared: &Shared,
    client: &mut Client,
    spec: &KindSpec,
    line: Vec<u8>,
    child: &str,
) -> (Listener, Done) {
    let mut listener = Listener::default();
    let place = match (shared.make_child)(child) {
        Ok(place) => place,
        Err(reason) => return (listener, Done::Ended(Ended::Broken(reason))),
    };
    let (stdin, child_stdin) = tokio::io::duplex(PIPE);
    let (child_stdout, mut stdout) = tokio::io::duplex(PIPE);
    let cancel = CancellationToken::new();
    let mut call = Call::new(&spec.command);
    call.env = spec
        .env
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    call.stdin = Stdin::Reader(Box::new(child_stdin));
    call.stdout = Output::Stream(Box::new(child_stdout));
    call.output_cap = STDERR;
    call.cancel = cancel.clone();
    // What a labelled step says is as labelled as the step.
    call.labels = shared.labels.clone();

    let deadline = Deadline::after(Some(shared.limits.deadline));
    let mut grace = Deadline::after(None);
    let mut input = Some(Box::pin(feed(stdin, line)));
    let (mut stop, mut open, mut heard) = (None, true, 0_u64);
    let mut chunk = vec![0; PIPE];
    let result = {
        let mut running = place.driver.run(call);
        loop {
            tokio::select! {
                biased;
                result = &mut running => break result,
                () = shared.closing.cancelled(), if stop != Some(Stop::Closing) => {
                    stop = Some(Stop::Closing);
                    input = None;
                    cancel.cancel();
                }
                () = deadline.passed(), if stop.is_none() => {
                    stop = Some(Stop::Deadline);
                    input = None;
                    grace = Deadline::after(Some(shared.limits.grace));
                }
                () = grace.passed(), if !cancel.is_cancelled() => cancel.cancel(),
                letting = client.let_go(), if stop.is_none() => {
                    stop = Some(Stop::LetGo);
                    input = None;
                    match letting {
                        Letting::Cancel => grace = Deadline::after(Some(shared.limits.grace)),
                        Letting::Gone => cancel.cancel(),
                    }
                }
                // It never comes to an end by itself: a child's standard input stays open.
                () = keep_feeding(&mut input) => {}
                read = stdout.read(&mut chunk), if open => match read {
                    Ok(count @ 1..) => {
                        listener.hear(&chunk[..count]);
                        heard += count as u64;
                        if heard > shared.limits.max_output {
                            stop = Some(Stop::TooMuch);
                            cancel.cancel();
                        }
                        let patience = async {
                            tokio::select! {
                                () = shared.closing.cancelled() => {}
                                () = deadline.passed() => {}
                            }
                        };
                        client.send(Frame::Output(&chunk[..count]), patience).await;
                    }
                    _ => open = false,
                },
            }
        }
    };
    // What was on its way when the child ended.
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        listener.hear(&chunk[..count]);
        let soon = Deadline::after(Some(shared.limits.hello));
        client
            .send(Frame::Output(&chunk[..count]), soon.passed())
            .await;
    }
    place.driver.close().await;
    (listener, done(stop, result))
}

async fn feed(mut stdin: DuplexStream, line: Vec<u8>) {
    // A child that reads nothing meets its deadline.
    let _ = stdin.write_all(&line).await;
    std::future::pending::<()>().await;
}

async fn keep_feeding(input: &mut Option<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    match input {
        Some(input) => input.await,
        None => std::future::pending().await,
    }
}

fn done(stop: Option<Stop>, result: Result<Ran, Error>) -> Done {
    let broken = |reason: String| Done::Ended(Ended::Broken(reason));
    let ran = match (result, stop) {
        (_, Some(Stop::Closing)) => return Done::Closing,
        (Err(err), _) => {
            // Its sentence may name paths of the host; who asks is a script.
            tracing::warn!(%err, "a child could not run");
            return broken(format!(
                "the child's sandbox could not run it ({})",
                err.code()
            ));
        }
        (Ok(ran), _) => ran,
    };
    match (ran.end, stop) {
        (End::NotStarted(_), _) => broken("the child's command did not start".to_owned()),
        (End::Lost, _) => broken("the child's sandbox was lost".to_owned()),
        (_, Some(Stop::TooMuch)) => broken("the child printed more than it may".to_owned()),
        (End::Exited, Some(Stop::LetGo)) | (_, Some(Stop::LetGo)) => Done::LetGo,
        (End::Cancelled | End::TimedOut, Some(Stop::Deadline)) => Done::Ended(Ended::TimedOut),
        (End::Cancelled | End::TimedOut, _) => broken("the child was taken down".to_owned()),
        (End::Exited, Some(Stop::Deadline)) => Done::Ended(Ended::TimedOut),
        (End::Exited, _) => match ran.exit() {
            Some(exit) => Done::Ended(Ended::Exited(exit.code)),
            None => broken("what became of the child may not be seen".to_owned()),
        },
    }
}

/// Longer than a script may take to say what it wants.
pub(super) const HELLO: Duration = Duration::from_secs(5);
