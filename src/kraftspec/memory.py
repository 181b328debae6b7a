"""Memory that malloc keeps, where the C library is glibc."""

from __future__ import annotations

import ctypes
import platform
from typing import Final

# Of <malloc.h>: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. An answer to Fetch, or a batch of columns,
# has up to 8 MiB.
_OPTIONS: Final = {-1: 64 << 20, -3: 16 << 20}


def keep_freed_memory() -> None:
    """Let malloc keep up to 64 MiB of freed memory; it does nothing without glibc.

    Without this, malloc returns blocks of some hundred KiB to the system, which clears every page
    again for the next: a fifth of the time of a busy leader, half of that of a worker of Spark.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        for name, size_bytes in _OPTIONS.items():
            mallopt(name, size_bytes)
