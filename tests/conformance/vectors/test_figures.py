"""The numbers of vectors in README and docs are those of the files."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from kraftspec.conformance.vectors import vectors_root

ROOT = Path(__file__).resolve().parents[3]


def test_the_pages_have_the_numbers_of_the_files() -> None:
    counts: Counter[str] = Counter()
    for path in sorted(vectors_root().rglob("*.json")):
        captured = "captured" in path.parts
        tests = json.loads(path.read_bytes()).get("tests", [])  # The node's cases are no vectors.
        counts.update("captured" if captured else test["result"] for test in tests)
    conformance = re.sub(r"\s+", " ", (ROOT / "docs" / "conformance.md").read_text("utf-8"))
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text("utf-8"))
    total = f"{counts.total():,}"
    assert f"There are {total} vectors: {counts['valid']:,} valid, " in conformance
    for kind in ("invalid", "acceptable"):
        assert f" {counts[kind]:,} {kind}" in conformance
    assert f" {counts['captured']:,} [frames of a real cluster]" in conformance
    of_kafka = counts["valid"] + counts["captured"]
    assert f"{total} vectors ({of_kafka:,} messages with Kafka's own bytes, " in readme
    assert f"{counts['invalid']:,} inputs that must be rejected" in readme
    assert f"{counts['acceptable']:,} where a decoder may choose" in readme
