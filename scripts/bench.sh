#!/usr/bin/env bash
# Measures what the driver adds to runsc, as ratios within one run: pairs in
# turn, their median and its 95 % interval. Prints one JSON object. Run it on a
# quiet machine; --pairs N says how many pairs (200).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

scripts/install-store.sh >&2
cargo bench --locked --quiet --bench calls -- "$@"
