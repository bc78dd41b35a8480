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
    # As an ordinary user, what the network needs is told and not insisted on.
    if is_root; then need_packages passt nftables; fi

    say "1. The driver and runsc-cfc: cargo build --release"
    cargo build --locked --release --bins
    local target
    target=$(target_directory .)

    say "2. The store: runsc, runsc-cfc before it, a policy and an image"
    scripts/install-store.sh --front "$target/release/runsc-cfc"

    say "3. A command in gVisor, with its labels enforced"
    # The home directory holds the store, so it cannot be the workspace.
    mkdir -p "$target/quickstart"
    local network=()
    if ! network_can_be_had; then
        network=(--network none)
        say "The default network needs passt, nftables and a /dev/net/tun that you may open.
As root: apt-get install --no-install-recommends passt nftables
         modprobe tun; chmod 0666 /dev/net/tun
Until then, runs are to name another: --network none"
    fi
    local first=''
    if scratch_is_anothers; then
        export TMPDIR=$target/quickstart-tmp
        mkdir -p "$TMPDIR"
        first="
  export TMPDIR=$TMPDIR   # the scratch directory in /tmp is another user's"
    fi
    "$target/release/runsc-driver" run "${network[@]}" \
        --workspace "$target/quickstart" -- uname -a </dev/null

    say "
It works. To go on, from a directory of yours (it appears as /workspace):$first
  $target/release/runsc-driver run ${network[*]:+${network[*]} }-- python3 -c 'print(6 * 7)'
  $HOME/.local/share/runsc-cfc/bin/runsc label --help
  $target/release/runsc-driver run --help"
}

network_can_be_had() {
    have pasta && { have nft || [ -x /usr/sbin/nft ]; } &&
        [ -r /dev/net/tun ] && [ -w /dev/net/tun ]
}

# Scratch trees are below a directory that belongs to one user.
scratch_is_anothers() {
    local parent=${TMPDIR:-/tmp}/cf-harness-runsc
    [ -e "$parent" ] && [ ! -O "$parent" ]
}

usage() {
    cat <<HELP
Usage: scripts/quickstart.sh

Makes the store (see scripts/install-store.sh --help), builds runsc-driver, and
runs a command in gVisor with it. As root or as an ordinary user.
HELP
}

main "$@"
