"""An adapter that misbehaves on demand, to see what its caller makes of it.

Its first argument says how. Without more it echoes the requests until one has the id "bad". With a
vector file and the ids of requests it knows the right answers, and misbehaves over those ids.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

HELLO = {
    "protocol": 1, "name": "fake", "language": "python", "version": "1", "spec": "kafka/4.3.1",
    "messages": {"VoteRequest": "0-2"},
}  # fmt: skip
BROKEN_HELLOS: dict[str, dict[str, Any]] = {
    "old": {"protocol": 0},
    "new": {"protocol": 2},
    "quoted": {"protocol": "1"},
}

mode, *more = sys.argv[1:]
bad_ids = set(more[1:]) or {"bad"}
answers: dict[str, dict[str, Any]] = {}
if more:
    with open(more[0], encoding="utf-8") as vectors:
        for test in json.load(vectors)["tests"]:
            answers[f"{test['id']}-e"] = {"hex": test.get("hex")}
            answers[f"{test['id']}-d"] = {"value": test.get("value")}
answered = 0


def write_reply(line: str, end: str = "\n") -> None:
    """Write one line at once."""
    sys.stdout.write(line + end)
    sys.stdout.flush()


def right(request: dict[str, Any]) -> str:
    """Return the line that is due."""
    if mode == "no-id" and bad_ids & {request["id"], "every"}:
        return json.dumps(answers[request["id"]])
    if mode == "escapes-die":
        sys.exit("dying\x1b[2J")
    if mode == "escapes" and request["id"] in bad_ids:
        error = {"class": "refused", "detail": "why\x1b]0;pwned\x07\ud800"}
        return json.dumps({"id": request["id"], "error": error})
    if answers:
        return json.dumps({"id": request["id"], **answers[request["id"]]})
    return json.dumps({"id": request["id"], "echo": request})


def hello() -> None:
    """Say who this is, or misbehave."""
    if mode == "mute":
        time.sleep(600)
    reply = {**HELLO, **BROKEN_HELLOS.get(mode, {})}
    if mode.startswith("escapes"):
        reply |= {"name": "fake\x1b[31m", "version": "1\r"}
    if mode == "nameless":
        del reply["name"]
    if mode.startswith("range="):
        reply["messages"] = {"VoteRequest": mode.removeprefix("range=")}
    if mode.startswith("draft="):
        reply["sets"] = {"kip-853": {"VoteRequest": mode.removeprefix("draft=")}}
    write_reply("starting up" if mode == "banner" else json.dumps(reply))
    if mode == "hello-twice":
        write_reply(json.dumps(reply))


def misbehave(request: dict[str, Any]) -> None:
    """Do what the first argument says."""
    match mode:
        case "die":
            print("\n".join(f"line {i}" for i in range(100)), file=sys.stderr)
            sys.exit(7)
        case "die-together" if answered:  # Alone it would not.
            sys.exit(7)
        case "signal":
            os.kill(os.getpid(), 9)
        case "close":
            os.close(1)
            time.sleep(600)
        case "hang":
            print("thinking", file=sys.stderr, flush=True)
            time.sleep(600)
        case "text":
            write_reply("INFO: started")
        case "array":
            write_reply("[1]")
        case "utf8":
            sys.stdout.buffer.write(b'{"id":"\xff"}\n')
            sys.stdout.flush()
        case "order":
            write_reply(json.dumps({"id": "other"}))
        case "twice":
            write_reply(right(request))
            write_reply(right(request))
        case "endless":
            while True:
                sys.stdout.write("x" * (1 << 16))
        case "flood":  # Lines that nobody has asked for.
            while True:
                write_reply(right(request))
        case "noisy":
            for _ in range(64):
                sys.stderr.write("noise\n" * (1 << 13))
            write_reply(right(request))
        case "noisy-hang":
            while True:
                sys.stderr.write("noise\n" * (1 << 13))
        case "no-newline":
            write_reply(right(request), end="")
            sys.exit(0)
        case "no-newline-wait":
            write_reply(right(request), end="")
            time.sleep(600)
        case "empty":
            write_reply(json.dumps({"id": request["id"]}))
        case _:
            write_reply(right(request))


def stopped() -> None:
    """End, or do not."""
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    if mode == "last-word":
        write_reply('{"id":"bye"}')
    sys.exit(9 if mode == "sore" else 0)


def main() -> None:
    """Answer until told to stop, or until the input ends."""
    global answered  # noqa: PLW0603 - a program of one function after another
    if mode == "stillborn":
        print("no such configuration", file=sys.stderr)
        sys.exit(3)
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            stopped()
        elif request["cmd"] == "hello":
            hello()
        elif request["id"] in bad_ids or "every" in bad_ids:
            misbehave(request)
        else:
            write_reply(right(request))
        answered += request["cmd"] != "hello"


main()
