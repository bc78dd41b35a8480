# shellcheck shell=bash
# Helpers that the scripts and the CI steps share. To be sourced, not run.

# ---- Speaking ---------------------------------------------------------------

say() {
    printf '%s\n' "$*" >&2
}

# die WHAT [LINE]...: what is wrong and where, then what to do about it.
die() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 1
}

# ---- The machine ------------------------------------------------------------

is_root() {
    [ "$(id -u)" -eq 0 ]
}

have() {
    command -v "$1" >/dev/null 2>&1
}

package_installed() {
    [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages PACKAGE...: root gets those that are missing, in one call of
# apt; anybody else is told.
need_packages() {
    local package missing=()
    for package in "$@"; do
        package_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    have apt-get || die "these Debian packages are missing: ${missing[*]}" \
        "This machine has no apt-get: install what they hold by its own means."
    is_root || die "these Debian packages are missing: ${missing[*]}" \
        "As root: apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    say "Installing Debian packages: ${missing[*]}"
    # A source that nothing here needs may be out of reach; the install tells.
    apt_get update || say "apt-get update failed; going on with the lists that are there"
    apt_get install --yes --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install ${missing[*]}; its messages are above" \
            "Mend the machine's apt sources or its network, and run this again."
}

# Never asks, and speaks only where it fails. Another apt may be at work on a
# machine that has just started, so its lock is waited for.
apt_get() {
    local log status=0
    log=$(mktemp)
    DEBIAN_FRONTEND=noninteractive \
        apt-get --quiet -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 || status=$?
    [ "$status" -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return "$status"
}

# has_id_range FILE USER: whether /etc/subuid or /etc/subgid gives the user a
# range that is wide enough for an image.
has_id_range() {
    [ -r "$1" ] || return 1
    awk -F: -v name="$2" -v id="$(id -u "$2")" \
        '($1 == name || $1 == id) && $3 >= 65536 { found = 1 } END { exit !found }' "$1"
}

# add_ranges_command USER: gives the user the first range that nobody has.
add_ranges_command() {
    local first
    first=$(cat /etc/subuid /etc/subgid 2>/dev/null | awk -F: '
        $2 + $3 > end { end = $2 + $3 }
        END { first = 100000; while (first < end) first += 65536; print first }')
    printf 'usermod --add-subuids %d-%d --add-subgids %d-%d %s\n' \
        "$first" $((first + 65535)) "$first" $((first + 65535)) "$1"
}

# ---- Rust -------------------------------------------------------------------

# rustup's own directory is on PATH in a login shell only.
find_cargo() {
    if ! have cargo && [ -x "${CARGO_HOME:-${HOME:-}/.cargo}/bin/cargo" ]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    have cargo
}

need_rust() {
    find_cargo || die "there is no cargo on PATH" \
        "Install Rust (https://rustup.rs), then run this again."
    have cc || need_packages gcc libc6-dev
}

# target_directory CHECKOUT: where cargo builds to, which is the user's to set.
target_directory() {
    (cd "$1" && cargo metadata --locked --no-deps --format-version 1) |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

need_nextest() {
    need_rust
    cargo nextest --version >/dev/null 2>&1 && return 0
    say "Installing cargo-nextest (there is none on PATH; this takes some minutes)"
    cargo install --locked cargo-nextest
}
