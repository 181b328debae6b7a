"""What is kept of a wreck: its directories, and ``manifest.json``."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kraftspec.interop.wrecks.client import Records

NAME = "manifest.json"


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the quorum. Its directory is ``ROLES-ID`` beside the manifest.

    ``log_end`` is the end of its metadata log after the wreck. ``state`` says what is done with it:
    ``given`` to recover; ``live``, a broker that is given and runs meanwhile; ``withheld``: it does
    not exist for recover, and may come back afterwards.
    """

    id: int
    roles: str
    port: int
    directory_id: str
    log_end: int
    state: str
    properties: dict[str, str]

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.roles}-{self.id}"


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What was so before the wreck, as its maker saw it from outside.

    ``records`` are those of all topics that were acknowledged; ``kept`` are the topics that the
    keeper's side must still hold. The rest may be lost, if that is printed before. ``unended`` are
    topics of a metadata transaction that did not end: they must not be there.
    """

    records: Records
    kept: list[str]
    voters: list[int]
    leader: int
    epoch: int
    high_watermark: int
    unended: list[str] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A wreck.

    ``keep`` are the ids for ``--keep``; ``options`` are others that recover needs, without
    the paths and addresses that are known only where it is done; ``expect`` is ``recovered`` or the
    code of a refusal, which those of ``beside`` may come with. ``returning`` are lost nodes that
    are started after the recovery.
    If it ``is_killed``, the command is, amid each of its changes in turn.
    ``story`` is what was done, step by step.
    """

    kind: str
    seed: int
    release: str
    cluster_id: str
    quorum: str
    keep: list[int]
    returning: list[int]
    expect: str
    options: list[str]
    nodes: list[NodeFacts]
    truth: Truth
    story: list[str]
    is_killed: bool = False
    beside: list[str] = []

    def node(self, id: int) -> NodeFacts:
        """Return the node of that id."""
        return next(node for node in self.nodes if node.id == id)

    def given(self) -> list[NodeFacts]:
        """Return the nodes whose directories recover is given."""
        return [node for node in self.nodes if node.state != "withheld"]

    def write(self, home: Path) -> None:
        """Write it into the wreck's directory."""
        data = msgspec.json.format(msgspec.json.encode(self), indent=1)
        (home / NAME).write_bytes(data + b"\n")


def read_manifest(home: Path) -> Manifest:
    """Read that of a wreck's directory."""
    return msgspec.json.decode((home / NAME).read_bytes(), type=Manifest)
