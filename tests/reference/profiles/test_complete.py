"""A profile is whole: what CONTRIBUTING lists under "Add a profile" is there for each.

`test_one_place` tests its package, `test_profiles_without` that each fix has a scene, and mkdocs
that each page is in the navigation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftspec.cli.profiles import PROFILES
from kraftspec.conformance.adapters import ours
from kraftspec.reference.profiles import KAFKA, PROFILE_NAMES, parts_of

ROOT = Path(__file__).resolve().parents[3]
TRANSCRIPTS = ROOT / "tests" / "transcripts"
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_a_profile_is_whole(name: str) -> None:
    is_kafka = name == KAFKA
    package = name.replace("-", "_")
    assert name in PROFILES
    assert [*(ROOT / "specs" / name).rglob("*.json")]
    assert parts_of(name).messages.__name__ == f"kraftspec.generated.{package}"
    assert is_kafka or name in ours.SETS
    assert [*(ROOT / "conformance" / "vectors" / name).glob("*.json")]
    assert (ROOT / "simulation" / "protocols" / f"{package}.py").is_file()
    assert [*(TRANSCRIPTS if is_kafka else TRANSCRIPTS / name).glob("*.txt")]
    if not is_kafka:
        assert (ROOT / "specs" / name / "ERRATA.md").is_file()
        assert (DOCS / "drafts" / f"{name}.md").is_file()  # Its sentences.
        assert f"({name}.md)" in (DOCS / "drafts.md").read_text("utf-8")


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_a_page_explains_each_fix_and_no_other(name: str) -> None:
    page = DOCS / ("raft.md" if name == KAFKA else f"{name}.md")
    _, _, fixes = page.read_text("utf-8").partition("## What each fix changes\n")
    fixes, _, _ = fixes.partition("\n## ")
    explained = [line.split("`")[1] for line in fixes.splitlines() if line.startswith("**`")]
    assert sorted(explained) == sorted(parts_of(name).profile.fixes)
