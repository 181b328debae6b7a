"""``python -m benchmarks.pipeline.decode DIR COLUMN…``: decode to Arrow without Spark, timed.

A process of its own, so that its processor time is that of the decoder and of nothing else.
Starting Python and importing are left out, as the start of the JVM is of the peer's time.
"""

from __future__ import annotations

import json
import sys
import time

from kraftspec.pipeline import scan


def main() -> None:
    """Print rows, wall and processor seconds."""
    path, *columns = sys.argv[1:]
    reader = scan(path, columns=columns, mode="FAILFAST")
    rows = 0
    begin, cpu_begin = time.perf_counter(), time.process_time()
    for batch in reader:
        rows += batch.num_rows
    result = {
        "rows": rows,
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu_begin,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
