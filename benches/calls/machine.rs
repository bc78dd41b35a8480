//! The machine's name: what numbers are of.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub runsc: String,
    /// `root` or `ordinary`.
    pub user: &'static str,
    /// The load over the last minute, as the measuring began.
    pub load: String,
}

impl Machine {
    pub fn read(runsc: &Path, root: bool) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or_else(
                || "unknown".to_owned(),
                |(_, value)| value.trim().to_owned(),
            )
        };
        let memory = field(&text("/proc/meminfo"), "MemTotal");
        let kib = memory
            .split(' ')
            .next()
            .and_then(|kib| kib.parse::<u64>().ok());
        Self {
            cpu: field(&text("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: kib.unwrap_or(0).div_ceil(1024 * 1024),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            runsc: version(runsc),
            user: if root { "root" } else { "ordinary" },
            load: text("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or("")
                .to_owned(),
        }
    }
}

/// The first line of `runsc --version`, without its words.
fn version(runsc: &Path) -> String {
    let told = Command::new(runsc).arg("--version").output();
    let text = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
    let line = text
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    line.trim_start_matches("runsc version ").to_owned()
}
