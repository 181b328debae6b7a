"""What crosses the virtual network: the bytes of one request or reply."""

from __future__ import annotations

import msgspec

from kraftspec.fastpath import crc32c


class Message(msgspec.Struct, gc=False):
    """Bytes from one node to another, at a version that both speak.

    ``correlation`` is the sender's number for a request, and comes back with its reply. A reply
    belongs to an incarnation of the node that asked: the connection of an earlier one is gone.
    """

    source: int
    target: int
    is_reply: bool
    correlation: int
    incarnation: int  # Of who asked.
    api_key: int
    version: int
    body: bytes

    @property
    def key(self) -> tuple[int, int, bool, int, int]:
        """What tells it from others when a run is repeated in part."""
        return (self.source, self.target, self.is_reply, self.api_key, crc32c(self.body))
