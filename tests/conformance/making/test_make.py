"""Making the golden vectors anew, and Kafka's own answers to all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.adapters.peers import effort

from kraftspec.conformance.making.make import make
from kraftspec.conformance.runner.run import adapter_named, run
from kraftspec.conformance.vectors import vectors_root
from kraftspec.specs import specs_root

pytestmark = pytest.mark.kafka


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.json")}


# Messages and pairs of each set; of kafka with record batches.
SETS = {"kafka": (279, 745), "kip-595": (21, 33), "kip-853": (26, 74), "kip-996": (20, 66)}


def test_all_sets_are_made_again() -> None:
    sets = {path.parent.name for path in vectors_root().glob("*/*.json")}
    assert sets - {"node", "captured"} == set(SETS)  # These are recorded of real clusters.


@pytest.mark.parametrize("spec", SETS)
def test_all_vectors_are_made_again_byte_for_byte(tmp_path: Path, spec: str) -> None:
    gone = tmp_path / spec / "MessageOfBefore.json"
    gone.parent.mkdir()
    gone.write_text("{}")
    report = make(specs_root(), tmp_path, (spec,))
    assert f"{spec}/MessageOfBefore" in report.changed
    assert report.refused == []
    assert (report.messages, report.pairs) == SETS[spec]
    committed, generated = contents(vectors_root() / spec), contents(tmp_path / spec)
    assert generated.keys() == committed.keys()
    assert [name for name, data in generated.items() if data != committed[name]] == []


def test_making_over_the_files_changes_none(tmp_path: Path) -> None:
    first = make(specs_root(), tmp_path, ("kafka",), "Vote")
    again = make(specs_root(), tmp_path, ("kafka",), "Vote")
    assert len(first.changed) == first.messages == again.messages > 0
    assert again.changed == []


def test_kafka_answers_the_vectors_as_recorded() -> None:
    """All of them in the deep profile, where it takes some ten seconds."""
    name, pairs = ("kafka/fetch", 30) if effort() == 1 else ("", 918)
    results = run(adapter_named("kafka"), filters=[name])
    assert results.failures == []
    assert (results.counts.failed, results.counts.skipped) == (0, 0)
    assert results.pairs >= pairs
    assert results.counts.passed > results.tests > 0  # Most are asked in both directions.
