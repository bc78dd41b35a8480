# shellcheck shell=bash
# Fetching from Debian without touching the system. To be sourced, after lib.sh.

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

os_release() {
    # In a shell of its own, for the file sets names as it likes.
    (. /etc/os-release && printf '%s\n' "${!1:-}") 2>/dev/null || true
}

# source_uri SUITE: where the machine's apt gets that suite's main from, or
# nothing. Others have suites of that name too, so one called debian goes first.
source_uri() {
    local uri
    uri=$(apt-get --print-uris update 2>/dev/null |
        sed -n "s|^'\(.*\)/dists/$1/main/binary-[^/]*/Packages.*|\1|p" |
        sort -u | awk '/debian/ { print; found = 1; exit } { other = $0 } END { if (!found) print other }') || true
    # Debian's cloud images name a file that lists mirrors.
    if [[ $uri == mirror+file:* ]]; then
        uri=$(awk '/^[^#]/ { print $1; exit }' "${uri#mirror+file:}")
    fi
    printf '%s\n' "${uri%/}"
}

# private_apt DIR TYPES MIRROR SUITE: an apt with lists, cache and settings of its
# own below DIR, which checks Debian's signature. It is used with
# APT_CONFIG=DIR/apt.conf.
private_apt() {
    local apt=$1 types=$2 mirror=$3 suite=$4
    mkdir -p "$apt"/{sources,parts,state/lists/partial,cache/archives/partial}
    printf '%s\n' "Types: $types" "URIs: $mirror" "Suites: $suite" "Components: main" \
        "Signed-By: $KEYRING" >"$apt/sources/private.sources"
    # The machine's proxies are kept; its hooks, which write to the system, are not.
    {
        apt-config dump | grep '^Acquire::' || true
        cat <<SETTINGS
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$apt/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$apt/parts";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/sources";
Dir::State "$apt/state";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
Dir::Log "$apt";
APT::Sandbox::User "$(id -un)";
SETTINGS
    } >"$apt/apt.conf"
}
