"""The stored vote: ``quorum-state``, one line of JSON, replaced whole and synced (``QuorumState``).

The fields are those of QuorumStateData at version 0 (static voters) or 1, with ``data_version``; of
a draft, those of the message that it has in its place.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated.kafka import QuorumStateData
from kraftspec.reference.log.files import read_whole, replace_whole

if TYPE_CHECKING:
    from kraftspec.reference.log.files import Files

NAME: Final = "quorum-state"
_VERSION_KEY: Final = "data_version"


class QuorumStateFile:
    """The file in a metadata log's directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self._directory}/{NAME}"

    def read(self, message: Any = QuorumStateData) -> tuple[Any, int] | None:
        """Return the state, a ``message``, and its version; None where none was stored.

        What a crash left of a write that was not finished is removed. Raises ValueError for a file
        that is no such state: a vote that is lost could be given twice, so it is not begun anew.
        """
        self._files.remove(f"{self.path}.tmp")
        try:
            data = read_whole(self._files, self.path)
        except FileNotFoundError:
            return None
        return self.parse(data, self.path, message)

    @staticmethod
    def parse(data: bytes, path: str, message: Any = QuorumStateData) -> tuple[Any, int]:
        """Read the bytes of such a file; ValueError says what is wrong with it."""
        try:
            value = json.loads(data)
            if not isinstance(value, dict):
                raise ValueError(f"{type(value).__name__}, where an object is due")
            version = value.pop(_VERSION_KEY, None)
            if version not in message.VALID_VERSIONS or isinstance(version, bool):
                known = " and ".join(map(str, message.VALID_VERSIONS))
                raise ValueError(f"{_VERSION_KEY} {version!r}, and {known} are known")
            state = message.from_json(value, version, lenient=True)
        except (ValueError, CodecError) as error:
            raise ValueError(
                f"{path}: {error}. Without the vote that is in it this node could vote twice in "
                f"one epoch: restore the file, or remove the node from the quorum, format its "
                f"directory anew and let it join again"
            ) from error
        return state, version

    def write(self, state: Any, version: int) -> None:
        """Store a state at a version; durable on return. OSError as the disk does."""
        replace_whole(self._files, self._directory, NAME, render(state, version))


def render(state: Any, version: int) -> bytes:
    """Return the line that Kafka writes."""
    value = {**state.to_json(version), _VERSION_KEY: version}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
