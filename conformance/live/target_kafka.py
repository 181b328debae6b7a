"""A controller of Apache Kafka as a target; KAFKA_RELEASE names another release than the newest."""

from __future__ import annotations

import os

from kraftspec.conformance.cluster.archive import make_class_archive
from kraftspec.conformance.cluster.artifacts import RELEASE, java_command
from kraftspec.conformance.live.target_verbs import main

if __name__ == "__main__":
    release = os.environ.get("KAFKA_RELEASE", RELEASE)
    make_class_archive(release)
    log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
    main(
        lambda arguments: java_command("kafka.tools.StorageTool", *arguments, release=release),
        lambda path: java_command("kafka.Kafka", str(path), release=release, options=[log_level]),
    )
