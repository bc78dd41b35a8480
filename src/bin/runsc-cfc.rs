//! Arguments → front → exit code.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    runsc_driver::front::main(std::env::args_os().skip(1).collect())
}

/// Elsewhere runsc is another's, which keeps labels itself.
#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::from(128)
}
