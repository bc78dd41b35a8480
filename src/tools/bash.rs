//! `bash`: a shell command in the sandbox, as a tool for a model.
//!
//! A call is prepared, which checks what the model wrote, and then run. Between the two a harness
//! makes and records the call's context: of what the tool itself refuses there is none.

mod descriptor;
mod input;
mod output;
mod refusal;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;

pub use descriptor::{NAME, descriptor};
pub use input::{Input, InputError, Timeout};
pub use output::{BAD_CWD, CfcResult, Output, REFUSED, Shown, TIMED_OUT, Withheld, WithheldReason};

use super::cwd::{self, Mark};
use super::{operator, trim};
use crate::cfc::context::{ContextError, ContextFields, InvocationContext, Operation, RunManifest};
use crate::cfc::label::LabelView;
use crate::cfc::mode::EnforcementMode;
use crate::cfc::summary::{Inputs, TextSummary};
use crate::driver::{
    self, Call, CancellationToken, Driver, End, Observation, Outcome, Released, StartFailure,
    is_session_name,
};
use crate::plan::PlanError;

/// The tool, for one run: it knows where the run's last command ended.
pub struct Bash {
    driver: Arc<dyn Driver>,
    run_id: String,
    mode: EnforcementMode,
    cwd: Mutex<PathBuf>,
    outputs: AtomicU64,
    contexts: AtomicU64,
}

/// Why a call gave nothing that a model is to be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver failed; not the command.
    #[error(transparent)]
    Driver(#[from] driver::Error),
    /// The harness cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
}

impl Error {
    /// The stable word that a harness branches on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Driver(err) => err.code(),
            Self::Cancelled => "cancelled",
        }
    }
}

/// What a harness adds to a call.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The call's context, which the harness has recorded; where there is none, the tool says what
    /// it knows.
    pub context: Option<InvocationContext>,
    /// Labels of the call's inputs, beside those of the context.
    pub labels: LabelView,
    /// Cancels the call.
    pub cancel: CancellationToken,
}

impl Bash {
    /// The tool over a driver, for a run of this mode.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>, run_id: impl Into<String>, mode: EnforcementMode) -> Self {
        let cwd = Mutex::new(driver.describe().default_working_directory);
        Self {
            driver,
            run_id: run_id.into(),
            mode,
            cwd,
            outputs: AtomicU64::new(0),
            contexts: AtomicU64::new(0),
        }
    }

    /// The tool as a model is to be offered it now.
    #[must_use]
    pub fn descriptor(&self) -> Value {
        descriptor(&self.driver.describe(), self.mode)
    }

    /// Where the next call runs that names no directory, in the sandbox.
    #[must_use]
    pub fn cwd(&self) -> PathBuf {
        self.last_cwd().clone()
    }

    /// Checks a call, and starts nothing.
    ///
    /// # Errors
    /// The result, where the tool refuses: a directory outside the mounts, a session where there
    /// are none, a name that is none.
    pub fn prepare(&self, input: Input) -> Result<Prepared<'_>, Box<Output>> {
        let description = self.driver.describe();
        let number = self.outputs.fetch_add(1, Ordering::Relaxed) + 1;
        let output_id = format!("{}:{NAME}:{number}", self.run_id);
        let last = self.cwd();
        let given = input.cwd.as_deref().map(Path::new);
        let Some(cwd) = cwd::resolve(&description, &last, given.unwrap_or(Path::new(""))) else {
            let mounts = description.cfc.mounts.iter();
            let mounts: Vec<_> = mounts
                .map(|m| m.sandbox_path.display().to_string())
                .collect();
            let text = format!(
                "That directory lies outside the sandbox's mounts, so the command did not run. \
                 Choose one below {}.",
                mounts.join(", ")
            );
            return Err(Box::new(self.refused(output_id, BAD_CWD, text)));
        };
        let reason = match input.session.as_deref() {
            Some(_) if !description.sessions => Some(refusal::NO_SESSIONS),
            Some(name) if !is_session_name(name) => Some("invalid-name"),
            _ => None,
        };
        if let Some(reason) = reason {
            let text = refusal::text(reason).to_owned();
            return Err(Box::new(self.refused(output_id, REFUSED, text)));
        }
        Ok(Prepared {
            bash: self,
            input,
            cwd,
            output_id,
        })
    }

    /// Checks a call and runs it, with a context that says what the tool knows.
    ///
    /// # Errors
    /// [`Error`] for what a model is not to be told.
    pub async fn run(&self, input: Input) -> Result<Output, Error> {
        match self.prepare(input) {
            Ok(prepared) => prepared.run(Invocation::default()).await,
            Err(refused) => Ok(*refused),
        }
    }

    fn last_cwd(&self) -> std::sync::MutexGuard<'_, PathBuf> {
        self.cwd.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of a call that did not run.
    fn refused(&self, output_id: String, exit_code: u8, text: String) -> Output {
        Output {
            output_id,
            stdout: Shown::Observed(String::new()),
            stderr: Shown::Observed(text),
            exit_code: Shown::Observed(exit_code),
            cwd: self.cwd(),
            cfc_result: None,
        }
    }
}

/// A call that was checked.
pub struct Prepared<'a> {
    bash: &'a Bash,
    input: Input,
    cwd: PathBuf,
    output_id: String,
}

impl Prepared<'_> {
    /// The name of the call's record.
    #[must_use]
    pub fn output_id(&self) -> &str {
        &self.output_id
    }

    /// What the model asked for.
    #[must_use]
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Where the command will run, in the sandbox.
    #[must_use]
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// A context that says what the tool knows of the call.
    ///
    /// # Errors
    /// [`ContextError`] where the run has no name.
    pub fn context(&self) -> Result<InvocationContext, ContextError> {
        let bash = self.bash;
        let before = bash.contexts.fetch_add(1, Ordering::Relaxed);
        InvocationContext::new(&ContextFields {
            sequence: NonZeroU64::MIN.saturating_add(before),
            run_id: bash.run_id.clone(),
            created_at: SystemTime::now(),
            tool_id: NAME.to_owned(),
            tool_output_id: Some(self.output_id.clone()),
            operation: Operation::Shell,
            mode: bash.mode,
            cwd: self.cwd.to_string_lossy().into_owned(),
            prompt_slot: None,
            run_manifest: RunManifest::default(),
            inputs: Inputs {
                command: Some(TextSummary::of(self.input.command.as_bytes())),
                ..Inputs::default()
            },
            labels: LabelView::default(),
        })
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// [`Error`] for what a model is not to be told.
    pub async fn run(self, invocation: Invocation) -> Result<Output, Error> {
        let mark = Mark::new().map_err(driver::Error::NoRandomness)?;
        let call = self.call(&mark, invocation)?;
        match self.bash.driver.run(call).await {
            Ok(outcome) => self.finished(&mark, outcome),
            Err(err) => self.not_run(err),
        }
    }

    fn call(&self, mark: &Mark, invocation: Invocation) -> Result<Call, driver::Error> {
        let mode = self.bash.mode;
        let mut context = match invocation.context {
            Some(context) => context,
            None => self.context()?,
        };
        context.set_mode(mode.max(context.mode()));
        let mut call = Call::new(mark.argv(self.input.command.as_ref()));
        call.cwd = Some(self.cwd.clone());
        call.deadline = self.input.timeout.as_ref().map(Timeout::duration);
        call.cancel = invocation.cancel;
        call.output_cap = trim::OUTPUT_CAP;
        // Where nothing is enforced, a directory's name is no secret. What it came with stays here.
        call.keep_raw = !context.mode().enforces();
        call.context = Some(context);
        call.labels = invocation.labels;
        call.session.clone_from(&self.input.session);
        Ok(call)
    }

    fn finished(self, mark: &Mark, outcome: Outcome) -> Result<Output, Error> {
        let end = outcome.end;
        if end == End::Cancelled {
            return Err(Error::Cancelled);
        }
        let cfc_result = CfcResult::of(&outcome.observation);
        let mut raw = outcome.raw.map(|raw| raw.released);
        let mut shown = match outcome.observation {
            Observation::Untracked(released) | Observation::Observed { released, .. } => {
                Some(released)
            }
            Observation::Opaque { .. } | Observation::Denied { .. } => None,
        };
        let told = shown.as_mut().or(raw.as_mut());
        self.adopt(told.and_then(|released| mark.take(&mut released.stdout)));
        let (stdout, stderr, exit_code) = match (end, shown, &cfc_result) {
            (End::TimedOut, ..) => self.timed_out(),
            (_, None, Some(cfc)) => self.withheld(cfc),
            (_, released, _) => seen(end, &released.unwrap_or_default()),
        };
        Ok(Output {
            output_id: self.output_id,
            stdout,
            stderr,
            exit_code,
            cwd: self.bash.cwd(),
            cfc_result,
        })
    }

    fn timed_out(&self) -> Parts {
        let limit = self.input.timeout.as_ref().map(ToString::to_string);
        let text = format!("timed out after {} ms", limit.unwrap_or_default());
        (
            Shown::Observed(String::new()),
            Shown::Observed(text),
            Shown::Observed(TIMED_OUT),
        )
    }

    fn withheld(&self, cfc: &CfcResult) -> Parts {
        let part = |part| Withheld::of(cfc, &self.output_id, part);
        (
            Shown::Withheld(part("stdout")),
            Shown::Withheld(part("stderr")),
            Shown::Withheld(part("exitCode")),
        )
    }

    /// Takes over where the command ended, where that lies in a mount; otherwise where it began.
    fn adopt(&self, ended: Option<PathBuf>) {
        let description = self.bash.driver.describe();
        let ended = ended
            // A name that is no text could not be given back as one.
            .filter(|path| path.to_str().is_some())
            .and_then(|path| cwd::resolve(&description, Path::new("/"), &path));
        *self.bash.last_cwd() = ended.unwrap_or_else(|| self.cwd.clone());
    }

    fn not_run(self, err: driver::Error) -> Result<Output, Error> {
        let (reason, exit_code, text) = match &err {
            driver::Error::Session(refusal) => {
                let reason = refusal.reason();
                (reason, REFUSED, refusal::text(reason).to_owned())
            }
            driver::Error::NoPolicy { .. } => {
                let reason = refusal::NO_POLICY;
                (reason, REFUSED, refusal::text(reason).to_owned())
            }
            driver::Error::LabelRule { .. } => {
                let reason = refusal::LABEL_RULE;
                (reason, REFUSED, refusal::text(reason).to_owned())
            }
            driver::Error::Plan(PlanError::CwdOutsideMounts { .. } | PlanError::BadCwd { .. }) => {
                (err.code(), BAD_CWD, self.bad_cwd())
            }
            _ => return Err(err.into()),
        };
        tracing::warn!(
            reason,
            session = self.input.session.as_deref().map(operator::line),
            message = operator::line(&err.to_string()),
            "a call of bash did not run"
        );
        Ok(self.bash.refused(self.output_id, exit_code, text))
    }

    /// Says that the directory cannot be used. One that nobody named is left, so that the next call
    /// does not fail on it too.
    fn bad_cwd(&self) -> String {
        if self.input.cwd.is_some() {
            return "That directory cannot be used: it is not there, is no directory, or leads \
                    out of its mount. The command did not run."
                .to_owned();
        }
        let start = self.bash.driver.describe().default_working_directory;
        let text = format!(
            "The directory in which the last command ended cannot be used any more, so the \
             command did not run. The working directory is now {}: run the command again.",
            start.display()
        );
        *self.bash.last_cwd() = start;
        text
    }
}

/// Standard output, standard error, and the exit value.
type Parts = (Shown<String>, Shown<String>, Shown<u8>);

/// What a model is shown of an output that may be seen.
fn seen(end: End, released: &Released) -> Parts {
    let (code, note) = match end {
        End::Exited => (released.exit.map_or(REFUSED, |exit| exit.code), None),
        End::NotStarted(failure) => not_started(failure),
        End::Lost => (
            REFUSED,
            Some("The sandbox was lost while the command ran, which may have run in part."),
        ),
        End::TimedOut => (TIMED_OUT, None),
        End::Cancelled => (REFUSED, None),
    };
    let mut stderr = trim::text(&released.stderr);
    if let Some(note) = note {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(note);
    }
    (
        Shown::Observed(trim::text(&released.stdout)),
        Shown::Observed(stderr),
        Shown::Observed(code),
    )
}

fn not_started(failure: StartFailure) -> (u8, Option<&'static str>) {
    match failure {
        StartFailure::NoSuchCommand => (127, Some("The image of the sandbox has no /bin/sh.")),
        StartFailure::NotExecutable => {
            (126, Some("The /bin/sh of the sandbox cannot be executed."))
        }
        _ => (
            REFUSED,
            Some("The sandbox could not start, so the command did not run."),
        ),
    }
}
