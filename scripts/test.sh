#!/usr/bin/env bash
# Sets up what the tests need, and runs them all: the steps of ci/, in order.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

main() {
    step ci/format.sh
    step ci/lint.sh
    step ci/unit.sh
    if is_root; then
        step ci/gvisor-root.sh
        step ci/gvisor-newer-pasta.sh
        step ci/gvisor-user.sh
        say "All tests passed, as root and as an unprivileged user, in $SECONDS s."
    else
        step ci/gvisor-user.sh
        say "All tests passed in $SECONDS s, but ci/gvisor-root.sh and ci/gvisor-newer-pasta.sh DID NOT RUN: they need root."
    fi
}

step() {
    local start=$SECONDS
    say "==== $1"
    "$1" </dev/null || die "$1 failed after $((SECONDS - start)) s" \
        "Its output is above; it can be run alone."
    say "==== $1 passed in $((SECONDS - start)) s"
}

main
