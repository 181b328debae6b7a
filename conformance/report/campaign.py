"""Every adapter that this machine can run, held against all vectors, one after the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.registry import AdapterSpec, adapters
from kraftspec.conformance.report import read_results
from kraftspec.conformance.report.matrix import LeftOut

_COMMAND = "from kraftspec.cli import main; main()"
_REASON_CHARS_MAX = 300
_FIRST = ("kafka", "kraftspec", "kraftspec-python")  # What the others are held against.

Progress = Callable[[str, int, int], None]


def run_all(
    directory: Path, progress: Progress | None = None
) -> tuple[list[Results], list[LeftOut]]:
    """Run every adapter, and write ``<name>.json`` of each into ``directory``.

    Each run is a process of its own: an adapter that breaks its run takes no other with it.

    Returns:
        the results, and the adapters of which there are none, with the reason: a tool is missing,
        the adapter does not build, or the harness failed before the first test.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ran: list[Results] = []
    left_out: list[LeftOut] = []
    specs = sorted(adapters(), key=lambda spec: (spec.name not in _FIRST, spec.name))
    for number, spec in enumerate(specs):
        if progress is not None:
            progress(spec.name, number, len(specs))
        out = directory / f"{spec.name}.json"
        out.unlink(missing_ok=True)  # A figure of yesterday is worse than none.
        reason = "; ".join(spec.missing()) or _run(spec, out)
        if reason:
            out.unlink(missing_ok=True)
            left_out.append(LeftOut(spec.name, spec.language, reason))
        else:
            ran.append(read_results(out))
    return ran, left_out


def _run(spec: AdapterSpec, out: Path) -> str:
    """Run one adapter; return why there are no results, or nothing."""
    command = [sys.executable, "-c", _COMMAND, "conform", "run", "--adapter", spec.name, "--json"]
    with out.open("wb") as file:
        done = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
    try:
        read_results(out)
    except ValueError as error:
        said = done.stderr.strip().removeprefix("Error: ") or str(error)
        return said if len(said) <= _REASON_CHARS_MAX else f"{said[:_REASON_CHARS_MAX]}…"
    return ""
