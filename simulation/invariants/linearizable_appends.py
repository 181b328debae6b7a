"""Appends behave as if each happened at one moment between its call and its answer.

For an append-only log that means: each acknowledged append has its own offsets, and one that was
called after another was acknowledged comes behind it. What was refused, or not known to have
happened, may be there or not, once at the most.
"""

from __future__ import annotations

from kraftspec.simulation.clients import Operation
from kraftspec.simulation.invariants.base import Invariant


class LinearizableAppends(Invariant):
    """Compares the order of acknowledged appends with when they were called and answered.

    Answers come in the order of time, so one number suffices.
    """

    def __init__(self) -> None:
        # (time of the answer, largest end offset acknowledged by then): both ascending.
        self.answers: list[tuple[int, int]] = []
        self.taken: dict[int, int] = {}  # End offset → the append that has it.

    def operation_ended(self, operation: Operation) -> None:
        """Look at who was answered before this one was called."""
        if operation.end_offset < 0:
            return
        other = self.taken.setdefault(operation.end_offset, operation.id)
        if other != operation.id:
            self.fail(f"appends {other} and {operation.id} both end at {operation.end_offset}")
        before = -1
        for at_us, end in reversed(self.answers):
            if at_us < operation.called_us:
                before = end
                break
        if operation.base_offset < before:
            self.fail(f"{operation} was called after offset {before - 1} was acknowledged")
        last = self.answers[-1][1] if self.answers else -1
        self.answers.append((operation.ended_us, max(last, operation.end_offset)))


INVARIANT = LinearizableAppends
