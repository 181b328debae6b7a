"""The types of the public names, as the checkers of two users see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")
CHECK_S = 1_800.0


def checked(tmp_path: Path, *command: str) -> None:
    """Check a copy of the program, which knows nothing of this project's settings."""
    (tmp_path / "program.py").write_bytes(PROGRAM.read_bytes())
    settings = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": True,
        "enableTypeIgnoreComments": False,  # Those are for mypy.
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", *command, "program.py"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
        timeout=CHECK_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_mypy(tmp_path: Path) -> None:
    checked(tmp_path, "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"))


@pytest.mark.peers
def test_pyright(tmp_path: Path) -> None:
    checked(tmp_path, "pyright", "--pythonpath", sys.executable)
