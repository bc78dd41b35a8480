//! What labels cost: `--cfc` beside the stock runsc without it, over workspaces of three sizes, as
//! ratios of pairs that were measured in turn.
//!
//! `cargo bench --bench labels -- --pairs N`. One JSON object goes to standard output. The goals
//! are 1.15 at 1 000 files and 2.0 at 100 000.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs,
    reason = "a benchmark fails by panicking, starts runsc itself and prints"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use runsc_driver::direct::DirectDriver;
use runsc_driver::{Call, Host, NetworkMode, SandboxConfig, SandboxOptions};
use serde_json::{Map, json};

const SIZES: [usize; 3] = [10, 1_000, 100_000];

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--pairs").skip(1);
    let pairs = args
        .next()
        .map_or(40, |pairs| pairs.parse().expect("--pairs takes a number"));
    let mut sizes = Map::new();
    for files in SIZES {
        sizes.insert(files.to_string(), Bench::new(files).measure(pairs));
    }
    println!(
        "{:#}",
        json!({"schema": "runsc-driver/bench-labels/v1", "cfc_over_stock": sizes})
    );
}

struct Bench {
    dir: tempfile::TempDir,
    store: PathBuf,
    root: bool,
}

impl Bench {
    /// A workspace of so many files, and a bundle over it.
    fn new(files: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::read();
        let root = host.uid == Some(0);
        let store = host.home.clone().unwrap().join(".local/share/runsc-cfc");
        let workspace = dir.path().join("work");
        for at in 0..files {
            let below = workspace.join((at / 100).to_string());
            if at % 100 == 0 {
                fs::create_dir_all(&below).unwrap();
            }
            fs::File::create(below.join(at.to_string())).unwrap();
        }
        let image = fs::canonicalize(store.join("images/kitchensink")).unwrap();
        let mut options = SandboxOptions::new(store.join("bin/runsc"), image, &workspace);
        options.policy = Some(store.join("cfc-policy.json"));
        options.network = NetworkMode::None;
        options.rootless = !root;
        let config = SandboxConfig::resolve(options, &host).unwrap();
        let driver = DirectDriver::new(config, host);
        let plan = driver.plan(&Call::new(["true"])).unwrap();
        let bundle = dir.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        fs::write(bundle.join("config.json"), &plan.config_json).unwrap();
        Self { dir, store, root }
    }

    fn measure(&self, pairs: usize) -> serde_json::Value {
        let time = |cfc: bool| {
            let started = Instant::now();
            self.run(cfc);
            started.elapsed()
        };
        // What is only slow once: the page cache, the index of the image.
        for _ in 0..3 {
            time(true);
            time(false);
        }
        let pair = |at: usize| {
            if at.is_multiple_of(2) {
                let with = time(true);
                (with, time(false))
            } else {
                let without = time(false);
                (time(true), without)
            }
        };
        let pairs: Vec<_> = (0..pairs).map(pair).collect();
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        json!({
            "ratio": middle(pairs.iter().map(|(with, without)| ms(with) / ms(without))),
            "with_ms": middle(pairs.iter().map(|(with, _)| ms(with))),
            "without_ms": middle(pairs.iter().map(|(_, without)| ms(without))),
        })
    }

    fn run(&self, cfc: bool) {
        let program = if cfc { "runsc" } else { "runsc-gvisor" };
        let mut command = Command::new(self.store.join("bin").join(program));
        let at = |name: &str| -> PathBuf { self.dir.path().join(name) };
        command.arg("--root").arg(at("state"));
        command.args([
            "--ignore-cgroups",
            "--network=none",
            "--overlay2=root:memory",
        ]);
        if !self.root {
            command.arg("--rootless");
        }
        if cfc {
            let policy: &Path = &self.store.join("cfc-policy.json");
            command.arg("--cfc").arg("--cfc-policy").arg(policy);
        }
        command
            .args(["run", "--bundle"])
            .arg(at("bundle"))
            .arg("bench");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// The median with its quartiles.
fn middle(values: impl Iterator<Item = f64>) -> serde_json::Value {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |part: usize| (values[(values.len() - 1) * part / 4] * 1e4).round() / 1e4;
    json!({"median": at(2), "low": at(1), "high": at(3), "n": values.len()})
}
