"""The page for implementers, followed to the letter in an empty directory.

Run by ``python -m``, this module writes what the commands print into the page.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.consoles import BLOCK, COUNTS, commands, typed_again

FIVE_MINUTES_S = 300.0
PAGE = Path(__file__).resolve().parents[3] / "docs" / "write-an-adapter.md"


@pytest.mark.soak
def test_the_page_says_what_happens(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    started = time.monotonic()
    assert COUNTS.sub("N", typed_again(page, tmp_path)) == COUNTS.sub("N", page)
    assert time.monotonic() - started < FIVE_MINUTES_S


def test_its_outputs_are_those_it_speaks_of() -> None:
    first, _, run, wrong, known, repaired = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(commands(first)) == 1
    assert re.search(r" [1-9]\d* passed, 0 failed", run)
    assert "wrong: kafka/ResponseHeader v0 encode" in wrong
    assert " 0 failed, 2 known to fail" in known
    assert repaired.endswith("exit code 2\n")


def test_the_adapter_of_the_skeleton_is_short() -> None:
    template = PAGE.parents[1] / "conformance" / "adapters" / "template" / "python" / "adapter.py"
    assert len(template.read_text("utf-8").splitlines()) < 60


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        PAGE.write_text(typed_again(PAGE.read_text("utf-8"), Path(directory)), "utf-8")
