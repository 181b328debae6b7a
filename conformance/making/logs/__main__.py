"""``python -m kraftspec.conformance.making.logs [--out DIR]``: make the logs, or tell where."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kraftspec.conformance.cluster import ClusterError
from kraftspec.conformance.making.logs.make import kafka_logs, make_logs


def main() -> int:
    """Make the logs; the exit code is 2 where that failed."""
    parser = argparse.ArgumentParser(
        prog="python -m kraftspec.conformance.making.logs",
        description="Make log directories by a real Apache Kafka broker and real producers.",
    )
    parser.add_argument("--out", type=Path, help="make them there (default: in the cache, once)")
    arguments = parser.parse_args()

    def show_phase(what: str) -> None:
        print(what, file=sys.stderr)

    try:
        if arguments.out is None:
            print(kafka_logs(show_phase))
        elif arguments.out.exists() and any(arguments.out.iterdir()):
            print(f"{arguments.out} is not empty; name a new directory with --out", file=sys.stderr)
            return 2
        else:
            make_logs(arguments.out, show_phase)
            print(arguments.out)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
