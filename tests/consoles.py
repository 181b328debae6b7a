"""Pages with ``console`` blocks: their commands are typed again, and the outputs compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\d+\.\d s$", re.MULTILINE)
# How many tests there are is for the page's writer to bring up to date, and no reason to fail.
COUNTS = re.compile(r"\d+(?= (?:vectors|passed|skipped))|(?<=^skipped )\d+", re.MULTILINE)
COMMAND_S = 1_800.0
ANY = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"<<-?'?(\w+)'?")


def commands(block: str) -> list[str]:
    """Return what is typed in a block: lines after a prompt, and those that continue them."""
    typed: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            typed.append(line[2:])
        elif line.startswith("> "):
            typed[-1] += f"\n{line[2:]}"
    return typed


def lines(block: str) -> list[str]:
    """Return the commands of a block that shows nothing else: continued lines are one."""
    typed: list[str] = []
    end: str | None = None  # Of a text that is typed into the command.
    for line in block.replace("\\\n", " ").splitlines():
        if end is not None:
            typed[-1] += f"\n{line}"
            end = None if line == end else end
        elif line.strip():
            typed.append(line)
            found = HERE.search(line)
            end = found and found[1]
    return typed


def all_commands(page: str) -> list[tuple[str, str]]:
    """Return what a page has to type: the language of the block, ``sh`` or ``console``, and that.

    A ``sh`` block has commands and nothing else, a ``console`` block what they print, too.
    """
    read = {"sh": lines, "console": commands}
    return [
        (block[1], command)
        for block in ANY.finditer(page)
        if block[1] in read
        for command in read[block[1]](block[2])
    ]


def session(block: str, directory: Path) -> str:
    """Type a block's commands, and return the block as the terminal shows it then."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A pytest that is typed is nobody's worker: a worker measures nothing.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    shown = ""
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=directory,
            env={**own, "PATH": path, "COLUMNS": "80"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        typed = command.replace("\n", "\n> ")
        output = re.sub(r" +$", "", SECONDS.sub("0.3 s", done.stdout), flags=re.MULTILINE)
        shown += f"$ {typed}\n{output}"
    return shown


def typed_again(page: str, directory: Path) -> str:
    """Return the page with what its commands print now."""
    return BLOCK.sub(lambda block: session(block[0], directory), page)
