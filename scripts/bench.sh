#!/usr/bin/env bash
# Measures what the driver costs beside bare runsc and beside its peers; see
# --help. The peers are those that scripts/bench-peers.sh installs, or others.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

main() {
    need_rust
    scripts/install-store.sh >&2
    say "Building the benchmark"
    local program
    program=$(build)
    # In this process, so that it is the one that a Ctrl-C ends, and that ends what it started.
    exec "$program" "$@"
}

build() {
    cargo bench --locked --quiet --no-run --bench calls --message-format=json |
        sed -n 's/.*"name":"calls".*"executable":"\([^"]*\)".*/\1/p'
}

main "$@"
