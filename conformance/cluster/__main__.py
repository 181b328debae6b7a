"""A controller and a broker of Apache Kafka to try things with; prints where the broker listens.

``python -m kraftspec.conformance.cluster``. It needs a JDK and Maven. SIGTERM or Ctrl-C ends the
nodes and removes what they have written.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from kraftspec.conformance.cluster import Cluster, ClusterError


def main() -> int:
    """Run until a signal comes."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kraftspec-kafka-") as directory,
            Cluster(Path(directory)) as cluster,
        ):
            sys.stdout.write(f"{cluster.bootstrap()}\n")
            sys.stdout.flush()
            while True:
                signal.pause()
    except KeyboardInterrupt:
        return 0
    except ClusterError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
