"""What malloc keeps of freed memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Each block is larger than those before: malloc as it is maps each of them anew.
FAULTS = """
import resource, sys
from kraftspec.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for mib in range(1, 17):
    b"x" * (mib << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="without glibc nothing is set, and so nothing differs"
)
def test_freed_memory_is_used_again() -> None:
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", FAULTS, how], timeout=600))
        for how in ("kept", "as it is")
    }
    assert faults["kept"] * 4 < faults["as it is"], faults
