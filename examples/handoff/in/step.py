"""A step that knows nothing of its host but what WORKFLOW_HOST says, by the standard library alone.

It counts the words of two texts and asks for a fourth child that it may not have.
"""

import json
import os
import subprocess


def context():
    """The host's document; none where there is no host, and a step does its own work."""
    document = json.loads(os.environ.get("WORKFLOW_HOST") or "null")
    return document if document and document["v"] == 1 else None


def launch(host, ordinal, kind, value):
    """Runs one child to its end and returns what it reported, or why it did not."""
    child = host["child_id"].replace("{n}", str(ordinal))
    fill = {"{kind}": kind, "{child}": child}
    argv = [host["exe"]] + [fill.get(token, token) for token in host["child_args"]]
    request = {"workflow_contract": 1, "id": child, "kind": kind, "input": value}
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()  # It stays open: its end would cancel the child.
    report, error = None, None
    for line in process.stdout:
        event = json.loads(line)
        report = event.get("subrun_report", report)
        if event.get("event") == "command_error":
            error = event["error"]
    process.wait()
    return {"child": child, "report": report, "error": error}


def main():
    host = context()
    first, count = host["ids"]
    texts = [open("/inputs/in/texts/" + name).read() for name in ("one.txt", "two.txt")]
    values = [{"text": texts[0]}, {"text": texts[1]}, {"text": " ".join(texts)}, {"text": ""}]
    calls = [launch(host, first + at, "count", value) for at, value in enumerate(values)]
    with open("/outputs/report.json", "w") as out:
        json.dump({"capacity": count, "calls": calls}, out, indent=2)
        out.write("\n")
    with open("/outputs/summary.txt", "w") as out:
        for call in calls:
            out.write("%s: %s\n" % (call["child"], call["report"] or call["error"]))


main()
