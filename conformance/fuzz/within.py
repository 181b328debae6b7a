"""A target fuzzed in a process of its own, which its inputs may end.

What ends it is found by its number, charged, left out, and the rest goes on; what is wrong is made
small. The same seed gives the same inputs, counts and findings, however often it was ended.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from kraftspec.conformance.fuzz.minimise import FULL, NONE, Effort, least_bytes
from kraftspec.conformance.fuzz.serve import MARK_BYTES
from kraftspec.conformance.fuzz.targets import SELECTOR_BYTES, Label
from kraftspec.conformance.harness import Adapter, AdapterError

# For what hangs without work: processor time has a limit of its own, and the machine may be busy.
REPLY_TIMEOUT_S = 1800.0
PROCESSOR_SECONDS_MAX = 20.0
ENDINGS_MAX = 20  # Of the process, over inputs of one seed; the rest of them is then left out.
MINIMISED_MAX = 20  # Findings of one seed; more of them keep the input as it was found.
# What no input does: the machine was short of memory, or somebody ended it. It is asked again.
FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
KILLS_MAX = 3
OF_ENDINGS = Effort(60, 1)  # It takes a second to start again.

Tally = dict[tuple[Label, str], int]


@dataclass(frozen=True, slots=True)
class Broken:
    """Something wrong: what the input is about, which kind, a least input, how often it was met.

    ``outcome`` is ``broken``, or ``ended`` where it ended the process.
    """

    target: str
    label: Label
    outcome: str
    kind: str
    data: bytes
    text: str
    count: int

    @property
    def signature(self) -> str:
        """Twelve hex digits that follow from all but the input and the version."""
        label = self.label
        named = "\0".join((self.target, label.spec, label.message, label.entry, self.kind))
        return hashlib.sha256(named.encode()).hexdigest()[:12]


class Within:
    """A target in a process of its own: ``with Within("messages") as within: within.throw(…)``."""

    def __init__(self, name: str, *, seconds_max: float = PROCESSOR_SECONDS_MAX) -> None:
        """Take the name of a target; the process starts when it is asked.

        ``seconds_max`` of processor time are for one input. The checks say of themselves that two
        are too many: this is for what never ends.
        """
        self.name = name
        self.seconds_max = seconds_max
        self._mark = tempfile.NamedTemporaryFile(prefix="kraftspec-fuzz-")  # noqa: SIM115 - close()
        self._say(-1)
        command = [
            sys.executable,
            "-P",
            "-m",
            "kraftspec.conformance.fuzz.serve",
            name,
            self._mark.name,
        ]
        # What can be imported here can be there: a target of one's own too.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = Adapter(command, timeout_s=REPLY_TIMEOUT_S, env=env)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.stop()
        self._mark.close()

    def throw(self, seed: str, count: int, one_in: int) -> tuple[Tally, list[Broken]]:
        """Check ``count`` inputs; return how many came out how, and what is wrong.

        An outcome is ``taken``, ``refused``, ``broken``, ``ended`` (the process), or ``omitted``
        (the process ended too often). Raises ``AdapterError`` where the process does not work.
        """
        whole, kills, ended = count, 0, dict[int, str]()
        asked = {"cmd": "throw", "seed": seed, "oneIn": one_in, "skip": [*ended], "count": count}
        while True:
            try:
                reply = self._ask(asked)
                break
            except AdapterError as error:
                number = self._number()
                if error.kind not in ("died", "timeout") or number < 0:
                    raise
                if error.exit_code in FROM_OUTSIDE and kills < KILLS_MAX:
                    kills += 1
                    continue
                if len(ended) == ENDINGS_MAX:
                    count = number
                else:
                    ended[number] = self._how(error)
                asked |= {"skip": [*ended], "count": count}
        tally: Tally = {(Label(*label), what): times for *label, what, times in reply["tally"]}
        broken = [self._kept(found) for found in reply["broken"]]
        broken[:MINIMISED_MAX] = [self._least(found, FULL) for found in broken[:MINIMISED_MAX]]
        endings: dict[tuple[Label, str], Broken] = {}
        for number, how in ended.items():
            found = self._ending(asked, number, how)
            before = endings.get((found.label, found.kind))
            endings[found.label, found.kind] = (
                self._least(found, NONE if how in self._slow else OF_ENDINGS)
                if before is None
                else replace(before, count=before.count + 1)
            )
            tally[found.label, "ended"] = tally.get((found.label, "ended"), 0) + 1
        broken += endings.values()
        if count < whole:
            tally[Label("", "", 0, ""), "omitted"] = whole - count
        return tally, broken

    def check(self, data: bytes) -> tuple[str, str]:
        """Check one input; return the kind of what is wrong and its text, empty where nothing is.

        Raises ``AdapterError`` where the process does not start.
        """
        try:
            reply = self._ask({"cmd": "check", "hex": data.hex()})
        except AdapterError as error:
            if error.kind not in ("died", "timeout") or self._number() < 0:
                raise
            return self._how(error), self._how(error)
        return reply.get("kind", ""), reply.get("text", "")

    def _kept(self, found: dict[str, Any]) -> Broken:
        data = bytes.fromhex(found["hex"])
        label = Label(*found["label"])
        return Broken(
            self.name, label, "broken", found["kind"], data, found["text"], found["count"]
        )

    def _ending(self, asked: dict[str, Any], number: int, how: str) -> Broken:
        """Return the input that ended the process."""
        shown = self._ask({**asked, "cmd": "show", "number": number})
        label, data = Label(*shown["label"]), bytes.fromhex(shown["hex"])
        return Broken(self.name, label, "ended", how, data, how, 1)

    def _least(self, found: Broken, effort: Effort) -> Broken:
        """Make the input small; what begins it says what it is about, and stays."""
        head, rest = found.data[:SELECTOR_BYTES], found.data[SELECTOR_BYTES:]

        def holds(cases: Sequence[bytes]) -> list[bool]:
            return [self.check(head + case)[0] == found.kind for case in cases]

        if holds([rest]) != [True]:
            return found  # Alone it passes: what came before it had a part in it.
        data = head + least_bytes(rest, holds, effort)
        return found if data == found.data else replace(found, data=data, text=self.check(data)[1])

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self._process.running:
            self._process.start()
        self._say(-1)
        id, limit = request["cmd"], self.seconds_max
        return self._process.request({"id": id, "secondsMax": limit, **request})

    def _say(self, number: int) -> None:
        """Set the number of the input that is at work; -1 is none."""
        os.pwrite(self._mark.fileno(), number.to_bytes(MARK_BYTES, "little", signed=True), 0)

    def _number(self) -> int:
        return int.from_bytes(os.pread(self._mark.fileno(), MARK_BYTES, 0), "little", signed=True)

    @property
    def _slow(self) -> tuple[str, str]:
        """How an input is said to end the process that takes its time to do it."""
        return f"takes more than {self.seconds_max:g} s of processor time", "does not come back"

    def _how(self, error: AdapterError) -> str:
        """Say how the process ended."""
        code = error.exit_code
        if code == -signal.SIGVTALRM:
            return self._slow[0]
        if error.kind == "timeout":
            return self._slow[1]
        if code is not None and code < 0:
            return f"ends the process: {signal.Signals(-code).name}"
        return f"ends the process: exit code {code}"
