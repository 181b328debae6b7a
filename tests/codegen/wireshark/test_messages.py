"""The dissector in tshark: it shows what our decoder says, field by field and byte by byte."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest

from .expected import expected, shown
from .sessions import Bodies, Sent, messages, pairs, shown_of, title, vectors
from .tshark import Shown

pytestmark = pytest.mark.wireshark

IN_BATCH = re.compile(
    r"(^|\.)(records|unalignedRecords)\["
)  # What is wrong with random bytes for record batches.
# `make campaigns ARGS=dissector` takes all of them.
ONE_VECTOR_IN = 1 if os.environ.get("KRAFTSPEC_DISSECTED") == "all" else 4
FOUND = re.compile(r" at byte (\d+): .*\[(\w+)\]$", re.DOTALL)


def complaints(top: Shown) -> list[str]:
    """Return what the dissector says is wrong with a message, but not with batches in it."""
    return [line.value for line in top.named("error") if not IN_BATCH.search(line.value)]


def differences(sent: Sent, top: Shown) -> list[str]:
    """Return how what tshark shows of a frame differs from what our decoder says of its body."""
    bodies = [line for line in top.below if line.text == title(sent)]
    if len(bodies) != 1:
        return [f"{sent.label}: shown as {[line.text for line in top.below]}, not as {title(sent)}"]
    lines, read = expected(sent.message, sent.version, sent.data)
    shown_lines = shown(bodies[0], lines)
    if shown_lines == lines and read.error is None and not complaints(top):
        return []
    both = zip([*lines, None], [*shown_lines, None], strict=False)
    wanted, given = next((pair for pair in both if pair[0] != pair[1]), (None, None))
    return [f"{sent.label}: {wanted} wanted, {given} shown; {complaints(top)}"]


def compare(chosen: Bodies, dissector: Path, path: Path) -> tuple[int, list[str]]:
    """Send exchanges; return how many frames there were, and what differs."""
    count, wrong = 0, list[str]()
    for sent, top in shown_of(pairs(chosen, chosen), dissector, path):
        count += 1
        wrong += differences(sent, top)
    return count, wrong


def fullest(bodies: Bodies) -> Bodies:
    """Return one vector of each message and version: the one with the most fields."""
    return {pair: [max(some, key=_fields)] for pair, some in bodies.items()}


def _fields(sent: Sent) -> int:
    return str(sent.vector and sent.vector.value).count("':")


@pytest.mark.soak
@pytest.mark.smoke
def test_it_shows_what_our_decoder_says_of_every_api_and_version(
    dissector: Path, tmp_path: Path
) -> None:
    chosen = fullest(vectors("valid", "request", "response"))
    count, wrong = compare(chosen, dissector, tmp_path / "sample.pcap")
    requests = [message for message in messages().values() if message.type == "request"]
    assert count == 2 * sum(len(message.valid_versions) for message in requests)
    assert not wrong, "\n".join(islice(wrong, 20))


@pytest.mark.soak
def test_it_shows_what_our_decoder_says_of_vectors(dissector: Path, tmp_path: Path) -> None:
    every = vectors("valid", "request", "response")
    chosen = {pair: some[::ONE_VECTOR_IN] for pair, some in every.items()}
    count, wrong = compare(chosen, dissector, tmp_path / "all.pcap")
    assert count >= sum(map(len, chosen.values()))
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong[:20]])


def refused(bodies: Bodies) -> Bodies:
    """Return the vectors whose bytes are refused, of versions that there are."""
    return {
        (name, version): some
        for (name, version), some in bodies.items()
        if version in messages()[name].valid_versions
    }


def is_fallback(sent: Sent) -> bool:
    """Return whether bytes are an ApiVersions response of version 0, whatever was asked."""
    count = int.from_bytes(sent.data[2:6], "big")
    return (
        sent.message.name == "ApiVersionsResponse"
        and sent.data.startswith(b"\0\x23")
        and len(sent.data) == 6 + 6 * count
    )


def unreported(shown_frames: Iterable[tuple[Sent, Shown]]) -> tuple[int, list[str]]:
    """Return how many frames there were that our decoder refuses, and which are not so shown.

    What the dissector says first must be of the class and the byte of our decoder's error.
    """
    count, wrong = 0, list[str]()
    for sent, top in shown_frames:
        _, read = expected(sent.message, sent.version, sent.data)
        if read.error is None or is_fallback(sent):
            continue
        count += 1
        reported = [match.groups() for match in map(FOUND.search, complaints(top)) if match]
        wanted = (str(read.error.offset), str(read.error.error_class))
        if reported[:1] != [wanted]:
            wrong.append(f"{sent.label}: {wanted} wanted, {complaints(top)} shown")
    return count, wrong


def with_classes(bodies: Bodies) -> Bodies:
    """Return a vector of each class of error of each message, at one version."""
    chosen: Bodies = {}
    known = set()
    for pair, some in bodies.items():
        for sent in some:
            assert sent.vector is not None
            assert sent.vector.error is not None
            kind = (pair[0], getattr(sent.vector.error, "class_", ""))
            if kind not in known:
                known.add(kind)
                chosen.setdefault(pair, []).append(sent)
    return chosen


def malformed(bad: Bodies, good: Bodies) -> Iterable[tuple[Sent, Sent]]:
    """Yield exchanges of which one side is malformed."""
    for (name, version), some in sorted(bad.items()):
        for sent in some:
            if sent.message.type == "request":
                answer = good[f"{name.removesuffix('Request')}Response", version][0]
                yield sent, answer
            else:
                yield good[f"{name.removesuffix('Response')}Request", version][0], sent


@pytest.mark.soak
def test_malformed_bytes_are_reported_with_class_and_byte(dissector: Path, tmp_path: Path) -> None:
    bad = with_classes(refused(vectors("invalid", "request", "response")))
    exchanges = malformed(bad, vectors("valid", "request", "response"))
    count, wrong = unreported(islice(shown_of(exchanges, dissector, tmp_path / "bad.pcap"), 1_000))
    assert count > 400
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong[:20]])


@pytest.mark.soak
def test_every_malformed_vector_is_reported(dissector: Path, tmp_path: Path) -> None:
    bad = refused(vectors("invalid", "request", "response"))
    exchanges = malformed(bad, vectors("valid", "request", "response"))
    count, wrong = unreported(shown_of(exchanges, dissector, tmp_path / "bad.pcap"))
    assert count > 10_000
    assert not wrong, "\n".join([f"{len(wrong)} of {count}", *wrong[:20]])
