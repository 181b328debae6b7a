"""Read a log as a Spark worker does, within the memory that Spark would give it.

    python read_in_little_memory.py PATH MEBIBYTES

prints how many rows there are, and the most memory that the process had, in MiB. Spark sets the
same limit (``RLIMIT_AS``) for ``spark.executor.pyspark.memory``, and as early.
"""

from __future__ import annotations

import resource
import sys
from typing import Any


def main() -> None:
    limit = int(sys.argv[2]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from kraftspec.pipeline.source.data_source import KafkaLog  # noqa: PLC0415 - limited before

    source = KafkaLog({"path": sys.argv[1]})
    reader: Any = source.reader(source.schema())
    rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
    print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


if __name__ == "__main__":
    main()
