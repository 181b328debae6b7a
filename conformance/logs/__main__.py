"""``python -m kraftspec.conformance.logs [--out DIR]``: make the logs, or say where they are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kraftspec.conformance.cluster import ClusterError
from kraftspec.conformance.logs.make import kafka_logs, make_logs


def main() -> int:
    """Make the logs; the exit code is 2 where that failed."""
    parser = argparse.ArgumentParser(
        prog="python -m kraftspec.conformance.logs",
        description="Make log directories by a real Apache Kafka broker and real producers.",
    )
    parser.add_argument("--out", type=Path, help="make them there (default: in the cache, once)")
    given = parser.parse_args()

    def heard(what: str) -> None:
        print(what, file=sys.stderr)

    try:
        if given.out is None:
            print(kafka_logs(heard))
        elif given.out.exists() and any(given.out.iterdir()):
            print(f"{given.out} is not empty; name a new directory with --out", file=sys.stderr)
            return 2
        else:
            make_logs(given.out, heard)
            print(given.out)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
