"""``kraftspec conform capture``: record, hold against everybody, keep, and tell what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.making.capture.frames import HEADERS, Checked, Progress, check
from kraftspec.conformance.making.capture.keep import FAMILY, write
from kraftspec.conformance.making.capture.session import (
    NEUTRAL_DIRECTORY,
    Recording,
    merged,
    record,
)
from kraftspec.generated.api_keys import ApiKey

# What only nodes of a quorum, or a broker and its controller, say to each other.
KRAFT = (
    "VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "DESCRIBE_QUORUM", "FETCH_SNAPSHOT",
    "ADD_RAFT_VOTER", "REMOVE_RAFT_VOTER", "UPDATE_RAFT_VOTER", "CONTROLLER_REGISTRATION",
    "BROKER_REGISTRATION", "BROKER_HEARTBEAT", "UNREGISTER_BROKER", "ALTER_PARTITION",
    "ALLOCATE_PRODUCER_IDS", "ASSIGN_REPLICAS_TO_DIRS", "ENVELOPE",
)  # fmt: skip


class CaptureReport(msgspec.Struct, rename="camel", kw_only=True):
    """What a capture came to.

    Attributes:
        frames: how many passed; ``distinct``: how many different headers and bodies those hold.
        kept: bodies in the files; ``headers``: headers in them; ``bytes``: the files' size.
        api_keys: names of the keys of captured requests and responses; ``kraft``: of these,
            what nodes say among themselves.
        pairs: how many (request or response, version) are in the files.
        unknown: frames of keys or versions that our schemas lack; ``unrecorded``: forwarded only.
        withheld: how many were left out because they might name this machine.
        disagreements: what somebody read or wrote otherwise; ``failures``: of the workloads.
    """

    frames: int
    distinct: int
    kept: int
    headers: int
    bytes: int
    api_keys: list[str]
    kraft: list[str]
    pairs: int
    unknown: dict[str, int]
    unrecorded: dict[str, int]
    withheld: int
    disagreements: list[str]
    failures: list[str]
    seconds: float


def capture(
    out: Path,
    workloads: Sequence[str] = (),
    *,
    directory: Path = NEUTRAL_DIRECTORY,
    on_phase: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> CaptureReport:
    """Record workloads on a cluster, and replace the files in ``out/captured`` by what they show.

    Args:
        out: where the directory ``captured`` goes.
        workloads: names of scenarios; all of them where empty.
        directory: where the cluster lies.
        on_phase: called when a phase begins; ``progress``: called with the progress of the check.

    Raises:
        ClusterError: a tool is missing, or the cluster did not do its work.
        AdapterError: the Java adapter did not.
    """
    started = time.perf_counter()
    recording = record(merged(workloads), directory=directory, on_phase=on_phase)
    with kafka_adapter() as kafka:
        checked = check(recording.recorder.frames, kafka, progress)
    report = _report(recording, checked, out / FAMILY)
    report.seconds = round(time.perf_counter() - started, 1)
    return report


def _report(recording: Recording, checked: Checked, out: Path) -> CaptureReport:
    written = write(checked, out)
    keys = {frame.api_key for frame in recording.recorder.frames}
    names = [key.name for key in ApiKey if key.value in keys]
    bodies = [piece for piece in written.pieces if piece.message not in HEADERS.values()]
    return CaptureReport(
        frames=checked.frames,
        distinct=len(checked.comments),
        kept=len(bodies),
        headers=len(written.pieces) - len(bodies),
        bytes=written.bytes_total,
        api_keys=names,
        kraft=[name for name in names if name in KRAFT],
        pairs=len({(piece.message, piece.version) for piece in bodies}),
        unknown=checked.unknown,
        unrecorded=recording.recorder.unrecorded,
        withheld=written.withheld,
        disagreements=[str(disagreement) for disagreement in checked.disagreements],
        failures=recording.failures,
        seconds=0.0,
    )
