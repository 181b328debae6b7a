"""Every command that a page has in a block is run: here, or by the test that ELSEWHERE names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.test_documented import BLOCK, EXAMPLE, PAGES, ROOT
from tests.reference.recovery.directories import Data, Lead, Node, quorum

from kraftspec.cli import main
from kraftspec.cli.output import EXIT_FINDINGS
from kraftspec.conformance.vectors import vectors_root

TESTS = ROOT / "tests"
METADATA = TESTS / "pipeline" / "data" / "metadata"  # Of a real controller.
# Pages whose commands a test types as they stand, and commands that need what only their own test
# has: nodes that run, Spark, other codecs, hours.
ELSEWHERE = {
    "README.md console": "cli/test_documented.py",
    "docs/quickstart.md console": "cli/test_sessions.py",
    "docs/measure.md console": "cli/test_sessions.py",
    "docs/typescript.md console": "codegen/test_typescript_page.py",
    "docs/write-an-adapter.md console": "conformance/adapters/test_write_an_adapter.py",
    "docs/quorum-changes.md": "cli/test_quorum_pages.py",
    "docs/quorum-down.md": "cli/test_quorum_pages.py",
    "docs/audit.md": "pipeline/test_audit_command.py",
    "pipeline campaign": "pipeline/test_campaign_kinds.py",
    "conform bugs": "cli/test_conform_bugs.py",
    "conform capture": "conformance/making/test_capture.py",
    "conform clients": "cli/test_conform_clients.py",
    "conform fuzz": "conformance/fuzz/test_fuzz_differential.py",
    "conform live": "conformance/live/test_live.py",
    "conform run --adapter": "conformance/adapters/test_compiled_peers.py",
    "conform run --node": "conformance/runner/test_node_vectors.py",
    "conform strength": "conformance/strength/test_strength.py",
    "dump-log --follow": "reference/tools/test_dump.py",
    "node -c": "cli/test_node.py",
    "node --profile": "cli/test_node_drafts.py",
    "proxy": "proxy/test_command.py",
    "quorum add-controller": "reference/node/test_ours_by_kafka.py",
    "quorum describe": "cli/test_quorum_drafts.py",
    "quorum recover": "cli/test_quorum_recover.py",
    "quorum remove-controller": "reference/node/test_ours_by_kafka.py",
    "quorum up": "cli/test_quorum_up.py",
    "simulate --core ./my-harness": "simulation/harness/test_cores.py",
    "simulate --core ./my-harness,kraftspec": "simulation/harness/test_cores.py",
    "simulate --core kafka:4.3.1=60%,./my-harness=40%": "simulation/harness/test_cores.py",
    "simulate --model-check": "model/test_traces.py",
    "spec diff main": "codegen/test_diff.py",
    "spec explorer": "codegen/test_explorer.py",
    "storage format --config node-1.properties": "cli/test_node_recipes.py",
}
OUTSIDE = re.compile(r"\d\.\d\.\d|conform (adapters|doctor)$")  # Maven and compilers are started.
SPEC = """{
  "apiKey": 1000, "type": "request", "name": "GreetingRequest", "listeners": ["broker"],
  "validVersions": "0", "flexibleVersions": "0+",
  "fields": [{ "name": "Text", "type": "string", "versions": "0+", "about": "What is said." }]
}
"""
PROPERTIES = """process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:9093
controller.quorum.bootstrap.servers=localhost:9093
log.dirs=formatted
"""
WORDS = {"CLUSTER_ID": "YtGxSdNvQRG40ENstXFRtw", "DIR": "vectors", "OLD": "old", "NEW": "new"}


def lines() -> dict[str, str]:
    """Every ``kraftspec …`` of a block, without what a shell does with it → page and language."""
    places: dict[str, str] = {}
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            typed = re.findall(
                r"^(?:\$ )?kraftspec (.*)", block[2].replace("\\\n", " "), re.MULTILINE
            )
            for line in typed if block[1] in ("sh", "console") else ():
                plain = re.split(r" (?:\||>|2>|#)|;", line)[0].strip()
                places.setdefault(plain, f"{name} {block[1]}".strip())
    return places


def elsewhere(line: str, page: str) -> str | None:
    for where in (page, page.partition(" ")[0]):
        if where in ELSEWHERE:
            return ELSEWHERE[where]
    prefixes = [one for one in ELSEWHERE if f"{line} ".startswith(f"{one} ")]
    return ELSEWHERE[max(prefixes, key=len)] if prefixes else None


def here(starts_programs: bool) -> list[str]:
    return [
        line
        for line, page in lines().items()
        if elsewhere(line, page) is None and bool(OUTSIDE.search(line)) == starts_programs
    ]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all that the commands name."""
    scene = tmp_path_factory.mktemp("scene")
    shutil.copytree(METADATA, scene / "data" / "__cluster_metadata-0")
    (scene / "specs").symlink_to(ROOT / "specs")
    for name in ("schemas", "new", "old", "my/schemas"):
        (scene / name).mkdir(parents=True)
        (scene / name / "GreetingRequest.json").write_text(SPEC)
    for node in quorum(scene, Lead(1, 1, (1, 2, 3), new_voters=(1, 2, 3), level=1), Data(1)):
        node.path.rename(scene / f"controller-{node.id}")
    Node(scene, 11).path.rename(scene / "broker-11")
    (scene / "vectors" / "kafka").mkdir(parents=True)
    shutil.copy(vectors_root() / "kafka" / "VoteRequest.json", scene / "vectors" / "kafka")
    for name in ("node.properties", "controller.properties"):
        (scene / name).write_text(PROPERTIES)
    before = os.getcwd()
    os.chdir(scene)
    try:
        example = next(EXAMPLE.finditer((ROOT / "docs" / "arrow.md").read_text("utf-8")))
        exec(compile(example[1], "docs/arrow.md", "exec"), {})  # It writes logs/.
        results = ["conform", "run", "--exec", adapter(), "--filter", "kafka/VoteRequest", "--json"]
        for name in ("mine.json", "before.json"):
            Path(name).write_text(CliRunner().invoke(main, results).stdout)
    finally:
        os.chdir(before)
    return scene


def adapter() -> str:
    return shlex.join([sys.executable, "-m", "kraftspec", "adapter"])


def type_it(line: str, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scene)
    for name in ("formatted", "votes", "codecs", "src"):
        shutil.rmtree(name, ignore_errors=True)
    words = [
        WORDS.get(word, word) for word in shlex.split(line.replace("/var/lib/kafka", "controller"))
    ]
    words = [re.sub(r"^0\.\.\d+$", "0..1", word) for word in words]  # Two seeds show it.
    words = [adapter() if word == "./my-adapter" else word for word in words]
    if words[:2] == ["pipeline", "metadata"]:
        words[2] = "data/__cluster_metadata-0"
    result = CliRunner().invoke(main, words, input="")
    told = f"{line}: {result.output[-2000:]}"
    assert result.exception is None or isinstance(result.exception, SystemExit), told
    # Some pages show what a mistake looks like, and data of real nodes may have one.
    assert result.exit_code in (0, EXIT_FINDINGS), told
    assert result.output or "--out" in words or line == "shell -d data", line


@pytest.mark.soak
@pytest.mark.parametrize("line", here(starts_programs=False))
def test_a_command_runs(line: str, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    type_it(line, scene, monkeypatch)


@pytest.mark.kafka
@pytest.mark.peers
@pytest.mark.parametrize("line", here(starts_programs=True))
def test_a_command_that_starts_others_runs(
    line: str, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_it(line, scene, monkeypatch)


def test_the_others_are_run_by_the_tests_that_are_named() -> None:
    named = {test for line, page in lines().items() if (test := elsewhere(line, page))}
    assert named == set(ELSEWHERE.values()), "a test is named for nothing"
    for one, test in ELSEWHERE.items():
        text = (TESTS / test).read_text("utf-8")
        word = Path(one.partition(" ")[0]).stem if ".md" in one else one.split()[:2][-1]
        assert word.lstrip("-") in text, f"{test} runs no {one}"
