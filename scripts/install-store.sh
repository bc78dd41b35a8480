#!/usr/bin/env bash
# Makes the store that runsc-driver runs from: a runsc, the front that keeps
# labels before it, a policy and an image.
set -euo pipefail
# The image is judged by its modes, so they must not hang on the caller's umask.
umask 022

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

# The oldest runsc that the driver works with, by the date in its version.
RUNSC_OLDEST=20240729
SUITE=bookworm
PACKAGES=(
    bash coreutils findutils grep sed gawk diffutils patch file less procps
    curl git ca-certificates jq ripgrep xz-utils unzip zip
    python3 python3-pip python3-venv make gcc libc6-dev
)
# Raise it when finish_tree makes something else of the same packages.
FINISH=1
# The tar, the tree and mmdebstrap's own work, with room to spare.
NEEDED_MIB=2048

usage() {
    cat <<HELP
Usage: scripts/install-store.sh [--store DIR] [--mirror URI] [--front FILE]

Makes the store of runsc-driver, as root or as an ordinary user:
  bin/runsc           runsc-cfc, which keeps labels over
  bin/runsc-gvisor    gVisor's runsc, from Debian, of $RUNSC_OLDEST or later
  cfc-policy.json     a sample policy, where there is none
  images/kitchensink  an unpacked Debian $SUITE tree of the caller's own

A store that is complete is left alone, and one of an earlier version is turned
into such a one. A bin/runsc that tracks labels itself is left alone too. A run that was interrupted is taken up
again by the next one. Nothing of the system is changed, but for the Debian
packages that building the image takes, and those only when run as root.

  --store DIR   where to make it (default: \$HOME/.local/share/runsc-cfc)
  --mirror URI  the Debian mirror (default: the one in this machine's apt sources)
  --front FILE  the runsc-cfc to put there (default: this checkout's, built by
                cargo; without cargo, the one on PATH)
  --help        this text
HELP
}

main() {
    read_arguments "$@"
    images=$store/images
    image=$images/kitchensink
    marker=$images/kitchensink.json
    partial=$images/.partial-kitchensink

    check_prerequisites
    # The image holds directories that everybody may write to; only its owner
    # may reach them.
    mkdir -p "$store/bin"
    [ -d "$images" ] || mkdir -m 0700 "$images"
    take_lock
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP

    install_runsc
    install_front
    install_policy
    install_image
    say "The store is complete: $store"
}

read_arguments() {
    store='' mirror='' front=''
    while [ $# -gt 0 ]; do
        case $1 in
            --store | --mirror | --front)
                [ -n "${2:-}" ] || die "$1 needs a value" "See --help."
                printf -v "${1#--}" '%s' "$2"
                shift 2
                ;;
            --help | -h)
                usage
                exit 0
                ;;
            *) die "unknown argument: $1" "See --help." ;;
        esac
    done
    if [ -z "$store" ]; then
        [ -n "${HOME:-}" ] || die "HOME is not set, so there is no place for the store" \
            "Set HOME, or name a place: --store DIR"
        store=$HOME/.local/share/runsc-cfc
    fi
    [[ $store == /* ]] || store=$PWD/$store
}

# Two runs at once would build into each other's files. The programs that we
# start hold the lock too, so it outlasts a run that is killed before they end.
take_lock() {
    exec 9>"$store/.lock"
    if ! flock --nonblock 9; then
        say "Waiting for another run on $store"
        flock 9
    fi
}

# What the next run cannot use goes; a finished tar stays for it.
clean_up() {
    stop_mmdebstrap
    rm -f "$store/bin/.partial-runsc" "$store/bin/.partial-front" "$store/.partial-policy" "$partial.tar.part" "$partial.log"
    rm -rf "$partial.tree" "$partial.old"
    remove_work
}

stage() {
    say "[${SECONDS} s] $*"
}

# ---- Before anything long: what is missing, in one message -----------------

check_prerequisites() {
    local packages=() commands=()
    if ! image_is_current || ! runsc_is_current; then
        find_missing
    fi
    if is_root; then
        need_packages "${packages[@]}"
        return 0
    fi
    [ ${#packages[@]} -eq 0 ] || commands+=(
        "apt-get update"
        "apt-get install --no-install-recommends ${packages[*]}"
    )
    [ ${#commands[@]} -eq 0 ] ||
        die "making the store takes what only an administrator can set up; as root:" \
            "${commands[@]}" "Then run this again."
}

find_missing() {
    have tar || packages+=(tar)
    have flock || packages+=(util-linux)
    [ -e "$KEYRING" ] || packages+=(debian-archive-keyring)
    image_is_current && return 0
    have mmdebstrap || packages+=(mmdebstrap)
    is_root || find_missing_for_user
}

# mmdebstrap as a user needs a user namespace with a range of ids in it.
find_missing_for_user() {
    have newuidmap || packages+=(uidmap)
    local user
    user=$(id -un)
    if ! has_id_range /etc/subuid "$user" || ! has_id_range /etc/subgid "$user"; then
        commands+=("$(add_ranges_command "$user")")
    fi
    may_unshare || find_sysctls
}

may_unshare() {
    unshare --user --map-root-user true 2>/dev/null
}

find_sysctls() {
    local name value before=${#commands[@]}
    while read -r name value; do
        if [ "$(sysctl -n "$name" 2>/dev/null)" = "${value%%:*}" ]; then
            commands+=("sysctl -w $name=${value##*:}")
        fi
    done <<'SYSCTLS'
kernel.unprivileged_userns_clone 0:1
kernel.apparmor_restrict_unprivileged_userns 1:0
user.max_user_namespaces 0:65536
SYSCTLS
    [ ${#commands[@]} -gt "$before" ] ||
        commands+=("# let $(id -un) make user namespaces (unshare --user fails here, and no sysctl says why)")
}

# ---- bin/runsc-gvisor ------------------------------------------------------

# runsc_date FILE: the date in its version, or nothing. Debian's runsc says
# "0.0~20240729", gVisor's own "release-20240729.0".
runsc_date() {
    local version
    version=$("$1" --version 2>/dev/null </dev/null) || return 0
    if [[ $version =~ runsc\ version\ [^0-9]*(0\.0~)?([0-9]{8}) ]]; then
        printf '%s\n' "${BASH_REMATCH[2]}"
    fi
}

# keeps_labels FILE: whether it is the front, or a runsc that tracks labels. The
# stock one does not know the flag.
keeps_labels() {
    [ -x "$1" ] && "$1" --cfc --version >/dev/null 2>&1 </dev/null
}

# A bin/runsc that tracks labels, with no stock one for a front beside it.
tracks_labels_itself() {
    [ ! -e "$store/bin/runsc-gvisor" ] && keeps_labels "$store/bin/runsc"
}

# Where the stock runsc is: before there were fronts it was bin/runsc.
stock() {
    if [ ! -e "$store/bin/runsc-gvisor" ] && [ -e "$store/bin/runsc" ]; then
        printf '%s\n' "$store/bin/runsc"
    else
        printf '%s\n' "$store/bin/runsc-gvisor"
    fi
}

runsc_is_current() {
    local date
    [ -x "$(stock)" ] || return 1
    date=$(runsc_date "$(stock)")
    [ "${date:-0}" -ge "$RUNSC_OLDEST" ]
}

install_runsc() {
    if runsc_is_current; then
        # A second name first: there is a runsc at every moment, and a front
        # that finds no stock one beside it is never seen.
        if ! tracks_labels_itself && [ ! -e "$store/bin/runsc-gvisor" ]; then
            ln "$store/bin/runsc" "$store/bin/runsc-gvisor"
        fi
        say "gVisor's runsc is there: version date $(runsc_date "$(stock)")"
        return 0
    fi
    [ ! -e "$(stock)" ] || say "$(stock) is older than $RUNSC_OLDEST and is replaced"
    if [ "$(os_release ID)" = debian ] && [ -n "$(runsc_suite)" ]; then
        stage "bin/runsc-gvisor: fetching it from Debian's $(runsc_suite)"
        make_work
        fetch_runsc "$(runsc_suite)"
        remove_work
    else
        copy_runsc
    fi
    stage "bin/runsc-gvisor: version date $(runsc_date "$store/bin/runsc-gvisor")"
}

# The first suite of this Debian that has a runsc new enough.
runsc_suite() {
    case $(os_release VERSION_ID) in
        12) echo bookworm-backports ;;
        [0-9] | 10 | 11) ;;
        *) os_release VERSION_CODENAME ;;
    esac
}

# By apt, which checks Debian's signature, but with lists, cache and settings of
# its own: the system's sources and its own runsc stay as they are.
fetch_runsc() {
    local suite=$1 apt=$work/apt
    find_mirror
    private_apt "$apt" deb "$mirror" "$suite"
    (
        cd "$apt"
        export APT_CONFIG=$apt/apt.conf
        apt_get update --error-on=any && apt_get download "runsc/$suite" &&
            dpkg-deb --extract runsc_*.deb tree
    ) || die "apt-get could not fetch runsc of $suite from $mirror; its messages are above" \
        "Mend the network, or name another Debian mirror: --mirror URI"
    place_runsc "$apt/tree/usr/bin/runsc"
}

copy_runsc() {
    local found date
    found=$(command -v runsc) || die "there is no runsc on PATH, and this machine is no Debian 12 or newer to fetch one from" \
        "Put gVisor's runsc of $RUNSC_OLDEST or later on PATH (or at $store/bin/runsc-gvisor) and run this again."
    date=$(runsc_date "$found")
    [ -n "$date" ] || die "$found --version tells no version that this script knows" \
        "Put gVisor's runsc of $RUNSC_OLDEST or later first on PATH and run this again."
    [ "$date" -ge "$RUNSC_OLDEST" ] || die "$found is of $date, which is too old ($RUNSC_OLDEST or later is needed)" \
        "Such a runsc listens on an abstract socket that is open to every local user," \
        "and its statx fails the programs of newer images." \
        "A newer one is in Debian's bookworm-backports, and in Debian 13 and later."
    stage "bin/runsc-gvisor: copying $found"
    place_runsc "$found"
}

# Checked before it is put into place, and put there whole.
place_runsc() {
    local new=$store/bin/.partial-runsc date
    install -m 0755 "$1" "$new"
    date=$(runsc_date "$new")
    [ "${date:-0}" -ge "$RUNSC_OLDEST" ] ||
        die "the runsc that was fetched does not say that it is of $RUNSC_OLDEST or later (it says: ${date:-nothing})" \
            "Give another Debian mirror: --mirror URI"
    mv -f "$new" "$store/bin/runsc-gvisor"
}

# ---- bin/runsc and the policy: what keeps labels ------------------------------

install_front() {
    local built new=$store/bin/.partial-front
    if tracks_labels_itself; then
        say "bin/runsc tracks labels itself and is left alone"
        return 0
    fi
    built=$(built_front)
    if cmp -s "$built" "$store/bin/runsc"; then
        say "bin/runsc is there: runsc-cfc"
        return 0
    fi
    install -m 0755 "$built" "$new"
    # Beside the stock one already, it answers as it will in its place.
    keeps_labels "$new" || die "$built does not keep labels over bin/runsc-gvisor: --cfc --version fails" \
        "Build it anew (cargo build --release --bin runsc-cfc), or name another: --front FILE"
    mv -f "$new" "$store/bin/runsc"
    stage "bin/runsc: runsc-cfc, from $built"
}

# The front to install: the one that was named, this checkout's, or one on PATH.
built_front() {
    local target
    if [ -n "$front" ]; then
        [ -f "$front" ] || die "--front $front is no file" "See --help."
        printf '%s\n' "$front"
    elif find_cargo && [ -e "$here/../Cargo.toml" ]; then
        need_rust
        target=$(target_directory "$here/..")
        (cd "$here/.." && cargo build --locked --release --quiet --bin runsc-cfc) >&2 ||
            die "cargo could not build runsc-cfc; its messages are above" \
                "Mend what they name, or name one that is built: --front FILE"
        printf '%s\n' "$target/release/runsc-cfc"
    else
        command -v runsc-cfc || die "there is neither cargo to build runsc-cfc nor one on PATH" \
            "Install Rust (https://rustup.rs), or name one that is built: --front FILE"
    fi
}

# A policy is its owner's from the moment that it is there.
install_policy() {
    [ ! -e "$store/cfc-policy.json" ] || return 0
    install -m 0644 "$here/../bundles/cfc-policy.json" "$store/.partial-policy"
    mv -f "$store/.partial-policy" "$store/cfc-policy.json"
    stage "cfc-policy.json: a sample, to be changed as you like"
}

# ---- Where Debian's packages come from --------------------------------------

# Sets mirror and, where the machine has one, security.
find_mirror() {
    local codename
    codename=$(os_release VERSION_CODENAME)
    if [ -z "$mirror" ] && [ "$(os_release ID)" = debian ]; then
        mirror=$(source_uri "$codename")
    fi
    [ -n "$mirror" ] || die "this machine's apt sources name no Debian mirror (suite ${codename:-unknown}, component main)" \
        "Name one: --mirror URI"
    security=$(source_uri "$codename-security")
}

# ---- images/kitchensink -----------------------------------------------------

recipe() {
    printf '%s\n' "$SUITE" "$FINISH" "${PACKAGES[@]}" | sha256sum | cut -c1-16
}

marker_is_of_recipe() {
    grep -qs "\"recipe\": \"$(recipe)\"" "$1"
}

image_is_current() {
    [ -d "$image" ] && marker_is_of_recipe "$marker"
}

# Each step leaves something that the next run goes on from: the tar, then the
# tree in its place, then the marker.
install_image() {
    if image_is_current; then
        say "images/kitchensink is there: Debian $SUITE, recipe $(recipe)"
        return 0
    fi
    if ! tree_is_placed; then
        refuse_foreign_image
        build_tar
        unpack_tar
        finish_tree
        place_tree
    fi
    mv -f "$partial.json" "$marker"
    rm -f "$partial".tar.*
    stage "images/kitchensink: $(du -sm "$image" | cut -f1) MiB in place"
}

# An earlier run was stopped between its last two renames (see place_tree).
tree_is_placed() {
    [ -d "$image" ] && [ ! -e "$marker" ] && marker_is_of_recipe "$partial.json" && [ ! -e "$partial.tree" ]
}

refuse_foreign_image() {
    if [ -e "$image" ] && [ ! -e "$marker" ]; then
        die "$image exists, but this script did not make it" \
            "Move it away, or make the store elsewhere: --store DIR"
    fi
}

build_tar() {
    local tar
    tar=$partial.tar.$(recipe)
    if [ -e "$tar" ]; then
        stage "images/kitchensink: going on from the tar of an earlier run"
        return 0
    fi
    rm -f "$partial".tar.*
    find_mirror
    [ -n "$security" ] || say "No security mirror is in this machine's apt sources: the image gets no security updates"
    make_work
    need_space "$images"
    need_space "$work"
    stage "images/kitchensink: building Debian $SUITE with mmdebstrap (under a minute on a fast network)"
    run_mmdebstrap "$partial.tar.part" || die "mmdebstrap could not build the image; its messages are above" \
        "Mend what they name and run this again."
    mv "$partial.tar.part" "$tar"
    remove_work
}

run_mmdebstrap() {
    local options=(--variant=minbase --format=tar) proxies status=0
    local sources=("deb [signed-by=$KEYRING] $mirror $SUITE main")
    [ -z "$security" ] || sources+=("deb [signed-by=$KEYRING] $security $SUITE-security main")
    if is_root; then options+=(--mode=root); else options+=(--mode=unshare); fi
    proxies=$(apt-config dump | grep -E '^Acquire::.*::Proxy ') || true
    [ -z "$proxies" ] || options+=(--aptopt="$proxies")
    options+=(--include="$(IFS=, && printf '%s' "${PACKAGES[*]}")" "$SUITE" "$1" "${sources[@]}")

    # In a session of its own: where a signal or the end of the terminal takes
    # only some of its processes, the rest wait for them for ever. So we take
    # the signal, and stop them together (stop_mmdebstrap).
    : >"$partial.log"
    TMPDIR=$work setsid setpriv --pdeathsig TERM \
        mmdebstrap "${options[@]}" </dev/null >"$partial.log" 2>&1 &
    builder=$!
    [ ! -t 2 ] || follow_log "$builder"
    wait "$builder" || status=$?
    builder=''
    [ "$status" -eq 0 ] || [ -t 2 ] || tail -n 40 "$partial.log" >&2
    return "$status"
}

# Waiting, unlike a program in the foreground, ends when a signal arrives.
follow_log() {
    tail --pid="$1" --lines=+1 --follow "$partial.log" 2>/dev/null |
        sed --unbuffered 's/^I: /      /' >&2 &
    wait $!
}

stop_mmdebstrap() {
    local try
    [ -n "${builder:-}" ] || return 0
    kill -TERM -- "-$builder" 2>/dev/null || return 0
    for try in {1..50}; do
        kill -0 -- "-$builder" 2>/dev/null || return 0
        [ "$try" -ne 40 ] || kill -KILL -- "-$builder" 2>/dev/null || true
        sleep 0.1
    done
}

# mmdebstrap works in a directory that the ids of its user namespace must reach,
# so it cannot lie in the store. It is written down, so that the next run can
# remove what a killed one left.
make_work() {
    remove_work
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/runsc-cfc-store.XXXXXXXX")
    chmod 0755 "$work"
    printf '%s\n' "$work" >"$partial.work"
}

remove_work() {
    local left
    left=$(cat "$partial.work" 2>/dev/null) || return 0
    if [ -n "$left" ] && [ -d "$left" ] && [ ! -L "$left" ] && [ -O "$left" ]; then
        # A user's leftovers belong to the ids of that namespace.
        is_root || mmdebstrap --unshare-helper rm -rf "$left"/* 2>/dev/null || true
        rm -rf "$left"
    fi
    rm -f "$partial.work"
}

need_space() {
    local free
    free=$(df --output=avail -BM "$1" | tr -dc '0-9')
    [ "$free" -ge "$NEEDED_MIB" ] || die "$1 has $free MiB free, and building the image takes $NEEDED_MIB" \
        "Make room there, or choose another place: --store DIR, and TMPDIR for the work."
}

# As the caller's own: a rootless sandbox can use no image that is not.
unpack_tar() {
    stage "images/kitchensink: unpacking"
    rm -rf "$partial.tree"
    mkdir "$partial.tree"
    # Device nodes are root's to make, and gVisor brings its own /dev.
    tar -C "$partial.tree" -xpf "$partial.tar.$(recipe)" --no-same-owner --exclude='./dev/*'
}

# What the driver mounts over must be there: runsc would make it in the image.
finish_tree() {
    local tree=$partial.tree
    mkdir -p "$tree"/{workspace,fabric,proc,dev/pts,dev/shm,sys,tmp}
    rm -rf "$tree"/etc/{hosts,resolv.conf,hostname}
    printf '%s\n' '127.0.0.1 localhost' '::1 localhost ip6-localhost ip6-loopback' >"$tree/etc/hosts"
    : >"$tree/etc/resolv.conf"
    echo sandbox >"$tree/etc/hostname"
    rm -rf "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt/* "$tree"/etc/apt/apt.conf.d/99mmdebstrap
    chmod 0755 "$tree"
    # The sandbox grants nothing by setuid, and on the host it must not either.
    find "$tree" -perm /6000 ! -type l -exec chmod a-s {} +
    find "$tree" -type d ! -perm -u+rwx -exec chmod u+rwx {} \;
    write_marker
}

write_marker() {
    local names
    names=$(printf '"%s", ' "${PACKAGES[@]}")
    cat >"$partial.json" <<JSON
{
  "format": 1,
  "recipe": "$(recipe)",
  "distribution": "debian",
  "suite": "$SUITE",
  "packages": [${names%, }],
  "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}
JSON
}

# An image is never beside a marker of another recipe, wherever this stops.
place_tree() {
    if [ -e "$image" ]; then
        rm -rf "$partial.old"
        mv "$image" "$partial.old"
    fi
    rm -f "$marker"
    mv "$partial.tree" "$image"
    rm -rf "$partial.old"
}

main "$@"
