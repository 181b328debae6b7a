"""Commands of other programs than kraftspec in the blocks of the pages: each is run, too.

A ``sh`` block has commands, a ``console`` block what they print, too; no other block has any. What
a target of make runs is asked of make. What is not typed here, is by the test that OTHERS names.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.long_commands import LONG
from tests.cli.test_documented import BLOCK, PAGES, ROOT
from tests.cli.test_documented_run import ELSEWHERE as TYPED
from tests.cli.test_documented_run import PROPERTIES, WORDS
from tests.consoles import all_commands

TESTS = ROOT / "tests"
CLUSTER_ID = WORDS["CLUSTER_ID"]
CI = ("../.ci/run", "make test-all")
# How a command begins, or a page and the language of its blocks → the test that runs it, and the
# text in it that shows that.
OTHERS = {
    "make setup": CI,  # What each target begins with.
    "make test": CI,  # It begins with `make test`.
    "kraftspec demo": ("cli/test_conform.py", 'run("demo")'),
    "KRAFTSPEC_PURE=1 kraftspec --version": ("cli/test_start.py", 'KRAFTSPEC_PURE="1"'),
    "FIRST=": ("cli/test_documented_shell.py", '("FIRST=", "SCRAM=")'),
    "SCRAM=": ("cli/test_documented_shell.py", '("FIRST=", "SCRAM=")'),
    "docs/packages.md sh": ("conformance/artefacts/test_artefacts.py", "lines(found)"),
    "pytest -n auto": ("../tox.ini", "pytest -q -n auto -m"),  # CI runs it.
    "docs/shell.md console": ("cli/test_shell.py", 'words[:2] == ["kraftspec", "shell"]'),
    "pip install": ("packaging_smoke.py", "pip install"),
    "python3 -m http.server": ("codegen/test_explorer.py", '"http.server", "--directory"'),
    "python -m kraftspec.model": ("model/test_model.py", "main, ["),
    "python -m kraftspec.simulation.exhaustive": (
        "simulation/exhaustive/test_exhaustive.py", 'main, [name, "--bug", bug]'
    ),
    "python -m kraftspec.simulation.compiled": (
        "simulation/test_compiled.py", '"-m", "kraftspec.simulation.compiled"'
    ),
    "python -m kraftspec.simulation.java_example": (
        "simulation/test_java_example.py", '"-m", "kraftspec.simulation.java_example", str(path)'
    ),
    "cd example": ("simulation/test_java_example.py", "cwd=folder"),
    "mvn -q compile exec:java": ("simulation/test_java_example.py", '"compile", "exec:java"'),
    "python -m kraftspec.codegen.history": ("specs/test_release_history.py", "program.update("),
    "python -m kraftspec.conformance.making.release": (
        "conformance/making/test_release.py", "work.run()"
    ),
    "python -m kraftspec.interop.wrecks.matrix": ("interop/test_interop_matrix.py", '"--show")'),
    "python -m kraftspec.interop.wrecks": ("interop/test_interop_wrecks.py", "main, "),
    "python -m benchmarks.run": ("benchmarks/test_run.py", '"benchmarks.run", "--quick"'),
    "python -m benchmarks.check": ("benchmarks/test_run.py", '"-m", "benchmarks.check"'),
    "python -m benchmarks.pipeline": ("cli/long_commands.py", "make bench-pipeline"),
    "python tests/campaigns.py": ("test_campaigns.py", "main, ["),
    "tox run -e": ("../Makefile", "tox run -e full"),  # CI runs it.
    "tshark -r": ("codegen/wireshark/test_connections.py", "lua_script:kraftspec.lua -O kraftspec"),
    "kafka-": ("interop/test_interop_pages.py", "kafka-metadata-quorum.sh"),
    "PYSPARK_PYTHON=./job/bin/python spark-submit": (
        "pipeline/test_spark_cluster.py", "def test_spark_submit"
    ),
}  # fmt: skip
# What no test runs → what the page says of it.
UNTRIED = {
    "wireshark": "Tests run tshark, not Wireshark",
    "spark-submit --master k8s://": "and Kubernetes have not been tried",
}
FIRST_WORDS = {"kraftspec", "pip", "python", "python3", "make", "git", "curl", "docker", "uv"}


def plain(command: str) -> str:
    """A command without the comment behind it, and without the directory of its program."""
    return re.sub(r"\s+#.*", "", command).removeprefix(".venv/bin/").strip()


def made(command: str) -> str:
    """What a target of make runs: its last line, as it would be typed."""
    words = [*shlex.split(command), "-n", "-o", ".venv/.ready", "--no-print-directory"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    line = shown.strip().splitlines()[-1]
    return re.sub(r"^nice -n \d+ ", "", line).removeprefix(".venv/bin/")


def commands() -> dict[str, tuple[str, str]]:
    """Every command but those of kraftspec alone → its page, and the language of the block."""
    found: dict[str, tuple[str, str]] = {}
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for language, command in all_commands(page.read_text("utf-8")):
            if not command.startswith("kraftspec "):
                found.setdefault(plain(command), (name, language))
    return found


def named(command: str, page: str) -> str | None:
    """How the entry of OTHERS begins that the command has, if it has one."""
    if page in OTHERS:
        return page
    begun = [one for one in OTHERS if command.startswith(one)]
    if not begun and command.startswith("make "):
        return named(made(command), page)
    return max(begun, key=len) if begun else None


def test_each_is_run_somewhere() -> None:
    used: set[str] = set()
    left = []
    for command, (page, language) in commands().items():
        blocks = f"{page} {language}"
        if command in HERE or command in LONG or blocks in TYPED:
            continue
        text = (ROOT / page).read_text("utf-8")
        untried = [one for one in UNTRIED if command.startswith(one)]
        entry = named(command, blocks)
        if entry is not None:
            used.add(entry)
        elif not untried or UNTRIED[untried[0]] not in text:
            left.append((page, command))
    assert left == [], "type it in HERE, or name the test that runs it in OTHERS"
    assert used == OTHERS.keys(), "an entry is of no command"


@pytest.mark.parametrize("one", OTHERS)
def test_the_test_that_is_named_runs_it(one: str) -> None:
    place, text = OTHERS[one]
    assert text in (TESTS / place).read_text("utf-8"), f"{place} does not run {one}"


def test_what_is_typed_elsewhere_is_on_a_page() -> None:
    found = commands()
    assert [one for one in [*HERE, *LONG] if one not in found] == []


def test_only_blocks_of_commands_have_commands() -> None:
    """Else they would be run by nobody."""
    programs = FIRST_WORDS | {
        command.split()[0] for command in commands() if re.match(r"[\w-]+(\.sh)?\s", command)
    }
    first = re.compile(r"^(?:\$ |[A-Z_]+=\S+ )*(?:\.venv/bin/)?(\S+) \S", re.MULTILINE)
    programs.remove("node")  # It begins sentences, too.
    for page in PAGES:
        for language, block in BLOCK.findall(page.read_text("utf-8")):
            if language in ("", "text"):
                assert not programs & set(first.findall(block)), (
                    f"{page}: a block is not sh: {block}"
                )
                assert not re.search(r"^\$ ", block, re.MULTILINE), f"{page}: not console: {block}"


# ---- typed here --------------------------------------------------------------------------------

RULES = "\n".join([
    "cat > rules.yaml <<END",
    "rules:",
    "  - {api: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 2}",
    "END",
])  # fmt: skip
COPIED = "test -f {}/VoteRequest.json -a -f {}/VoteResponse.json"
LINKED = f"ln -s {shlex.quote(str(ROOT / 'specs'))} . && mkdir old"
# What is typed → what has to be there before it, and a command that ends with 0 if it was done.
HERE = {
    "mkfifo live.pcap": ("", "test -p live.pcap"),
    ". .venv/bin/activate": (
        f"{shlex.quote(sys.executable)} -m venv --without-pip .venv",
        '[ "$(command -v python)" = "$PWD/.venv/bin/python" ]',
    ),
    "pytest -n 0 tests/reference/raft/test_votes.py -k pre_vote": (f"cd {ROOT}", "true"),
    "mkdir old new": ("", "test -d old -a -d new"),
    "cp specs/kafka/clients/VoteRe*.json old": (LINKED, COPIED.format("old", "old")),
    "cp old/*.json new": (
        f"{LINKED} new && cp specs/kafka/clients/VoteRe*.json old", COPIED.format("new", "new")
    ),
    RULES: (
        "",
        'python -c "from kraftspec.proxy.rule_files import *; from kraftspec.proxy.frame import *;'
        "from kraftspec.generated import kafka; assert "
        "read_rules(Path('rules.yaml'), apis_of(kafka)).rules[0].times == 2\"",
    ),
}  # fmt: skip


def shell(script: str, where: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = ["bash", "-e", "-c", script]
    subprocess.run(words, cwd=where, env={**own, "PATH": path}, check=True)


def test_the_first_voters_are_formatted_as_the_page_types_it(tmp_path: Path) -> None:
    """The lines with variables of the shell, and the command that uses them."""
    page = (ROOT / "docs" / "node-security.md").read_text("utf-8")
    typed = [
        line
        for _, line in all_commands(page)
        if line.startswith(("FIRST=", "SCRAM=")) or "--initial-controllers" in line
    ]
    assert len(typed) == 3
    script = re.sub(r"DIRECTORY-(\d)", lambda it: f"{it[1] * 21}A", "\n".join(typed))
    (tmp_path / "node-1.properties").write_text(
        PROPERTIES.replace("localhost", "host-1").replace("formatted", str(tmp_path / "made"))
    )
    shell(f"{script.replace(' ID ', f' {CLUSTER_ID} ')}", tmp_path)
    assert CLUSTER_ID in (tmp_path / "made" / "meta.properties").read_text("utf-8")


@pytest.mark.soak
@pytest.mark.parametrize("command", HERE)
def test_a_command_does_what_the_page_says(command: str, tmp_path: Path) -> None:
    before, after = HERE[command]
    shell(f"{before}\n{command}\n{after}", tmp_path)
