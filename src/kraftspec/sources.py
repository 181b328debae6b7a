"""Which files a result follows from, and a hash of them: what is kept says by which it was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

# Suffixes of files that decide a result: code, compiled modules, specs, vectors, manifests.
_SOURCES: Final = {".py", ".pyx", ".pxd", ".h", ".so", ".json", ".java", ".go", ".rs", ".js",
                   ".mjs", ".toml", ".xml", ".mod", ".sum", ".lock", ".jinja", ".tla"}  # fmt: skip
# Of what the model says of a run: itself, the core, its log and profiles, codecs, the simulator.
MODEL_CHECK: Final = ("fastpath", "generated", "model", "reference", "simulation")


def package_directory(name: str) -> Path:
    """Return the directory of a package of kraftspec, or a directory below one."""
    first, _, rest = name.partition("/")
    return Path(str(files(f"kraftspec.{first}") / rest)).resolve()


def digest(paths: Iterable[Path]) -> str:
    """Return a hash of the contents of files and directories; where they are does not matter."""
    total = hashlib.sha256()
    for root in paths:
        for path in _files(root):
            total.update(f"{root.name}/{path.relative_to(root).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.suffix in _SOURCES and "__pycache__" not in path.parts and path.is_file():
            yield path
