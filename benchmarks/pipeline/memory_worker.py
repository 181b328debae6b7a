"""``python -m benchmarks.pipeline.memory_worker SEGMENT``: read one within 512 MiB in total.

The limit is of the address space (``RLIMIT_AS``), as ``spark.executor.pyspark.memory`` sets it for
Spark's Python workers: interpreter, libraries and what is mapped count too.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

LIMIT_BYTES = 512 << 20
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type")


def main() -> None:
    """Print rows, the bytes of their values, and the most memory that was resident."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    import pyarrow.compute as pc  # noqa: PLC0415 - within the limit

    from kraftspec.pipeline import discover, plan_splits, read_split  # noqa: PLC0415 - likewise

    begin = _resident_bytes()
    rows = value_bytes = 0
    for split in plan_splits(discover(sys.argv[1])):
        for batch in read_split(split, columns=COLUMNS, mode="FAILFAST"):
            rows += batch.num_rows
            value_bytes += pc.sum(pc.binary_length(batch.column(1))).as_py()
    result = {
        "rows": rows,
        "value_bytes": value_bytes,
        "begin_bytes": begin,
        "peak_bytes": _resident_bytes(),
        "limit_bytes": LIMIT_BYTES,
    }
    print(json.dumps(result))


def _resident_bytes() -> int:
    """The most that was resident so far. What getrusage says may be of the process before exec."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


if __name__ == "__main__":
    main()
