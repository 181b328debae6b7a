"""The bill of materials names what an install with all extras brings, as it is installed here."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def brought(package: str, extras: set[str], seen: dict[str, set[str]]) -> dict[str, set[str]]:
    """Collect what a package needs on this machine, by the metadata of what is installed."""
    for line in requires(package) or []:
        need = Requirement(line)
        name = canonical(need.name)
        if name == "kraftspec-vectors":
            continue  # Our own.
        markers = need.marker
        if markers and not any(markers.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        if name not in seen or not need.extras <= seen[name]:
            seen[name] = seen.get(name, set()) | need.extras
            brought(need.name, need.extras, seen)
    return seen


@pytest.mark.peers
def test_the_bill_has_every_package_in_its_version() -> None:
    subprocess.run(["make", "--no-print-directory", "sbom"], cwd=ROOT, check=True)
    bill = json.loads((ROOT / "build" / "kraftspec.cdx.json").read_bytes())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "kraftspec"
    listed = {canonical(one["name"]): one["version"] for one in bill["components"]}
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    extras = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    needed = brought("kraftspec", extras, {}).keys() - {"kraftspec"}
    assert needed >= {"msgspec", "pyspark", "cryptography", "aiokafka", "py4j"}
    assert {name: listed.get(name) for name in needed} == {name: version(name) for name in needed}
    # What others need by another system or Python is listed, too, and nothing that is a test's.
    assert listed.keys().isdisjoint({"pytest", "mypy", "mkdocs", "kraftspec-vectors"})
