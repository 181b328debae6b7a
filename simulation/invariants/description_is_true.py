"""What DescribeQuorum answers is so, at whatever version it was asked (KIP-595, KIP-836, KIP-853).

A leader that describes its quorum names itself, its epoch, its high watermark and the voters of its
log. It says of itself how far its log goes, and nobody is farther. Times are told from version 1
on, directories from version 2 on.
"""

from __future__ import annotations

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.raft.messages import DescribeQuorumReply
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.replica import Replica

TIMES_FROM, DIRECTORIES_FROM = 1, 2


class DescriptionIsTrue(Invariant):
    """Reads the answer as a tool does, from its bytes."""

    def quorum_described(self, replica: Replica, version: int, reply: DescribeQuorumReply) -> None:
        """Hold it against the leader that gives it."""
        core, told = replica.core, reply.voters
        who = f"leader {replica.id}, asked at version {version},"
        claim = (reply.leader_id, reply.leader_epoch, reply.high_watermark)
        if claim != (replica.id, core.epoch, core.high_watermark):
            self.fail(f"{who} of epoch {core.epoch}, committed {core.high_watermark}, says {reply}")
        voters = core.log.voters.last
        if {one.key.id for one in told} != {*voters.ids}:
            self.fail(f"{who} has voters {voters.ids}, and says {[one.key.id for one in told]}")
        end_offset = replica.log_model.end_offset
        for one in (*told, *reply.observers):
            if one.end_offset > end_offset:
                self.fail(f"{who} has a log to {end_offset}, and says that {one} is farther")
            if version < DIRECTORIES_FROM and one.key.directory_id != ZERO_UUID:
                self.fail(f"{who} names directories: {one}")
            if version < TIMES_FROM and one.last_fetch_timestamp_ms != -1:
                self.fail(f"{who} tells times: {one}")
        for own in told:
            if own.key.id == replica.id and own.end_offset < core.high_watermark:
                self.fail(f"{who} has committed {core.high_watermark}, and says of itself {own}")
            known = voters.get(own.key.id)
            assert known is not None
            # A static voter's directory is not in the log, and the leader may have learned it.
            if version >= DIRECTORIES_FROM and not known.key.matches(own.key):
                self.fail(f"{who} has voter {known.key}, and says {own.key}")


INVARIANT = DescriptionIsTrue
