"""The CI action, its steps run as a build server would run them, with a real adapter and a liar."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[3]
ACTION = ROOT / ".github" / "actions" / "conform" / "action.yml"
INPUT = re.compile(r"\$\{\{\s*inputs\.([\w-]+)\s*\}\}")
OUTPUT = re.compile(r"\$\{\{\s*steps\.run\.outputs\.([\w-]+)\s*\}\}")
OURS = "from kraftspec.cli import main; main()"
LIAR = """
import json, sys
from kraftspec.conformance.adapters.ours import reply
for line in sys.stdin.buffer:
    answer = reply(line, "liar")
    if answer is None:
        break
    if "hex" in answer:
        answer["hex"] += "00"
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(ACTION)
    return loaded


def step(action: dict[str, Any], name: str) -> dict[str, Any]:
    [only] = [one for one in action["runs"]["steps"] if one.get("name") == name]
    match: dict[str, Any] = only
    return match


class Job:
    """A machine of a build server; ``checkout`` is what it fetched the action with."""

    def __init__(self, directory: Path, action: dict[str, Any], checkout: Path = ROOT) -> None:
        self.directory = directory
        self.action = action
        self.action_path = checkout / ACTION.parent.relative_to(ROOT)
        self.output_path = directory / "outputs"

    def has_kraftspec(self) -> None:
        """Put the kraftspec of this environment where the action installs one."""
        commands = self.directory / "temp" / "kraftspec" / "bin"
        commands.mkdir(parents=True)
        command = commands / "kraftspec"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{OURS}" "$@"\n')
        command.chmod(0o755)

    def run(self, name: str, inputs: dict[str, str]) -> int:
        """Run one step; return its exit code."""
        one = step(self.action, name)
        inputs_ = {key: entry.get("default", "") for key, entry in self.action["inputs"].items()}
        inputs_ |= inputs
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.directory / "temp"),
            "GITHUB_OUTPUT": str(self.output_path),
            "GITHUB_ACTION_PATH": str(self.action_path),
        }
        outputs = self.outputs()
        for key, value in one.get("env", {}).items():
            filled = INPUT.sub(lambda match: inputs_[match[1]], value)
            env[key] = OUTPUT.sub(lambda match: outputs.get(match[1], ""), filled)
        # As GitHub starts `shell: bash`.
        shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", one["run"]]
        return subprocess.run(shell, cwd=self.directory, env=env, check=False).returncode

    def outputs(self) -> dict[str, str]:
        """Return the outputs of the steps so far."""
        if not self.output_path.exists():
            return {}
        lines = self.output_path.read_text().splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}


@pytest.fixture
def job(action: dict[str, Any], tmp_path: Path) -> Job:
    machine = Job(tmp_path, action)
    machine.has_kraftspec()
    return machine


def ours() -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(OURS)} adapter"


def test_no_input_is_pasted_into_a_script(action: dict[str, Any]) -> None:
    scripts = [one["run"] for one in action["runs"]["steps"] if "run" in one]
    assert len(scripts) == 3
    assert [script for script in scripts if "${{" in script] == []


@pytest.mark.soak
def test_what_the_action_installs_has_the_vectors(
    action: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its steps, on a machine that has nothing of ours but the checkout of the action."""
    checkout = tmp_path / "actions" / "kraftspec"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, checkout / name, follow_symlinks=False)
    monkeypatch.setenv("CC", "false")  # To compile takes long, and other tests do it.
    job = Job(tmp_path, action, checkout)
    inputs = {"command": "temp/kraftspec/bin/kraftspec adapter", "filter": "VoteRequest"}
    for name in ("Install kraftspec", "Run the vectors", "Verdict"):
        assert job.run(name, inputs) == 0, name
    results = json.loads((tmp_path / "conformance" / "results.json").read_bytes())
    assert results["counts"]["passed"] > 0


def test_every_input_is_documented(action: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "reports.md").read_text("utf-8")
    for name, entry in action["inputs"].items():
        assert entry["description"]
        assert f"`{name}`" in page


@pytest.mark.soak
def test_a_right_adapter_passes(job: Job) -> None:
    inputs = {"command": ours(), "filter": "VoteRequest"}
    assert job.run("Run the vectors", inputs) == 0
    assert job.outputs() == {"results": "conformance/results.json", "exit-code": "0"}
    files = {path.name for path in (job.directory / "conformance").iterdir()}
    assert files == {"results.json", "junit.xml", "report.html", "badge.svg"}
    results = json.loads((job.directory / "conformance" / "results.json").read_bytes())
    assert results["counts"]["passed"] > 0
    assert job.run("Verdict", inputs) == 0


@pytest.mark.soak
def test_a_wrong_adapter_fails_after_the_report_is_made(job: Job) -> None:
    script = job.directory / "it's a liar.py"
    script.write_text(LIAR)
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    inputs = {"command": command, "filter": "VoteRequest", "out": "out"}
    assert job.run("Run the vectors", inputs) == 0
    assert job.outputs()["exit-code"] == "1"
    assert (job.directory / "out" / "report.html").exists()
    assert job.run("Verdict", inputs) == 1
    # Held against itself nothing got worse.
    assert job.run("Verdict", {**inputs, "baseline": "out/results.json"}) == 0


def test_an_adapter_that_does_not_start_fails_as_such(job: Job) -> None:
    inputs = {"command": "no-such-adapter", "filter": "VoteRequest"}
    assert job.run("Run the vectors", inputs) == 0
    assert job.outputs()["exit-code"] == "3"
    assert job.run("Verdict", {**inputs, "baseline": "anything.json"}) == 3
