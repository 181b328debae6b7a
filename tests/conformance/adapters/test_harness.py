"""The client side of the harness protocol, against a fake adapter that behaves or does not."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET

from kraftspec.conformance.adapters import harness
from kraftspec.conformance.adapters.harness import (
    Adapter,
    AdapterError,
    Request,
    decode_request,
    encode_request,
    version_range,
)
from kraftspec.fastpath.errors import ErrorClass

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/harness.schema.json").read_text())
FAKE = Path(__file__).with_name("misbehaving_adapter.py")


def fake(mode: str = "well", timeout_s: float = 20.0) -> Adapter:
    return Adapter([sys.executable, "-S", "-E", str(FAKE), mode], timeout_s=timeout_s)


def numbered(count: int, **more: Any) -> Iterator[Request]:
    for i in range(count):
        yield encode_request(str(i), "VoteRequest", 0, more)


BAD = {"cmd": "encode", "id": "bad"}


# --- an adapter that behaves ---


def test_hello() -> None:
    with fake() as adapter:
        hello = adapter.hello()
    assert (hello.name, hello.language, hello.messages) == (
        "fake",
        "python",
        {"VoteRequest": "0-2"},
    )
    assert (hello.sets, hello.notes) == (UNSET, UNSET)


def test_replies_come_in_order_one_a_request() -> None:
    with fake() as adapter:
        replies = list(adapter.run(numbered(2000)))
        assert [reply["id"] for reply in replies] == [str(i) for i in range(2000)]
        assert list(adapter.run([])) == []
        assert adapter.request(decode_request("d", "M", 1, "00", "kip-853"))["echo"] == {
            "cmd": "decode", "id": "d", "message": "M", "version": 1, "hex": "00",
            "spec": "kip-853",
        }  # fmt: skip


def test_lines_longer_than_a_pipe_do_not_deadlock() -> None:
    """The fake answers a line before it reads the next, and neither fits into a pipe."""
    text = "é" * 300_000
    with fake() as adapter:
        for reply in adapter.run(numbered(20, text=text)):
            assert reply["echo"]["value"]["text"] == text


def test_numbers_and_text_travel_exactly() -> None:
    value = {
        "integers": [0, -(2**63), 2**63 - 1, 2**64 - 1, 10**30],
        "floats": [1.0, -0.0, 1e22, 5e-324],
        "text": 'é\U0001f600\u2028\x00"\\\n',
    }
    with fake() as adapter:
        echoed = adapter.request(encode_request("n", "M", 0, value))["echo"]["value"]
    assert echoed == value
    assert [repr(number) for number in echoed["floats"]] == ["1.0", "-0.0", "1e+22", "5e-324"]
    assert all(type(number) is int for number in echoed["integers"])


def test_a_float_that_is_not_finite_is_the_callers_mistake() -> None:
    with fake() as adapter:
        with pytest.raises(ValueError, match="not JSON compliant"):
            adapter.request(encode_request("n", "M", 0, {"value": float("nan")}))
        assert adapter.request({"cmd": "encode", "id": "after"})["id"] == "after"


def test_requests_are_taken_only_as_room_appears() -> None:
    taken = []

    def endless() -> Iterator[Request]:
        for request in numbered(10**9):
            taken.append(request)
            yield request

    with fake() as adapter:
        replies = adapter.run(endless())
        assert next(replies)["id"] == "0"
        assert len(taken) <= harness.IN_FLIGHT_COUNT_MAX
        replies.close()  # type: ignore[attr-defined]  # a generator, though not promised
        # What was in flight is not taken for the answer to another request.
        assert adapter.request({"cmd": "encode", "id": "next"})["id"] == "next"


def test_stop_gives_the_exit_code_and_start_begins_again() -> None:
    adapter = fake()
    assert adapter.stop() is None
    adapter.start()
    assert adapter.hello().name == "fake"
    assert adapter.stop() == 0
    adapter.start()
    assert adapter.request({"cmd": "encode", "id": "2"})["id"] == "2"
    assert adapter.stop() == 0


def test_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "STOP_TIMEOUT_S", 0.2)
    with fake("deaf") as adapter:
        adapter.hello()
        assert adapter.stop() == -9


def test_stop_with_requests_in_flight_ends_it_at_once() -> None:
    with fake("hang") as adapter:
        replies = adapter.run([{"cmd": "encode", "id": "1"}, BAD])
        assert next(replies)["id"] == "1"
        began = time.monotonic()
        assert adapter.stop() == -9
        assert time.monotonic() - began < harness.STOP_TIMEOUT_S


def test_stop_of_one_that_has_ended_by_itself() -> None:
    with fake("stillborn") as adapter:
        # Its end is not noticed before somebody talks to it.
        os.waitid(os.P_PID, adapter.pid, os.WEXITED | os.WNOWAIT)
        assert adapter.stop() == 3


# --- an adapter that does not ---


def failure(adapter: Adapter, *, timeout_s: float = 20.0) -> tuple[AdapterError, list[str]]:
    """Send a bad request between good ones; return the error and the ids answered before it."""
    answered: list[str] = []
    adapter.start()
    adapter.hello()  # To begin may take longer.
    adapter.timeout_s = timeout_s
    replies = adapter.run([*numbered(3), BAD, *numbered(3)])
    with pytest.raises(AdapterError) as caught:
        answered.extend(reply["id"] for reply in replies)
    with pytest.raises(AdapterError, match=r"is not running"):
        adapter.request(BAD)
    assert adapter.stop() is None
    return caught.value, answered


@pytest.mark.parametrize(
    ("mode", "kind", "exit_code", "message"),
    [
        ("die", "died", 7, "ended with exit code 7"),
        ("signal", "died", -9, "ended with exit code -9"),
        ("text", "rubbish", None, "INFO: started"),
        ("array", "rubbish", None, "not a JSON object"),
        ("utf8", "rubbish", None, "not JSON"),
        ("order", "order", None, "answered id 'other' where 'bad' was due"),
    ],
)
def test_a_misdeed_is_charged_to_its_request(
    mode: str, kind: str, exit_code: int | None, message: str
) -> None:
    error, answered = failure(fake(mode))
    assert (error.kind, error.exit_code, error.request) == (kind, exit_code, BAD)
    assert answered == ["0", "1", "2"]
    assert message in str(error)
    assert '{"cmd": "encode", "id": "bad"}' in str(error)


def test_the_ends_of_standard_error_are_shown() -> None:
    error, _ = failure(fake("die"))
    assert "begins:\nline 0\nline 1\nline 2\nline 3\nline 4\nand ends:\nline 80\n" in str(error)
    assert str(error).endswith("line 98\nline 99")


@pytest.mark.soak
def test_a_hang_ends_at_the_timeout() -> None:
    error, answered = failure(fake("hang"), timeout_s=3.0)
    assert (error.kind, error.request, answered) == ("timeout", BAD, ["0", "1", "2"])
    assert "no reply within 3 s" in str(error)
    assert str(error).endswith("thinking")


def test_a_closed_output_is_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "STOP_TIMEOUT_S", 0.2)
    error, answered = failure(fake("close"))
    assert (error.kind, error.exit_code, answered) == ("died", None, ["0", "1", "2"])
    assert "closed its output" in str(error)


def test_the_timeout_is_for_one_reply_and_not_for_the_caller() -> None:
    with fake() as adapter:
        adapter.hello()  # To begin may take longer.
        adapter.timeout_s = 2.0
        for _ in adapter.run(numbered(4)):
            time.sleep(0.6)  # 2.4 s altogether, none of them the adapter's.


def test_lines_have_a_greatest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "LINE_BYTES_MAX", 1 << 20)
    error, _ = failure(fake("endless"))
    assert (error.kind, error.request) == ("oversize", BAD)
    with fake() as adapter, pytest.raises(AdapterError, match="not to be sent") as caught:
        adapter.request(encode_request("long", "M", 0, {"text": "x" * (1 << 20)}))
    assert caught.value.kind == "oversize"


@pytest.mark.parametrize(
    ("mode", "kind", "message"),
    [
        ("stillborn", "died", "no such configuration"),
        ("old", "start", "speaks protocol 0, not 1"),
        ("nameless", "start", "`name`"),
    ],
)
def test_no_proper_hello(mode: str, kind: str, message: str) -> None:
    with fake(mode) as adapter, pytest.raises(AdapterError) as caught:
        adapter.hello()
    assert caught.value.kind == kind
    assert message in str(caught.value)


def test_an_end_in_the_midst_of_writing() -> None:
    """More than a pipe holds is still unsent when the reading end goes away."""
    with fake("stillborn") as adapter, pytest.raises(AdapterError) as caught:
        list(adapter.run(numbered(8, text="x" * 500_000)))
    assert (caught.value.kind, caught.value.exit_code) == ("died", 3)
    assert "no such configuration" in str(caught.value)


def test_no_such_program() -> None:
    adapter = Adapter(["no-such-adapter", *["--option"] * 50])
    with pytest.raises(AdapterError, match=r"cannot start the adapter no-such-adapter … --option"):
        adapter.start()


# --- the schema ---


def test_the_schema_is_one_and_knows_our_error_classes() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    listed = set(SCHEMA["$defs"]["errorClass"]["enum"])
    assert listed == {member.value for member in ErrorClass} | {"refused"}


@pytest.mark.parametrize(
    "line",
    [
        {"cmd": "hello", "protocol": 1},
        encode_request("e", "VoteRequest", 2, {"_unknownTaggedFields": [{"tag": 5, "hex": "00"}]}),
        encode_request("e", "VoteRequest", 2, {}, "kip-853"),
        decode_request("d", "VoteRequest", -1, ""),
        {"cmd": "stop"},
        {"protocol": 1, "name": "a", "language": "b", "version": "", "spec": "kafka/4.3.1",
         "messages": {"A": "0-12", "B": "none"}, "sets": {"kip-853": {"A": "0-0"}}},
        {"id": "e", "hex": "00ff"},
        {"id": "d", "value": {}, "trailing": 3},
        {"id": "d", "error": {"class": "truncated", "offset": 17, "path": "topics[0].topicName"}},
        {"error": {"class": "refused", "detail": "not JSON"}},
        {"id": "d", "skipped": {"reason": "not there yet"}},
        {"cmd": "load", "id": "l", "set": "kip-853", "dir": "specs/kip-853"},
        {"cmd": "load", "id": "l", "set": "mine", "specs": {"A.json": "{}"}},
        {"id": "l", "messages": {"A": "0-0"}},
        {"cmd": "verdict", "id": "v", "text": "{}"},
        {"id": "v", "accepted": True},
        {"id": "v", "accepted": False, "detail": "because"},
        {"cmd": "errors"},
        {"cmd": "api-keys", "id": "k"},
        {"errors": [{"code": -1, "name": "UNKNOWN_SERVER_ERROR", "retriable": False}]},
        {"apiKeys": [{"id": 52, "name": "VOTE", "message": "Vote"}]},
    ],
)  # fmt: skip
def test_the_schema_takes_every_kind_of_line(line: Any) -> None:
    Draft202012Validator(SCHEMA).validate(line)


@pytest.mark.parametrize(
    "line",
    [
        5,
        {},
        {"cmd": "hello", "protocol": 2},
        {"cmd": "dance", "id": "1"},
        {"cmd": "encode", "id": 1, "message": "VoteRequest", "version": 2, "value": {}},
        {"cmd": "encode", "id": "1", "message": "VoteRequest", "version": 40000, "value": {}},
        {"cmd": "decode", "id": "1", "message": "VoteRequest", "version": 2, "hex": "0"},
        {"cmd": "decode", "id": "1", "message": "VoteRequest", "version": 2, "hex": "FF"},
        {"cmd": "load", "id": "l", "set": "kafka", "dir": "specs"},
        {"cmd": "load", "id": "l", "set": "x", "dir": "specs", "specs": {}},
        {"id": "d", "error": {"class": "bad_luck"}},
        {"id": "d", "error": {"detail": "no class"}},
        {"id": "d", "skipped": {}},
        {"id": "d", "value": {}, "trailing": 0},
        {"id": "v", "accepted": False},
        {"id": "l", "messages": {"A": "0+"}},
        {"hex": "00"},
    ],
)
def test_the_schema_refuses(line: Any) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(line)


@pytest.mark.parametrize(
    ("text", "versions"),
    [("none", []), ("0-0", [0]), ("3-5", [3, 4, 5]), ("32767-32767", [32767])],
)
def test_ranges_of_hello(text: str, versions: list[int]) -> None:
    assert list(version_range(text)) == versions


@pytest.mark.parametrize(
    "text", ["", "1", "-1-2", "2-1", "0-32768", "a-b", " 0-1", "0-1\n", "None"]
)
def test_a_range_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not 0-2 or none"):
        version_range(text)
