"""The admin client of KIP-996's draft, whose voters never change: describe the quorum."""

from __future__ import annotations

from kraftspec.generated import kip_996
from kraftspec.reference.profiles.common.admin import DraftAdmin, DraftAdminPart


class Kip996Admin(DraftAdmin):
    """The one operation of KIP-996 as drafted."""

    messages = kip_996


class Kip996AdminPart(DraftAdminPart):
    """Replicas are ids."""

    client = Kip996Admin


ADMIN = Kip996AdminPart
