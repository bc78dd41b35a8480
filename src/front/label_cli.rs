//! `runsc-cfc label set|get|clear|tree PATH`: labels, for people.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use super::attributes::{self, Sight};
use super::image;
use super::marks::{self, Mark};
use super::mounts::{Bind, MountTable};
use super::path_text;
use super::policy::Unseen;
use super::registry::{Locked, Record, Registry, RegistryError};
use super::taint::Taint;
use super::walk::{Entry, Limits, Visit, Walk, under};
use crate::cfc::label::{LabelError, confidentiality_from_arg};
use crate::trust::{self, PathError};

/// What `--json` prints.
const SCHEMA: &str = "runsc-cfc/label/v1";

/// Labels of the host's files, as runsc-cfc keeps them.
#[derive(Debug, Parser)]
#[command(name = "runsc-cfc label")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    /// Print one JSON object.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Give a file or directory this label instead of the one it has.
    Set {
        /// The file or directory.
        path: PathBuf,
        /// Who may see it: each narrows. A JSON object, or text that is an atom as it stands.
        #[arg(required = true)]
        atoms: Vec<String>,
        /// What is below it too.
        #[arg(long, short)]
        recursive: bool,
    },
    /// Print the label of a file or directory, and of the mounts that it is in.
    Get {
        /// The file or directory.
        path: PathBuf,
    },
    /// Take a label away, and a mount's mark with it: what it kept back may leave from now on.
    Clear {
        /// The file or directory.
        path: PathBuf,
        /// What is below it too.
        #[arg(long, short)]
        recursive: bool,
    },
    /// Print whatever is labelled at a path and below it.
    Tree {
        /// The file or directory.
        path: PathBuf,
    },
}

/// Why a label was neither read nor changed.
#[derive(Debug, thiserror::Error)]
enum LabelCliError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Atom(#[from] LabelError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("{path:?} cannot be labelled: {reason}")]
    Unlabelled { path: PathBuf, reason: String },
    #[error("{path:?} cannot be read: {reason}")]
    Unread { path: PathBuf, reason: String },
    #[error("{container} runs over {path:?}: clear the label once it has ended")]
    InUse { path: PathBuf, container: String },
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl LabelCliError {
    fn code(&self) -> &'static str {
        match self {
            Self::Path(err) => err.code(),
            Self::Atom(err) => err.code(),
            Self::Registry(_) => "cfc-registry-unavailable",
            Self::Unlabelled { .. } => "cfc-not-labelled",
            Self::Unread { .. } => "cfc-label-unreadable",
            Self::InUse { .. } => "cfc-in-use",
            Self::Io(_) => "cfc-io",
        }
    }
}

/// Reads the words after `label`, does it and prints it.
#[must_use]
pub fn main(store: &Path, cwd: &Path, words: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from("runsc-cfc label")).chain(words.iter().cloned());
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(err) => {
            let _ = err.print();
            return ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2));
        }
    };
    let json = cli.json;
    let (value, code) = match run(store, cwd, cli.verb) {
        Ok(value) => (value, ExitCode::SUCCESS),
        Err(err) if json => (
            json!({"schema": SCHEMA, "error": {"code": err.code(), "message": err.to_string()}}),
            ExitCode::FAILURE,
        ),
        Err(err) => {
            let _ = writeln!(io::stderr(), "runsc-cfc label: {err}");
            return ExitCode::FAILURE;
        }
    };
    let text = if json {
        format!("{value}\n")
    } else {
        lines(&value)
    };
    let _ = io::stdout().write_all(text.as_bytes());
    code
}

/// One line for each entry: its label and its path.
fn lines(value: &Value) -> String {
    let mut text = String::new();
    for name in ["entries", "marks"] {
        for entry in value[name].as_array().into_iter().flatten() {
            let label = &entry["label"]["confidentiality"];
            let path = entry["path"].as_str().unwrap_or_default();
            let mark = if name == "marks" { "mark on " } else { "" };
            text.push_str(&format!("{label}\t{mark}{path}\n"));
        }
    }
    text
}

fn run(store: &Path, cwd: &Path, verb: Verb) -> Result<Value, LabelCliError> {
    let registry = Registry::open(store)?;
    let sight = Sight::probe(registry.dir(), Unseen::None)?;
    let table = MountTable::read()?;
    let labels = Labels {
        registry: &registry,
        sight: &sight,
        table: &table,
    };
    let at = |path: &Path| -> Result<PathBuf, LabelCliError> {
        // The last name is not followed: a link has a label of its own.
        let path = cwd.join(path);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(trust::walk("the path", &path)?.as_path().to_owned());
        };
        Ok(trust::walk("the path", above)?.as_path().join(name))
    };
    let atoms = |atoms: &[String]| -> Result<Taint, LabelCliError> {
        let atoms: Result<Vec<_>, _> = atoms
            .iter()
            .map(|atom| confidentiality_from_arg(atom))
            .collect();
        Ok(Taint::of(atoms?))
    };
    match verb {
        Verb::Set {
            path,
            atoms: named,
            recursive,
        } => labels.set(&at(&path)?, &atoms(&named)?, recursive),
        Verb::Clear { path, recursive } => labels.set(&at(&path)?, &Taint::public(), recursive),
        Verb::Get { path } => labels.get(&at(&path)?),
        Verb::Tree { path } => labels.tree(&at(&path)?),
    }
}

struct Labels<'a> {
    registry: &'a Registry,
    sight: &'a Sight,
    table: &'a MountTable,
}

impl Labels<'_> {
    fn set(&self, path: &Path, taint: &Taint, recursive: bool) -> Result<Value, LabelCliError> {
        let locked = self.registry.lock()?;
        let seen_by = self.containers_over(&locked, path)?;
        if taint.is_public()
            && let Some(container) = seen_by.first()
        {
            return Err(LabelCliError::InUse {
                path: path.to_owned(),
                container: container.container.clone(),
            });
        }
        // Those that run over it first: from then on they cannot end with less.
        for mut record in seen_by {
            if record.taint.join(taint) {
                locked.write(&record)?;
            }
        }
        let mut done = Vec::new();
        for path in self.paths(path, recursive)? {
            self.put(&path, taint)?;
            done.push(entry(&path, taint));
        }
        if taint.is_public() {
            self.clear_marks(&locked, path)?;
        }
        // An index of an image does not see that a file's attribute changed.
        image::forget_all(&self.registry.images())?;
        Ok(json!({"schema": SCHEMA, "entries": done}))
    }

    fn put(&self, path: &Path, taint: &Taint) -> Result<(), LabelCliError> {
        let unlabelled = |reason: String| LabelCliError::Unlabelled {
            path: path.to_owned(),
            reason,
        };
        let opened = marks::open_path(path).map_err(|err| unlabelled(err.to_string()))?;
        let (file, kind) = opened.ok_or_else(|| unlabelled("there is no such file".into()))?;
        match attributes::replace(&file, kind, taint, self.sight) {
            Err(attributes::Unlabelled::InDirectory) if taint.is_public() => Ok(()),
            other => other.map_err(|err| unlabelled(err.to_string())),
        }
    }

    /// The containers that see some of a path.
    fn containers_over(
        &self,
        locked: &Locked<'_>,
        path: &Path,
    ) -> Result<Vec<Record>, LabelCliError> {
        let own = self.bind(path)?;
        let records = locked.others("")?.into_iter();
        let live = records.filter(|other| other.dead.is_none());
        let records = live.filter_map(|other| other.record);
        let sees = |record: &Record| {
            let mut trees = record.binds.iter().flat_map(|bind| &bind.trees);
            trees.any(|tree| own.trees.iter().any(|own| own.overlaps(tree)))
        };
        Ok(records.filter(sees).collect())
    }

    fn bind(&self, path: &Path) -> Result<Bind, LabelCliError> {
        // A link is on its directory's filesystem.
        let link = std::fs::symlink_metadata(path)?.is_symlink();
        let place = path.parent().filter(|_| link).unwrap_or(path);
        Ok(Bind {
            destination: PathBuf::new(),
            source: place.to_owned(),
            trees: self.table.trees(place)?,
        })
    }

    /// Removes the marks of mounts that are at a path.
    fn clear_marks(&self, locked: &Locked<'_>, path: &Path) -> Result<(), LabelCliError> {
        let own = self.bind(path)?;
        for (file, mark) in locked.marks::<Mark>()? {
            let at = mark.as_ref().and_then(|mark| mark.trees.first());
            if at.map(|tree| tree.id) == own.trees.first().map(|tree| tree.id) {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    fn get(&self, path: &Path) -> Result<Value, LabelCliError> {
        let reach =
            std::ffi::CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        std::fs::symlink_metadata(path)?;
        let read = attributes::read(&reach, &mut |_| false);
        let taint = read.map_err(|err| LabelCliError::Unread {
            path: path.to_owned(),
            reason: format!("{err:?}"),
        })?;
        let entries: Vec<_> = taint.iter().map(|taint| entry(path, taint)).collect();
        Ok(json!({"schema": SCHEMA, "entries": entries, "marks": self.marks_over(path)?}))
    }

    fn marks_over(&self, path: &Path) -> Result<Vec<Value>, LabelCliError> {
        let own = [self.bind(path)?];
        let locked = self.registry.lock()?;
        let marks = locked.marks::<Mark>()?.into_iter();
        let over = marks
            .filter_map(|(_, mark)| mark)
            .filter(|mark| mark.is_over(&own));
        Ok(over
            .map(|mark| {
                let root = mark.trees.first().map(|tree| tree.path.clone());
                let mut value = entry(&root.unwrap_or_default(), &mark.taint);
                value["why"] = mark.why.into();
                value
            })
            .collect())
    }

    fn tree(&self, path: &Path) -> Result<Value, LabelCliError> {
        let found = Mutex::new(Vec::new());
        self.walk(path, || Labelled {
            root: path,
            found: &found,
        })?;
        let mut entries = found.into_inner().unwrap_or_default();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(json!({"schema": SCHEMA, "entries": entries, "marks": self.marks_over(path)?}))
    }

    fn paths(&self, path: &Path, recursive: bool) -> Result<Vec<PathBuf>, LabelCliError> {
        if !recursive {
            return Ok(vec![path.to_owned()]);
        }
        let found = Mutex::new(Vec::new());
        self.walk(path, || Paths {
            root: path,
            found: &found,
        })?;
        let mut paths = found.into_inner().unwrap_or_default();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    fn walk<V: Visit>(
        &self,
        path: &Path,
        make: impl Fn() -> V + Sync,
    ) -> Result<(), LabelCliError> {
        let limits = Limits::new(u64::MAX, std::time::Duration::from_secs(24 * 60 * 60));
        let walk = Walk {
            root: path,
            sight: self.sight,
            limits: &limits,
            tolerant: true,
        };
        let (_, found) = walk.run(make);
        match found.doubts().first() {
            Some(doubt) => Err(LabelCliError::Unread {
                path: path.to_owned(),
                reason: doubt.to_string(),
            }),
            None => Ok(()),
        }
    }
}

fn entry(path: &Path, taint: &Taint) -> Value {
    json!({"path": path_text::encode(path), "label": {"confidentiality": taint.atoms()}})
}

struct Paths<'a> {
    root: &'a Path,
    found: &'a Mutex<Vec<PathBuf>>,
}

impl Visit for Paths<'_> {
    fn visit(&mut self, entry: &Entry<'_>) {
        if let Ok(mut found) = self.found.lock() {
            found.push(under(self.root, &entry.below()));
        }
    }
    fn open(&mut self, _dir: &[u8]) {}
    fn again(&mut self) {}
}

struct Labelled<'a> {
    root: &'a Path,
    found: &'a Mutex<Vec<(PathBuf, Value)>>,
}

impl Visit for Labelled<'_> {
    fn visit(&mut self, seen: &Entry<'_>) {
        let value = match attributes::read(seen.reach, &mut |_| false) {
            Ok(None) => return,
            Ok(Some(taint)) => {
                let path = under(self.root, &seen.below());
                (path.clone(), entry(&path, &taint))
            }
            Err(err) => {
                let path = under(self.root, &seen.below());
                let value = json!({"path": path_text::encode(&path), "error": format!("{err:?}")});
                (path, value)
            }
        };
        if let Ok(mut found) = self.found.lock()
            && !found.contains(&value)
        {
            found.push(value);
        }
    }
    fn open(&mut self, _dir: &[u8]) {}
    fn again(&mut self) {}
}
