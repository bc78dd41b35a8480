//! Arguments → library → rendering → exit code.

fn main() {}
