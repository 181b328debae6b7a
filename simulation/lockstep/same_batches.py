"""Control batches that say the same in another order.

A set of voters has no order. Kafka writes it as its hash maps iterate, we by id. Where both lead
the same epoch, their logs say the same with other bytes; later answers contain them. So bytes of
the shadow's batch are replaced by those of the driver's wherever the shadow tells of them.
"""

from __future__ import annotations

from typing import Any, Final

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.records import BatchHeader
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.generated.kafka import LeaderChangeMessage, VotersRecord
from kraftspec.reference.log.control import control_type_of
from kraftspec.simulation.harness.protocol import Event


def pairs(ours: bytes, kafkas: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return the batches that differ in the order of voters alone; None: they say other things."""
    mine, theirs = list(iterate_headers(ours)), list(iterate_headers(kafkas))
    if len(mine) != len(theirs):
        return None
    differing = []
    for a, b in zip(mine, theirs, strict=True):
        batches = ours[a.position : a.end], kafkas[b.position : b.end]
        if batches[0] != batches[1]:
            if not (a.is_control and b.is_control) or _meaning(ours, a) != _meaning(kafkas, b):
                return None
            differing.append(batches)
    return differing


def _meaning(data: bytes, header: BatchHeader) -> list[Any]:
    meaning: list[Any] = [
        header.base_offset, header.end - header.position, header.partition_leader_epoch,
        header.attributes,
    ]  # fmt: skip
    for record in decode_batch(data, header.position):
        kind, value = control_type_of(record), record.value or b""
        content: Any = value
        if kind == ControlRecordType.KRAFT_VOTERS:
            content = sorted(VotersRecord.decode(value, 0).voters, key=lambda one: one.voter_id)
        elif kind == ControlRecordType.LEADER_CHANGE:
            change = LeaderChangeMessage.decode(value, int.from_bytes(value[:2]))
            content = [change.leader_id, *(
                sorted(voter.voter_id for voter in voters)
                for voters in (change.voters, change.granting_voters)
            )]  # fmt: skip
        meaning.append((record.offset, record.timestamp, kind, content))
    return meaning


# What has batches that were made here, and where: Kafka writes the voters of a snapshot anew.
WRITTEN: Final = {"appended": 1, "snapshot_stored": 3}


class SameBatches:
    """The batches of a shadow that stand for those of its driver."""

    def __init__(self) -> None:
        self._drivers: dict[bytes, bytes] = {}

    def clear(self) -> None:
        """Forget them: the shadow has the bytes of the driver."""
        self._drivers.clear()

    def learn(self, driver: list[Event], shadow: list[Event]) -> int:
        """Look for such batches among those that both have written now; return how many."""
        written = [
            b"".join(values[WRITTEN[name]] for name, values in events if name in WRITTEN)
            for events in (driver, shadow)
        ]
        if written[0] == written[1]:
            return 0
        differing = pairs(*written) or []
        self._drivers.update((theirs, mine) for mine, theirs in differing)
        return len(differing)

    def translated(self, events: list[Event]) -> list[Event]:
        """Return the events of the shadow, with the driver's batches in them."""
        if not self._drivers:
            return events
        return [
            (name, tuple(map(self._replaced, values)))
            if name in ("appended", "answered", "snapshot_stored")
            else (name, values)
            for name, values in events
        ]

    def _replaced(self, value: Any) -> Any:
        if value.__class__ is bytes:
            for theirs, mine in self._drivers.items():
                value = value.replace(theirs, mine)
        return value
