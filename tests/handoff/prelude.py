import json
import os
import socket
import struct
import subprocess

HOST = json.loads(os.environ.get("WORKFLOW_HOST") or "null")


def child_id(ordinal):
    return HOST["child_id"].replace("{n}", str(ordinal))


def report(value):
    with open("/outputs/report.json", "w") as out:
        json.dump(value, out)


def request(child, kind="k", value=None):
    line = {"workflow_contract": 1, "id": child, "kind": kind, "input": value}
    return json.dumps(line).encode() + b"\n"


def connect(hello=None, line=b""):
    """A launch that ignores the shim: whatever bytes, straight to the broker's socket."""
    broker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    broker.connect("/run/handoff/broker.sock")
    try:
        if hello:
            broker.sendall(json.dumps(hello).encode() + b"\n")
        broker.sendall(line)
    except OSError:
        pass  # The broker has heard enough.
    return broker


def ask(child, kind="k", value=None):
    return connect({"v": 1, "child": child, "kind": kind}, request(child, kind, value))


def answer(broker):
    """What comes back: the text, and the exit value."""
    data, text, code = b"", b"", None
    while True:
        try:
            piece = broker.recv(65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    while len(data) >= 5:
        kind, length = struct.unpack(">cI", data[:5])
        content, data = data[5:5 + length], data[5 + length:]
        if kind == b"o":
            text += content
        else:
            code = content[0]
    return text.decode(), code


def launch(child, kind="k", value=None):
    """A launch as the contract has it."""
    argv = [HOST["exe"]] + [arg.replace("{kind}", kind).replace("{child}", child)
                            for arg in HOST["child_args"]]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(request(child, kind, value))
    process.stdin.flush()
    return process
