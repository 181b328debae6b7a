"""What the whole quorum is known to have committed, whoever says so first."""

from __future__ import annotations


class Ledger:
    """The chain at each committed offset that some node's high watermark stood at.

    ``chains`` has offset → chain of everything before it; offsets where batches end, and no others.
    """

    __slots__ = ("chains", "high_watermark")

    def __init__(self) -> None:
        self.chains: dict[int, int] = {0: 0}
        self.high_watermark = 0

    def commit(self, offset: int, chain: int) -> int | None:
        """Take note; return the chain that was known for that offset, if one was."""
        known = self.chains.get(offset)
        if known is None:
            self.chains[offset] = chain
        self.high_watermark = max(self.high_watermark, offset)
        return known
