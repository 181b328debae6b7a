"""How a worker of Spark's gets its memory: within limits, and without asking for it anew."""

from __future__ import annotations

import ctypes
import platform
import resource
from typing import Final

import pyarrow as pa

# glibc's mallopt: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Windows and columns have 1 to 4 MiB.
_MALLOPT_BYTES: Final = {-1: 64 << 20, -3: 16 << 20}


def keep_freed_memory() -> None:
    """Let the C library keep what a batch frees for the next one; nothing without glibc.

    By default it hands memory of this size back to the system and takes it again for each batch,
    page by page: that was half of a worker's processor time over uncompressed logs.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        for name, size in _MALLOPT_BYTES.items():
            mallopt(name, size)


def allocate_modestly() -> None:
    """Have Arrow allocate from the system's allocator where the address space is limited.

    Its own one (mimalloc) reserves a GiB before it hands out the first byte. That costs nothing,
    but where the limit is lower, and is then half spent on what nobody uses.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        pa.set_memory_pool(pa.system_memory_pool())
