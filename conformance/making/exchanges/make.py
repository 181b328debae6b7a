"""All node vectors: the logs that they begin with, a recording of each, and a second opinion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kraftspec.conformance.making.exchanges.record import ask_also, record, repeat, write
from kraftspec.conformance.making.exchanges.scenarios import BASES, CASES
from kraftspec.conformance.raw.node import NodeState, NodeVector
from kraftspec.conformance.runner.node import NodeFailure, variants
from kraftspec.conformance.vectors import NODE

Progress = Callable[[str, int, int], None]


@dataclass
class NodeMade:
    """What was recorded. ``unrepeated``: answers that another process gave otherwise.

    ``requests`` counts those of all releases; ``unasked`` are vectors by release, with the step at
    which that release was not as the vector supposes.
    """

    vectors: int = 0
    requests: int = 0
    unasked: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    unrepeated: list[NodeFailure] = field(default_factory=list)


def make_node_vectors(
    root: Path, name: str, progress: Progress = lambda *_: None, *, repeats: int = 1
) -> NodeMade:
    """Record every scenario with ``name`` in its id, and ask ``repeats`` more processes the same.

    Then other releases are asked the same, and again where they answer otherwise.

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
        *others, release = case.releases
        vector = record(case.id, case.state(bases[case.base]), case.script, release)
        for other in reversed(others):
            why_not = ask_also(vector, other)
            if why_not is not None:
                result.unasked[f"{case.id}@{other}"] = str(why_not)
        every = variants(vector)
        again = [one for one in every if one is vector or _differs(vector, one.source.kafka)]
        differences = [one for _ in range(repeats) for same in again for one in repeat(same)]
        result.vectors += 1
        result.requests += len(every) * sum(1 for step in vector.steps if step.request)
        result.unrepeated += differences
        if not differences and write(vector, root / NODE):
            result.changed.append(case.id)
    return result


def _differs(vector: NodeVector, release: str) -> bool:
    """Whether a release answers a step otherwise: an answer that is the same was given twice."""
    return any(release in other.kafka for step in vector.steps for other in step.others or ())
