"""The numbers of vectors in README and docs are those of the files."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from kraftspec.conformance.vectors import vectors_root

ROOT = Path(__file__).resolve().parents[3]


def words(page: str) -> str:
    return re.sub(r"\s+", " ", (ROOT / page).read_text("utf-8"))


def test_the_page_says_why_a_run_counts_other_messages_than_generate() -> None:
    specs, pairs, unversioned = 0, 0, 0
    for path in (ROOT / "specs").glob("*/**/*.json"):
        valid = re.search(
            r'"validVersions":\s*"(?:none|(\d+)(?:-(\d+))?)"', path.read_text("utf-8")
        )
        assert valid is not None, path
        specs += 1
        unversioned += valid[1] is None
        pairs += int(valid[2] or valid[1]) - int(valid[1]) + 1 if valid[1] else 0
    sets = [root for root in vectors_root().iterdir() if (ROOT / "specs" / root.name).is_dir()]
    run = sum(len(list(root.glob("*.json"))) for root in sets)
    assert unversioned == 8
    assert run == specs - unversioned + len(("RecordBatch", "NoSuchMessage"))
    page = words("docs/conformance.md")
    assert f"`generate` counts {specs} messages in {pairs} pairs of message and version" in page
    assert f"a run of all vectors {run} in {pairs + 1}. Eight of the messages" in page


def test_the_pages_have_the_numbers_of_the_files() -> None:
    counts: Counter[str] = Counter()
    for path in sorted(vectors_root().rglob("*.json")):
        captured = "captured" in path.parts
        tests = json.loads(path.read_bytes()).get("tests", [])  # The node's cases are no vectors.
        counts.update("captured" if captured else test["result"] for test in tests)
    conformance, readme = words("docs/conformance.md"), words("README.md")
    total = f"{counts.total():,}"
    assert f"There are {total} vectors: {counts['valid']:,} valid, " in conformance
    for kind in ("invalid", "acceptable"):
        assert f" {counts[kind]:,} {kind}" in conformance
    assert f" {counts['captured']:,} [frames of a real cluster]" in conformance
    of_kafka = counts["valid"] + counts["captured"]
    assert f"{total} vectors ({of_kafka:,} messages with Kafka's own bytes, " in readme
    assert f"{counts['invalid']:,} inputs that must be rejected" in readme
    assert f"{counts['acceptable']:,} where a decoder may choose" in readme
