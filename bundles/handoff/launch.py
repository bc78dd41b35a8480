#!/usr/bin/python3 -IS
"""Stands for a child in a sandboxed step: launch KIND CHILD.

The host launches the child in a sandbox of its own. What is written to this program goes to it,
what it prints comes back, and the end of standard input asks for it to be cancelled. A launch
that the host refuses is told as a child tells a failure: one event, and an exit value of 0.
"""

import json
import os
import socket
import struct
import sys
import threading


def fail(reason):
    line = json.dumps({"event": "command_error", "error": reason}) + "\n"
    write(line.encode())
    os._exit(0)


def write(data):
    while data:
        data = data[os.write(1, data):]


def receive(broker, count):
    data = b""
    while len(data) < count:
        piece = broker.recv(min(count - len(data), 65536))
        if not piece:
            return None
        data += piece
    return data


def feed(broker):
    try:
        while piece := os.read(0, 65536):
            broker.sendall(piece)
        broker.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # The broker has no more use for it.


def main():
    if len(sys.argv) != 3:
        fail("launch takes a kind and a child id")
    broker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        broker.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "broker.sock"))
        hello = {"v": 1, "child": sys.argv[2], "kind": sys.argv[1]}
        broker.sendall(json.dumps(hello).encode() + b"\n")
    except OSError as error:
        fail("there is no broker to launch through (%s)" % error.strerror)
    threading.Thread(target=feed, args=(broker,), daemon=True).start()
    try:
        while True:
            head = receive(broker, 5)
            kind, length = struct.unpack(">cI", head) if head else (b"", 0)
            content = receive(broker, length) if head else None
            if content is None:
                fail("the broker went away before the child ended")
            if kind == b"o":
                write(content)
            elif kind == b"x":
                os._exit(content[0])
    except OSError:
        # Whoever launched this has gone, or the broker has.
        os._exit(1)


main()
