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
    need_packages "${TEST_PACKAGES[@]}" make debian-archive-keyring
    cargo build --locked --bin runsc-cfc
    scripts/install-store.sh --front "$(target_directory .)/debug/runsc-cfc"

    built=$(target_directory .)/pasta-$SUITE
    [ -x "$built/pasta" ] || build
    PATH=$built:$PATH cargo nextest run --locked --test gvisor -E 'test(/^network::/)' "$@"
}

# From Debian's source, since its binary wants a newer C library than this
# machine may have. One directory holds it all and takes its name at the end.
build() {
    local work=$built.new mirror name
    mirror=$(source_uri "$(os_release VERSION_CODENAME)")
    [ -n "$mirror" ] || die "this machine's apt sources name no Debian mirror"
    say "Building the pasta of Debian's $SUITE"
    rm -rf "$work"
    mkdir -p "$work/source"
    private_apt "$work/apt" deb-src "$mirror" "$SUITE"
    export APT_CONFIG=$work/apt/apt.conf
    apt_get update --error-on=any || die "apt-get could not read the sources of $SUITE at $mirror"
    name=$(fetch_tar "$mirror" "$work")
    unset APT_CONFIG
    tar --extract --file "$work/$name" --directory "$work/source" --strip-components=1
    make --silent --directory "$work/source" pasta VERSION="$name" >"$work/log" 2>&1 ||
        die "passt's make failed; its output is in $work/log"
    mv "$work/source" "$built"
    rm -rf "$work"
}

# fetch_tar MIRROR DIR: fetches the upstream tar and prints its name. Its sum is
# from the index that apt has checked the signature of.
fetch_tar() {
    local sum name directory
    read -r sum name directory < <(apt-cache showsrc --only-source passt | awk '
        /^Checksums-Sha256:/ { sums = 1; next }
        /^[^ ]/ { sums = 0 }
        sums && $3 ~ /\.orig\.tar\.[a-z0-9]+$/ { sum = $1; name = $3 }
        /^Directory:/ { directory = $2 }
        END { print sum, name, directory }')
    [ -n "$directory" ] || die "the sources of $SUITE at $1 have no passt"
    /usr/lib/apt/apt-helper download-file "$1/$directory/$name" "$2/$name" "SHA256:$sum" >&2 ||
        die "apt could not fetch $1/$directory/$name"
    printf '%s\n' "$name"
}

main "$@"
