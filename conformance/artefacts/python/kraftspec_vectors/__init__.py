"""Golden vectors of the Kafka protocol, a file a message; the README says what is in one."""

import gzip
import json
from importlib.resources import files
from typing import Any

VERSION = "@VERSION@"
_HOME = files(__name__) / "vectors"


def names() -> list[str]:
    """Return the names of the files, such as ``kafka/VoteRequest``, in order."""
    entries = [(group.name, file.name) for group in _HOME.iterdir() for file in group.iterdir()]
    return sorted(f"{group}/{file.removesuffix('.json.gz')}" for group, file in entries)


def read_bytes(name: str) -> bytes:
    """Return a file as JSON text, in UTF-8; a name that there is not is a FileNotFoundError."""
    return gzip.decompress((_HOME / f"{name}.json.gz").read_bytes())


def read(name: str) -> dict[str, Any]:
    """Return a file as it is parsed; its tests are under ``tests``."""
    parsed: dict[str, Any] = json.loads(read_bytes(name))
    return parsed
