# What the fake runsc is made of. $here is the directory that it lies in.

# Records this process into a directory of its own, numbered in the order of the starts.
record() {
    [ -d "$here/seen" ] || exit 99
    number=1
    until mkdir "$here/seen/$number" 2>/dev/null; do
        number=$((number + 1))
    done
    seen=$here/seen/$number
    for argument; do
        printf '%s\0' "$argument"
    done >"$seen/argv"
    cat "/proc/$$/environ" >"$seen/environ"
    cat "/proc/$$/stat" >"$seen/stat"
    readlink "/proc/$$/cwd" >"$seen/cwd"
    # In a process apart, since a pipe or a redirection could be a descriptor of this one's too.
    (ls -l "/proc/$$/fd" >"$seen/fds")
}

# Takes a command line apart into $verb, $root, $log, $bundle and $id.
parse() {
    verb= root= log= bundle= id=
    while [ $# -gt 0 ]; do
        case $1 in
        --version) verb=version ;;
        --root) root=$2 && shift ;;
        --bundle) bundle=$2 && shift ;;
        --log=*) log=${1#--log=} ;;
        run | kill | delete | state) verb=$1 ;;
        -* | KILL) ;;
        *) id=$1 ;;
        esac
        shift
    done
}

# Tells the test that it may go on.
up() {
    : >"$here/up"
}

# Goes on until it is killed, under a name that shows whose it is.
hold() {
    exec "$here/idle" 1000
}

# Starts a process that outlives this one, out of its group and its session.
survivor() {
    setsid "$here/idle" 1000 </dev/null >/dev/null 2>&1 &
    echo $! >"$here/survivor"
}

end_survivor() {
    kill -KILL "$(cat "$here/survivor")"
}

# Leaves the files that runsc keeps of a container, which name its sandbox.
leave_state() {
    printf '{"id":"%s","goferPid":0,"sandbox":{"pid":%s}}' "$id" "$1" \
        >"$root/${id}_sandbox:$id.state"
    : >"$root/${id}_sandbox:$id.lock"
    : >"$root/runsc-$id.sock"
}

# Fails as runsc does: with records in its log that nothing separates, and the status 128.
fail() {
    cat "$here/log" >"$log"
    exit 128
}

# Says everything that is to be withheld, on both streams and as the exit status of the caller.
secret() {
    echo swordfish
    echo swordfish >&2
}

# A result of this container with this taint.
result() {
    printf '{"version":1,"containerId":"%s","waitStatus":10752,"cfcTaint":%s}' "$id" "$1"
}

public='{"string":"{conf: ⊤, integ: ∅}","xattrJSON":{}}'
tainted='{"string":"{conf: finance, integ: ∅}","xattrJSON":{"confidentiality":["finance"]}}'
