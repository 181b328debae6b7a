"""The TypeScript codecs: compiled strictly, by Kafka's own bytes, and as programs use them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from kraftspec.conformance.adapters.registry import find
from kraftspec.conformance.runner.run import OURS, run
from kraftspec.conformance.vectors import vectors_root

NAME = "kraftspec-typescript"
TESTS = sorted((Path(__file__).parents[2] / "codegen" / "typescript").glob("*.test.mjs"))
NODE_S = 600.0

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def codecs() -> str:
    """The directory of the compiled codecs; the build compiles them by the strictest rules."""
    return find(NAME).command()[2]


def test_every_vector_of_every_message_passes_with_class_and_offset() -> None:
    assert NAME in OURS  # Or classes and offsets would not count.
    results = run(find(NAME).adapter(timeout_s=120))
    assert results.harness_failure is msgspec.UNSET
    assert not results.failures
    assert results.counts.skipped == 0
    assert results.counts.passed > 140_000


@pytest.mark.parametrize("script", TESTS, ids=lambda path: path.name.partition(".")[0])
def test_in_node(script: Path, codecs: str) -> None:
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(script)],
        env={**os.environ, "CODECS": codecs, "VECTORS": str(vectors_root())},
        text=True,
        capture_output=True,
        check=False,
        timeout=NODE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
