"""One object a profile: what is in its logs, and where its other parts are.

A part is a module of the profile's package, which is loaded when it is asked for: a command that
reads a log, or asks one question, needs no core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kraftspec.generated import kafka
from kraftspec.generated.control_records import ControlRecordType

if TYPE_CHECKING:
    from enum import IntEnum

    from kraftspec.fastpath.message import Message
    from kraftspec.reference.profiles.common.admin import AdminPart
    from kraftspec.reference.profiles.common.node import NodePart
    from kraftspec.reference.profiles.common.profile import ProfileBase

    ControlMessages = Mapping[IntEnum, type[Message]]


def snapshot_messages() -> ControlMessages:
    """Return the control records of every profile that has snapshots (KIP-630)."""
    return {
        ControlRecordType.SNAPSHOT_HEADER: kafka.SnapshotHeaderRecord,
        ControlRecordType.SNAPSHOT_FOOTER: kafka.SnapshotFooterRecord,
    }


class Parts:
    """What a profile is made of.

    ``messages`` is the package of its generated messages. ``control_version`` is the version of all
    control records in its log, None where each begins with its own. ``is_metadata_log``: its data
    records are those of Kafka's metadata, and nothing else. ``id_property`` has a node's id in
    meta.properties.
    """

    def __init__(
        self,
        *,
        name: str,
        messages: Any,
        control_messages: Callable[[], ControlMessages],
        control_version: int | None = None,
        is_metadata_log: bool = False,
        id_property: str = "node.id",
    ) -> None:
        self.name = name
        self.messages = messages
        self._control_messages = control_messages
        self.control_version = control_version
        self.is_metadata_log = is_metadata_log
        self.id_property = id_property

    def _load(self, part: str) -> Any:
        package = f"{__package__}.{self.name.replace('-', '_')}"
        return getattr(import_module(f"{package}.{part}"), part.upper())

    @cached_property
    def control_messages(self) -> dict[int, type[Message]]:
        """The messages of control records, by control record type."""
        return {int(kind): message for kind, message in self._control_messages().items()}

    @cached_property
    def control_names(self) -> dict[int, str]:
        """What the types of control records are called."""
        return {int(kind): kind.name for kind in self._control_messages()}

    @cached_property
    def profile(self) -> type[ProfileBase]:
        """The translator and the policy that the core works with."""
        profile: type[ProfileBase] = self._load("profile")
        return profile

    @cached_property
    def node(self) -> NodePart:
        """What a node is beside its core, how it is formatted, and laid out as a quorum."""
        kind: NodePart = self._load("node")(self)
        return kind

    @cached_property
    def admin(self) -> AdminPart:
        """How a quorum is asked and shown."""
        kind: AdminPart = self._load("admin")(self)
        return kind
