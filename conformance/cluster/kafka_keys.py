"""Write down the properties that a Kafka server defines, for a reader that has no Java.

``python -m kraftspec.conformance.cluster.kafka_keys`` asks Kafka's own classes and writes
``reference/node/kafka_keys.json``; ``--check`` only says whether the file is what they say.
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
    """Return the file as Kafka's classes have it; ClusterError where they do not run."""
    source = str(files("kraftspec.conformance.cluster") / "KafkaKeys.java")
    jars = os.pathsep.join(map(str, class_path()))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, source]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ClusterError(f"KafkaKeys.java failed:\n{done.stderr}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Write the file, or check it; the exit code is 1 where a check finds another file."""
    path = Path(str(KEYS_FILE))
    made = keys_of_kafka()
    if "--check" in arguments:
        if path.read_text("utf-8") == made:
            return 0
        print(f"{path.name} is not what Kafka's classes say: run this without --check")
        return 1
    path.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
