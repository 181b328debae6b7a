"""The page for implementers, followed to the letter in an empty directory.

``python tests/conformance/test_write_an_adapter.py`` writes what the commands say into the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).resolve().parents[2] / "docs" / "write-an-adapter.md"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\d+\.\d s$", re.MULTILINE)
# How many tests there are is for the page's writer to bring up to date, and no reason to fail.
COUNTS = re.compile(r"\d+(?= (?:vectors|passed|skipped))|(?<=^skipped )\d+", re.MULTILINE)
FIVE_MINUTES_S = 300.0


def commands(block: str) -> list[str]:
    """Return what is typed in a block: lines after a prompt, and those that continue them."""
    typed: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            typed.append(line[2:])
        elif line.startswith("> "):
            typed[-1] += f"\n{line[2:]}"
    return typed


def session(block: str, directory: Path) -> str:
    """Type a block's commands, and return the block as the terminal shows it then."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = ""
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=FIVE_MINUTES_S,
        )
        typed = command.replace("\n", "\n> ")
        shown += f"$ {typed}\n{SECONDS.sub('0.3 s', done.stdout)}"
    return shown


def typed_again(page: str, directory: Path) -> str:
    return BLOCK.sub(lambda block: session(block[0], directory), page)


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


def test_the_template_is_short() -> None:
    template = PAGE.parents[1] / "conformance" / "adapters" / "template" / "adapter.py"
    assert len(template.read_text("utf-8").splitlines()) < 60


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        PAGE.write_text(typed_again(PAGE.read_text("utf-8"), Path(directory)), "utf-8")
