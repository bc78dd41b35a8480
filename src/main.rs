//! Arguments → library → rendering → exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    runsc_driver::cli::main(std::env::args_os())
}
