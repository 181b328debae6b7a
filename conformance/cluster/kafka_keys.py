"""Record the properties that a Kafka server defines, for use without Java.

``python -m kraftspec.conformance.cluster.kafka_keys`` queries Kafka's own classes and writes
``reference/node/kafka_keys.json``; ``--check`` only compares the file with them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from kraftspec.conformance.cluster.artifacts import ClusterError, class_path
from kraftspec.reference.node.keys import KEYS_FILE

JAVA_TIMEOUT_S = 120.0


def keys_of_kafka() -> str:
    """Return the text of the file from Kafka's classes; ClusterError if they do not run."""
    source = str(files("kraftspec.conformance.cluster") / "KafkaKeys.java")
    jars = os.pathsep.join(map(str, class_path()))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, source]
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
    )
    if completed.returncode != 0:
        raise ClusterError(f"KafkaKeys.java failed:\n{completed.stderr}")
    return completed.stdout


def main(arguments: list[str]) -> int:
    """Write or check the file; the exit code of a failed check is 1."""
    path = Path(str(KEYS_FILE))
    text = keys_of_kafka()
    if "--check" in arguments:
        if path.read_text("utf-8") == text:
            return 0
        print(f"{path.name} is not what Kafka's classes say: run this without --check")
        return 1
    path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
