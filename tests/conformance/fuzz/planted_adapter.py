"""Our pure codec behind the harness protocol, with one fault in VoteRequest: ``... FAULT``.

* ``sign``: replicaEpoch of a partition is read and written as a uint32.
* ``width``: lastOffsetEpoch of a partition is an int16.
* ``null``: a null topic name is taken.
* ``dies``: the process ends over an empty cluster id at version 2. ``hangs``: it stops answering.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from kraftspec.fastpath import native

native.PURE = True  # Before any module asks for its compiled half.

from kraftspec.conformance.adapters import ours as adapter  # noqa: E402 - after the line above
from kraftspec.fastpath.message import Codec  # noqa: E402 - as above
from kraftspec.fastpath.plan import Layout, Layouts  # noqa: E402 - as above
from kraftspec.generated.kafka import VoteRequest  # noqa: E402 - as above

Rewrite = tuple[str, str, str, bool]  # Field, wire, its new wire, its new nullability.

FAULTS: dict[str, Rewrite] = {
    "sign": ("replicaEpoch", "int32", "uint32", False),
    "null": ("topicName", "compact_string", "compact_string", True),
    "width": ("lastOffsetEpoch", "int32", "int16", False),
}


def rewritten(layouts: Layouts, fault: Rewrite) -> Layouts:
    """Return the layouts with one field as the fault has it."""
    name, wire, other, nullable = fault

    def of(layout: Layout) -> Layout:
        struct, flexible, fields, *rest = layout
        changed: Any = tuple(
            (entry[0], entry[1], other, nullable, entry[4]) if entry[0] == name
            and entry[2] == wire else entry
            for entry in fields
        )  # fmt: skip
        return (struct, flexible, changed, *rest)

    return tuple(of(layout) for layout in layouts)


def plant(fault: str) -> None:
    """Put a fault into the class."""
    kept = VoteRequest.CODEC
    if fault in FAULTS:
        codec = Codec("", kept.structs, rewritten(kept.layouts, FAULTS[fault]), kept.plans)
        codec.encoders, codec.decoders = {}, {}  # The interpreter runs the layouts alone.
        VoteRequest.CODEC = codec
        return
    encode = VoteRequest.encode

    def ends(self: Any, version: int) -> bytes:
        if self.cluster_id == "" and version == 2:
            if fault == "hangs":
                time.sleep(3600)
            os._exit(9)
        return encode(self, version)

    VoteRequest.encode = ends  # type: ignore[method-assign]  # the fault


if __name__ == "__main__":
    plant(sys.argv[1])
    sys.exit(adapter.serve("planted"))
