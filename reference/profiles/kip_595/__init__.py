"""The profile ``kip-595``: the quorum protocol as the first drafts of KIP-595 had it.

Flat requests with private API keys, FindQuorum in place of addresses in the log, voters that move
one by one by AlterQuorum, no pre-votes and no snapshots. What the drafts leave open, or get wrong,
has a rule beside it: `policy.FIXES`.
"""

from __future__ import annotations

from kraftspec.generated import kip_595
from kraftspec.generated.control_records import DraftControlRecordType
from kraftspec.reference.profiles.parts import Parts

PARTS = Parts(
    name="kip-595",
    messages=kip_595,
    control_messages=lambda: {
        DraftControlRecordType.VOTER_ASSIGNMENT: kip_595.VoterAssignmentMessage,
        DraftControlRecordType.LEADER_CHANGE: kip_595.LeaderChangeMessage,
    },
    control_version=0,
    id_property="broker.id",  # The draft is of brokers.
)
