#!/usr/bin/env bash
# The tests of the default network, as root, with the pasta of a newer Debian than
# the machine's: it closes descriptors, mounts a /proc, and looks after the path
# that it attached by. Arguments go to nextest.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
# shellcheck source=ci/packages.sh
. ci/packages.sh

SUITE=trixie

main() {
    is_root || die "this part of the gVisor tests needs root" "Run it as root."
    need_nextest
    need_packages "${TEST_PACKAGES[@]}" patchelf debian-archive-keyring
    cargo build --locked --bin runsc-cfc
    scripts/install-store.sh --front "$(target_directory .)/debug/runsc-cfc"

    built=$(target_directory .)/pasta-$SUITE
    [ -x "$built/pasta" ] || build
    PATH=$built:$PATH cargo nextest run --locked --test gvisor -E 'test(/^network::/)' "$@"
}

# Debian's binary, with the C library that it was built for: the machine's may be
# older. One directory holds it all and takes its name at the end.
build() {
    local work=$built.new mirror loader
    mirror=$(source_uri "$(os_release VERSION_CODENAME)")
    [ -n "$mirror" ] || die "this machine's apt sources name no Debian mirror"
    say "Fetching the pasta of Debian's $SUITE"
    rm -rf "$work"
    mkdir -p "$work"/{apt,tree,pasta/lib}
    private_apt "$work/apt" deb "$mirror" "$SUITE"
    (
        cd "$work/apt"
        export APT_CONFIG=$work/apt/apt.conf
        apt_get update --error-on=any && apt_get download "passt/$SUITE" "libc6/$SUITE" || exit
        for package in ./*.deb; do dpkg-deb --extract "$package" ../tree || exit; done
    ) || die "apt-get could not fetch passt and libc6 of $SUITE from $mirror; its messages are above"

    loader=$(find "$work/tree/usr/lib" -type f -name 'ld-linux*.so.*')
    find "$work/tree/usr/lib" -name libc.so.6 -exec cp {} "$work/pasta/lib" \;
    cp "$loader" "$work/pasta/lib"
    cp "$work"/tree/usr/bin/passt* "$work/pasta"
    rm -f "$work/pasta/passt-repair"
    patchelf --set-interpreter "$built/lib/${loader##*/}" --set-rpath "$built/lib" "$work"/pasta/passt*
    # It goes by the name that it is called by.
    ln -s passt "$work/pasta/pasta"
    mv "$work/pasta" "$built"
    rm -rf "$work"
    "$built/pasta" --version >&2 && return
    rm -rf "$built"
    die "the pasta of $SUITE does not run here"
}

main "$@"
