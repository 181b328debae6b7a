"""The table of transitions: which role becomes which, and why. Everything else is fatal.

The roles name a cause, this table names the role that follows, and ``docs/raft.md`` draws it.
A transition within a role is one too: it starts the role anew, with new timers and an empty tally.

Sources: KIP-595 (roles, epochs), KIP-996 (Prospective), KIP-853 (observers), Kafka's QuorumState.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kraftspec.reference.raft.types import RoleName


class FatalError(Exception):
    """Something that a correct quorum never does: the node must stop, and touch nothing more."""


class Cause(StrEnum):
    """Why a node leaves its role. The value is the label in the diagram."""

    HIGHER_EPOCH = "higher epoch, no leader"
    NEW_LEADER = "leader of a higher epoch"
    LEADER_FOUND = "leader of this epoch"
    MORE_ENDPOINTS = "same leader, more endpoints"
    VOTE_GRANTED = "grants a standard vote"
    ELECTION_TIMEOUT = "election timeout (voters)"
    FETCH_TIMEOUT = "fetch timeout (voters)"
    SOLE_VOTER = "start as the only voter"
    PRE_VOTE_WON = "majority of pre-votes"
    PRE_VOTE_UNSUPPORTED = "a voter knows no pre-vote"
    PRE_VOTE_LOST_LEADER_KNOWN = "pre-vote lost or timed out, leader known"
    PRE_VOTE_LOST = "pre-vote lost or timed out"
    ELECTION_WON = "majority of votes"
    RESIGNED = "shutdown, resignation, check quorum, or removed"
    RESIGNATION_TIMEOUT = "election timeout: epoch + 1"
    ELECTION_LOST = "votes lost or timed out"  # Of a draft: see Candidate.


_UNATTACHED = RoleName.UNATTACHED
_PROSPECTIVE = RoleName.PROSPECTIVE
_CANDIDATE = RoleName.CANDIDATE
_LEADER = RoleName.LEADER
_FOLLOWER = RoleName.FOLLOWER
_RESIGNED = RoleName.RESIGNED

Transitions = Mapping[RoleName, Mapping[Cause, RoleName]]

TRANSITIONS: Transitions = {
    _UNATTACHED: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.LEADER_FOUND: _FOLLOWER,
        Cause.MORE_ENDPOINTS: _FOLLOWER,
        Cause.VOTE_GRANTED: _UNATTACHED,
        Cause.ELECTION_TIMEOUT: _PROSPECTIVE,
        Cause.SOLE_VOTER: _PROSPECTIVE,
    },
    _PROSPECTIVE: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.LEADER_FOUND: _FOLLOWER,
        Cause.MORE_ENDPOINTS: _FOLLOWER,
        Cause.VOTE_GRANTED: _PROSPECTIVE,
        Cause.PRE_VOTE_WON: _CANDIDATE,
        Cause.PRE_VOTE_UNSUPPORTED: _CANDIDATE,
        Cause.PRE_VOTE_LOST_LEADER_KNOWN: _FOLLOWER,
        Cause.PRE_VOTE_LOST: _UNATTACHED,
    },
    _CANDIDATE: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.LEADER_FOUND: _FOLLOWER,
        Cause.ELECTION_WON: _LEADER,
        Cause.ELECTION_TIMEOUT: _PROSPECTIVE,
    },
    _LEADER: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.RESIGNED: _RESIGNED,
    },
    _FOLLOWER: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.MORE_ENDPOINTS: _FOLLOWER,
        Cause.FETCH_TIMEOUT: _PROSPECTIVE,
        Cause.SOLE_VOTER: _PROSPECTIVE,
    },
    _RESIGNED: {
        Cause.HIGHER_EPOCH: _UNATTACHED,
        Cause.NEW_LEADER: _FOLLOWER,
        Cause.RESIGNATION_TIMEOUT: _UNATTACHED,
        Cause.SOLE_VOTER: _PROSPECTIVE,
    },
}
