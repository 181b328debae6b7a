"""The profile ``kip-853``: the first version of KIP-853, much of it left open by its author.

A replica is an id and a uuid that it makes for itself and keeps in quorum-state. The log says who
votes, a record for each voter that is added or removed. ``docs/kip-853.md`` has what is filled in.

The uuid is the core's ``config.directory_id``; a host leaves that zero, and the core takes what
quorum-state has, or makes one before it writes that file for the first time.
"""

from __future__ import annotations

from kraftspec.generated import kip_853
from kraftspec.generated.control_records import ControlRecordType, DraftControlRecordType
from kraftspec.reference.profiles.parts import Parts, snapshot_messages

PARTS = Parts(
    name="kip-853",
    messages=kip_853,
    control_messages=lambda: {
        ControlRecordType.LEADER_CHANGE: kip_853.LeaderChangeMessage,
        **snapshot_messages(),
        DraftControlRecordType.ADD_VOTER: kip_853.AddVoterRecord,
        DraftControlRecordType.REMOVE_VOTER: kip_853.RemoveVoterRecord,
    },
)
