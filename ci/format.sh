#!/usr/bin/env bash
# The code is formatted.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

need_rust
cargo fmt --check
