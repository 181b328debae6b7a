"""What README and the documentation tell people to type really works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kraftspec.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Examples that need the steps before them, or a cluster (test_cluster.py does what they say).
ELSEWHERE = {"docs/schema-evolution.md", "docs/captured.md", "docs/pipeline.md"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Python, and the block right after it, if there is one, with what it prints.
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text("utf-8")):
            if match[1] == language:
                yield page.relative_to(ROOT).as_posix(), match[2]


def commands() -> list[tuple[str, str]]:
    """Every ``kraftspec …`` of a plain block or of a code span, with its page."""
    found = [
        (page, line)
        for page, block in blocks("")
        for line in block.splitlines()
        if line.startswith("kraftspec ")
    ]
    for page in PAGES:
        text = BLOCK.sub("", page.read_text("utf-8"))
        spans = re.findall(r"`(kraftspec [^`]+)`", text)
        found += [(page.relative_to(ROOT).as_posix(), span) for span in spans]
    return found


def pages_with_examples() -> list[str]:
    """The pages whose Python stands alone; each page is one program, block after block."""
    pages = dict.fromkeys(page for page, _ in blocks("python"))
    return [page for page in pages if page not in ELSEWHERE]


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


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_exist(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and words[0] in command.list_commands(context):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    assert command is not main or words == ["--version"], f"{page}: no such command: {line}"
    options = {name for parameter in command.params for name in parameter.opts}
    unknown = [word for word in words if word.startswith("--") and word not in options]
    assert unknown == [], f"{page}: {line}"


def test_pages_have_examples() -> None:
    assert set(pages_with_examples()) >= {"README.md", "docs/codecs.md", "docs/records.md"}


def test_pages_have_commands() -> None:
    assert len(commands()) > 10
    assert {page for page, _ in commands()} >= {"README.md", "docs/conformance.md"}
