"""The harness's log in memory and Kafka's own log in files, through the same random operations."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.simulation.harness.conversations import HARNESSES

from kraftspec.conformance.adapters.registry import find

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).with_name("LogComparison.java")


def compare(release: str, tmp_path: Path, *, seeds: int, steps: int) -> dict[str, int]:
    """How often each operation was compared; fails where the two logs differ."""
    command = find(f"kafka@{release}" if release else "kafka", HARNESSES).command()
    class_path = command[command.index("-cp") + 1]
    classes = tmp_path / "classes"
    for step in (
        ["javac", "-nowarn", "-cp", class_path, "-d", str(classes), str(SOURCE)],
        ["java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", f"{classes}:{class_path}",
         "org.apache.kafka.raft.LogComparison", str(tmp_path / "logs"), "0", str(seeds),
         str(steps)],
    ):  # fmt: skip
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {what: int(count) for count, _, what in lines}


@pytest.mark.soak
@pytest.mark.parametrize("release", ["", "4.3.1"], ids=["4.4", "4.3"])
def test_both_logs_do_the_same(tmp_path: Path, release: str) -> None:
    counts = compare(release, tmp_path, seeds=150, steps=60)
    assert counts["end"] > 8_000
    assert counts["append as follower: CorruptRecordException"] > 50
    for what in (
        "append as leader",
        "own snapshot",
        "truncate",
        "truncate to snapshot",
        "delete before snapshot",
    ):
        assert counts[what] > 50, what
    assert counts["open"] > 50
    assert counts["open, rotten"] > 20
