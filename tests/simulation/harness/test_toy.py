"""A Raft node that somebody wrote from docs/node-harness.md: it runs, alone and beside ours."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import cannot_run

from kraftspec.conformance.cluster.artifacts import run_build
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.harness.cores import Core, close_processes
from kraftspec.simulation.run import simulate

ROOT = Path(__file__).resolve().parents[3]
TOY = Path(__file__).with_name("toy")


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Core]:
    if shutil.which("go") is None:
        cannot_run("go was not found")
    program = tmp_path / "toy"
    build = ["go", "build", "-o", str(program), "."]
    run_build(build, "the toy did not build", cwd=TOY)
    yield Core(str(program))
    close_processes()


@pytest.mark.peers
@pytest.mark.soak
def test_a_node_written_from_the_page_keeps_every_property(toy: Core) -> None:
    kafka = profile_named("kafka")
    for cores, seeds in (((toy,), (0, 1, 2, 3, 4, 7)), ((toy, Core("kraftspec")), (0, 1, 2))):
        results = [simulate(seed, kafka, events=600, cores=cores) for seed in seeds]
        assert [result.violation for result in results] == [None] * len(seeds)
        assert all(result.acknowledged > 0 for result in results)
        faults: Counter[str] = sum((Counter(result.faults) for result in results), Counter())
        assert faults["power loss"] > 0 or len(cores) > 1


def test_the_page_says_how_long_it_is() -> None:
    page = (ROOT / "docs/node-harness.md").read_text("utf-8")
    told = re.search(r"`tests/simulation/harness/toy`\. It has (\d+) lines", page)
    assert told is not None
    assert int(told[1]) == sum(path.read_text("utf-8").count("\n") for path in TOY.glob("*.go"))
