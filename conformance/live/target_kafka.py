"""A controller of Apache Kafka as a target; KAFKA_RELEASE names another release than the newest."""

from __future__ import annotations

import os
from pathlib import Path

from kraftspec.conformance.live.target_verbs import become, main

LOG_LEVEL = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"


def java(name: str, *arguments: str, options: tuple[str, ...] = ()) -> None:
    """Run one of Kafka's classes in the place of this process."""
    # The other verbs start sooner without them.
    from kraftspec.conformance.cluster.archive import make_class_archive  # noqa: PLC0415
    from kraftspec.conformance.cluster.artifacts import RELEASE, java_command  # noqa: PLC0415

    release = os.environ.get("KAFKA_RELEASE", RELEASE)
    make_class_archive(release)
    become(java_command(name, *arguments, release=release, options=list(options)))


def node(path: Path) -> None:
    """Run the controller until it ends."""
    java("kafka.Kafka", str(path), options=(LOG_LEVEL,))


if __name__ == "__main__":
    main(lambda arguments: java("kafka.tools.StorageTool", *arguments), node)
