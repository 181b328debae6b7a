"""Releases of Kafka as Maven gives them: all their schemas, and one fetch for all comers."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftspec.codegen import releases
from kraftspec.codegen.check import check_paths
from kraftspec.codegen.releases import ReleaseError, jar_names, release_specs

pytestmark = [pytest.mark.kafka, pytest.mark.soak]
KafkaJar = Callable[[str, str], Path]  # (artifact, release), from conftest.py


def names_in(jar: Path) -> set[str]:
    """Return the names of the messages whose schemas a jar holds."""
    with zipfile.ZipFile(jar) as archive:
        schemas = (
            archive.read(name).decode()
            for name in archive.namelist()
            if re.search(r"(^|/)(message|metadata)/\w+\.json$", name)
        )
        matches = (re.search(r'^  "name": "(\w+)"', schema, re.MULTILINE) for schema in schemas)
        return {match[1] for match in matches if match}


def test_several_processes_fetch_a_release_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from kraftspec.codegen import releases\n"
        "releases.cache_directory = lambda: Path(sys.argv[1])\n"
        "real = releases._import\n"
        "releases._import = lambda *a: (print('imported'), real(*a))\n"
        "print(releases.release_specs('3.8.1'))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = "".join(worker.communicate()[0] for worker in workers).splitlines()
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert printed.count("imported") == 1
    (specs,) = map(Path, set(printed) - {"imported"})
    # The jar of brokers still had the records of transactions, the coordinator's had none.
    modules = Counter(path.parent.name for path in specs.glob("*/*.json"))
    assert (modules["core"], "transaction-coordinator" in modules) == (2, False)
    assert {path.name for path in (tmp_path / "releases").glob("*/*")} == {
        "kafka-3.8.1", "kafka-3.8.1.lock",
    }  # fmt: skip
    assert check_paths([specs]).ok


@pytest.mark.parametrize("release", ["2.8.0", "3.4.0", "3.9.1", "4.3.1"])
def test_a_release_has_the_schemas_of_its_jars(release: str, kafka_jar: KafkaJar) -> None:
    specs = release_specs(release)
    stems = {path.stem for path in specs.glob("*/*.json")}
    named = set[str]().union(*(names_in(kafka_jar(jar, release)) for jar in jar_names(release)))
    assert stems == named
    assert check_paths([specs]).ok


def test_jars_before_and_after_schemas_moved_have_none(
    kafka_jar: KafkaJar,
) -> None:
    assert names_in(kafka_jar("kafka_2.13", "3.9.0")) == set()
    assert names_in(kafka_jar("kafka-group-coordinator", "3.4.1")) == set()
    assert names_in(kafka_jar("kafka-transaction-coordinator", "3.8.1")) == set()


def test_a_release_that_maven_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "cache_directory", lambda: tmp_path)
    with pytest.raises(ReleaseError) as caught:
        release_specs("4.0.99")
    assert "Maven has no org.apache.kafka:kafka-clients:jar:4.0.99" in str(caught.value)
    assert "known: 2.8.0 to 2.8.2" in str(caught.value)
    assert not list(tmp_path.glob("releases/*/kafka-4.0.99"))
