//! What the driver adds to runsc, as ratios of pairs that were measured in turn in one run.
//!
//! `scripts/bench.sh` runs this. One JSON object goes to standard output; `--pairs N` says how
//! many pairs each figure has.

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

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::config::NetworkHelper;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::End;
use runsc_driver::selection::find_program;
use runsc_driver::{Call, Driver, Host, NetworkMode, SandboxConfig, SandboxOptions};
use serde_json::json;

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--pairs").skip(1);
    let pairs = args
        .next()
        .map_or(200, |pairs| pairs.parse().expect("--pairs takes a number"));
    let bench = Bench::new();
    let cold = bench.cold(pairs);
    let network = bench.network(pairs);
    let session_start = bench.session_start(pairs);
    let session_call = bench.session_call(pairs);
    println!(
        "{:#}",
        json!({
            "schema": "runsc-driver/bench/v1",
            "user": if bench.root { "root" } else { "ordinary" },
            "cold_over_runsc": cold.ratio(),
            "cold_ms": cold.first_ms(),
            "runsc_ms": cold.second_ms(),
            "network_over_none": network.ratio(),
            "network_ms": network.first_ms(),
            "session_start_network_over_none": session_start.ratio(),
            "session_start_network_ms": session_start.first_ms(),
            "session_call_network_over_none": session_call.ratio(),
            "session_call_network_ms": session_call.first_ms(),
        })
    );
}

struct Bench {
    dir: tempfile::TempDir,
    runsc: PathBuf,
    root: bool,
    driver: DirectDriver,
    /// The same on the default network, its sessions too.
    networked: DirectDriver,
    runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut host = Host::read();
        host.temp_dir = dir.path().to_owned();
        let root = host.uid == Some(0);
        let workspace = dir.path().join("work");
        fs::create_dir(&workspace).unwrap();
        let store = host.home.clone().unwrap().join(".local/share/runsc-cfc");
        let runsc = store.join("bin/runsc");
        let mut options =
            SandboxOptions::new(runsc.clone(), store.join("images/kitchensink"), &workspace);
        options.network = NetworkMode::None;
        options.mode = EnforcementMode::Disabled;
        options.rootless = !root;
        let driver_of = |options| {
            let config = SandboxConfig::resolve(options, &host).unwrap();
            DirectDriver::new(config, host.clone())
        };
        let mut networked = options.clone();
        networked.network = NetworkMode::Sandbox;
        networked.session_egress = true;
        let find = |name: &str| find_program(name, &host).expect(name);
        networked.network_helper = Some(NetworkHelper {
            pasta: find("pasta"),
            setpriv: find("setpriv"),
            unshare: Some(find("unshare")),
        });
        let (driver, networked) = (driver_of(options), driver_of(networked));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            dir,
            runsc,
            root,
            driver,
            networked,
            runtime,
        }
    }

    fn call(&self) -> Call {
        Call::new(["true"])
    }

    /// One call through the library beside a bare `runsc run` of the same bundle.
    fn cold(&self, pairs: usize) -> Pairs {
        let bundle = self.dir.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        let plan = self.driver.plan(&self.call()).unwrap();
        fs::write(bundle.join("config.json"), &plan.config_json).unwrap();
        let ours = || {
            let outcome = self.runtime.block_on(self.driver.run(self.call())).unwrap();
            assert_eq!(outcome.end, End::Exited, "{outcome:?}");
        };
        Pairs::measure(pairs, ours, || self.bare(&bundle))
    }

    fn run(&self, driver: &DirectDriver, session: Option<String>) {
        let mut call = self.call();
        call.session = session;
        let outcome = self.runtime.block_on(driver.run(call)).unwrap();
        assert_eq!(outcome.end, End::Exited, "{outcome:?}");
    }

    /// One call on the default network beside one without any.
    fn network(&self, pairs: usize) -> Pairs {
        let call = |driver| move || self.run(driver, None);
        Pairs::measure(pairs, call(&self.networked), call(&self.driver))
    }

    /// A session's start with its first call, each in a driver of its own, which is closed.
    fn session_start(&self, pairs: usize) -> Pairs {
        let start = |of: &'_ DirectDriver| {
            let driver = of.child("bench").unwrap();
            let mut call = self.call();
            call.session = Some("s".to_owned());
            let outcome = self.runtime.block_on(driver.run(call)).unwrap();
            assert_eq!(outcome.end, End::Exited, "{outcome:?}");
            self.runtime.block_on(driver.close());
        };
        Pairs::measure(pairs, || start(&self.networked), || start(&self.driver))
    }

    fn session_call(&self, pairs: usize) -> Pairs {
        let call = |driver| move || self.run(driver, Some("s".to_owned()));
        Pairs::measure(pairs, call(&self.networked), call(&self.driver))
    }

    fn bare(&self, bundle: &Path) {
        let mut command = Command::new(&self.runsc);
        command.arg("--root").arg(self.dir.path().join("bare"));
        command.args([
            "--ignore-cgroups",
            "--network=none",
            "--overlay2=root:memory",
        ]);
        if !self.root {
            command.arg("--rootless");
        }
        command.args(["run", "--bundle"]).arg(bundle).arg("bare");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Times of two things, measured in turn.
struct Pairs(Vec<(Duration, Duration)>);

impl Pairs {
    fn measure(pairs: usize, mut first: impl FnMut(), mut second: impl FnMut()) -> Self {
        let time = |work: &mut dyn FnMut()| {
            let started = Instant::now();
            work();
            started.elapsed()
        };
        // What is only slow once: page cache, the version probe, the scratch tree.
        for _ in 0..3 {
            first();
            second();
        }
        // Which goes first changes from pair to pair, so that neither has the warmer machine.
        let pair = |at: usize| {
            if at.is_multiple_of(2) {
                let a = time(&mut first);
                (a, time(&mut second))
            } else {
                let b = time(&mut second);
                (time(&mut first), b)
            }
        };
        Self((0..pairs).map(pair).collect())
    }

    /// The median of the paired ratios with its 95 % interval, by order statistics.
    fn ratio(&self) -> serde_json::Value {
        let ratios = self
            .0
            .iter()
            .map(|(a, b)| a.as_secs_f64() / b.as_secs_f64());
        summary(ratios.collect())
    }

    fn first_ms(&self) -> serde_json::Value {
        summary(self.0.iter().map(|(a, _)| a.as_secs_f64() * 1e3).collect())
    }

    fn second_ms(&self) -> serde_json::Value {
        summary(self.0.iter().map(|(_, b)| b.as_secs_f64() * 1e3).collect())
    }
}

fn summary(mut values: Vec<f64>) -> serde_json::Value {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let spread = 1.96 * count.sqrt() / 2.0;
    let at = |rank: f64| {
        let rank = rank.clamp(0.0, count - 1.0) as usize;
        (values[rank] * 1e4).round() / 1e4
    };
    let middle = (count - 1.0) / 2.0;
    json!({
        "median": at(middle),
        "low": at((middle - spread).floor()),
        "high": at((middle + spread).ceil()),
        "n": values.len(),
    })
}
