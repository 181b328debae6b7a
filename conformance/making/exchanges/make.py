"""All node vectors: the logs that they begin with, a recording of each, and a second opinion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kraftspec.conformance.making.exchanges.record import record, repeat, write
from kraftspec.conformance.making.exchanges.scenarios import BASES, CASES
from kraftspec.conformance.raw.node import NodeState
from kraftspec.conformance.runner.node import NodeFailure
from kraftspec.conformance.vectors import NODE

Progress = Callable[[str, int, int], None]


@dataclass
class NodeMade:
    """What was recorded. ``unrepeated``: answers that another process gave otherwise."""

    vectors: int = 0
    requests: int = 0
    changed: list[str] = field(default_factory=list)
    unrepeated: list[NodeFailure] = field(default_factory=list)


def make_node_vectors(
    root: Path, name: str, progress: Progress = lambda *_: None, *, repeats: int = 1
) -> NodeMade:
    """Record every scenario with ``name`` in its id, and ask ``repeats`` more processes the same.

    A vector that another process answers otherwise is not written: its script must say which
    fields are undetermined, or be a better one.

    Raises:
        ClusterError: Java or Maven is missing, or a controller did not do what a script expects.
    """
    cases = [case for case in CASES if name in case.id]
    bases: dict[str, NodeState] = {}
    result = NodeMade()
    for number, case in enumerate(cases):
        progress(case.id, number, len(cases))
        if case.base not in bases:
            bases[case.base] = BASES[case.base]()
        vector = record(case.id, case.state(bases[case.base]), case.script)
        differences = [one for _ in range(repeats) for one in repeat(vector)]
        result.vectors += 1
        result.requests += sum(1 for step in vector.steps if step.request)
        result.unrepeated += differences
        if not differences and write(vector, root / NODE):
            result.changed.append(case.id)
    return result
