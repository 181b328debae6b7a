"""Which tests a run is of: filters, shards, the lines of requests, and how cases are dealt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraftspec.conformance.runner.cases import Case, Filters, Shard, dealt, read_cases, shuffled

from .test_run import HEX, VALUE, vector, vectors


@pytest.fixture
def root(tmp_path: Path) -> Path:
    vectors(
        tmp_path,
        vector(1, flags=["KAFKA-1"]),
        vector(2, version=0, family="tagged", flags=["franz-go-961", "KAFKA-2"]),
        vector(3, version=1, op="decode", result="invalid"),
        vector(4, version=7, op="encode"),
    )
    vectors(tmp_path, vector(5), spec="kip-853")
    captured = (tmp_path / "kafka/VoteRequest.json").read_text().replace(f"{1:016x}", f"{6:016x}")
    (tmp_path / "captured").mkdir()
    (tmp_path / "captured/VoteResponse.json").write_text(
        captured.replace('"VoteRequest"', '"VoteResponse"')
    )
    (tmp_path / "node").mkdir()
    (tmp_path / "node/one.json").write_text("{}")
    return tmp_path


def chosen(root: Path, *filters: str) -> list[tuple[str, str, int, str]]:
    return [
        (case.spec, case.message, int(case.test.id, 16), case.direction[0])
        for case in read_cases(root, Filters(filters))
    ]


def test_all_of_them_in_the_order_of_the_vectors(root: Path) -> None:
    """The set is the file's, not the directory's; vectors for nodes are of another kind."""
    one = [(1, "e"), (1, "d"), (2, "e"), (2, "d"), (3, "d"), (4, "e")]
    other = [(6, "e"), (6, "d"), *one[2:]]
    assert chosen(root) == [
        *(("kafka", "VoteRequest", *case) for case in one),
        *(("kafka", "VoteResponse", *case) for case in other),
        ("kip-853", "VoteRequest", 5, "e"), ("kip-853", "VoteRequest", 5, "d"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["VoteRes"], [6, 6, 2, 2, 3, 4]),
        (["voteres"], [6, 6, 2, 2, 3, 4]),
        (["kip-853/Vote"], [5, 5]),
        (["kip-853/"], [5, 5]),
        (["*/VoteRes*"], [6, 6, 2, 2, 3, 4]),
        (["VoteRes*"], [6, 6, 2, 2, 3, 4]),
        (["kip-853/Vote", "VoteResponse"], [6, 6, 2, 2, 3, 4, 5, 5]),
        (["set:kip-*"], [5, 5]),
        (["message:VoteRequest", "set:kafka"], [1, 1, 2, 2, 3, 4]),
        (["message:Vote"], []),
        (["message:VoteRequest", "set:kafka", "version:0-1"], [2, 2, 3]),
        (["message:VoteRequest", "set:kafka", "version:0", "version:7"], [2, 2, 4]),
        (["VoteResponse", "family:tag*"], [2, 2]),
        (["VoteResponse", "direction:encode"], [6, 2, 4]),
        (["VoteResponse", "direction:encode", "direction:decode", "result:valid"],
         [6, 6, 2, 2, 4]),
        (["kafka/VoteRequest", "flag:KAFKA-*"], [1, 1, 2, 2]),
        (["kafka/VoteRequest", "flag:franz-go-961"], [2, 2]),
        (["id:0000000000000006"], [6, 6]),
        (["id:*6", "direction:decode"], [6]),
    ],
)  # fmt: skip
def test_filters(root: Path, filters: list[str], ids: list[int]) -> None:
    assert [case[2] for case in chosen(root, *filters)] == ids


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour:red", "there is no key 'colour': set, message, version"),
        ("version:new", "version:new is not version:3 or version:0-2"),
        ("version:1-", "is not version:3"),
        ("version:5-1", "version:5-1 is not version:3 or version:0-2"),
        ("result:vali", "'result:vali': result is one of valid, invalid, acceptable"),
        ("direction:in*", "direction is one of encode, decode"),
    ],
)
def test_a_filter_that_is_none(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Filters([text])


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "a/4", "1/", "-1/4", "1/4/2"])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not 1/4"):
        Shard.parse(text)
    assert str(Shard.parse("4/4")) == "4/4"


def test_lines_are_requests(root: Path) -> None:
    first, second, *_, draft = read_cases(root, Filters())
    id, line = first.line()
    assert json.loads(line) == {
        "cmd": "encode", "id": id, "message": "VoteRequest", "version": 2, "value": VALUE,
    }  # fmt: skip
    assert json.loads(second.line()[1])["hex"] == HEX
    assert json.loads(draft.line()[1])["spec"] == "kip-853"
    assert first.name == f"kafka/VoteRequest/2/alone/encode/{1:016x}"
    assert (first.flags, draft.flags) == (["KAFKA-1"], [])
    assert (first.key, draft.key) == ("VoteRequest", "kip-853/VoteRequest")


def test_a_file_that_somebody_has_wrapped_is_still_a_line_a_request(root: Path) -> None:
    path = root / "kafka/VoteRequest.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    first: Case = read_cases(root, Filters())[0]
    line = first.line()[1]
    assert line.count(b"\n") == 1
    assert json.loads(line)["value"] == VALUE


def test_cards_are_dealt_the_same_way_every_time() -> None:
    order = shuffled(1000, 7)
    assert shuffled(1000, 7) == order != shuffled(1000, 8)
    assert shuffled(5, None) == [0, 1, 2, 3, 4]
    hands: list[Any] = list(dealt(order, 3, 16))
    assert sorted(number for hand in hands for number in hand) == list(range(1000))
    assert hands[0][:16] == order[:16]
    assert hands[1][:16] == order[16:32]
    assert list(dealt(order, 1, 16)) == [order]
    assert max(map(len, hands)) - min(map(len, hands)) <= 16
