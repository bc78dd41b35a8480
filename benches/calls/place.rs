//! A temporary directory, the drivers that work in it, and bare runsc.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use runsc_driver::cfc::mode::EnforcementMode;
use runsc_driver::direct::DirectDriver;
use runsc_driver::driver::{End, ExecVia};
use runsc_driver::{Call, Driver, Host, NetworkMode, SandboxConfig, SandboxOptions};
use tokio::runtime::{Builder, Runtime};

pub struct Place {
    pub dir: tempfile::TempDir,
    /// What the driver runs: where the store has it, the front that keeps labels.
    pub runsc: PathBuf,
    /// gVisor's own, for what is bare.
    pub stock: PathBuf,
    pub rootfs: PathBuf,
    store: PathBuf,
    pub root: bool,
    pub runtime: Runtime,
}

impl Place {
    pub fn new() -> Result<Self, String> {
        let host = Host::read();
        let home = host.home.ok_or("HOME is not set")?;
        let store = home.join(".local/share/runsc-cfc");
        let dir = tempfile::Builder::new()
            .prefix("runsc-driver-bench-")
            .tempdir();
        let runtime = Builder::new_current_thread().enable_all().build();
        let place = Self {
            dir: dir.map_err(|err| format!("no temporary directory: {err}"))?,
            stock: stock(&store),
            runsc: store.join("bin/runsc"),
            rootfs: store.join("images/kitchensink"),
            store,
            root: host.uid == Some(0),
            runtime: runtime.map_err(|err| format!("no runtime: {err}"))?,
        };
        fs::create_dir(place.workspace()).map_err(|err| err.to_string())?;
        place.write_bundle()?;
        Ok(place)
    }

    pub fn workspace(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// A driver of this place, with other options where `change` sets some.
    pub fn driver(&self, change: impl FnOnce(&mut SandboxOptions)) -> Result<Ours<'_>, String> {
        self.driver_by(ExecVia::ControlSocket, change)
    }

    /// The same, with calls in sessions started this way.
    pub fn driver_by(
        &self,
        via: ExecVia,
        change: impl FnOnce(&mut SandboxOptions),
    ) -> Result<Ours<'_>, String> {
        let mut host = Host::read();
        host.temp_dir = self.dir.path().to_owned();
        let mut options = SandboxOptions::new(self.runsc.clone(), &self.rootfs, self.workspace());
        options.network = NetworkMode::None;
        options.mode = EnforcementMode::Disabled;
        options.rootless = !self.root;
        change(&mut options);
        let config = SandboxConfig::resolve(options, &host).map_err(|err| err.to_string())?;
        let driver = Arc::new(DirectDriver::new(config, host).exec_via(via));
        Ok(Ours {
            place: self,
            driver,
        })
    }

    /// The bundle that bare runsc runs is the one of the driver's own call of `true`.
    fn write_bundle(&self) -> Result<(), String> {
        let ours = self.driver(|_| {})?;
        for (name, argv) in [("bundle", ["true"]), ("held", ["cat"])] {
            let plan = ours.driver.plan(&Call::new(argv));
            let plan = plan.map_err(|err| err.to_string())?;
            let dir = self.dir.path().join(name);
            let written = fs::create_dir(&dir)
                .and_then(|()| fs::write(dir.join("config.json"), plan.config_json));
            written.map_err(|err| format!("{}: {err}", dir.display()))?;
        }
        Ok(())
    }

    /// The store's sample policy.
    pub fn policy(&self) -> PathBuf {
        self.store.join("cfc-policy.json")
    }

    /// The state directory of bare runsc.
    pub fn bare_state(&self) -> PathBuf {
        self.dir.path().join("bare")
    }

    /// `runsc` with the flags that the driver gives it, no command yet.
    pub fn bare(&self) -> Command {
        let mut command = apart(&self.stock);
        command.arg("--root").arg(self.bare_state());
        command.args([
            "--ignore-cgroups",
            "--network=none",
            "--overlay2=root:memory",
        ]);
        if !self.root {
            command.arg("--rootless");
        }
        command
    }

    /// `runsc run` of a bundle of this place.
    pub fn bare_run(&self, bundle: &str, id: &str) -> Command {
        let mut command = self.bare();
        command
            .args(["run", "--bundle"])
            .arg(self.dir.path().join(bundle))
            .arg(id);
        command
    }
}

fn stock(store: &Path) -> PathBuf {
    let behind_front = store.join("bin/runsc-gvisor");
    match behind_front.exists() {
        true => behind_front,
        false => store.join("bin/runsc"),
    }
}

/// A program that no terminal's Ctrl-C reaches: it ends with its round.
pub fn apart(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.process_group(0).stdin(Stdio::null());
    command
}

/// Runs a command to its end; its standard error, where it does not succeed.
pub fn finish(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|err| err.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.trim().lines().last().unwrap_or_default();
    Err(format!("{}: {last}", output.status))
}

/// A driver that is closed as it goes.
pub struct Ours<'a> {
    place: &'a Place,
    pub driver: Arc<DirectDriver>,
}

impl Ours<'_> {
    pub fn run(&self, call: Call) -> Result<(), String> {
        self.place.runtime.block_on(succeed(&*self.driver, call))
    }

    /// Waits until the pool is full and nothing boots any more.
    pub fn fill(&self, size: usize) -> Result<(), String> {
        let ready = self.place.runtime.block_on(self.driver.prepare());
        let ready = ready.map_err(|err| err.to_string())?;
        if ready < size {
            return Err(format!(
                "only {ready} of {size} sandboxes could be booted ahead"
            ));
        }
        Ok(())
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        self.place.runtime.block_on(self.driver.close());
    }
}

/// Runs a call that has to succeed.
pub async fn succeed(driver: &dyn Driver, call: Call) -> Result<(), String> {
    let outcome = driver.run(call).await.map_err(|err| err.to_string())?;
    match (outcome.end, outcome.exit()) {
        (End::Exited, Some(exit)) if exit.code == 0 => Ok(()),
        _ => Err(format!("{outcome:?}")),
    }
}
