"""What was rendered from what, so that a changed spec renders its own modules and no others.

A note of a spec says the hashes of its text, of the generator and of each file that came of them.
It is believed only while all three are so; without it, or where it is damaged, a message is
rendered as if for the first time. Notes stand in ``__pycache__`` of the package that was generated,
which no tool keeps, packs or commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from sys import version as python_version

import msgspec


@cache
def generator() -> str:
    """Return the hash of all that renders a spec: sources, templates, and their libraries."""
    digest = sha256(f"{python_version} {version('jinja2')} {version('msgspec')}".encode())
    for package in ("codegen", "fastpath"):
        directory = Path(str(files(f"kraftspec.{package}")))
        sources = (path for kind in ("py", "jinja", "ts") for path in directory.rglob(f"*.{kind}"))
        for path in sorted(sources):
            digest.update(f"\0{path.relative_to(directory)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class _Note(msgspec.Struct):
    spec: str
    files: dict[str, str]


class _Notes(msgspec.Struct):
    generator: str
    specs: dict[str, _Note]


class Rendered:
    """The notes of one package. Without ``trust`` there are none.

    Made before the specs are read: one that changes meanwhile is rendered again the next time.
    """

    def __init__(self, specs: Path, out: Path, *, trust: bool = True) -> None:
        self._hashes = {path: _hash(path.read_bytes()) for path in specs.rglob("*.json")}
        self._out = out
        self._path = out / "__pycache__" / "kraftspec.rendered"
        self._previous: dict[str, _Note] = {}
        self._notes: dict[str, _Note] = {}
        if trust:
            with suppress(OSError, ValueError):
                notes = msgspec.json.decode(self._path.read_bytes(), type=_Notes)
                if notes.generator == generator():
                    self._previous = notes.specs

    def current(self, label: str, spec: Path) -> Set[str]:
        """Return the files of a spec if they are current; else nothing."""
        note = self._previous.get(label)
        if note is None or note.spec != self._hashes.get(spec):
            return frozenset()
        for name, digest in note.files.items():
            try:
                if _hash((self._out / name).read_bytes()) != digest:
                    return frozenset()
            except OSError:
                return frozenset()
        self._notes[label] = note
        return note.files.keys()

    def note(self, label: str, spec: Path, texts: Mapping[str, str]) -> None:
        """Note the files of a spec."""
        if spec in self._hashes:
            hashes = {name: _hash(text.encode()) for name, text in texts.items()}
            self._notes[label] = _Note(self._hashes[spec], hashes)

    def save(self) -> None:
        """Write the notes of the current specs; an unwritable directory is no error."""
        if self._notes == self._previous:
            return
        with suppress(OSError):
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_bytes(msgspec.json.encode(_Notes(generator(), self._notes)))


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
