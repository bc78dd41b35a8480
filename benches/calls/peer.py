"""Answers each line of standard input with one call of a peer that is a Python library: a sandbox,
`true` in it, and its end. So neither Python's own start nor an import is measured.
"""

import importlib.metadata
import os
import sys


def gvisor_wheel():
    import gvisor

    def call():
        with gvisor.Sandbox(network="none") as sandbox:
            sandbox.exec("true")

    return call


def temenos():
    from temenos import Box, Policy
    from temenos.backends.gvisor import GVisorBackend

    # It would try kvm first, for up to 30 s a process where there is none.
    GVisorBackend._platform_cache = "systrap"

    def call():
        with Box("bench", Policy(network="none")) as box:
            result = box.exec(["true"])
            if result.exit_code != 0:
                raise RuntimeError(result.stderr)

    return call


def main():
    which, package = sys.argv[1:]
    # What the libraries start inherits standard input, and would read the lines.
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    call = {"gvisor": gvisor_wheel, "temenos": temenos}[which]()
    print(importlib.metadata.version(package), flush=True)
    for _ in lines:
        try:
            call()
            print("ok", flush=True)
        except Exception as error:
            print(repr(error).replace("\n", " "), flush=True)


main()
