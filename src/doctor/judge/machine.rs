//! The machine itself.

use crate::doctor::Name;
use crate::doctor::report::{Findings, Words};
use crate::host::{Host, Platform};
use crate::selection::{Native, Obstacle, Refusal};

/// The oldest kernel that a child can be started on as the driver does it.
const OLDEST: (u32, u32) = (5, 11);
/// The oldest kernel that keeps a mount read-only.
const READ_ONLY: (u32, u32) = (5, 12);

pub(super) fn platform(to: &mut Findings, platform: &Platform) {
    match platform {
        Platform::Linux => to.pass(Name::Platform, platform.to_string()),
        Platform::MacOs => to.info(
            Name::Platform,
            "macOS: nothing of this driver has run on one",
        ),
        Platform::Other(name) => {
            let refusal = Refusal::NoNativeRuntime {
                platform: name.clone(),
            };
            to.fail(Name::Platform, name, super::words(&refusal));
        }
    }
}

pub(super) fn arch(to: &mut Findings, host: &Host) {
    let arch = host.arch.as_str();
    match (&host.platform, arch) {
        (Platform::MacOs, "aarch64") | (Platform::Linux, "x86_64" | "aarch64") => {
            to.pass(Name::Arch, arch);
        }
        (Platform::MacOs, _) => {
            let arch = arch.to_owned();
            let words = super::obstacle(Native::MacOs, Obstacle::Architecture { arch });
            to.fail(Name::Arch, &host.arch, words);
        }
        (Platform::Linux, _) => to.fail(
            Name::Arch,
            arch,
            Words::new(
                format!("gVisor is not built for {arch}"),
                "run it on x86_64 or aarch64",
            ),
        ),
        (Platform::Other(_), _) => to.info(Name::Arch, arch),
    }
}

pub(super) fn kernel(to: &mut Findings, release: Option<&str>) {
    let Some(release) = release else {
        return to.info(Name::Kernel, "not known");
    };
    match version(release) {
        None => to.info(Name::Kernel, release),
        Some(found) if found < OLDEST => to.fail(
            Name::Kernel,
            release,
            Words::new(
                format!("Linux {release} is too old: a sandbox's descriptors need 5.11"),
                "run a newer kernel",
            ),
        ),
        Some(found) if found < READ_ONLY => to.warn(
            Name::Kernel,
            release,
            Words::new(
                format!("Linux {release} cannot keep a mount read-only, which needs 5.12"),
                "run a newer kernel, or mount nothing read-only",
            ),
        ),
        Some(_) => to.pass(Name::Kernel, release),
    }
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
