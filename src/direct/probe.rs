//! Whether this runsc is new enough and tracks labels where they are wanted, asked once a driver.

use std::time::Duration;

use tokio::sync::OnceCell;

use crate::config::SandboxConfig;
use crate::driver::Error;
use crate::launch::LaunchError;
use crate::launch::spawn::{self, SpawnRequest};
use crate::plan::runsc;

/// The oldest release that is supported, as its date.
pub(crate) const OLDEST: u32 = 20_240_729;
/// How long runsc may take to print its version.
const LIMIT: Duration = Duration::from_secs(3);

/// The answer, once it was asked for.
#[derive(Debug, Default)]
pub(super) struct Supported(OnceCell<()>);

impl Supported {
    /// Refuses a runsc that is too old or does not say how old it is.
    pub(super) async fn check(&self, config: &SandboxConfig) -> Result<(), Error> {
        self.0.get_or_try_init(|| check(config)).await.copied()
    }
}

async fn check(config: &SandboxConfig) -> Result<(), Error> {
    let path = config.runsc.as_path().to_owned();
    let wants_cfc = config.policy.is_some();
    let (known, output) = ask(config, wants_cfc).await?;
    if !known && wants_cfc && ask(config, false).await?.0 {
        return Err(Error::CfcUnsupported { path });
    }
    match release_date(&output) {
        Some(date) if known && date >= OLDEST => Ok(()),
        Some(date) if known => Err(Error::RunscTooOld { path, date }),
        _ => Err(Error::RunscUnknown { path }),
    }
}

/// Whether runsc prints its version, and what it prints. A flag that it does not know makes it
/// fail, so the same question tells whether it knows `--cfc`.
async fn ask(config: &SandboxConfig, cfc: bool) -> Result<(bool, Vec<u8>), LaunchError> {
    let request = SpawnRequest::plain(runsc::version(config, cfc), true);
    let (status, output) = spawn::on_thread(move || spawn::run_bounded(request, LIMIT)).await??;
    Ok((status.is_some_and(|status| status.success()), output))
}

/// The date in `runsc version release-20240729.0`, or in Debian's `0.0~20240729.0`.
pub(crate) fn release_date(output: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(output).ok()?;
    let version = text.lines().next()?.strip_prefix("runsc version ")?;
    version
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| digits.len() == 8)
        .and_then(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_told_by_its_date() {
        let cases: [(&[u8], Option<u32>); 7] = [
            (
                b"runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n",
                Some(20_240_729),
            ),
            (b"runsc version 0.0~20221219.0\n", Some(20_221_219)),
            (b"runsc version release-20260112.0\n", Some(20_260_112)),
            (
                b"runsc version release-20260112.0-33-gabcdef0123456\n",
                Some(20_260_112),
            ),
            (b"runsc version VERSION_MISSING\n", None),
            (b"crun version 1.8.1\ncommit: 20240729\n", None),
            (b"\xff", None),
        ];
        for (output, expected) in cases {
            assert_eq!(release_date(output), expected, "{output:?}");
        }
    }
}
