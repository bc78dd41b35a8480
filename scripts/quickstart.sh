#!/usr/bin/env bash
# From a fresh machine with Rust to a command that runs in gVisor.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

main() {
    if [ $# -gt 0 ]; then
        usage
        exit
    fi
    need_rust

    say "1. The store: runsc and an image"
    scripts/install-store.sh

    say "2. The driver: cargo build --release"
    cargo build --locked --release
    local target
    target=$(target_directory)

    say "3. A command in gVisor"
    # The home directory holds the store, so it cannot be the workspace.
    mkdir -p "$target/quickstart"
    "$target/release/runsc-driver" run --no-cfc --network none \
        --workspace "$target/quickstart" -- \
        sh -c 'uname -a; id; echo hello from gVisor' </dev/null

    say "
It works. To go on, from a directory of yours (it appears as /workspace):
  $target/release/runsc-driver run --no-cfc --network none -- python3 -c 'print(6 * 7)'
  $target/release/runsc-driver run --help"
}

usage() {
    cat <<HELP
Usage: scripts/quickstart.sh

Makes the store (see scripts/install-store.sh --help), builds runsc-driver, and
runs a command in gVisor with it. As root or as an ordinary user.
HELP
}

# Where cargo builds to is the user's to set.
target_directory() {
    cargo metadata --locked --no-deps --format-version 1 |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

main "$@"
