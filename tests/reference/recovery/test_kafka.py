"""Directories of real Kafka controllers and brokers: those of the corpus, and running ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.reference.log.corpus import METADATA, SHAPES, dump_of, parse_dump, unpack
from tests.reference.log.kafka_directories import SMALL_SEGMENTS, SNAPSHOTS, write_records

from kraftspec.conformance.cluster import Cluster
from kraftspec.reference.recovery import Severity, verify

RUNS = int(os.environ.get("KRAFTSPEC_VERIFY_RUNS", "20"))
WRONG = {Severity.ERROR, Severity.WARNING}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_corpus(shape: str, tmp_path: Path) -> None:
    """Kafka's own dump says where the logs end; the quorums were well."""
    nodes = unpack(shape, tmp_path)
    judgement = verify([str(node) for node in nodes])
    assert [verdict.text for verdict in judgement.verdicts if verdict.severity in WRONG] == []
    assert judgement.exit_code == 0
    ends = []
    for node, directory in zip(nodes, judgement.directories, strict=True):
        dumped = [
            batch
            for path in sorted((node / METADATA).glob("*.log"))
            for batch in parse_dump(dump_of(node, path.name))
        ]
        assert directory.log.end_offset == dumped[-1].last_offset + 1
        assert directory.log.batches == len(dumped)
        assert directory.log.last_epoch == dumped[-1].epoch
        if directory.is_voter:
            ends.append(directory.log.end_offset)
    majority_end = sorted(ends)[-(len(ends) // 2 + 1)]
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (majority_end, "majority")
    assert judgement.perhaps_end == majority_end


@pytest.mark.kafka
def test_running_controllers_and_a_broker(tmp_path: Path) -> None:
    """No false alarm beside writers whose leaders are killed. KRAFTSPEC_VERIFY_RUNS: how often."""
    properties = SMALL_SEGMENTS | SNAPSHOTS
    is_over = threading.Event()
    failures: list[BaseException] = []
    certain_end = 0
    with Cluster(tmp_path, controllers=3, brokers=1, controller_properties=properties) as cluster:

        def disturb() -> None:
            first = 0
            try:
                while not is_over.is_set():
                    write_records(cluster, first, 12)
                    first += 1000
                    leader = cluster.leader()
                    leader.kill()
                    write_records(cluster, first, 2)
                    leader.start()
                    leader.wait_healthy()
            except BaseException as error:
                failures.append(error)
                raise

        paths = [
            str(node.directory / "data-0") for node in (*cluster.controllers, *cluster.brokers)
        ]
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for _ in range(RUNS):
                judgement = verify(paths)
                texts = [
                    verdict.text for verdict in judgement.verdicts if verdict.severity in WRONG
                ]
                assert texts == []
                assert judgement.certain is not None
                certain_end = max(certain_end, judgement.certain.end_offset)
        finally:
            is_over.set()
            thread.join()
        assert failures == []
    judgement = verify(paths)
    assert judgement.exit_code == 0
    assert judgement.certain is not None
    assert judgement.perhaps_end is not None
    assert certain_end <= judgement.certain.end_offset <= judgement.perhaps_end
