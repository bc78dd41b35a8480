#!/usr/bin/env bash
# The tests that need no gVisor. Arguments go to nextest (a test's name, say).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_nextest
cargo nextest run --locked --lib --bins --test boundary "$@"
# nextest runs no documentation tests.
cargo test --locked --quiet --doc
