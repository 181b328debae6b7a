"""What it costs to import codecs: whole processes, so that nothing is loaded already.

Subtract the row ``msgspec`` from the others: that is the library's own share. The peak memory of
each process stands in ``extra_info`` (KiB).
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

# ru_maxrss would count the parent's pages from before the exec, so the process looks itself up.
MEMORY = "; print(next(x for x in open('/proc/self/status') if x[:5] == 'VmHWM').split()[1])"
PROGRAMS = {
    "msgspec": "import msgspec",
    "one-message": "import msgspec; from kraftspec.generated.kafka import VoteRequest",
    "whole-kafka-set": (
        "import msgspec; from kraftspec.generated import kafka; "
        "[getattr(kafka, name) for name in kafka.CATALOGUE]"
    ),
    "kio-one-message": "from kio.schema.vote.v1.request import VoteRequest",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("program", PROGRAMS)
def test_import(benchmark: Any, program: str) -> None:
    """Start Python, import, end."""
    if program.startswith("kio"):
        pytest.importorskip("kio.serial", reason="peers: pip install kio kafka-python")
    benchmark.group = "import"
    command = [sys.executable, "-c", PROGRAMS[program] + MEMORY]
    done = benchmark(subprocess.run, command, check=True, capture_output=True, text=True)
    benchmark.extra_info["peak_kib"] = int(done.stdout)
    assert int(done.stdout) > 0
