"""A judgement as plain values: what ``quorum verify --json`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.admin.errors import address
from kraftspec.reference.raft.control import LeaderChange
from kraftspec.reference.recovery.walker import batches_from
from kraftspec.reference.tools.dump_batches import Piece
from kraftspec.reference.tools.dump_lines import DumpOptions, TextLines

if TYPE_CHECKING:
    from kraftspec.reference.log.files import ReadableFiles
    from kraftspec.reference.raft.types import Endpoint, ReplicaKey
    from kraftspec.reference.raft.voters import VoterSet
    from kraftspec.reference.recovery.elections import Candidate
    from kraftspec.reference.recovery.judgement import Judgement
    from kraftspec.reference.recovery.reading import Directory

LINES_MAX: Final = 50  # Of records in doubt; kraftspec dump-log shows them all.
_NO_OP: Final = '"type":"NO_OP_RECORD"'


def to_json(judgement: Judgement, files: ReadableFiles) -> dict[str, Any]:
    """Return the whole judgement."""
    directories = judgement.directories
    proofs = [
        {
            "endOffset": proof.end_offset,
            "epoch": proof.epoch,
            "nodeId": directories[proof.number].node_id,
            "kind": proof.kind,
            "why": proof.text,
        }
        for proof in judgement.proofs
    ]
    return {
        "still": judgement.is_still,
        "directories": [_directory(one) for one in directories],
        "leaders": leaders_of(judgement),
        "partings": list(_partings(judgement)),
        "candidates": [_candidate(one) for one in judgement.candidates],
        "votersNotGiven": [_key(key) for key in judgement.missing.values()],
        "committed": {
            "certainly": proofs[0] if proofs else None,
            "atMost": judgement.perhaps_end,
            "proofs": proofs,
            "inDoubt": records_in_doubt(judgement, files),
        },
        "verdicts": [
            {
                "severity": str(one.severity),
                "code": one.code,
                "text": one.text,
                "advice": one.advice,
                "nodes": list(one.nodes),
            }
            for one in judgement.verdicts
        ],
        "exitCode": judgement.exit_code,
    }


def _key(key: ReplicaKey) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": key.id}
    return (
        fields if key.directory_id == ZERO_UUID else fields | {"directoryId": str(key.directory_id)}
    )


def endpoint_text(endpoint: Endpoint) -> str:
    """Return an endpoint as the properties have it."""
    return f"{endpoint.name}://{address(endpoint.host, endpoint.port)}"


def voters_json(voters: VoterSet) -> list[dict[str, Any]]:
    """Return voters as they are printed."""
    return [
        _key(one.key) | {"endpoints": [endpoint_text(at) for at in one.endpoints]} for one in voters
    ]


def _directory(one: Directory) -> dict[str, Any]:
    fields: dict[str, Any] = {"path": one.path}
    if one.meta is None:
        return fields | {"problem": one.formatting_problem}
    log, vote, entry = one.log, one.vote, one.in_force
    fields |= {
        "nodeId": one.node_id,
        "directoryId": str(one.directory_id),
        "clusterId": one.meta.cluster_id,
        "isVoter": one.is_voter,
        "log": {
            "firstOffset": log.first,
            "startOffset": log.start_offset,
            "endOffset": log.end_offset,
            "lastEpoch": log.last_epoch,
            "lastTimestamp": log.last_timestamp_ms,
            "batches": log.batches,
            "bytes": log.size_bytes,
            "segments": len(log.segments),
            "tornBytes": log.tail.torn_bytes if log.tail else 0,
            "epochs": [
                {"epoch": span.epoch, "startOffset": span.start_offset} for span in log.epochs
            ],
            "problem": log.problem or None,
        },
        "checkpoints": [
            {
                "endOffset": each.id.end_offset,
                "epoch": each.id.epoch,
                "bytes": each.size_bytes,
                "voters": None if each.voters is None else voters_json(each.voters),
                "problem": each.problem or None,
            }
            for each in one.checkpoints
        ],
        "quorumState": None,
        "kraftVersion": one.kraft_version,
        "voters": {
            "from": entry.origin.kind,
            "offset": entry.origin.offset,
            "epoch": entry.origin.epoch,
            "voters": voters_json(entry.voters),
        },
        "problem": one.formatting_problem or one.vote_problem or None,
    }
    if vote is not None:
        fields["quorumState"] = {
            "dataVersion": vote.version,
            "leaderEpoch": vote.epoch,
            "leaderId": vote.leader_id,
            "voted": None if vote.voted is None else _key(vote.voted),
            "voters": list(vote.voters),
        }
    return fields


def leaders_of(judgement: Judgement) -> list[dict[str, Any]]:
    """Return who led, by the LeaderChange records of all logs, each with the nodes that have it."""
    led: dict[tuple[int, int, int], dict[str, Any]] = {}
    for one in judgement.directories:
        for batch in one.log.controls:
            change = batch.find(LeaderChange)
            if change is None:
                continue
            place = (batch.epoch, batch.base_offset, change.leader_id)
            known = led.setdefault(
                place,
                {
                    "epoch": batch.epoch,
                    "leaderId": change.leader_id,
                    "offset": batch.base_offset,
                    "voters": list(change.voters),
                    "grantingVoters": list(change.granting_voters),
                    "isForced": batch.is_forced,
                    "nodes": [],
                },
            )
            known["nodes"].append(one.node_id)
    return [led[place] for place in sorted(led)]


def _partings(judgement: Judgement) -> Iterator[dict[str, Any]]:
    directories = judgement.directories
    for a, one in enumerate(directories):
        for b in range(a + 1, len(directories)):
            parting = judgement.comparison.parting(a, b)
            if parting is not None:
                yield {
                    "nodes": [one.node_id, directories[b].node_id],
                    "offset": parting.offset,
                    "epochs": [parting.epoch, parting.other_epoch],
                }


def _candidate(one: Candidate) -> dict[str, Any]:
    return {
        "nodeId": one.key.id,
        "electable": one.is_electable,
        "votesNeeded": one.needed,
        "granted": one.granted,
        "refused": [{"voter": voter, "why": why} for voter, why in one.refused.items()],
        "notGiven": one.absent,
    }


def records_in_doubt(judgement: Judgement, files: ReadableFiles) -> list[str]:
    """Return the records behind what is certainly committed, of the longest log, in words.

    The lines are those of ``dump-log --cluster-metadata-decoder``; the last one says how many more.
    """
    if judgement.reference < 0:
        return []
    directory = judgement.directories[judgement.reference]
    start = max(judgement.certain.end_offset if judgement.certain else 0, directory.log.first)
    return record_lines(directory, files, start, directory.log.end_offset)


def record_lines(directory: Directory, files: ReadableFiles, start: int, end: int) -> list[str]:
    """Return the records of a range of offsets; the last line says how many more, of very many."""
    lines = list(islice(_records(directory, files, start, end), LINES_MAX + 1))
    if len(lines) > LINES_MAX:
        more = end - _offset(lines[LINES_MAX])
        lines[LINES_MAX:] = [f"and {more} more, up to offset {end}"]
    return lines


def all_record_lines(
    directory: Directory, files: ReadableFiles, start: int, end: int
) -> Iterator[str]:
    """Yield the records of a range of offsets; of NoOpRecords in a row only where they are."""
    run: list[str] = []  # The first and the last of these.
    for line in _records(directory, files, start, end):
        if _NO_OP in line:
            run = [*run[:1], line]
            continue
        yield from _as_one(run)
        yield line
        run = []
    yield from _as_one(run)


def _as_one(run: list[str]) -> list[str]:
    offsets = " to ".join(str(_offset(line)) for line in run)
    return [f"offset: {offsets}: NO_OP_RECORD"] if run else []


def _records(directory: Directory, files: ReadableFiles, start: int, end: int) -> Iterator[str]:
    words = TextLines(directory.path, DumpOptions(deep=True, metadata=True))
    for header, window in batches_from(directory, files, start, end):
        for line in words.piece(Piece(header, window, 0, True)).decode().splitlines():
            if line.startswith("|"):
                yield line.removeprefix("| ")


def _offset(line: str) -> int:
    return int(line.split(maxsplit=2)[1])


def batch_lines(data: bytes) -> list[str]:
    """Return batches and their records as ``dump-log`` shows them."""
    words = TextLines("", DumpOptions(deep=True, metadata=True))
    pieces = [words.piece(Piece(header, data, 0, True)) for header in iterate_headers(data)]
    return b"".join(pieces).decode().splitlines()
