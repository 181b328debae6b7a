"""What ``spark.executor.pyspark.memory`` asks of a worker, whose address space it limits."""

from __future__ import annotations

import resource

import pyarrow as pa


def allocate_modestly() -> None:
    """Have Arrow allocate from the system's allocator where the address space is limited.

    Its own one (mimalloc) reserves a GiB before it hands out the first byte. That costs nothing,
    but where the limit is lower, and is then half spent on what nobody uses.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        pa.set_memory_pool(pa.system_memory_pool())
