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

# Takes a command line apart into $verb, $root, $log, $bundle, $pid_file, $id, and the number of
# $words before the command of an exec.
parse() {
    verb= root= log= bundle= pid_file= id= words=0
    while [ $# -gt 0 ]; do
        case $1 in
        --version) verb=version ;;
        --root) root=$2 && skip=2 ;;
        --bundle) bundle=$2 && skip=2 ;;
        --internal-pid-file) pid_file=$2 && skip=2 ;;
        --log=*) log=${1#--log=} ;;
        --cfc-policy | --cfc-*-fd | --cwd | --env | --user | --process | --pid) skip=2 ;;
        run | exec | kill | delete | state | ps) verb=$1 ;;
        -* | KILL) ;;
        *) id=$1 ;;
        esac
        shift "${skip:-1}"
        words=$((words + ${skip:-1}))
        skip=
        # What follows is the command's.
        if [ "$verb" = exec ] && [ -n "$id" ]; then
            break
        fi
    done
}

# Is a session: says that it runs, and does for as long as its standard input is held.
session() {
    printf '{"id":"%s","goferPid":0,"sandbox":{"pid":%s},"status":"running"}' "$id" "$$" \
        >"$root/${id}_sandbox:$id.state"
    read -r _
    rm "$root/${id}_sandbox:$id.state"
    exit 0
}

# Ends the session that this is a call in, as a container does whose first process is killed.
end_session() {
    pid=$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$root/${id}_sandbox:$id.state")
    kill -KILL "$pid"
    until ! [ -e "/proc/$pid/stat" ] || grep -q ') Z' "/proc/$pid/stat"; do :; done
}

# Says the pid that a command has in its container.
started() {
    printf '%s' "$1" >"$pid_file"
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
    # A kill of the group reaches it until then.
    until [ "$(cut -d ' ' -f 6 "/proc/$!/stat")" = $! ]; do :; done
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
