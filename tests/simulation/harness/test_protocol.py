"""Frames of the node harness protocol: what is written is read, and what is damaged is refused."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.simulation.harness.protocol import (
    HEAD,
    PROTOCOL,
    HarnessError,
    Layout,
    decode_commands,
    decode_events,
    encode,
    encode_event,
)

ROOT = Path(__file__).resolve().parents[3]

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "uuid": st.binary(min_size=16, max_size=16),
    "bytes": st.binary(max_size=40),
    "string": st.text(max_size=20),
    **{
        f"int{bits}": st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)
    },
}
VALUES |= {
    f"[{kind}]": st.lists(VALUES[kind], max_size=4).map(tuple)
    for kind in ("int32", "bytes", "string")
}


def messages(layouts: tuple[Layout, ...]) -> st.SearchStrategy[tuple[int, int, tuple[str, Any]]]:
    """Draw a message: its run, its node, its name and its values."""
    return st.sampled_from(layouts).flatmap(
        lambda layout: st.tuples(
            VALUES["int32"],
            VALUES["int32"],
            st.tuples(*(VALUES[kind] for _, kind, _ in layout.fields)).map(
                lambda values: (layout.name, values)
            ),
        )
    )


@given(st.lists(messages(PROTOCOL.commands), max_size=5))
def test_commands_are_read_as_they_were_written(commands: list[Any]) -> None:
    frame = b"".join(encode(name, run, node, *values) for run, node, (name, values) in commands)
    assert decode_commands(frame) == commands


@given(st.lists(messages(PROTOCOL.events), max_size=5))
def test_events_are_read_as_they_were_written(events: list[Any]) -> None:
    frame = b"".join(encode_event(name, run, node, *values) for run, node, (name, values) in events)
    assert decode_events(frame) == events


@given(messages(PROTOCOL.events), st.data())
def test_an_event_that_is_cut_short_is_refused(event: Any, data: st.DataObject) -> None:
    run, node, (name, values) = event
    whole = encode_event(name, run, node, *values)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(HarnessError, match="byte"):
        decode_events(whole[:cut])


@given(st.binary(max_size=60))
def test_any_bytes_are_events_or_refused(data: bytes) -> None:
    try:
        events = decode_events(data)
    except HarnessError:
        return
    assert b"".join(encode_event(n, run, node, *v) for run, node, (n, v) in events) == data


def test_what_is_wrong_is_said_with_its_offset() -> None:
    flushed = encode_event("flushed", 1, 2, 7)
    with pytest.raises(HarnessError, match=f"at byte {len(flushed)}"):
        decode_events(flushed + HEAD.pack(63, 1, 2, 0))
    longer = HEAD.pack(68, 1, 2, 9) + bytes(9)
    with pytest.raises(HarnessError, match="flushed at byte 0 has 9 bytes, not 8"):
        decode_events(longer)
    huge = HEAD.pack(85, 1, 2, 12) + struct.pack(">qi", 0, 1 << 30)
    with pytest.raises(HarnessError, match=f"a size of {1 << 30} at byte {HEAD.size + 8}"):
        decode_events(huge)


def _table(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


@pytest.mark.parametrize("layouts", [PROTOCOL.commands, PROTOCOL.events], ids=["to", "from"])
def test_the_page_lists_each_message(layouts: tuple[Layout, ...]) -> None:
    rows = [["code", "name", "fields", "what it means"], ["---:", "---", "---", "---"]]
    for layout in layouts:
        fields = ", ".join(f"{name} {kind}" for name, kind, _ in layout.fields)
        name = f"`{layout.name}`" + (" *" if layout.is_effect else "")
        rows.append([str(layout.code), name, fields, layout.about])
    assert _table(rows) in (ROOT / "docs/node-harness.md").read_text("utf-8")


def test_the_page_lists_types_and_capabilities() -> None:
    page = (ROOT / "docs/node-harness.md").read_text("utf-8")
    for name, about in {**PROTOCOL.types, **PROTOCOL.capabilities}.items():
        assert f"| `{name}` | {about} |" in page


def test_the_pages_batch_is_the_one_that_kafka_sent() -> None:
    page = (ROOT / "docs/node-harness.md").read_text("utf-8")
    (test_id,) = re.findall(r"test `(\w+)`", page)
    shown = bytes.fromhex("".join(re.findall(r"^\| `((?:[0-9a-f]{2} ?)+)` \|", page, re.M)))
    vectors = json.loads((ROOT / "conformance/vectors/captured/FetchResponse.json").read_bytes())
    (test,) = (test for test in vectors["tests"] if test["id"] == test_id)
    batch = base64.b64decode(test["value"]["responses"][0]["partitions"][0]["records"])
    assert batch.startswith(shown)
    assert len(shown) == 61 + 1 + 44  # A batch's header, and a record behind its length.


def test_codes_and_names_are_distinct() -> None:
    layouts = (*PROTOCOL.commands, *PROTOCOL.events)
    assert len({layout.code for layout in layouts}) == len(layouts)
    assert len({layout.name for layout in layouts}) == len(layouts)
