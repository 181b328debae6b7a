"""``kafkalog`` on a standalone cluster of the pip package: a master and two workers on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kraftspec.conformance.cluster.node import free_port
from kraftspec.pipeline.source.reports import read_report

from .campaigns import FUZZ, UNIT_CASES, UNITS, WAIT_S, check_all, processes, results, started, wait
from .segment_files import batch, write_segment

PAGE = (Path(__file__).resolve().parents[2] / "docs/pipeline.md").read_text("utf-8")
HOME = Path(pyspark.__file__).parent
PACKAGE = Path(__file__).resolve().parents[2] / "src/kraftspec"
START_TIMEOUT_S = 600.0  # Seconds on a quiet machine, and minutes on one that builds meanwhile.
PARTITIONS, BATCHES = 3, 60

SETUP = """
import json, os, signal, subprocess, sys
from pathlib import Path
from kraftspec.pipeline.session import session

master, log, marker, report, archive = sys.argv[1:]
spark = session(master=master, settings={
    "spark.ui.enabled": "false", "spark.driver.memory": "512m", "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
})
table = spark.read.format("kafkalog").option("splitBytes", "4k").option("mode", "DROPMALFORMED")
table = table.schema("partition int, offset bigint")
"""

# In the middle of the work, the executor that meets this record dies, JVM and all, once.
KILL = """
def dies_once(rows):
    for row in rows:
        yield row
        if row.offset == 200 and is_first():
            daemon = os.getppid()
            process = subprocess.run(["ps", "-o", "ppid=", "-p", str(daemon)], capture_output=True)
            Path(marker).write_text(process.stdout.decode())
            os.kill(int(process.stdout), signal.SIGKILL)

def is_first():
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

rows = table.option("report", report).load(log).rdd.mapPartitions(dies_once)
sums = rows.map(lambda row: (row.partition, (1, row.offset)))
sums = sums.reduceByKey(lambda one, other: (one[0] + other[0], one[1] + other[1]))
print(json.dumps(sorted(sums.collect())))
"""

QUERY = """
def where(rows):
    yield sys.prefix, sum(1 for _ in rows)

print(json.dumps(table.load(log).rdd.mapPartitions(where).collect()))
"""

ZIP = """
spark.sparkContext.addPyFile(archive)

def where(rows):
    import kraftspec.fastpath
    from kraftspec.fastpath import native
    return [(kraftspec.fastpath.__file__, native.describe(), sum(1 for _ in rows))]

print(json.dumps(table.load(log).rdd.mapPartitions(where).collect()))
"""


class _Cluster:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.complained = ""
        self.url = f"spark://127.0.0.1:{free_port(set())}"

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        self._run("master", "master.Master", "--port", port, "--webui-port", "0")
        self._wait("master", "New state: ALIVE")
        for name in ("one", "two"):
            self._run(
                name, "worker.Worker", "--cores", "1", "--memory", "768m", "--webui-port", "0",
                "--work-dir", str(self.directory / f"work-{name}"), self.url,
            )  # fmt: skip
        for name in ("one", "two"):
            self._wait(name, "Successfully registered with master")

    def _run(self, name: str, kind: str, *arguments: str) -> None:
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{kind}", "--host",
                   "127.0.0.1", *arguments]  # fmt: skip
        environment = {
            **os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_CONF_DIR": str(self.directory),
        }  # fmt: skip
        with (self.directory / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            )

    def _wait(self, name: str, text: str) -> None:
        path, until = self.directory / f"{name}.log", time.monotonic() + START_TIMEOUT_S
        while text not in path.read_text("utf-8"):
            assert time.monotonic() < until, path.read_text("utf-8")[-4_000:]
            time.sleep(0.1)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(START_TIMEOUT_S)

    def run(self, program: str, log: Path, archive: Path = Path()) -> Any:
        """Run a driver; return the JSON of its last line, and keep what it complained of."""
        arguments = [self.url, log, self.directory / "marker", self.directory / "report", archive]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        process = subprocess.run(
            [sys.executable, "-c", SETUP + program, *map(str, arguments)],
            env=environment, capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr[-4_000:]
        self.complained = process.stderr
        return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    # Worker and master log what is waited for at this level.
    (directory / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = console\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.target = SYSTEM_ERR\nappender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %m%n\n"
    )
    running = _Cluster(directory)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    for partition in range(PARTITIONS):
        batches = [batch(at, 5) for at in range(0, 5 * BATCHES, 5)]
        write_segment(directory / f"t-{partition}", batches)
    return directory


@pytest.mark.kafka
def test_an_executor_that_dies_changes_no_count(cluster: _Cluster, log: Path) -> None:
    sums = cluster.run(KILL, log)
    count = 5 * BATCHES
    assert sums == [
        [partition, [count, count * (count - 1) // 2]] for partition in range(PARTITIONS)
    ]
    assert re.fullmatch(r"\s*\d+\s*", (cluster.directory / "marker").read_text())
    assert re.search(r"Lost executor \d+ on 127\.0\.0\.1", cluster.complained)
    # Tasks that ran twice, too, are counted once.
    assert read_report(str(cluster.directory / "report")).rows == count * PARTITIONS


@pytest.mark.kafka
def test_a_campaign_whose_executor_dies_counts_each_case_once(
    cluster: _Cluster, tmp_path: Path
) -> None:
    small = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": small, "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": small,
    }  # fmt: skip
    spark = ["--master", cluster.url]
    for name, value in settings.items():
        spark += ["--conf", f"{name}={value}"]
    with started(*FUZZ, "--out", tmp_path, "--json", spark=tuple(spark)) as driver:
        wait(lambda: len(results(tmp_path)) >= 2, driver)
        started_here = {process.pid for process in cluster.processes}
        executors = [
            pid
            for pid, parent, line in processes()
            if parent in started_here and "CoarseGrainedExecutorBackend" in line
        ]
        os.kill(executors[0], signal.SIGKILL)
        output, complained = driver.communicate(timeout=WAIT_S)
    assert driver.returncode == 0, complained
    report = json.loads(output)
    assert (report["resumed"], report["cases"]) == (0, UNITS * UNIT_CASES)
    assert re.search(r"Lost executor \d+ on 127\.0\.0\.1", complained)
    check_all(tmp_path)


@pytest.mark.kafka
def test_spark_submit_with_an_environment(cluster: _Cluster, log: Path, tmp_path: Path) -> None:
    """The page's line; the archive is an environment that has this one's packages."""
    (line,) = re.findall(r"^(PYSPARK_PYTHON=.* query\.py)$", PAGE.replace("\\\n", ""), re.MULTILINE)
    venv = tmp_path / "job"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    there = [place for place in sys.path if place and place != str(packages)]
    (packages / "there.pth").write_text("\n".join(there), "utf-8")
    shutil.make_archive(str(venv), "gztar", venv)
    (tmp_path / "query.py").write_text(SETUP + QUERY, "utf-8")
    words = line.replace("spark://host:7077", cluster.url)
    path = f"{HOME / 'bin'}{os.pathsep}{os.environ['PATH']}"
    arguments = [cluster.url, log, "", tmp_path / "report", ""]
    done = subprocess.run(
        ["bash", "-c", f"{words} {shlex.join(map(str, arguments))}"],
        cwd=tmp_path, env={**os.environ, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:]
    pythons = json.loads(done.stdout.splitlines()[-1])
    assert sum(count for _, count in pythons) == 5 * BATCHES * PARTITIONS
    # Each executor has its own copy, in its directory of the application.
    assert all(re.search(r"/work-\w+/app-.*/job$", python) for python, _ in pythons), pythons


@pytest.mark.kafka
def test_a_zip_brings_the_pure_codec(cluster: _Cluster, log: Path, tmp_path: Path) -> None:
    """Compiled modules are not importable from an archive: the plain ones do the work."""
    archive = tmp_path / "kraftspec.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in _modules(PACKAGE):
            zipped.write(path, Path("kraftspec") / path.relative_to(PACKAGE))
    tasks = cluster.run(ZIP, log, archive)
    for file, codec, _ in tasks:
        assert file.endswith("/kraftspec.zip/kraftspec/fastpath/__init__.py")
        assert codec.startswith("pure Python")
    assert sum(count for *_, count in tasks) == 5 * BATCHES * PARTITIONS


def _modules(directory: Path) -> Iterator[Path]:
    """The package as in a wheel, with compiled modules; the directories are links."""
    for path in sorted(directory.iterdir()):
        if path.is_dir() and path.name not in ("__pycache__", "adapters", "conformance", "specs"):
            yield from _modules(path)
        elif path.suffix in (".py", ".so"):
            yield path
