"""Run all vectors against every adapter that this machine can run, one after the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kraftspec.conformance.adapters.registry import AdapterSpec, adapters
from kraftspec.conformance.raw.results import Results
from kraftspec.conformance.report import read_results
from kraftspec.conformance.report.matrix import LeftOut

_COMMAND = "from kraftspec.cli import main; main()"
_REASON_CHARS_MAX = 300
# The references for the others.
_FIRST = ("kafka", "kraftspec", "kraftspec-python", "kraftspec-typescript")

Progress = Callable[[str, int, int], None]


def run_all(
    directory: Path, progress: Progress | None = None
) -> tuple[list[Results], list[LeftOut]]:
    """Run every adapter, and write its results to ``<name>.json`` in ``directory``.

    Each run is a process of its own, so that a broken run does not affect the others.

    Returns:
        the results, and the adapters without results, with the reason: a tool is missing, the
        adapter does not build, or the harness failed before the first test.
    """
    directory.mkdir(parents=True, exist_ok=True)
    ran: list[Results] = []
    left_out: list[LeftOut] = []
    specs = sorted(adapters(), key=lambda spec: (spec.name not in _FIRST, spec.name))
    for number, spec in enumerate(specs):
        if progress is not None:
            progress(spec.name, number, len(specs))
        out = directory / f"{spec.name}.json"
        out.unlink(missing_ok=True)  # Old results must not remain.
        reason = "; ".join(spec.missing()) or _run(spec, out)
        if reason:
            out.unlink(missing_ok=True)
            left_out.append(LeftOut(spec.name, spec.language, reason))
        else:
            ran.append(read_results(out))
    return ran, left_out


def _run(spec: AdapterSpec, out: Path) -> str:
    """Run one adapter; return why there are no results, or an empty text."""
    command = [sys.executable, "-c", _COMMAND, "conform", "run", "--adapter", spec.name, "--json"]
    with out.open("wb") as file:
        completed = subprocess.run(
            command, stdout=file, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
    try:
        read_results(out)
    except ValueError as error:
        reason = completed.stderr.strip().removeprefix("Error: ") or str(error)
        return reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[:_REASON_CHARS_MAX]}…"
    return ""
