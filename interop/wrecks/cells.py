"""What came of a wreck: a file each."""

from __future__ import annotations

from pathlib import Path

import msgspec

PASSED, FAILED, NOT_MADE = "passed", "FAILED", "not made"


class Cell(msgspec.Struct, kw_only=True):
    """The result of a wreck. ``story`` is what happened, ``problems`` what should not have."""

    kind: str
    seed: int
    release: str
    outcome: str
    expected: str = ""
    problems: list[str] = []
    story: list[str] = []
    seconds: float = 0.0
    begun: str = ""  # The date, UTC.

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.kind}-{self.seed}-{self.release}.json"


def read_cells(out: Path) -> dict[str, Cell]:
    """Return the results that are there, by the names of their files."""
    paths = sorted(out.glob("*.json"))
    return {path.name: msgspec.json.decode(path.read_bytes(), type=Cell) for path in paths}


def keep_cell(out: Path, cell: Cell) -> None:
    """Write a result, whole or not at all."""
    part = out / f"{cell.name}.part"
    part.write_bytes(msgspec.json.format(msgspec.json.encode(cell), indent=1) + b"\n")
    part.rename(out / cell.name)
