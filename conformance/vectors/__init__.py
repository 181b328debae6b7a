"""Vector files: one a message, a test a line, the same bytes whoever writes them."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from kraftspec.cache import cache_directory, locked
from kraftspec.conformance.raw.vectors import Test, VectorFile

SCHEMA_VERSION = 1
REVISION = 1  # Of the set for one release of Kafka; the next one when a published set changes.
KAFKA = "kafka"  # The set of a file that names none.
NO_MESSAGE = "NoSuchMessage"  # Of vectors with a name that no message has.
NODE = "node"  # The directory of the vectors of nodes.


def vectors_root() -> Path:
    """Return the directory of the golden vectors, one directory a set.

    In a checkout it is that of the committed ones. Elsewhere the package ``kraftspec-vectors`` has
    them, packed; they are unpacked into the cache, once for each version.

    Raises:
        ModuleNotFoundError: neither is there. The command line names the extra that brings them.
    """
    committed = Path(str(files("kraftspec.conformance") / "vectors"))
    return committed if (committed / KAFKA).is_dir() else _unpacked()


def _unpacked() -> Path:
    """Return the directory into which the installed package's vectors are unpacked."""
    package = importlib.import_module("kraftspec_vectors")
    home: Path = cache_directory() / "vectors" / package.VERSION
    with locked(home.with_name(f"{home.name}.lock")):
        if not home.is_dir():
            with tempfile.TemporaryDirectory(dir=home.parent) as folder:
                for name in package.names():
                    path = Path(folder, "whole", f"{name}.json")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(package.read_bytes(name))
                os.rename(Path(folder, "whole"), home)
    return home


def test_id(message: str, version: int, op: str, content: str) -> str:
    """Derive a test's id from what it tests: 16 hex digits of a SHA-256."""
    return hashlib.sha256(f"{message}/{version}/{op}/{content}".encode()).hexdigest()[:16]


def dumps(value: Any) -> str:
    """Write JSON in one line, the same everywhere."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def write_vectors(path: Path, head: dict[str, Any], tests: Iterable[dict[str, Any]]) -> bool:
    """Write a vector file, a test a line; return whether it changed."""
    lines = ",\n".join(dumps(test) for test in tests)
    text = f'{dumps(head)[:-1]},"tests":[\n{lines}\n]}}\n'
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def vector_paths(root: Path) -> list[Path]:
    """Return the vector files below a root, in order; those of nodes are of another format."""
    return sorted(path for path in root.glob("*/*.json") if path.parent.name != NODE)


def vectors_release(root: Path) -> str:
    """Return the release of Kafka whose classes made the set ``kafka``; empty without that set."""
    for path in sorted((root / KAFKA).glob("*.json")):
        return msgspec.json.decode(path.read_bytes(), type=VectorFile).source.kafka
    return ""


def vectors_version(root: Path) -> str:
    """Return the name of a set of vectors, such as ``kafka-4.4.0-v1``."""
    return f"{KAFKA}-{vectors_release(root)}-v{REVISION}"


def read_vectors(root: Path, name: str = "") -> Iterator[tuple[str, VectorFile]]:
    """Yield (set, file) for every vector file, or for those whose path contains ``name``.

    The set is the file's own ``spec``: a directory may hold frames of several.
    """
    decoder = msgspec.json.Decoder(VectorFile)
    for path in vector_paths(root):
        if name.lower() in f"{path.parent.name}/{path.stem}".lower():
            file = decoder.decode(path.read_bytes())
            yield KAFKA if file.spec is UNSET else file.spec, file


__all__ = [
    "KAFKA", "NODE", "SCHEMA_VERSION", "Test", "VectorFile", "dumps", "read_vectors", "test_id",
    "vector_paths", "vectors_release", "vectors_version",
]  # fmt: skip
