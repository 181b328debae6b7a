"""`kraftspec quorum recover` as the cure of a wreck: what an operator types, and then does."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftspec.conformance.cluster.cluster import CONTROLLER
from kraftspec.conformance.cluster.node import HOST
from kraftspec.interop.wrecks.judge import Changes
from kraftspec.interop.wrecks.manifest import Manifest

COMMAND_S = 300.0
REFUSED = 1
_STATIC = re.compile(r"controller\.quorum\.voters=(\S+)")
_AWAY = re.compile(r"Stop node \d+, and move (\S+) out of ")


class CureError(Exception):
    """The command did something else than it says."""


class Cured(msgspec.Struct):
    """What the command printed: its JSON, of the dry run and then in earnest."""

    planned: dict[str, Any]
    written: dict[str, Any]


def options_of(home: Path, manifest: Manifest) -> list[str]:
    """Return the options for a wreck; an operator knows where the nodes listen."""
    options = ["--keep", ",".join(map(str, manifest.keep))]
    for option in manifest.options:
        if option == "--endpoint":
            for facts in map(manifest.node, manifest.keep):
                options += [option, f"{facts.id}={CONTROLLER}://{HOST}:{facts.port}"]
        elif option == "--source":
            options += [option, str(home / manifest.node(manifest.keep[0]).name / "data-0")]
        elif option == "--pad-to":
            options += [option, str(max(facts.log_end for facts in manifest.nodes))]
        else:
            options.append(option)
    return options


def recover(
    home: Path, manifest: Manifest, *arguments: str, program: Sequence[str] = ("kraftspec",)
) -> tuple[int, dict[str, Any]]:
    """Type the command; return its exit code and its JSON, which one that is killed has not."""
    paths = [str(home / facts.name / "data-0") for facts in manifest.given()]
    command = [sys.executable, "-m", *program, "quorum", "recover", "--json"]
    done = subprocess.run(
        [*command, *options_of(home, manifest), *arguments, *paths],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode == -signal.SIGKILL:
        return done.returncode, {}
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError as error:
        raise CureError(f"exit code {done.returncode}: {done.stdout}{done.stderr}") from error


def cure(home: Path, manifest: Manifest, cured: Cured | None = None) -> Changes:
    """Recover a wreck, and do what the command says; return the properties that it asks for."""
    code, planned = recover(home, manifest)
    if code:
        raise CureError(f"refused: {planned.get('refusals')}")
    deaths = _killed_at_each_change(home, manifest) if manifest.is_killed else 0
    code, written = recover(home, manifest, "--write", "--backup", str(home / "backup"))
    if deaths:
        if code or written["changes"]:
            raise CureError(f"after {deaths} deaths and an end: exit code {code}, {written}")
        written = planned
    elif code or not written["written"] or written["batch"] != planned["batch"]:
        raise CureError(f"exit code {code}; planned {planned}, written {written}")
    code, again = recover(home, manifest, "--write", "--backup", str(home / "another"))
    codes = {one["code"] for one in again.get("refusals", [])}
    done = {"could-elect"}
    if "--accept-loss" in manifest.options:
        done.add("two-committed-branches")  # The brokers' logs still have what was let go.
    if again["changes"] or codes - done:
        raise CureError(f"a second time it would change {again['changes']}; {codes}")
    if cured is not None:
        cured.planned, cured.written = planned, written
    steps = written["afterwards"]
    for step in steps:
        if (away := _AWAY.match(step)) is not None:
            log = Path(away[1])
            log.rename(home / f"{log.parent.parent.name}-{log.name}")
    static = [match[1] for step in steps if (match := _STATIC.search(step)) is not None]
    return {id: {"controller.quorum.voters": text} for id in manifest.keep for text in static}


def _killed_at_each_change(home: Path, manifest: Manifest) -> int:
    """Type the command until it ends, killed amid its first change, its second…; count these."""
    for number in itertools.count(1):
        program = ("kraftspec.interop.wrecks.dying", str(number))
        backup = str(home / f"backup-{number}")
        code, output = recover(home, manifest, "--write", "--backup", backup, program=program)
        if not code:
            return number - 1
        if code != -signal.SIGKILL:
            raise CureError(f"after {number - 1} deaths: exit code {code}, {output}")
    raise AssertionError


def is_refused(home: Path, manifest: Manifest, running: Collection[int] = ()) -> list[str]:
    """Return what is wrong where a wreck must be refused: nothing may be written.

    Nodes that are ``running`` write, and their directories may be refused for that alone.
    """
    still = [facts.name for facts in manifest.nodes if facts.id not in running]
    before = _contents(home, still)
    code, output = recover(home, manifest, "--write", "--backup", str(home / "backup"))
    codes = {one["code"] for one in output.get("refusals", [])}
    due = {manifest.expect, *(["running"] if running else [])}
    problems = []
    if code != REFUSED or not codes & due or codes - due - set(manifest.beside):
        problems.append(f"exit code {code}, refusals {sorted(codes)}: not {manifest.expect}")
    if _contents(home, still) != before or (home / "backup").exists():
        problems.append("it was refused, and files were changed")
    return problems


def _contents(home: Path, names: Iterable[str]) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for name in names
        for path in sorted((home / name).rglob("*"))
        if path.is_file() and path.name != ".lock" and "__cluster_metadata-0" in path.parts
    }
