//! `runsc-driver bundle`: what is kept of what steps made.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::clean::say;
use super::handoff::{Failure, Root, capture_limits, here, print, refuse};
use crate::handoff::artifacts::{
    Declared, Expected, Import, ImportError, PayloadPath, Store, capture, seal, verify,
};
use crate::handoff::envelope::{ArtifactRef, Builder, Envelope, Status};
use crate::handoff::redact::Redactor;
use crate::host::Host;

/// Make, verify, import and show bundles
///
/// A bundle is a directory of files with a manifest, named by the digest of what is in it. It is
/// put into its store whole and never changed. Everything is printed as JSON.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  runsc-driver bundle verify ./artifact-bundle-sha256-…"
)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Create),
    Verify(Verify),
    Import(ImportArgs),
    Reimport(Reimport),
    Show(Show),
}

/// Capture files of a directory as a bundle in the store
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver bundle create ./out --path report.json --session job-123")]
struct Create {
    /// The directory that the files are in
    dir: PathBuf,
    /// A file that goes into the bundle; can be given more than once
    #[arg(long = "path", value_name = "PATH", required_unless_present = "all")]
    paths: Vec<PathBuf>,
    /// Every other file goes into it too
    #[arg(long)]
    all: bool,
    /// Take so much, in one file and in all [default: 64MiB in one file, 256MiB in all]
    #[arg(long, value_name = "SIZE")]
    max_output: Option<ByteSize>,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    root: Root,
}

/// Verify a bundle in a directory; exits with 0 where it is valid and with 1 where it is not
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver bundle verify ./artifact-bundle-sha256-… | jq .violations")]
struct Verify {
    /// The bundle
    dir: PathBuf,
}

/// Copy a bundle into the store, verified; one that is there is verified again and kept
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver bundle import ./artifact-bundle-sha256-… --session job-123")]
struct ImportArgs {
    /// The bundle
    dir: PathBuf,
    /// Refuse one with another id
    #[arg(long, value_name = "ID")]
    expect_id: Option<String>,
    /// Refuse one with another digest
    #[arg(long, value_name = "DIGEST")]
    expect_digest: Option<String>,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    root: Root,
}

/// Verify a stored bundle again; a miss is reported and nothing is written
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  runsc-driver bundle reimport artifact-bundle-sha256-…")]
struct Reimport {
    /// The bundle's id, or a file with an envelope that names it
    bundle: PathBuf,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    root: Root,
}

/// Print a stored bundle's manifest
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    runsc-driver bundle show artifact-bundle-sha256-… | jq '.files[].path'")]
struct Show {
    /// The bundle's id
    id: String,
    #[command(flatten)]
    root: Root,
}

/// The caller's own keys, carried through to the envelope.
#[derive(Debug, clap::Args)]
struct Keys {
    /// The caller's sandbox_session_id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The caller's request_id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
}

impl Keys {
    fn metadata(&self) -> Map<String, Value> {
        let keys = [
            ("sandbox_session_id", &self.session),
            ("request_id", &self.request),
        ];
        let known = keys.into_iter().filter_map(|(name, value)| {
            let value = value.as_deref()?;
            Some((name.to_owned(), value.into()))
        });
        known.collect()
    }
}

/// Runs the verb.
pub(super) fn main(args: Args) -> ExitCode {
    let host = Host::read();
    let done = match args.verb {
        Verb::Create(args) => create(&args, &host),
        Verb::Verify(args) => verification(&args, &host),
        Verb::Import(args) => import(&args, &host),
        Verb::Reimport(args) => reimport(&args, &host),
        Verb::Show(args) => show(&args, &host),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err((code, message)) => {
            refuse(&code, &message);
            ExitCode::FAILURE
        }
    }
}

/// Whether it went well; else a stable word and a sentence.
type Done = Result<bool, (String, String)>;

fn told(failure: Failure) -> (String, String) {
    (failure.code().to_owned(), failure.to_string())
}

fn failed(code: &str) -> impl FnOnce(&dyn std::error::Error) -> (String, String) {
    let code = code.to_owned();
    move |err| (code, err.to_string())
}

fn store(root: &Root, host: &Host) -> Result<PathBuf, (String, String)> {
    Ok(root.path(host).map_err(told)?.join("artifacts"))
}

fn create(args: &Create, host: &Host) -> Done {
    let paths: Result<Vec<_>, _> = args
        .paths
        .iter()
        .map(|path| PayloadPath::new(path))
        .collect();
    let declared = Declared {
        paths: paths.map_err(|err| failed("output-odd-name")(&err))?,
        allow_others: args.all,
        labelled: false,
    };
    let file = |err: crate::handoff::FileError| failed("bundle-file")(&err);
    let from = here(host, &args.dir).map_err(told)?;
    let store = Store::open(&store(&args.root, host)?).map_err(file)?;
    store.sweep();
    let aside = store.aside().map_err(file)?;
    let limits = capture_limits(args.max_output);
    let captured = capture(&from, &declared, aside.dir(), &Redactor::default(), &limits);
    let captured = captured.map_err(file)?;
    let mut builder = builder("handoff-artifacts", &args.keys);
    builder.diagnostics.clone_from(&captured.diagnostics);
    if !captured.is_whole() {
        builder.status = Some(Status::Failed);
        let first = captured
            .diagnostics
            .iter()
            .find(|told| told.severity == "error");
        builder.error = first.map(|told| (told.code.to_owned(), told.message.clone()));
        return finish(&builder);
    }
    let now = crate::handoff::time::now();
    let sealed = seal(aside.dir(), &captured, None, args.keys.metadata(), &now);
    let sealed = sealed.map_err(|err| failed(err.code())(&err))?;
    let expected = Expected {
        id: Some(&sealed.id),
        digest: Some(sealed.digest.as_str()),
    };
    let files: Vec<_> = captured.files.iter().map(|file| file.to_value()).collect();
    builder.result = Some(json!({ "files": files }));
    finish(&outcome(builder, store.admit(aside, &expected)))
}

fn verification(args: &Verify, host: &Host) -> Done {
    let mut verification = verify(&here(host, &args.dir).map_err(told)?);
    verification.bundle_directory.clone_from(&args.dir);
    print(&json!(verification));
    Ok(verification.valid)
}

fn import(args: &ImportArgs, host: &Host) -> Done {
    let source = here(host, &args.dir).map_err(told)?;
    let expected = Expected {
        id: args.expect_id.as_deref(),
        digest: args.expect_digest.as_deref(),
    };
    let store =
        Store::open(&store(&args.root, host)?).map_err(|err| failed("bundle-file")(&err))?;
    store.sweep();
    let builder = builder("import-artifact-bundle", &args.keys);
    finish(&outcome(builder, store.import(&source, &expected)))
}

fn reimport(args: &Reimport, host: &Host) -> Done {
    let id = match named(&args.bundle) {
        Some(id) => id,
        None => envelope_id(&here(host, &args.bundle).map_err(told)?)?,
    };
    let store = Store::at(&store(&args.root, host)?);
    let builder = builder("reimport-artifact-bundle", &args.keys);
    finish(&outcome(builder, store.stored(&id)))
}

/// An id is a plain name that no file has.
fn named(bundle: &Path) -> Option<String> {
    let name = bundle.to_str()?;
    let is_id = crate::handoff::host::is_plain_name(name) && !bundle.exists();
    is_id.then(|| name.to_owned())
}

fn envelope_id(path: &Path) -> Result<String, (String, String)> {
    let bytes = crate::handoff::files::read_bounded(path, crate::cfc::json::MAX_BYTES as u64)
        .map_err(|err| failed("envelope-unreadable")(&err))?;
    let envelope = Envelope::parse(&bytes).map_err(|err| failed(err.code())(&err))?;
    envelope.bundle_id().map(str::to_owned).ok_or_else(|| {
        (
            "no-bundle".to_owned(),
            "the envelope names no bundle".to_owned(),
        )
    })
}

fn show(args: &Show, host: &Host) -> Done {
    let store = Store::at(&store(&args.root, host)?);
    let stored = store
        .stored(&args.id)
        .map_err(|err| failed(err.code())(&err))?;
    let manifest = stored.verification.manifest.as_ref();
    print(manifest.map_or(&Value::Null, |manifest| manifest.value()));
    Ok(true)
}

fn builder(operation: &'static str, keys: &Keys) -> Builder {
    Builder {
        operation,
        metadata: keys.metadata(),
        ..Builder::default()
    }
}

fn outcome(mut builder: Builder, imported: Result<Import, ImportError>) -> Builder {
    match imported {
        Ok(import) => {
            builder.status = Some(match import.existing {
                true => Status::Existing,
                false => Status::Created,
            });
            builder.verification = Some(import.verification.in_store(&import.id));
            builder.bundle = Some(ArtifactRef::bundle(&import.id, &import.digest));
        }
        Err(err) => {
            say(&format!("{err} [{}]", err.code()));
            let said = match err {
                ImportError::File(_) => "a file of the bundle could not be read or written".into(),
                ref err => err.to_string(),
            };
            builder.status = Some(Status::Failed);
            builder.error = Some((err.code().to_owned(), said));
        }
    }
    builder
}

fn finish(builder: &Builder) -> Done {
    let envelope = builder.build(&[]).map_err(|err| failed(err.code())(&err))?;
    print(envelope.value());
    Ok(envelope.is_success())
}
