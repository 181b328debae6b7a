"""Dump the files of a log directory (``org.apache.kafka.tools.DumpLogSegments`` 4.4.0).

Segments and checkpoints batch by batch, in Kafka's own lines or as JSON; the other files of a
directory, some of which Kafka's tool passes over. Nothing is locked: a live node's directory can
be read. Damage does not end it: what is wrong is said, and the next good batch follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from kraftspec.reference.log.directory import BOOTSTRAP_NAME, META_NAME
from kraftspec.reference.log.epochs import CHECKPOINT_NAME
from kraftspec.reference.log.metadata_log import PARTITION_METADATA_NAME
from kraftspec.reference.log.quorum_state import NAME as QUORUM_STATE_NAME
from kraftspec.reference.log.snapshots import parse_name
from kraftspec.reference.metadata.reader import profile_near
from kraftspec.reference.tools import dump_files
from kraftspec.reference.tools.dump_batches import BatchWalk, Problem
from kraftspec.reference.tools.dump_files import IndexOptions, Side
from kraftspec.reference.tools.dump_lines import DumpOptions, JsonLines, TextLines
from kraftspec.reference.tools.java_json import json_lines

BYTES_MAX: Final = (1 << 31) - 1  # Kafka's default of --max-bytes.
SEGMENT: Final = re.compile(r"(\d{20})\.log", re.ASCII)
_BATCHES: Final = (".log", ".checkpoint")

Out = Callable[[bytes], None]
Warn = Callable[[str], None]


class DumpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be shown, and how; ``bytes_max`` limits how much of a segment is read.

    ``profile`` is whose files they are; None for what the meta.properties beside each says.
    """

    options: DumpOptions = DumpOptions()
    indexes: IndexOptions = IndexOptions()
    bytes_max: int = BYTES_MAX
    as_json: bool = False
    profile: str | None = None


class Dump:
    """Dumps one file after another: UTF-8 to ``out``, complaints to ``err``; ``problems`` counts.

    Both are called with whole lines, their ends included.
    """

    def __init__(self, request: DumpRequest, out: Out, err: Warn) -> None:
        self.request = request
        self.problems = 0
        self.write = out
        self.warn = err

    def say(self, text: str) -> None:
        """Write lines, their ends included."""
        self.write(text.encode(errors="backslashreplace"))

    def file(self, name: str) -> None:
        """Dump a file; raises OSError as the disk does, ValueError for one that is too large."""
        path = Path(name)
        if not self.request.as_json:
            self.say(f"Dumping {name}\n")
        if path.name.endswith(_BATCHES) or parse_name(path.name) is not None:
            self._batches(path)
            return
        side = self._side(path)
        if side is None:
            self.warn(f"Ignoring unknown file {name}\n")
            return
        if self.request.as_json:
            lines = json_lines([{"file": name, **value} for value in side.values])
        else:
            lines = side.lines
        self.say("".join(f"{line}\n" for line in lines))
        self._complain(side.complaints, side.problems)

    def _side(self, path: Path) -> Side | None:
        dumpers: dict[str, Callable[[Path], Side]] = {
            ".index": lambda path: dump_files.dump_index(path, self.request.indexes),
            ".timeindex": lambda path: dump_files.dump_time_index(path, self.request.indexes),
            ".txnindex": dump_files.dump_transaction_index,
            ".snapshot": dump_files.dump_producers,
            CHECKPOINT_NAME: dump_files.dump_epochs,
            QUORUM_STATE_NAME: lambda path: dump_files.dump_quorum_state(path, self._whose(path)),
            META_NAME: dump_files.dump_properties,
            PARTITION_METADATA_NAME: dump_files.dump_partition_metadata,
        }
        dump = dumpers.get(path.name) or dumpers.get(path.suffix)
        return None if dump is None else dump(path)

    def _batches(self, path: Path) -> None:
        request, name = self.request, str(path)
        lines = self.lines(name)
        with path.open("rb") as file:
            if not request.as_json and (head := head_of(path)):
                self.say(f"{head}\n")
            size = path.stat().st_size
            is_limited = size > request.bytes_max
            walk = BatchWalk(name, file.fileno(), size=min(size, request.bytes_max))
            for piece in walk:
                self.write(lines.piece(piece))
        if is_limited:
            end = request.bytes_max  # The batch that it cuts is not damaged.
            walk.problems = [one for one in walk.problems if one.position + one.size < end]
            walk.invalid_tail = walk.zero_tail = 0
        self.conclude(path.name, walk, lines)

    def conclude(self, name: str, walk: BatchWalk, lines: TextLines | JsonLines) -> None:
        """Say what ends a file of batches, and what is wrong in it; ``name`` is its own."""
        complaints = []
        if not self.request.as_json:
            if walk.invalid_tail:
                self.say(f"Found {walk.invalid_tail} invalid bytes at the end of {name}\n")
            elif walk.zero_tail:
                self.say(f"{walk.zero_tail} zero bytes end {name}: not written to yet\n")
            if lines.gaps:
                complaints.append(f"Non-consecutive offsets in {lines.name}")
                complaints += [f"  {before} is followed by {after}" for before, after in lines.gaps]
        self._complain(complaints, sorted([*walk.problems, *lines.problems], key=_place))

    def lines(self, name: str) -> TextLines | JsonLines:
        """Return what makes lines of the batches of a file."""
        kind = JsonLines if self.request.as_json else TextLines
        options = msgspec.structs.replace(self.request.options, profile=self._whose(name))
        return kind(name, options)

    def _whose(self, path: str | Path) -> str:
        return self.request.profile or profile_near(path)

    def _complain(self, complaints: list[str], problems: list[Problem]) -> None:
        """Say what Kafka's tool says, and then what is wrong where; as JSON only the latter."""
        self.problems += len(problems)
        if self.request.as_json:
            values: list[dict[str, Any]] = [
                {
                    "kind": "problem",
                    "file": one.file,
                    "position": one.position,
                    "size": one.size,
                    "class": one.error_class,
                    "detail": one.detail,
                }
                for one in problems
            ]
            self.say("".join(f"{line}\n" for line in json_lines(values)))
            return
        if complaints:
            self.warn("".join(f"{line}\n" for line in complaints) + "\n")
        self.warn("".join(f"{one}\n" for one in problems))


def _place(problem: Problem) -> int:
    return problem.position


def head_of(path: Path) -> str:
    """Return the line that says what a file of batches is; empty where its name does not."""
    if path.name == BOOTSTRAP_NAME:
        return "KRaft bootstrap snapshot"
    snapshot = parse_name(path.name)
    if snapshot is not None:
        return f"Snapshot end offset: {snapshot.id.end_offset}, epoch: {snapshot.id.epoch}"
    match = SEGMENT.fullmatch(path.name)
    return f"Log starting offset: {int(match[1])}" if match else ""
