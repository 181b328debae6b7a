"""Follow a log that its node writes to, as ``tail -f`` follows a file: no lock, no signal.

A batch is shown once it is all there. What a node cuts (a follower that diverged) is said, and what
it writes instead is shown; a segment that is full is followed by the next.
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from kraftspec.fastpath.records import RECORDS_AT
from kraftspec.fastpath.walk import Walk, read_file
from kraftspec.reference.tools.dump import SEGMENT, Dump, head_of
from kraftspec.reference.tools.dump_batches import BatchWalk, Piece

MARK_COUNT_MAX: Final = 10_000  # How many batches back a cut is found; before that, all is shown.


class _Mark(NamedTuple):
    """A batch that was shown: its first bytes, and the byte after it."""

    position: int
    head: bytes
    end: int


class LogFollower:
    """Shows what is added to a segment, and to those after it; ``step`` looks once."""

    def __init__(self, path: Path, dump: Dump) -> None:
        """``path`` is a segment, or the directory of a log: its last segment comes first.

        Raises FileNotFoundError where there is no segment, ValueError for another file.
        """
        if path.is_dir():
            names = segments(path)
            if not names:
                raise FileNotFoundError(f"{path}: there is no segment in it (20 digits, .log)")
            path = path / names[-1]
        elif SEGMENT.fullmatch(path.name) is None:
            raise ValueError(f"{path}: only a segment (20 digits, .log) can be followed")
        elif not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file")
        self._dump = dump
        self._begin(path)

    def _begin(self, path: Path) -> None:
        self.path = path
        self._marks: deque[_Mark] = deque(maxlen=MARK_COUNT_MAX)
        self._position = 0
        self._lines = self._dump.lines(str(path))
        if not self._dump.request.as_json:
            self._dump.say(f"Dumping {path}\n{head_of(path)}\n")

    def step(self) -> bool:
        """Show what is new; return whether anything was."""
        is_new = False
        while True:
            # Before the reading: what is in a segment when the next one is there is all of it.
            following = self._following()
            try:
                with self.path.open("rb") as file:
                    is_new |= self._read(file.fileno())
                    if following is not None:
                        self._finish(file.fileno())
            except FileNotFoundError:
                if following is None:
                    return is_new
            if following is None:
                return is_new
            self._begin(following)
            is_new = True

    def _following(self) -> Path | None:
        try:
            names = [name for name in segments(self.path.parent) if name > self.path.name]
        except FileNotFoundError:
            return None
        return self.path.with_name(names[0]) if names else None

    def _read(self, descriptor: int) -> bool:
        self._step_back(descriptor)
        start = -1
        is_new = False
        while start < self._position:  # Else what follows is not all there yet.
            start = self._position
            size = os.fstat(descriptor).st_size
            walk = Walk(partial(read_file, descriptor), start, size)
            for header in walk:
                piece = Piece(header, walk.window, walk.base, True)
                self._dump.write(self._lines.piece(piece))
                head = walk.window[header.position : header.position + RECORDS_AT]
                self._marks.append(_Mark(piece.position, head, walk.position))
                is_new = True
            self._position = walk.position
        return is_new

    def _step_back(self, descriptor: int) -> None:
        """Go back to the last batch that is still there, where the node cut its log."""
        if not self._marks:
            return
        while self._marks:
            mark = self._marks[-1]
            if os.pread(descriptor, len(mark.head), mark.position) == mark.head:
                break
            self._marks.pop()
        position = self._marks[-1].end if self._marks else 0
        if position != self._position:
            self._position = position
            self._lines = self._dump.lines(str(self.path))
            self._dump.warn(f"{self.path}: cut back to byte {position}\n")

    def _finish(self, descriptor: int) -> None:
        """Show what follows damage in a segment that nobody writes to any more."""
        size = os.fstat(descriptor).st_size
        walk = BatchWalk(str(self.path), descriptor, self._position, size=size)
        for piece in walk:
            self._dump.write(self._lines.piece(piece))
        self._dump.conclude(self.path.name, walk, self._lines)


def segments(directory: Path) -> list[str]:
    """Return the names of the segments in a directory, in order."""
    return sorted(name for name in os.listdir(directory) if SEGMENT.fullmatch(name))
