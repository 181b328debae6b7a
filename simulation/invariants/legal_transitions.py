"""A role gives way only to those that KIP-595 and KIP-996 draw an arrow to."""

from __future__ import annotations

from kraftspec.reference.raft import RoleName
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

PROSPECTIVE = "prospective"


class LegalTransitions(Invariant):
    """Holds each change of role against the table of transitions."""

    def role_changed(self, replica: Replica, old: RoleName | None, new: RoleName) -> None:
        """Look the pair up; a role that a node starts with was reached by no arrow."""
        protocol = replica.world.protocol
        if old is None or (old, new) in protocol.twice:
            return
        arrows = protocol.legal[old]
        may_campaign = PROSPECTIVE in arrows or (old, PROSPECTIVE) in protocol.twice
        if may_campaign and not replica.has_pre_votes:
            arrows = arrows | protocol.legal[PROSPECTIVE]  # It goes on from there at once.
        if new in arrows:
            return
        if new in protocol.alone[old] and len(replica.core.log.voters.last) <= 1:
            return
        self.fail(f"node {replica.id} went from {old} to {new}")


INVARIANT = LegalTransitions
