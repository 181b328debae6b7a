"""The profile ``kafka``: what Apache Kafka 4.4.0 speaks between controllers."""

from __future__ import annotations

from kraftspec.generated import kafka
from kraftspec.generated.control_records import ControlRecordType
from kraftspec.reference.profiles.parts import Parts, snapshot_messages

PARTS = Parts(
    name="kafka",
    messages=kafka,
    control_messages=lambda: {
        ControlRecordType.ABORT: kafka.EndTxnMarker,
        ControlRecordType.COMMIT: kafka.EndTxnMarker,
        ControlRecordType.LEADER_CHANGE: kafka.LeaderChangeMessage,
        **snapshot_messages(),
        ControlRecordType.KRAFT_VERSION: kafka.KRaftVersionRecord,
        ControlRecordType.KRAFT_VOTERS: kafka.VotersRecord,
    },
    is_metadata_log=True,
)
