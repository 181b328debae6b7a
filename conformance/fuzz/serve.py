"""The subprocess in which a target is fuzzed. Requests and replies are lines of JSON.

    python -m kraftspec.conformance.fuzz.serve TARGET MARK

An input may end this process, by a crash of native code or by a timeout. So the file ``MARK`` holds
the number of the current input (8 bytes, little-endian), for the parent process.

``throw`` checks ``count`` inputs of a ``seed``, except the numbers in ``skip``; ``show`` returns
input ``number`` of the same inputs; ``check`` checks one given input by all implementations.
"""

from __future__ import annotations

import json
import mmap
import re
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from kraftspec.conformance.fuzz.targets import (
    SELECTOR_BYTES,
    BrokenError,
    Target,
    by_twins,
    inputs,
    target,
)

MARK_BYTES = 8
MEMORY_MB_MAX = 1024  # The modules and the corpus take 300 MB; 700 are left for an input.
KINDS_MAX = 200  # Failures that are returned with an example; further ones are only counted.
NEVER = 1 << 40  # As ``oneIn``: no input.

Request = dict[str, Any]


def kind_of(text: str) -> str:
    """Return the text of an error without the values in it, so that equal failures are equal."""
    text = re.sub(r"^\S+/\S+ v\d+: (BrokenError: )?", "", text)
    text = re.sub(r"\b[0-9a-f]{4,}\b", "…", text)
    return re.split(r"b?[\[({<'\"0-9]", text, maxsplit=1)[0].rstrip(" :,")


class Server:
    """A target, its corpus, and the requests to it."""

    def __init__(self, chosen: Target, mark: mmap.mmap) -> None:
        self.target = chosen
        self.mark = mark
        self.seconds_max = 0.0  # Processor time for one input; every request sets it.
        self.seeds = list(chosen.seeds())

    def answer(self, request: Request) -> dict[str, Any]:
        """Answer one of the three requests."""
        self.seconds_max = request["secondsMax"]
        commands: dict[str, Callable[[Request], dict[str, Any]]] = {
            "throw": self.throw, "show": self.show, "check": self.check,
        }  # fmt: skip
        return commands[request["cmd"]](request)

    def throw(self, request: Request) -> dict[str, Any]:
        """Check inputs; return the number of each outcome, and an example of each failure."""
        counted: Counter[tuple[bytes, bool, str]] = Counter()
        broken: dict[tuple[object, ...], dict[str, Any]] = {}
        one_in = request["oneIn"]
        for data, outcome in self._checked(request, request["count"]):
            what = outcome if isinstance(outcome, str) else "broken"
            counted[data[:SELECTOR_BYTES], by_twins(data, one_in), what] += 1
            if isinstance(outcome, BrokenError):
                text = str(outcome)
                label = self.target.label(data[:SELECTOR_BYTES])
                key = (label.spec, label.message, label.entry, kind_of(text))
                if key in broken or len(broken) < KINDS_MAX:
                    first = {"hex": data.hex(), "kind": kind_of(text), "text": text, "count": 0}
                    broken.setdefault(key, {"label": label, **first})["count"] += 1
        tally: Counter[tuple[object, ...]] = Counter()
        for (selector, every_way, what), count in counted.items():
            label = self.target.label(selector)
            entry = label.entry if every_way else "compiled"
            tally[(*label._replace(entry=entry), what)] += count
        return {"tally": [[*row, count] for row, count in sorted(tally.items())],
                "broken": list(broken.values())}  # fmt: skip

    def show(self, request: Request) -> dict[str, Any]:
        """Return the input of a number and its label, without checking it."""
        for _ in self._checked(request, request["number"]):
            pass
        return {"hex": self._data.hex(), "label": self._label(self._data)}

    def check(self, request: Request) -> dict[str, Any]:
        """Check one input by all implementations, and then by the compiled ones alone."""
        data = bytes.fromhex(request["hex"])
        taken = False
        self._begin(0)
        for one_in in (1, NEVER):
            try:
                taken = self.target.check(data, one_in)
            except BrokenError as error:
                return {"kind": kind_of(str(error)), "text": str(error)}
        return {"taken": taken}

    def _label(self, data: bytes) -> tuple[object, ...]:
        return self.target.label(data[:SELECTOR_BYTES])

    def _begin(self, number: int) -> None:
        """Mark the current input, and start its timeout."""
        self.mark[:] = number.to_bytes(MARK_BYTES, "little")
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds_max)

    def _checked(self, request: Request, count: int) -> Iterator[tuple[bytes, str | BrokenError]]:
        """Yield inputs of a seed with their outcomes; ``_data`` is the next input."""
        one_in, skip = request["oneIn"], set(request["skip"])
        source = inputs(self.target, Random(request["seed"]), list(self.seeds))
        self._data = next(source)
        for number in range(count):
            taken = False
            if number not in skip:
                self._begin(number)
                try:
                    taken = self.target.check(self._data, one_in)
                    yield self._data, "taken" if taken else "refused"
                except BrokenError as error:
                    yield self._data, error
            self._data = source.send(taken)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> None:
    """Answer the requests on standard input, until it ends or the request is ``stop``."""
    name, mark = sys.argv[1:]
    limit = MEMORY_MB_MAX << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with Path(mark).open("r+b") as file:
        server = Server(target(name), mmap.mmap(file.fileno(), MARK_BYTES))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if request["cmd"] == "stop":
            break
        print(json.dumps({"id": request["id"], **server.answer(request)}), flush=True)


if __name__ == "__main__":
    main()
