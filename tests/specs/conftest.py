"""Published Kafka jars, for tests that hold our specs against upstream's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

KafkaJar = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def kafka_jar() -> KafkaJar:
    """Return a function of (artifact, release) to a jar's path; Maven fetches what lacks."""
    repository = Path(os.environ.get("MAVEN_REPOSITORY", Path.home() / ".m2" / "repository"))

    def find(artifact: str, release: str) -> Path:
        home = repository / "org/apache/kafka" / artifact / release
        jar = home / f"{artifact}-{release}.jar"
        if not jar.exists():
            subprocess.run(
                [
                    *("mvn", "-q", "-B", f"-Dmaven.repo.local={repository}", "dependency:get"),
                    *(f"-Dartifact=org.apache.kafka:{artifact}:{release}", "-Dtransitive=false"),
                ],
                check=True,
            )
        return jar

    return find
