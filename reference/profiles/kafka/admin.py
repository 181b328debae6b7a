"""The admin client of Apache Kafka's own quorums, which ``quorum`` shows in Kafka's words."""

from __future__ import annotations

from kraftspec.reference.admin.client import AdminClient
from kraftspec.reference.profiles.common.admin import AdminPart


class KafkaAdminPart(AdminPart):
    """Kafka's quorums."""

    client = AdminClient


ADMIN = KafkaAdminPart
