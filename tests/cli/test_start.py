"""Starting the command: what it loads, and how it is found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from kraftspec import __version__
from kraftspec.cli import main
from kraftspec.cli.conform import conform
from kraftspec.extras import EXTRAS
from kraftspec.fastpath import native

COMMANDS = (
    "adapter", "completion", "conform", "demo", "dump-log", "generate", "node", "pipeline",
    "proxy", "quorum", "shell", "simulate", "spec", "storage",
)  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]


def run_python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    return done.stdout


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["spec", "--help"], ["quorum", "describe", "--help"]]
)
def test_starting_loads_no_room(arguments: list[str]) -> None:
    loaded = json.loads(
        run_python(
            "import json, sys\n"
            "from kraftspec.cli import main\n"
            f"main({arguments!r}, standalone_mode=False)\n"
            "print('\\f' + json.dumps(sorted(sys.modules)))"
        ).split("\f")[1]
    )
    heavy = {"asyncio", "jinja2", "jsonschema", "msgspec", "rich", "watchfiles"}
    assert heavy.isdisjoint(loaded)
    rooms = (
        "codegen",
        "conformance",
        "fastpath",
        "generated",
        "interop",
        "pipeline",
        "reference",
        "simulation",
        "specs",
    )
    # Which codec runs is asked of the one that would.
    probed = {"kraftspec.fastpath", "kraftspec.fastpath.native", "kraftspec.fastpath._engine"}
    needless = set(loaded) - (probed if arguments == ["--version"] else set())
    assert [
        name for name in needless if name.startswith(tuple(f"kraftspec.{r}" for r in rooms))
    ] == []


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"kraftspec {__version__}, codec: {native.describe()}\n"
    pure = run_python("from kraftspec.cli import main; main(['--version'])", KRAFTSPEC_PURE="1")
    assert pure == f"kraftspec {__version__}, codec: pure Python (KRAFTSPEC_PURE is set)\n"


def test_python_dash_m_is_the_command() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "kraftspec", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout == f"kraftspec {__version__}, codec: {native.describe()}\n"


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.split("Commands:")[1].splitlines() if line]
    assert tuple(listed) == COMMANDS


def test_an_unknown_command_is_wrong_usage() -> None:
    result = CliRunner().invoke(main, ["speck"])
    assert result.exit_code == 2
    assert "No such command 'speck'" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_KRAFTSPEC_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kraftspec sp", {"spec"}),
        ("kraftspec spec show VoteReq", {"VoteRequest"}),
        ("kraftspec spec show --set kip-853 Vot", {"VoteRequest", "VoteResponse"}),
        ("kraftspec spec show --set kip-8", {"kip-853"}),
        ("kraftspec generate --set kip-8", {"kip-853"}),
        ("kraftspec generate --set kafka --set kip-", {"kip-595", "kip-853", "kip-996"}),
        ("kraftspec conform make --set kaf", {"kafka"}),
    ],
)
def test_the_shell_completes(words: str, expected: set[str]) -> None:
    result = CliRunner().invoke(
        main,
        [],
        prog_name="kraftspec",
        env={
            "_KRAFTSPEC_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
    )
    assert expected <= {line.partition(",")[2] for line in result.stdout.splitlines()}


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    # A package keeps its submodules as attributes: they must come back, or later tests see two.
    for module in [name for name in sys.modules if name.startswith("kraftspec.codegen")]:
        package, _, child = module.rpartition(".")
        if hasattr(sys.modules.get(package), child):
            monkeypatch.delattr(sys.modules[package], child)
        monkeypatch.delitem(sys.modules, module)
    result = CliRunner().invoke(main, ["generate", "--check"])
    assert result.exit_code == 3, "1 would say that a file is out of date"
    assert result.stderr == (
        "Error: this needs jinja2, which is not installed: pip install 'kraftspec[codegen]'\n"
    )


@pytest.mark.parametrize("package", ["ruamel", "jinja2", "markupsafe", "jsonschema"])
def test_conform_names_its_own_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ModuleNotFoundError("missing", name=f"{package}.part")
    monkeypatch.setattr(conform.commands["doctor"], "callback", Mock(side_effect=missing))
    result = CliRunner().invoke(main, ["conform", "doctor"])
    assert result.exit_code == 3
    assert result.stderr.endswith("not installed: pip install 'kraftspec[conformance]'\n")


def test_what_no_base_install_brings_has_its_extra() -> None:
    """Programs of adapters and clients run in environments of their own; pytest runs its plugin.

    py4j comes with pyspark; `conform capture` asks for its clients before it begins.
    """
    base = {"click", "kraftspec", "msgspec", "rich", "typing_extensions"}
    base |= {"pytest", "py4j", "kafka", "aiokafka"}
    elsewhere = re.compile(r"/(adapters|clients|drivers|evidence|template)/[^/]+/")
    imported = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*$)", re.MULTILINE)
    package = ROOT / "src/kraftspec"
    paths = [*package.glob("*.py")]
    for room in package.iterdir():
        paths += room.resolve().rglob("*.py") if room.name != "generated" else ()
    found = {
        one or other
        for path in paths
        if not elsewhere.search(str(path))
        for one, other in imported.findall(path.read_text("utf-8"))
    }
    assert found >= EXTRAS.keys() - {"kraftspec_vectors", "fsspec"}, "these by import_module"
    assert found - base - sys.stdlib_module_names - EXTRAS.keys() == set()


@pytest.mark.parametrize(
    ("entry", "package", "extra"),
    [
        ("from kraftspec.pipeline import scan", "pyarrow", "arrow"),
        ("from kraftspec.pipeline.metadata import records", "pyarrow", "arrow"),
        ("from kraftspec.pipeline.messages import decode_message", "pyarrow", "arrow"),
        ("from kraftspec.pipeline.audit import audit", "pyarrow", "arrow"),
        ("from kraftspec.pipeline.session import session", "pyspark", "spark"),
        ("from kraftspec.pipeline.messages.spark import split_requests", "pyspark", "spark"),
    ],
)
def test_a_missing_extra_is_named_in_python(entry: str, package: str, extra: str) -> None:
    told = run_python(
        f"import sys; sys.modules['{package}'] = None\n"
        f"try: {entry}\nexcept ModuleNotFoundError as error: print(error)"
    )
    wanted = rf"this needs {package}[\w.]*, which is not installed: pip install '(.*)'\n"
    assert (match := re.fullmatch(wanted, told)), told
    assert match[1] == f"kraftspec[{extra}]"


def test_a_missing_module_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kraftspec.cli.demo", None)
    result = CliRunner().invoke(main, ["demo"])
    assert isinstance(result.exception, ModuleNotFoundError)


def test_no_color_is_respected() -> None:
    command = ["spec", "show", "VoteRequest", "--version", "0"]
    assert "\x1b[" in CliRunner().invoke(main, command, color=True).stdout
    env = {"NO_COLOR": "1"}
    assert "\x1b[" not in CliRunner().invoke(main, command, color=True, env=env).stdout


def test_the_named_extras_exist_and_bring_what_is_missing() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    page = (ROOT / "docs/install.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(extras)
    for module, extra in EXTRAS.items():
        known = {"ruamel": "ruamel.yaml", "markupsafe": "jinja2"}  # jinja2 brings it.
        package = known.get(module, module.replace("_", "-"))
        assert any(each.startswith(package) for each in extras[extra]), module


def test_hooks_of_pre_commit_are_commands_with_their_packages() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    codegen = extras["project"]["optional-dependencies"]["codegen"]
    hooks = YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")
    assert [hook["entry"] for hook in hooks] == [
        "kraftspec spec check",
        "kraftspec generate --check",
    ]
    for hook in hooks:
        assert hook["additional_dependencies"] == codegen
        result = CliRunner().invoke(main, [*hook["entry"].split()[1:], "--help"])
        assert result.exit_code == 0
