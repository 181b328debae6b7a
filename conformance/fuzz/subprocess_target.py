"""A fuzz target in a subprocess, which an input may end.

The input that ended the process is identified by its number, reported and skipped; the run goes on
with the other inputs. Failing inputs are minimised. The same seed gives the same inputs, counts and
findings, no matter how often the process ended.
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

from kraftspec.conformance.adapters.harness import Adapter, AdapterError
from kraftspec.conformance.fuzz.minimise import FULL, NONE, Effort, least_bytes
from kraftspec.conformance.fuzz.serve import MARK_BYTES
from kraftspec.conformance.fuzz.targets import SELECTOR_BYTES, Label

# For an input that waits without working. Processor time has its own limit, and the machine may be
# busy.
REPLY_TIMEOUT_S = 1800.0
PROCESSOR_SECONDS_MAX = 20.0
ENDINGS_MAX = 20  # Of the process, for one seed; the remaining inputs are then omitted.
MINIMISED_MAX = 20  # Findings of one seed; the inputs of later findings are not minimised.
# No input sends these signals: the machine was short of memory, or a user ended the process. The
# request is repeated.
FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
KILLS_MAX = 3
OF_ENDINGS = Effort(60, 1)  # It takes a second to start again.

Tally = dict[tuple[Label, str], int]


@dataclass(frozen=True, slots=True)
class Broken:
    """A failing input: its label, the kind of failure, the minimised input, how often it occurred.

    ``outcome`` is ``broken``, or ``ended`` where the input ended the process.
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
        """Twelve hex digits, the hash of everything but the input and the version."""
        label = self.label
        key = "\0".join((self.target, label.spec, label.message, label.entry, self.kind))
        return hashlib.sha256(key.encode()).hexdigest()[:12]


class SubprocessTarget:
    """A target in a subprocess: ``with SubprocessTarget("records") as target: target.throw(…)``."""

    def __init__(self, name: str, *, seconds_max: float = PROCESSOR_SECONDS_MAX) -> None:
        """Take the name of a target. The process starts at the first request.

        ``seconds_max`` is the processor time for one input. The checks themselves report an input
        that takes more than two seconds; this limit is for an input that never ends.
        """
        self.name = name
        self.seconds_max = seconds_max
        self._mark = tempfile.NamedTemporaryFile(prefix="kraftspec-fuzz-")  # noqa: SIM115 - close()
        self._mark_number(-1)
        command = [
            sys.executable,
            "-P",
            "-m",
            "kraftspec.conformance.fuzz.serve",
            name,
            self._mark.name,
        ]
        # The subprocess can import what this process can, such as a user's own target.
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
        """Check ``count`` inputs; return the number of each outcome, and the failing inputs.

        An outcome is ``taken``, ``refused``, ``broken``, ``ended`` (the process), or ``omitted``
        (the process ended too often). Raises ``AdapterError`` if the process does not work.
        """
        whole, kills, ended = count, 0, dict[int, str]()
        request = {"cmd": "throw", "seed": seed, "oneIn": one_in, "skip": [*ended], "count": count}
        while True:
            try:
                reply = self._request(request)
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
                    ended[number] = self._kind_of(error)
                request |= {"skip": [*ended], "count": count}
        tally: Tally = {(Label(*label), what): times for *label, what, times in reply["tally"]}
        broken = [self._broken(entry) for entry in reply["broken"]]
        broken[:MINIMISED_MAX] = [self._least(finding, FULL) for finding in broken[:MINIMISED_MAX]]
        endings: dict[tuple[Label, str], Broken] = {}
        for number, kind in ended.items():
            finding = self._ending(request, number, kind)
            before = endings.get((finding.label, finding.kind))
            endings[finding.label, finding.kind] = (
                self._least(finding, NONE if kind in self._slow else OF_ENDINGS)
                if before is None
                else replace(before, count=before.count + 1)
            )
            tally[finding.label, "ended"] = tally.get((finding.label, "ended"), 0) + 1
        broken += endings.values()
        if count < whole:
            tally[Label("", "", 0, ""), "omitted"] = whole - count
        return tally, broken

    def check(self, data: bytes) -> tuple[str, str]:
        """Check one input; return the kind and the text of the failure, both empty if it passes.

        Raises ``AdapterError`` if the process does not start.
        """
        try:
            reply = self._request({"cmd": "check", "hex": data.hex()})
        except AdapterError as error:
            if error.kind not in ("died", "timeout") or self._number() < 0:
                raise
            return self._kind_of(error), self._kind_of(error)
        return reply.get("kind", ""), reply.get("text", "")

    def _broken(self, entry: dict[str, Any]) -> Broken:
        data = bytes.fromhex(entry["hex"])
        label = Label(*entry["label"])
        return Broken(
            self.name, label, "broken", entry["kind"], data, entry["text"], entry["count"]
        )

    def _ending(self, request: dict[str, Any], number: int, kind: str) -> Broken:
        """Return the input that ended the process."""
        shown = self._request({**request, "cmd": "show", "number": number})
        label, data = Label(*shown["label"]), bytes.fromhex(shown["hex"])
        return Broken(self.name, label, "ended", kind, data, kind, 1)

    def _least(self, finding: Broken, effort: Effort) -> Broken:
        """Minimise the input. Its first bytes select what is tested, and do not change."""
        head, rest = finding.data[:SELECTOR_BYTES], finding.data[SELECTOR_BYTES:]

        def holds(cases: Sequence[bytes]) -> list[bool]:
            return [self.check(head + case)[0] == finding.kind for case in cases]

        if holds([rest]) != [True]:
            return finding  # It passes alone: an earlier input contributed to the failure.
        data = head + least_bytes(rest, holds, effort)
        if data == finding.data:
            return finding
        return replace(finding, data=data, text=self.check(data)[1])

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self._process.running:
            self._process.start()
        self._mark_number(-1)
        id, limit = request["cmd"], self.seconds_max
        return self._process.request({"id": id, "secondsMax": limit, **request})

    def _mark_number(self, number: int) -> None:
        """Set the number of the input that is being checked; -1 is none."""
        os.pwrite(self._mark.fileno(), number.to_bytes(MARK_BYTES, "little", signed=True), 0)

    def _number(self) -> int:
        return int.from_bytes(os.pread(self._mark.fileno(), MARK_BYTES, 0), "little", signed=True)

    @property
    def _slow(self) -> tuple[str, str]:
        """The kinds of ending that take long to reproduce."""
        return f"takes more than {self.seconds_max:g} s of processor time", "does not come back"

    def _kind_of(self, error: AdapterError) -> str:
        """Describe how the process ended."""
        code = error.exit_code
        if code == -signal.SIGVTALRM:
            return self._slow[0]
        if error.kind == "timeout":
            return self._slow[1]
        if code is not None and code < 0:
            return f"ends the process: {signal.Signals(-code).name}"
        return f"ends the process: exit code {code}"
