"""The profile ``kip-996``: pre-votes and Check Quorum as the first draft of KIP-996 had them.

The draft changes one API, Vote, whose version 1 says PreVote in the request and in the response.
The rest of the protocol is what Apache Kafka 3.6, the release of that time, spoke: static voters
without directory ids, and quorum-state of version 0.
"""

from __future__ import annotations

from kraftspec.generated import kafka, kip_996
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.reference.profiles.parts import Parts, snapshot_messages

PARTS = Parts(
    name="kip-996",
    messages=kip_996,
    control_messages=lambda: {
        ControlRecordType.LEADER_CHANGE: kafka.LeaderChangeMessage,  # It is the same.
        **snapshot_messages(),
    },
)
