"""The pages that lead a reader through commands: each is typed again in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.consoles import COUNTS, typed_again

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.soak
@pytest.mark.parametrize("name", ["quickstart", "measure"])
def test_the_page_says_what_happens(name: str, tmp_path: Path) -> None:
    page = (DOCS / f"{name}.md").read_text("utf-8")
    assert COUNTS.sub("N", typed_again(page, tmp_path)) == COUNTS.sub("N", page)
