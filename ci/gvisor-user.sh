#!/usr/bin/env bash
# The tests in real gVisor, as an unprivileged user: as the caller, or, where
# that is root, as a user made for it. Arguments go to nextest.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=ci/packages.sh
. ci/packages.sh

USER_NAME=runsc-driver-test

main() {
    need_nextest
    need_packages "${TEST_PACKAGES[@]}"
    if is_root; then
        make_user
        run_as_user "$@"
    else
        cargo build --locked --bin runsc-cfc
        scripts/install-store.sh --front "$(target_directory .)/debug/runsc-cfc"
        cargo nextest run --locked --test gvisor --test front --test handoff "$@"
    fi
}

make_user() {
    if ! id "$USER_NAME" >/dev/null 2>&1; then
        say "Adding the user $USER_NAME, for the tests (userdel --remove takes it away)"
        useradd --create-home --shell /bin/bash "$USER_NAME"
    fi
    if ! has_id_range /etc/subuid "$USER_NAME" || ! has_id_range /etc/subgid "$USER_NAME"; then
        local command
        read -ra command < <(add_ranges_command "$USER_NAME")
        "${command[@]}"
    fi
}

# The user may be unable to reach the checkout, cargo and the build, so each is
# handed over through a pipe: root opens, the user writes, in the user's home.
run_as_user() {
    dir=$(as_user mktemp --directory --tmpdir="$(home)" ci.XXXXXXXX)
    archive=$(mktemp --suffix=.tar.zst)
    trap 'rm -f "$archive"; as_user rm -rf "$dir"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP

    hand_over_workspace
    cargo build --locked --bin runsc-cfc
    hand_over_file "$(target_directory .)/debug/runsc-cfc" "$dir/runsc-cfc"
    as_user chmod +x "$dir/runsc-cfc"
    as_user "$dir/workspace/scripts/install-store.sh" --front "$dir/runsc-cfc"
    cargo nextest archive --locked --test gvisor --test front --test handoff --archive-file "$archive"
    hand_over_file "$archive" "$dir/tests.tar.zst"
    hand_over_nextest
    as_user mkdir "$dir/extracted"
    with_tunnel_device as_user "$nextest" nextest run --archive-file "$dir/tests.tar.zst" \
        --extract-to "$dir/extracted" --workspace-remap "$dir/workspace" "$@"
}

home() {
    getent passwd "$USER_NAME" | cut -d: -f6
}

# A login of an ordinary user: nothing of root's environment but what CI sets.
as_user() {
    local kept=() name
    for name in CI TERM RUST_BACKTRACE NEXTEST_PROFILE CARGO_TERM_COLOR; do
        [ -z "${!name:-}" ] || kept+=("$name=${!name}")
    done
    (
        cd /
        exec setpriv --reuid="$USER_NAME" --regid="$USER_NAME" --init-groups \
            --inh-caps=-all --reset-env \
            env "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" "${kept[@]}" "$@"
    )
}

# The machine's device may be root's alone: a node that is everybody's, in a mount namespace
# of its own.
with_tunnel_device() {
    export -f as_user
    export USER_NAME
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --propagation private -- bash -euc '
        mount -t tmpfs -o mode=0755 tunnel /dev/net
        mknod -m 0666 /dev/net/tun c 10 200
        "$@"
    ' bash "$@"
}

# What nextest and the tests read of the checkout.
hand_over_workspace() {
    local path present=()
    for path in Cargo.toml Cargo.lock .config src tests bundles schemas examples scripts ci; do
        [ ! -e "$path" ] || present+=("$path")
    done
    as_user mkdir "$dir/workspace"
    tar --create --no-acls "${present[@]}" | as_user tar --extract --directory "$dir/workspace"
}

hand_over_file() {
    as_user tee "$2" <"$1" >/dev/null
}

hand_over_nextest() {
    nextest=$(command -v cargo-nextest)
    nextest=$(realpath "$nextest")
    as_user test -x "$nextest" && return 0
    hand_over_file "$nextest" "$dir/cargo-nextest"
    nextest=$dir/cargo-nextest
    as_user chmod +x "$nextest"
}

main "$@"
