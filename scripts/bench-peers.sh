#!/usr/bin/env bash
# Installs what scripts/bench.sh can measure the driver beside: bubblewrap, podman
# and hyperfine from Debian, and from PyPI, into a venv below target/, Google's
# gvisor wheel and temenos. What cannot be had is said; the benchmark names it as
# absent.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

DEBIAN=(bubblewrap podman hyperfine python3-venv)
# As measured; a later one may be called in another way.
PYTHON=(gvisor==2026.10.22.0 temenos==0.4.0)
VENV=target/bench-peers

main() {
    local package missing=()
    for package in "${DEBIAN[@]}"; do
        (need_packages "$package") || missing+=("$package")
    done
    for package in "${PYTHON[@]}"; do
        into_venv "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] || die "these could not be had, and are not measured: ${missing[*]}"
    say "All peers are there."
}

into_venv() {
    if [ ! -x "$VENV/bin/python3" ]; then
        python3 -m venv "$VENV" >&2 || return
    fi
    "$VENV/bin/python3" -m pip install --quiet --disable-pip-version-check "$1" >&2
}

main
