"""An adapter that misbehaves on demand, to see what its caller makes of it.

Its first argument says how; the requests it is sent are echoed back until then.
"""

from __future__ import annotations

import json
import os
import sys
import time

HELLO = {
    "protocol": 1, "name": "fake", "language": "python", "version": "1", "spec": "kafka/4.3.1",
    "messages": {"VoteRequest": "0-2"},
}  # fmt: skip


def say(line: str) -> None:
    """Write one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(how: str, request: dict[str, object]) -> None:
    """Answer one request, or misbehave where its id is "bad"."""
    if request["cmd"] == "hello":
        hello = dict(HELLO)
        if how == "old":
            hello["protocol"] = 0
        if how == "nameless":
            del hello["name"]
        say(json.dumps(hello))
    elif request["id"] != "bad":
        say(json.dumps({"id": request["id"], "echo": request}))
    elif how == "die":
        print("\n".join(f"line {i}" for i in range(100)), file=sys.stderr)
        sys.exit(7)
    elif how == "signal":
        os.kill(os.getpid(), 9)
    elif how == "close":
        os.close(1)
        time.sleep(600)
    elif how == "hang":
        print("thinking", file=sys.stderr, flush=True)
        time.sleep(600)
    elif how == "text":
        say("INFO: started")
    elif how == "array":
        say("[1]")
    elif how == "utf8":
        sys.stdout.buffer.write(b'{"id":"\xff"}\n')
        sys.stdout.flush()
    elif how == "order":
        say(json.dumps({"id": "other"}))
    elif how == "endless":
        while True:
            sys.stdout.write("x" * (1 << 16))


def main() -> None:
    """Answer until told to stop, or until the input ends."""
    how = sys.argv[1]
    if how == "stillborn":
        print("no such configuration", file=sys.stderr)
        sys.exit(3)
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            if how == "deaf":
                time.sleep(600)
            sys.exit(0)
        answer(how, request)


main()
