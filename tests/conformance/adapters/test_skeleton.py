"""The skeletons of ``conform init``: each is built and run as its user would, and passes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conftest import cannot_run

from kraftspec.cli import main
from kraftspec.conformance.adapters.skeleton import LANGUAGES, TEMPLATE, plans_text

TOOLS = {
    "python": "python",
    "go": "go",
    "node": "node",
    "rust": "cargo",
    "java": "javac",
}
# Structs in tags, nullable structs, floats, uuids, records, and integers that are not in range.
MESSAGES = ("ApiVersions", "MetadataRe", "Vote", "FetchRe", "ClientQuotas", "UpdateFeatures")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
BUILD_S = 600.0


def shell(command: str, directory: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
        capture_output=True,
        check=False,
        timeout=BUILD_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.peers
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_skeleton_passes_as_it_is(language: str, tmp_path: Path) -> None:
    if shutil.which(TOOLS[language], path=PATH) is None:
        cannot_run(f"there is no {TOOLS[language]}: the skeleton for {language} was not run")
    shell(f"kraftspec conform init --lang {language} mine", tmp_path)
    directory = tmp_path / "mine"
    if LANGUAGES[language].build:
        shell(LANGUAGES[language].build, directory)
    filters = " ".join(f"--filter kafka/{message}" for message in MESSAGES)
    run = f"kraftspec conform run --json --exec '{LANGUAGES[language].run}' {filters}"
    results = json.loads(shell(run, directory))
    assert results["failures"] == []
    assert results["counts"]["skipped"] == 0
    assert results["counts"]["passed"] > 10_000


def test_each_message_and_version_has_a_plan() -> None:
    plans = json.loads(plans_text())
    pairs = {(plan["message"], plan["version"]) for plan in plans}
    assert len(pairs) == len(plans) > 700
    fetch = next(p for p in plans if (p["message"], p["version"]) == ("FetchResponse", 18))
    partition = fetch["fields"][3]["element"]["fields"][1]["element"]
    diverging = next(field for field in partition["tagged"] if field["name"] == "divergingEpoch")
    assert diverging["default"] == {"epoch": -1, "endOffset": -1}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "adapter.py"
    mine.write_text("mine", "utf-8")
    done = CliRunner().invoke(main, ["conform", "init", "--lang", "python", str(tmp_path)])
    assert (done.exit_code, mine.read_text("utf-8")) == (1, "mine")
    assert f"{mine} is there already, and nothing was written" in done.output
    assert list(tmp_path.iterdir()) == [mine]


def test_each_language_is_offered(tmp_path: Path) -> None:
    assert {path.name for path in TEMPLATE.iterdir() if path.is_dir()} == set(LANGUAGES)
    done = CliRunner().invoke(main, ["conform", "init", "--lang", "cobol", str(tmp_path)])
    assert done.exit_code == 2
    assert all(language in done.output for language in LANGUAGES)
