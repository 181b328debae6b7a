"""Directories whose nodes write while they are read: no false alarm."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from tests.reference.recovery.directories import NO_OP, Lead, Node

from kraftspec.generated.kafka import LeaderChangeMessage, SnapshotHeaderRecord
from kraftspec.interop.verify_live import quorum_under_load, verify_once
from kraftspec.reference.log import LogConfig, LogDirectory
from kraftspec.reference.log.control import control_value
from kraftspec.reference.raft.types import SnapshotId
from kraftspec.reference.recovery import Severity, verify

RUNS = int(os.environ.get("KRAFTSPEC_VERIFY_RUNS", "20"))
PATIENCE_S = 600.0
# A quorum whose nodes go down may have no majority for a moment, and a new disk.
WRONG = {Severity.ERROR, Severity.WARNING}


@contextmanager
def writer(node: Node) -> Iterator[threading.Event]:
    """Append, roll, truncate, write checkpoints, delete, and replace the vote, until the end."""
    is_over, is_begun = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        random, epoch, time_ms = Random(1), 1, 1
        config = LogConfig(segment_bytes=2_000, zero_ahead_bytes=1_000)
        try:
            with LogDirectory.open(str(node.path)) as directory:
                log = directory.open_log(config)
                while not is_over.is_set():
                    time_ms += 1
                    chance = random.random()
                    if chance < 0.9:
                        log.append_records(epoch, [NO_OP] * random.randint(1, 3), time_ms)
                    elif chance < 0.96:
                        # As a follower of another leader does: never what was committed.
                        low = max(log.end_offset - 5, log.start_offset, 1)
                        if log.snapshots:
                            low = max(low, log.snapshots[-1].end_offset)
                        log.truncate_to(random.randint(low, log.end_offset))
                        epoch += 1
                        node.vote(epoch)
                        change = LeaderChangeMessage(leader_id=1)
                        log.append_control(epoch, [control_value(change)], time_ms)
                    else:
                        log.flush()
                        id_ = SnapshotId(log.end_offset, log.last_epoch)
                        header = [control_value(SnapshotHeaderRecord())]
                        new = log.create_snapshot(id_, header, timestamp_ms=time_ms)
                        if new is not None:
                            new.freeze()
                            log.delete_before(id_)
                    if log.end_offset > 50:
                        is_begun.set()
                log.close()
        except BaseException as error:
            failures.append(error)
            is_begun.set()
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert is_begun.wait(PATIENCE_S)
        yield is_over
    finally:
        is_over.set()
        thread.join(PATIENCE_S)
    assert failures == []


def test_a_log_that_is_written_to(tmp_path: Path) -> None:
    node = Node(tmp_path, 1).append(Lead(1, 1, (1,))).vote(1)
    with writer(node):
        for _ in range(15):
            judgement = verify([str(node.path)])
            assert [one.text for one in judgement.verdicts if one.severity in WRONG] == []


@pytest.mark.soak
def test_a_quorum_whose_leaders_are_killed(tmp_path: Path) -> None:
    """KRAFTSPEC_VERIFY_RUNS says how often it is verified."""
    with quorum_under_load(tmp_path) as paths:
        for _ in range(RUNS):
            run = verify_once(paths)
            assert (run.alarms, run.certain >= 0) == ([], True)
    judgement = verify(paths)
    assert (judgement.exit_code, judgement.is_still) == (0, True)
