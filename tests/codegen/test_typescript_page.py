"""The page on TypeScript, followed to the letter in an empty directory.

Run by ``python -m``, this module writes what the commands print into the page.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.consoles import typed_again

PAGE = Path(__file__).resolve().parents[2] / "docs" / "typescript.md"
QUIET = "npm_config_loglevel"  # A person's own settings may be worth a warning.


@pytest.mark.peers
def test_the_page_says_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(QUIET, "silent")
    page = PAGE.read_text("utf-8")
    assert typed_again(page, tmp_path) == page


if __name__ == "__main__":
    os.environ[QUIET] = "silent"
    with TemporaryDirectory() as directory:
        PAGE.write_text(typed_again(PAGE.read_text("utf-8"), Path(directory)), "utf-8")
