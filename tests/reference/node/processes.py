"""A quorum of a profile whose nodes are processes, kept busy, killed and changed by the tests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from click.testing import CliRunner
from tests.reference.node.loaded import OVER
from tests.waiting import until

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import free_port
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.properties import parse_properties

ROOT = Path(__file__).parents[3]
WAIT_S = 120.0  # What takes long on a loaded machine; a wait ends as soon as it may.
STOP_S = 10.0


class Processes:
    """``with Processes(directory, "kip-853", voters=3, observers=2) as quorum``: all are started.

    With ``first`` only so many are, and the others by ``start``. Without ``load`` they are plain
    ``kraftspec node``, and nothing is appended.
    """

    def __init__(
        self,
        directory: Path,
        profile: str,
        *,
        voters: int,
        observers: int = 0,
        first: int | None = None,
        load: bool = True,
    ) -> None:
        self.first = first
        self.load = load
        self.directory = directory
        self.profile = profile
        self.local = LocalQuorum(
            directory,
            voters=voters,
            observers=observers,
            first_port=free_port(set()),
            profile=profile,
            settings=quick(profile),
        )
        self.properties: Mapping[int, Path] = self.local.properties
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for node_id in list(self.properties)[: self.first]:
            self.start(node_id)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait(WAIT_S)

    # ---- processes -----------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        home = self.directory / str(node_id)
        properties = str(self.properties[node_id])
        if self.load:
            acknowledged = str(home / "acknowledged.txt")
            command = ["tests.reference.node.loaded", self.profile, properties, acknowledged]
        else:
            command = ["kraftspec", "node", "--profile", self.profile, "-c", properties]
        with (home / "output.txt").open("ab") as output:
            self.running[node_id] = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def kill(self, *node_ids: int) -> None:
        """End nodes by SIGKILL, all at the same time."""
        processes = [self.running.pop(node_id) for node_id in node_ids]
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.wait(WAIT_S)

    def stop(self, node_id: int) -> None:
        """End a node in good order."""
        process = self.running.pop(node_id)
        process.terminate()
        assert process.wait(WAIT_S) == 0, self.output(node_id)

    def stop_all(self) -> None:
        """End the load, wait until all have everything, and end all nodes in good order."""
        for process in self.running.values():
            process.send_signal(signal.SIGUSR1)
        until(lambda: all(OVER in self.output(node_id) for node_id in self.running))
        until(self._is_settled)
        for process in self.running.values():
            process.terminate()
        for node_id, process in self.running.items():
            assert process.wait(WAIT_S) == 0, self.output(node_id)
        self.running.clear()

    def _is_settled(self) -> bool:
        rows = self.rows()
        end_offset = max(row["logEndOffset"] for row in rows.values())
        has_all = all(
            node_id in rows and rows[node_id]["logEndOffset"] == end_offset
            for node_id in self.running
        )
        return has_all and bool(self.describe()["highWatermark"] == end_offset)

    def output(self, node_id: int) -> str:
        return (self.directory / str(node_id) / "output.txt").read_text()

    # ---- what it says of itself ----------------------------------------------------------------

    def bootstrap(self, node_ids: Iterable[int] | None = None) -> str:
        """The addresses of nodes; of all by default."""
        addresses = []
        for node_id in node_ids or self.properties:
            properties = parse_properties(self.properties[node_id].read_text("latin-1"))
            addresses.append(properties["listeners"].partition("://")[2])
        return ",".join(addresses)

    def quorum(self, *arguments: str) -> dict[str, Any]:
        """Run ``kraftspec quorum`` and return what it reports."""
        done = CliRunner().invoke(
            main,
            [
                "quorum",
                *arguments,
                *("--profile", self.profile, "--bootstrap-server", self.bootstrap(), "--json"),
            ],
        )
        assert done.exit_code == 0, done.output
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def describe(self) -> dict[str, Any]:
        return self.quorum("describe", "--timeout", str(WAIT_S))

    def leader(self) -> int:
        leader: int = self.describe()["leaderId"]
        return leader

    def rows(self) -> dict[int, dict[str, Any]]:
        """How far each replica is, by id."""
        replicas = self.quorum("describe", "--replication", "--timeout", str(WAIT_S))["replicas"]
        return {row["replicaId"]: row for row in replicas}

    def voters(self) -> list[int]:
        rows = self.rows().items()
        return sorted(node_id for node_id, row in rows if row["status"] != "Observer")

    def caught_up(self, *node_ids: int) -> None:
        """Wait until replicas have nearly what the leader has, which goes on appending."""
        until(lambda: all(_is_near(self.rows().get(node_id)) for node_id in node_ids))

    # ---- load ----------------------------------------------------------------------------------

    def acknowledged(self) -> list[str]:
        """Every record whose commit was told to whoever appended it."""
        values: list[str] = []
        for path in sorted(self.directory.glob("*/acknowledged.txt")):
            values += path.read_text("ascii").split()
        return values

    def goes_on(self, count: int = 50) -> None:
        """Wait until so many more records are acknowledged."""
        before = len(self.acknowledged())
        try:
            until(lambda: len(self.acknowledged()) >= before + count)
        except AssertionError:
            outputs = [f"{node_id}: {self.output(node_id)[-1000:]}" for node_id in self.running]
            raise AssertionError("\n".join(outputs)) from None

    def records(self, node_id: int) -> list[tuple[int, str]]:
        """The offset and the value of each record in a log, the node having stopped."""
        path = str(self.directory / str(node_id) / "log")
        records = []
        with LogDirectory.open(path, profile=self.profile) as directory:
            log = directory.open_log()
            for header, data in log.batches(log.start_offset):
                if not header.is_control:
                    records += [
                        (record.offset, bytes(record.value or b"").decode())
                        for record in decode_batch(data, header.position)
                    ]
            log.close()
        return records

    def check_logs(self, node_ids: Iterable[int]) -> None:
        """Nothing that was acknowledged is lost or there twice, and the logs are the same.

        The nodes have stopped, by ``stop_all``.
        """
        acknowledged = self.acknowledged()
        assert len(acknowledged) == len(set(acknowledged)) > 0
        first, *others = [self.records(node_id) for node_id in node_ids]
        assert all(log == first for log in others)
        values = [value for _, value in first]
        assert len(values) == len(set(values))
        assert set(acknowledged) <= set(values)


def quick(profile: str) -> dict[str, str]:
    """The times of a quorum that has a new leader soon, in the words of its profile."""
    if profile == "kip-595":
        return {
            "quorum.election.timeout.ms": "500",
            "quorum.election.backoff.max.ms": "500",
            "quorum.fetch.timeout.ms": "1000",
            "quorum.request.timeout.ms": "1000",
        }
    return {
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.election.backoff.max.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
        "controller.quorum.request.timeout.ms": "1000",
    }


def patient(profile: str, fetch_ms: int = 10_000) -> dict[str, str]:
    """The same for nodes in this process: it may stall, and no leader is to be given up for it."""
    times = quick(profile)
    (name,) = (name for name in times if name.endswith("quorum.fetch.timeout.ms"))
    return times | {name: str(fetch_ms)}


def _is_near(row: dict[str, Any] | None) -> bool:
    return row is not None and row["logEndOffset"] > 0 and row["lag"] < 50
