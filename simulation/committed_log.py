"""What the whole quorum is known to have committed, and what is raised where that is broken."""

from __future__ import annotations

from collections.abc import Sequence


class CommittedLog:
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


class Violation(AssertionError):  # noqa: N818 - it is what the run looks for, not a mistake in it.
    """A property does not hold."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.name = name
        self.text = text
        self.others: Sequence[Violation] = ()  # What else was seen at the end of a run.

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
