//! Whole commands, as a person starts them: `runsc-driver run -- true` beside `runsc run`, by
//! hyperfine where it is installed. hyperfine measures the one and then the other, so there is no
//! ratio here; the pairs are elsewhere.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::measure::rounded;
use crate::place::{Place, apart, finish};
use crate::stop::{self, Stop};

/// A command's time in milliseconds.
#[derive(Debug, Serialize)]
pub struct Whole {
    pub command: &'static str,
    pub n: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// None where there is no hyperfine.
pub fn measure(place: &Place, rounds: usize) -> Result<Option<Vec<Whole>>, Stop> {
    let Ok(hyperfine) = which::which("hyperfine") else {
        return Ok(None);
    };
    stop::check()?;
    eprintln!("whole commands, by hyperfine");
    let ours = format!(
        "{} run --no-cfc --network none --workspace {} -- true",
        quoted(Path::new(env!("CARGO_BIN_EXE_runsc-driver"))),
        quoted(&place.workspace()),
    );
    let bare = place.bare_run("bundle", "bare");
    let bare: Vec<_> = std::iter::once(bare.get_program())
        .chain(bare.get_args())
        .map(|word| quoted(Path::new(word)))
        .collect();
    let told = place.dir.path().join("hyperfine.json");
    let mut command = apart(hyperfine);
    command
        .args(["-N", "--style=none", "--warmup=3", "--runs"])
        .arg(rounds.max(2).to_string());
    command
        .arg("--export-json")
        .arg(&told)
        .arg(&ours)
        .arg(bare.join(" "));
    command.env("TMPDIR", place.dir.path());
    let ran = finish(&mut command);
    stop::check()?;
    ran.map_err(|why| Stop::Failed(format!("hyperfine: {why}")))?;
    let told = fs::read(&told).map_err(|err| Stop::Failed(err.to_string()))?;
    let told: Value = serde_json::from_slice(&told).map_err(|err| Stop::Failed(err.to_string()))?;
    let names = ["runsc-driver run -- true", "runsc run"];
    let whole = |(at, command)| {
        let result = &told["results"][at];
        let ms = |name: &str| rounded(result[name].as_f64().unwrap_or(f64::NAN) * 1e3);
        Whole {
            command,
            n: result["times"].as_array().map_or(0, Vec::len),
            median: ms("median"),
            min: ms("min"),
            max: ms("max"),
        }
    };
    Ok(Some(names.into_iter().enumerate().map(whole).collect()))
}

/// A word as hyperfine splits its commands into words.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
