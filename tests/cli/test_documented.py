"""What README and the documentation tell people to type really works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from tests.consoles import COUNTS, typed_again

from kraftspec import pipeline
from kraftspec.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Examples that need the steps before them, or a cluster (test_cluster.py does what they say).
ELSEWHERE = {"docs/schema-evolution.md", "docs/captured.md", "docs/pipeline.md", "docs/clients.md"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Python, and the block right after it, if there is one, with what it prints.
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text("utf-8")):
            if match[1] == language:
                yield page.relative_to(ROOT).as_posix(), match[2]


def commands() -> list[tuple[str, str]]:
    """Every ``kraftspec …`` of a block or of a code span, with its page."""
    lines = []
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            whole = block[2].replace("\\\n", " ")
            typed = re.findall(r"^(?:\$ )?(kraftspec .*)", whole, re.MULTILINE)
            lines += [(name, line) for line in typed if block[1] in ("sh", "console")]
        spans = re.findall(r"`(kraftspec [^`]+)`", BLOCK.sub("", text))
        lines += [(name, span) for span in spans]
    return lines


def pages_with_examples() -> list[str]:
    """The pages whose Python stands alone; each page is one program, block after block."""
    pages = dict.fromkeys(page for page, _ in blocks("python"))
    return [page for page in pages if page not in ELSEWHERE]


@pytest.mark.soak
@pytest.mark.parametrize("page", pages_with_examples())
def test_examples_run(
    page: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    text = (ROOT / page).read_text("utf-8")
    for example in EXAMPLE.finditer(text):
        above = "\n" * text.count("\n", 0, example.start(1))  # Tracebacks name the page's line.
        exec(compile(above + example[1], page, "exec"), names)
        assert capsys.readouterr().out == (example[2] or "")


@pytest.mark.peers
def test_readme_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of README print what it shows, after its Python has run in their directory."""
    text = (ROOT / "README.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in EXAMPLE.finditer(text):
        exec(compile(example[1], "README.md", "exec"), names)
    assert COUNTS.sub("N", typed_again(text, tmp_path)) == COUNTS.sub("N", text)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 125


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    """Those between the pages of docs/ are checked by mkdocs."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    unknown = {
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)
        if target not in targets
    }
    assert unknown == set()


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_exist(page: str, line: str) -> None:
    plain = re.split(r" (?:\||>|2>)|;", line)[0]  # What a shell does with the output is its own.
    words = shlex.split(plain, comments=True)[1:]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(context):
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None
        command = subcommand
    assert command is not main or words == ["--version"], f"{page}: no such command: {line}"
    given, left, order = command.make_parser(click.Context(command)).parse_args(words)
    assert left == [], f"{page}: {line}"
    for parameter in order:
        if isinstance(parameter.type, click.Choice):
            parameter.type_cast_value(context, given[parameter.name])


def _is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def test_modules_that_are_run_exist() -> None:
    named = {
        module
        for page in PAGES
        for module in re.findall(
            r"python -m (kraftspec[\w.]+|benchmarks[\w.]+)", page.read_text("utf-8")
        )
    }
    assert len(named) >= 3
    for module in named:
        spec = find_spec(f"{module}.__main__") if _is_package(module) else find_spec(module)
        assert spec is not None, module


def test_pages_have_examples() -> None:
    assert set(pages_with_examples()) >= {"README.md", "docs/codecs.md", "docs/records.md"}


def test_pages_have_commands() -> None:
    assert len(commands()) > 10
    assert {page for page, _ in commands()} >= {"README.md", "docs/conformance.md"}


def test_the_page_of_the_pipeline_shows_its_names() -> None:
    page = (ROOT / "docs" / "api" / "pipeline.md").read_text("utf-8")
    shown = {name for names in re.findall(r"members: \[(.*)\]", page) for name in names.split(", ")}
    assert pipeline._HOMES.keys() <= shown


def test_the_way_of_a_vote_request() -> None:
    """The functions that docs/design.md names exist where it says."""
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    steps = re.findall(r"^\| \d+ \| `([\w/]+)\.py` `([\w.]+)` \|", text, re.MULTILINE)
    assert len(steps) >= 16
    for module, path in steps:
        place: object = import_module(f"kraftspec.reference.{module.replace('/', '.')}")
        for name in path.split("."):
            place = getattr(place, name)
        assert callable(place)
