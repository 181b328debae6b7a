"""Control records: what the quorum writes into the log for itself (KIP-595, KIP-853).

These are their meanings. Which type number, which message and which version stand for them in a
batch is the profile's affair, and a profile may have records of its own.
"""

from __future__ import annotations

import msgspec

from kraftspec.reference.raft.voters import VoterSet


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """Base of all control records that the core writes or reads."""


class LeaderChange(ControlRecord, frozen=True, gc=False):
    """The first record of an epoch; it commits whatever earlier epochs left behind."""

    leader_id: int
    voters: tuple[int, ...] = ()
    granting_voters: tuple[int, ...] = ()


class KRaftVersion(ControlRecord, frozen=True, gc=False):
    """From here on the feature ``kraft.version`` has this level."""

    level: int


class Voters(ControlRecord, frozen=True, gc=False):
    """From here on this is the voter set, committed or not (KIP-853)."""

    voters: VoterSet
