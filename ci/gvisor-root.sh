#!/usr/bin/env bash
# The tests in real gVisor, as root. Arguments go to nextest.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=ci/packages.sh
. ci/packages.sh

is_root || die "this half of the gVisor tests needs root" \
    "Run it as root; ci/gvisor-user.sh is the half for everybody else."
need_nextest
need_packages "${TEST_PACKAGES[@]}"
# The build that the tests use, so that nothing is compiled twice.
cargo build --locked --bin runsc-cfc
scripts/install-store.sh --front "$(target_directory .)/debug/runsc-cfc"
cargo nextest run --locked --test gvisor --test front --test handoff "$@"
