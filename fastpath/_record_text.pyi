from collections.abc import Sequence

from kraftspec.fastpath.message import Buffer
from kraftspec.fastpath.plan import Layouts

class Programs:
    """The layouts of metadata records, compiled."""

    def add(
        self,
        number: int,
        version: int,
        head: bytes,
        layouts: Layouts,
        index: int,
        orders: Sequence[Sequence[str]],
    ) -> bool: ...
    def lines(
        self, data: Buffer, position: int, words: tuple[bytes, bytes, bytes, bytes, bytes]
    ) -> bytes | None: ...
