"""The history of schemas: the file, each kind of change, and the specs that they give again."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from kraftspec.codegen.history import __main__ as program
from kraftspec.codegen.history.changes import HistoryError, applied, changes_between
from kraftspec.codegen.history.states import (
    History,
    history_of,
    history_text,
    packaged_history,
    read_history,
)
from kraftspec.codegen.history.view import field_aliases, overviews, rows, selected, table
from kraftspec.codegen.importer import fields_by_path
from kraftspec.codegen.releases import HISTORY, numbers
from kraftspec.specs import kafka_release, specs_root

BYTES_MAX = 1_000_000
STATES = dict(packaged_history().states())
KEYS = {
    frozenset({"added"}), frozenset({"removed"}), frozenset({"key", "from", "to"}),
    frozenset({"at", "added"}), frozenset({"at", "added", "after"}), frozenset({"at", "removed"}),
    frozenset({"at", "key", "from", "to"}), frozenset({"at", "was"}),
    frozenset({"at", "fields from"}), frozenset({"at", "after"}),
}  # fmt: skip

Spec = dict[str, Any]


def field(name: str, kind: str = "int32", **keys: Any) -> Spec:
    return {"name": name, "type": kind, "versions": "0+", **keys}


def message(*fields: Spec, structs: tuple[Spec, ...] = (), **keys: Any) -> Spec:
    """Return a message of a state."""
    spec: Spec = {
        "module": "clients", "apiKey": 1, "type": "request", "name": "PingRequest",
        "validVersions": "0", "flexibleVersions": "0+", **keys, "fields": list(fields),
    }  # fmt: skip
    return {**spec, "commonStructs": list(structs)} if structs else spec


def struct(name: str, *fields: Spec) -> Spec:
    return {"name": name, "versions": "0+", "fields": list(fields)}


# The file.


def test_the_file_has_the_form_that_is_documented() -> None:
    text = HISTORY.read_text("utf-8")
    assert len(text.encode()) < BYTES_MAX
    history = read_history()
    assert history_text(history) == text
    assert list(history.releases) == sorted(history.releases, key=numbers)
    assert list(history.messages) == sorted(history.messages)
    for name, changes in history.messages.items():
        releases = [change["release"] for change in changes]
        assert releases == sorted(releases, key=numbers), name
        assert set(releases) <= set(history.releases), name
        assert "added" in changes[0], name
        assert {frozenset(change) - {"release"} for change in changes} <= KEYS, name


def test_one_line_a_change() -> None:
    lines = HISTORY.read_text("utf-8").splitlines()
    changes = [change for own in packaged_history().messages.values() for change in own]
    whole = [line for line in lines if line.startswith('      {"release": ')]
    assert len(whole) == len(changes)


def test_the_release_of_the_checkout_is_what_the_history_gives() -> None:
    """``specs/kafka`` is a release; our own words are not the history's."""
    kafka = {}
    for path in (specs_root() / "kafka").glob("*/*.json"):
        spec = json.loads(path.read_text("utf-8"))
        for _, entry in fields_by_path(spec):
            entry.pop("about", None)
        kafka[spec["name"]] = {"module": path.parent.name, **spec}
    assert kafka == STATES[kafka_release()]


def test_the_history_is_a_function_of_the_states_alone() -> None:
    shuffled = {release: STATES[release] for release in reversed(STATES)}
    assert history_text(history_of(shuffled)) == HISTORY.read_text("utf-8")


def test_a_release_that_comes_later_goes_to_its_place(tmp_path: Path) -> None:
    recent = {release: state for release, state in STATES.items() if numbers(release) >= (3, 9)}
    first = {release: recent[release] for release in recent if release not in ("3.9.1", "4.0.1")}
    path = tmp_path / "history.json"
    path.write_text(history_text(history_of(first)), "utf-8")
    both = {**recent, **dict(read_history(path).states())}
    assert list(both) != list(first)
    assert history_text(history_of(both)) == history_text(history_of(recent))


# Changes.

VOTER = struct("Voter", field("VoterId"), field("Port", "uint16"))
INLINE = [field("VoterId"), field("Port", "uint16")]
STEPS: dict[str, tuple[Spec, Spec, list[Spec]]] = {
    "a fact of the message": (
        message(field("A")),
        message(field("A"), validVersions="0-1"),
        [{"key": "validVersions", "from": "0", "to": "0-1"}],
    ),
    "a fact of a field that was absent": (
        message(field("A")),
        message(field("A", ignorable=True)),
        [{"at": "A", "key": "ignorable", "from": None, "to": True}],
    ),
    "another module": (
        message(field("A"), module="core"),
        message(field("A")),
        [{"key": "module", "from": "core", "to": "clients"}],
    ),
    "a field before the others": (
        message(field("A")),
        message(field("New", versions="1+"), field("A"), validVersions="0-1"),
        [
            {"key": "validVersions", "from": "0", "to": "0-1"},
            {"at": "New", "added": {"type": "int32", "versions": "1+"}, "after": None},
        ],
    ),
    "a field behind the others": (
        message(field("A")),
        message(field("A"), field("B", "Voter", fields=INLINE)),
        [{"at": "B", "added": {"type": "Voter", "versions": "0+", "fields": INLINE}}],
    ),
    "a field gone from an inner struct": (
        message(field("T", "[]Topic", fields=[field("A"), field("B", "string")])),
        message(field("T", "[]Topic", fields=[field("A")])),
        [{"at": "T.B", "removed": {"type": "string", "versions": "0+"}}],
    ),
    "a field with another name": (
        message(field("A"), field("Old"), field("C", "string")),
        message(field("A"), field("New"), field("C", "string")),
        [{"at": "New", "was": "Old"}],
    ),
    "a tagged field in another place": (
        message(*(field(n, tag=i, taggedVersions="0+") for i, n in enumerate("ABC"))),
        message(*(field(n, tag="ABC".index(n), taggedVersions="0+") for n in "CAB")),
        [{"at": "C", "after": None}],
    ),
    "a struct becomes a common one": (
        message(field("V", "[]Voter", fields=INLINE)),
        message(field("V", "[]Voter"), structs=(VOTER,)),
        [
            {"at": "<Voter>", "fields from": "V"},
            {"at": "<Voter>", "key": "versions", "from": None, "to": "0+"},
        ],
    ),
    "a common struct goes to its only user": (
        message(field("V", "[]Voter"), structs=(VOTER,)),
        message(field("V", "[]Voter", fields=INLINE)),
        [{"at": "V", "fields from": "<Voter>"}],
    ),
    "a common struct with another name": (
        message(field("V", "[]Voter"), field("W", "Voter"), structs=(VOTER,)),
        message(field("V", "[]Peer"), field("W", "Peer"), structs=({**VOTER, "name": "Peer"},)),
        [
            {"at": "V", "key": "type", "from": "[]Voter", "to": "[]Peer"},
            {"at": "W", "key": "type", "from": "Voter", "to": "Peer"},
            {"at": "<Peer>", "was": "Voter"},
        ],
    ),
    "a common struct that is new": (
        message(field("A")),
        message(field("A"), field("V", "[]Voter"), structs=(VOTER,)),
        [
            {"at": "V", "added": {"type": "[]Voter", "versions": "0+"}},
            {"at": "<Voter>", "added": {"versions": "0+", "fields": VOTER["fields"]}},
        ],
    ),
    "a common struct that is gone": (
        message(field("A"), field("V", "[]Voter"), structs=(VOTER,)),
        message(field("A")),
        [
            {"at": "V", "removed": {"type": "[]Voter", "versions": "0+"}},
            {"at": "<Voter>", "removed": {"versions": "0+"}},
        ],
    ),
    "a field of a common struct": (
        message(field("V", "[]Voter"), structs=(VOTER,)),
        message(field("V", "[]Voter"), structs=(struct("Voter", *INLINE, field("Rack")),)),
        [{"at": "<Voter>.Rack", "added": {"type": "int32", "versions": "0+"}}],
    ),
    "one of two users gets a struct of its own": (
        message(field("V", "Voter"), field("W", "Voter"), structs=(VOTER,)),
        message(field("V", "Voter"), field("W", "Own", fields=INLINE), structs=(VOTER,)),
        [
            {"at": "W", "key": "type", "from": "Voter", "to": "Own"},
            {"at": "W", "key": "fields", "from": None, "to": INLINE},
        ],
    ),
    "nothing is left": (
        message(field("A")),
        {k: v for k, v in message(validVersions="none").items() if k != "fields"},
        [
            {"key": "validVersions", "from": "0", "to": "none"},
            {"at": "A", "removed": {"type": "int32", "versions": "0+"}},
            {"key": "fields", "from": [], "to": None},
        ],
    ),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step(step: str) -> None:
    old, new, changes = STEPS[step]
    kept = deepcopy(old)
    assert changes_between(old, new) == changes
    assert applied(old, changes) == new
    assert old == kept


def test_every_spec_can_become_every_other() -> None:
    """Steps that no release made: over all releases at once, back, and to another message."""
    first, last = next(iter(STATES.values())), STATES[kafka_release()]
    for name in first.keys() & last.keys():
        for old, new in ((first[name], last[name]), (last[name], first[name])):
            assert applied(old, changes_between(old, new)) == new
    names = list(last)
    for name, other in zip(names, [*names[7:], *names[:7]], strict=True):
        new = {**last[other], "name": name}
        assert applied(last[name], changes_between(last[name], new)) == new


def test_a_message_comes_goes_and_comes_back() -> None:
    states = {
        "3.0.0": {},
        "3.0.1": {"PingRequest": message()},
        "3.1.0": {},
        "3.2.0": {"PingRequest": message(apiKey=2)},
    }
    history = history_of(states)
    assert [sorted(change) for change in history.messages["PingRequest"]] == [
        ["added", "release"], ["release", "removed"], ["added", "release"],
    ]  # fmt: skip
    assert dict(history.states()) == states


def test_a_spec_with_mistakes_is_refused() -> None:
    with pytest.raises(HistoryError, match="PingRequest"):
        changes_between(message(field("A")), message(field("A", "in32")))


# What people see.


def shown(history: History, name: str, wanted: str = "", release: str = "") -> list[str]:
    aliases = field_aliases(history.messages[name], wanted)
    return [
        f"{row.release} {line}"
        for row in rows(selected(history, [name], wanted, release), aliases)
        for line in row.lines
    ]


def history_with(*states: Spec) -> History:
    return history_of({f"4.{i}.0": {"PingRequest": s} for i, s in enumerate(states)})


def test_a_message_as_text() -> None:
    inner = [field("A"), field("Old", "string", default="x")]
    renamed = [inner[0], field("New", "string", default="x", versions="0")]
    tagged = field("Tag", "uuid", versions="1+", tag=0, taggedVersions="1+", ignorable=True)
    history = history_with(
        message(field("T", "[]Topic", fields=inner), listeners=["broker"]),
        message(
            field("T", "[]Topic", fields=renamed), tagged, validVersions="0-1",
            latestVersionUnstable=True, listeners=["broker", "controller"],
        ),
        message(field("T", "[]Topic", fields=renamed), validVersions="1-2"),
        message(field("T", "[]Topic", fields=renamed), validVersions="0-1"),
        message(field("T", "[]Topic", fields=renamed), validVersions="none"),
    )  # fmt: skip
    assert shown(history, "PingRequest") == [
        "4.0.0 new: request, API key 1, versions 0 (flexible 0+)",
        "4.1.0 versions 0 → 0-1: new 1",
        "4.1.0 listeners broker → broker controller",
        "4.1.0 the latest version is not final",
        "4.1.0 + tag: uuid, versions 1+, tag 0, ignorable",
        "4.1.0 ~ t.new: was old; versions 0+ → 0",
        "4.2.0 versions 0-1 → 1-2: new 2, dropped 0",
        "4.2.0 listeners broker controller → none",
        "4.2.0 the latest version is final",
        "4.2.0 - tag: uuid, versions 1+, tag 0, ignorable",
        "4.3.0 versions 1-2 → 0-1: back 0, withdrawn 2",
        "4.4.0 versions 0-1 → none: removed",
    ]


def test_a_field_is_followed_through_its_names() -> None:
    history = packaged_history()
    expected = [
        "2.8.0 + topics.partitions.candidateId: int32, versions 0+",
        "3.0.0 ~ topics.partitions.candidateId: entityType none → brokerId",
        "4.0.0 ~ topics.partitions.replicaId: was candidateId",
    ]
    for name in ("replicaId", "candidateId", "topics.partitions.ReplicaId"):
        assert shown(history, "VoteRequest", name) == expected
    assert shown(history, "VoteRequest", "replicaId", "4.0.0") == expected[2:]
    assert shown(history, "VoteRequest", "voterId")[0].startswith("3.9.0 + voterId")


def test_releases_as_a_whole() -> None:
    history = history_of(
        {
            "4.0.0": {"PingRequest": message(), "Old": message(name="Old", type="data")},
            "4.0.1": {"PingRequest": message(), "Old": message(name="Old", type="data")},
            "4.1.0": {
                "PingRequest": message(validVersions="0-2"),
                "Old": message(name="Old", type="data", validVersions="none"),
                "PongRequest": message(name="PongRequest"),
                "PongResponse": message(name="PongResponse", type="response"),
                "PingKey": message(name="PingKey", type="coordinator-key"),
                "PingValue": message(name="PingValue", type="coordinator-value"),
            },
        }
    )
    last = list(overviews(history))[-1]
    assert (last.messages, last.apis, last.pairs, last.changed) == (6, 2, 7, 2)
    assert table(history).splitlines()[2:] == [
        "| 4.0.0 to 4.0.1 | 2 | 1 | 2 |  |  |  |",
        "| 4.1.0 | 6 | 2 | 7 | 2 | Ping (key, value), **Pong** | Old |",
    ]


def test_the_page_is_up_to_date() -> None:
    page = program.PAGE.read_text("utf-8")
    assert program.with_table(page, table(packaged_history())) == page
    assert table(packaged_history()) in page
    empty = "before " + " ".join(program.MARKS) + " after"
    assert program.with_table(empty, "ROWS") == empty.replace("> <", ">\n\nROWS\n\n<")
    with pytest.raises(HistoryError, match="no lines '<!-- releases -->'"):
        program.with_table("no marks", "ROWS")
