"""Events: everything that may happen to a node. ``Core.step`` takes one at a time.

A ``token`` names a request to be answered, and is whatever the host likes (it comes back in
`effects.Answer`); a ``request_id`` names a request that this node sent (`effects.Ask`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kraftspec.reference.raft.messages import Bytes, Reply, Request
from kraftspec.reference.raft.types import SnapshotId
from kraftspec.reference.raft.voters import VoterSet


class Event(msgspec.Struct, gc=False):
    """Base of all events."""


class Start(Event, gc=False):
    """The first event of a life: the core was given what recovery found, and may now begin."""


class Tick(Event, gc=False):
    """Time went by: it is ``next_deadline_us()`` or later. A tick too many does no harm."""


class RequestReceived(Event, gc=False):
    """A node, or a tool, asks something."""

    token: int
    request: Request


class ReplyReceived(Event, gc=False):
    """A node answered. Answers to requests that were given up are recognised and ignored."""

    request_id: int
    reply: Reply


class RequestFailed(Event, gc=False):
    """No answer will come: no connection, time-out, or bytes that are no answer.

    ``unsupported`` says that the other node was reached and does not speak the version that the
    request needs (KIP-996: a pre-vote to an old node).
    """

    request_id: int
    unsupported: bool = False


class LogFlushed(Event, gc=False):
    """Everything in the log before ``end_offset`` survives a power loss from now on.

    Both fields are those of the `effects.FlushLog` that is done, or of the last one of several.
    """

    end_offset: int
    generation: int = 0


class AppendRequested(Event, gc=False):
    """The state machine, leading in ``epoch``, has records to append, all of them or none.

    Answered by `effects.Appended` or `effects.AppendRefused` with the same ``append_id``. The host
    does not change ``records`` once the core has taken it.
    """

    append_id: int
    epoch: int
    records: Sequence[Bytes]


class ResignRequested(Event, gc=False):
    """The state machine does not want to lead ``epoch`` any longer."""

    epoch: int


class ShutdownRequested(Event, gc=False):
    """Leave in good order: resign, wait for another leader, but no longer than this."""

    timeout_us: int


class UpgradeRequested(Event, gc=False):
    """Raise ``kraft.version``, as UpdateFeatures asks (KIP-853). `effects.UpgradeAnswered`."""

    upgrade_id: int
    epoch: int
    level: int
    validate_only: bool = False


class SnapshotRequested(Event, gc=False):
    """The state machine wants to write a snapshot of everything before ``id.end_offset``.

    That offset must be the base offset of a batch, or the end of the log: the log knows, the core
    does not. Answered by `effects.WriteSnapshot` or `effects.SnapshotRefused`.
    """

    id: SnapshotId
    last_timestamp_ms: int = 0


class SnapshotStored(Event, gc=False):
    """A snapshot is complete: synced, renamed, read-only.

    Either one that the state machine wrote (`effects.WriteSnapshot`) or one that was fetched
    (`effects.FinishSnapshot`); of the latter ``kraft_version`` and ``voters`` are those its control
    records hold, None if it has no such record.
    """

    id: SnapshotId
    size: int
    last_timestamp_ms: int = 0
    kraft_version: int | None = None
    voters: VoterSet | None = None


class SnapshotDamaged(Event, gc=False):
    """What was fetched as this snapshot is none: nothing is left of it, and the log is as it was.

    In place of a `SnapshotStored` after `effects.FinishSnapshot`. ``reason`` says what is wrong.
    """

    id: SnapshotId
    reason: str = ""


class CleanRequested(Event, gc=False):
    """Time to delete what snapshots made superfluous; the log's segments take ``log_bytes``.

    Kafka does so each minute (``config.CLEAN_PERIOD_US``).
    """

    log_bytes: int
