"""Dump a metadata log of 256 MB, beside Kafka's own tool: whole commands, from start to end.

Both decode each record and write the same lines, which is compared on a smaller log first; measured
they write to nowhere, so that no disk or reader is in the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from .tools import KAFKA, OURS, dump_s, dump_text, write_log
from .turns import by_turns, directory_on_disk, report_times

SIZE_MIB = 256
COMPARED_MIB = 1

pytestmark = [by_turns, pytest.mark.kafka]


@cache
def race(size_mib: int) -> dict[str, float]:
    """Let both dump a log of that size, after both printed the same for a small one."""
    with directory_on_disk() as directory:
        small = write_log(directory / "small", COMPARED_MIB << 20)
        assert dump_text(OURS, small) == dump_text(KAFKA, small)
        segment = write_log(directory / "log", size_mib << 20)
        return {who: dump_s(who, segment) for who in (OURS, KAFKA)}


@pytest.mark.parametrize("who", [OURS, KAFKA])
def test_dump_log(benchmark: Any, who: str) -> None:
    """Every record of a metadata log as text."""
    benchmark.group = f"command dump-log {SIZE_MIB} MiB"
    size_mib = SIZE_MIB if benchmark.enabled else COMPARED_MIB
    report_times(benchmark, who, [race(size_mib)[who]], bytes=size_mib << 20)
