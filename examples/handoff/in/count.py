"""A child: reads one request, reports how many words its text has."""

import json
import sys

request = json.loads(sys.stdin.readline())
words = len(request["input"]["text"].split())
print(json.dumps({"event": "agent_step", "step": 1}))
print(json.dumps({"subrun_report": {"words": words}}))
