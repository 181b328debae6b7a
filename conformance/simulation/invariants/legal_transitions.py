"""A role gives way only to those that KIP-595 and KIP-996 draw an arrow to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraftspec.conformance.simulation.invariants.base import Invariant
from kraftspec.reference.raft import RoleName

if TYPE_CHECKING:
    from kraftspec.conformance.simulation.replica import Replica

# Written from the KIPs, not taken from the core: that is what it is held against.
LEGAL: Final = {
    "unattached": {"unattached", "prospective", "follower"},
    "prospective": {"candidate", "follower", "unattached", "prospective"},
    "candidate": {"leader", "prospective", "unattached", "follower"},
    "leader": {"resigned", "unattached", "follower"},
    "follower": {"prospective", "follower", "unattached"},
    "resigned": {"unattached", "follower"},
}
# One step may go two arrows: a sole voter is elected at once.
ALONE: Final = {
    "unattached": {"leader", "candidate"},
    "follower": {"leader", "candidate"},
    "prospective": {"leader"},
    "resigned": {"candidate", "leader"},
    "candidate": set[str](),
    "leader": set[str](),
}
# Who has resigned may campaign when its timer strikes: by way of Unattached, an epoch on. Who is
# elected while it leaves the quorum resigns at once. A leader that hears from one of a later epoch
# that it resigns is its follower, and campaigns at once.
TWICE: Final = {
    ("resigned", "prospective"),
    ("candidate", "resigned"),
    ("leader", "prospective"),
}


class LegalTransitions(Invariant):
    """See the module."""

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Look the pair up; a role that a node starts with was reached by no arrow."""
        protocol = replica.world.protocol
        if old is None or new in protocol.legal[old] or (old, new) in protocol.twice:
            return
        if new in protocol.alone[old] and len(replica.core.log.voters.last) <= 1:
            return
        self.fail(f"node {replica.id} went from {old} to {new}")


INVARIANT = LegalTransitions
