"""``kraftspec adapter``: our codec behind the harness protocol, by the line and as a process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kraftspec import __version__
from kraftspec.conformance.adapters import ours as adapter
from kraftspec.conformance.adapters.harness import Adapter, decode_request, encode_request
from kraftspec.conformance.adapters.ours import reply, serve
from kraftspec.conformance.runner.run import adapter_named
from kraftspec.specs import kafka_release

SCHEMA = json.loads((files("kraftspec.conformance") / "schemas/harness.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
# VoteRequest v2: no cluster, no voter, no topics, no tagged fields.
VALUE: dict[str, Any] = {"clusterId": None, "voterId": -1, "topics": []}
HEX = "00ffffffff0100"


def answer_to(request: Any) -> dict[str, Any]:
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    answer = reply(line, "mine")
    assert answer is not None
    decoded: dict[str, Any] = json.loads(json.dumps(answer))
    return decoded


def encode(**more: Any) -> dict[str, Any]:
    return {**encode_request("e", "VoteRequest", 2, VALUE), **more}


def decode(**more: Any) -> dict[str, Any]:
    return {**decode_request("d", "VoteRequest", 2, HEX), **more}


# ------------------------------------------------------------------------------------ good lines


def test_hello() -> None:
    hello = answer_to({"cmd": "hello", "protocol": 1})
    VALIDATOR.validate(hello)
    assert (hello["name"], hello["language"], hello["version"]) == ("mine", "python", __version__)
    assert hello["spec"] == f"kafka/{kafka_release()}"
    assert len(hello["messages"]) == 286 + 1
    assert hello["messages"]["RecordBatch"] == "2-2"
    assert hello["messages"]["VoteRequest"] == "0-2"
    assert hello["messages"]["ProduceRequest"] == "3-13"
    assert hello["messages"]["LeaderAndIsrRequest"] == "none"
    assert {name: len(messages) for name, messages in hello["sets"].items()} == {
        "kip-595": 21, "kip-853": 26, "kip-996": 20,
    }  # fmt: skip


def test_encode_and_decode() -> None:
    assert answer_to(encode()) == {"id": "e", "hex": HEX}
    assert answer_to(decode()) == {"id": "d", "value": VALUE}
    for line in (answer_to(encode()), answer_to(decode())):
        VALIDATOR.validate(line)


def test_a_draft_is_named_by_its_set() -> None:
    """VoterAssignmentMessage is of KIP-595 alone."""
    value: dict[str, Any] = {"clusterId": "c", "currentVoters": [], "targetVoters": None}
    request = encode_request("e", "VoterAssignmentMessage", 0, value, "kip-595")
    assert answer_to(request) == {"id": "e", "hex": "0263010000"}
    assert answer_to({**request, "spec": "kafka"})["error"]["class"] == "unknown_message"
    assert answer_to({**request, "spec": "kip-9"})["error"]["detail"] == "there is no set 'kip-9'"


def test_integers_are_exact() -> None:
    for name, number in (("transactionStartTimeMs", 2**63 - 1), ("producerId", -(2**63))):
        state: dict[str, Any] = {
            "errorCode": 0, "transactionalId": "", "transactionState": "",
            "transactionTimeoutMs": 0, "transactionStartTimeMs": 0, "producerId": 0,
            "producerEpoch": 0, "topics": [], name: number,
        }  # fmt: skip
        value: dict[str, Any] = {"throttleTimeMs": 0, "transactionStates": [state]}
        encoded = answer_to(encode_request("e", "DescribeTransactionsResponse", 0, value))
        back = answer_to(decode_request("d", "DescribeTransactionsResponse", 0, encoded["hex"]))
        assert back["value"]["transactionStates"][0][name] == number


def test_the_end() -> None:
    assert reply(b'{"cmd":"stop"}', "mine") is None


# ------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("request_", "error_class", "path", "offset"),
    [
        (encode(message="NoSuchRequest"), "unknown_message", "", None),
        (encode(message=5), "unknown_message", "", None),
        (encode(message=None), "unknown_message", "", None),
        (encode(spec=5), "unknown_message", "", None),
        (encode(message="CATALOGUE"), "unknown_message", "", None),
        (encode(version=9), "unsupported_version", "", None),
        (encode(version="2"), "unsupported_version", "", None),
        (encode(version=[2]), "unsupported_version", "", None),
        (encode(version=None), "unsupported_version", "", None),
        (encode(value=None), "wrong_type", "", None),
        (encode(value={}), "missing_field", "clusterId", None),
        (encode(value={**VALUE, "voterId": 2**31}), "integer_out_of_range", "voterId", None),
        (encode(value={**VALUE, "voterId": 10**40}), "integer_out_of_range", "voterId", None),
        (encode(value={**VALUE, "clusterId": "x" * 32768}), "length_too_long", "clusterId", None),
        (encode(value={**VALUE, "more": 1}), "field_not_in_version", "more", None),
        (encode(value={**VALUE, "clusterId": "\ud800"}), "invalid_utf8", "clusterId", None),
        (decode(hex=HEX + "00"), "trailing", "", 7),
        (decode(hex=HEX[:-4]), "truncated", "topics", 5),
        (decode(hex="0"), "wrong_type", "", None),
        (decode(hex="zz"), "wrong_type", "", None),
        (decode(hex=5), "wrong_type", "", None),
        ({"cmd": "decode", "id": "x", "message": "VoteRequest", "version": 2}, "wrong_type", "",
         None),
        ({"cmd": "dance", "id": "x"}, "wrong_type", "", None),
        ({"cmd": ["hello"], "id": "x"}, "wrong_type", "", None),
        ({"id": "x"}, "wrong_type", "", None),
        ({"cmd": "hello", "protocol": 2, "id": "x"}, "unsupported_version", "", None),
        (b'{"cmd":"encode","id":"x","message":"VoteRequest","version":2,"value":'
         b'{"clusterId":null,"voterId":1e400,"topics":[]}}', "wrong_type", "voterId", None),
    ],
)  # fmt: skip
def test_refusals(request_: Any, error_class: str, path: str, offset: int | None) -> None:
    reply = answer_to(request_)
    VALIDATOR.validate(reply)
    request = json.loads(request_) if isinstance(request_, bytes) else request_
    assert reply["id"] == request["id"]
    assert reply["error"]["class"] == error_class
    assert (reply["error"]["path"], reply["error"].get("offset")) == (path, offset)
    assert reply["error"]["detail"]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\xff", b"[]", b"5", b'"x"', b"null", b"[" * 100_000, b'{"id":"\xff"}']
)
def test_lines_that_are_no_requests(line: bytes) -> None:
    reply = answer_to(line)
    assert reply["id"] is None
    assert reply["error"]["class"] == "wrong_type"
    assert reply["error"]["detail"].startswith("not a JSON object: ")


# ------------------------------------------------------------------------------------ the process


class Out:
    """What ``sys.stdout`` is to the adapter."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()


def served(monkeypatch: pytest.MonkeyPatch, text: bytes, chunk_bytes: int) -> tuple[int, list[Any]]:
    """Serve what stands in a pipe, so many bytes at a time; return exit code and the answers."""
    monkeypatch.setattr(adapter, "CHUNK_BYTES", chunk_bytes)
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    out = Out()
    with open(reader, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", out)
        code = serve("mine")
    return code, [json.loads(line) for line in out.buffer.getvalue().splitlines()]


def sent(*requests: Any) -> bytes:
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 100, 1 << 16])
def test_chunks_need_not_be_lines(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    text = sent(encode()) + b"\n  \n" + sent(decode())
    code, answers = served(monkeypatch, text, chunk_bytes)
    assert (code, answers) == (0, [{"id": "e", "hex": HEX}, {"id": "d", "value": VALUE}])


def test_stop_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    code, answers = served(monkeypatch, sent(encode(), {"cmd": "stop"}, decode()), 1 << 16)
    assert (code, [answer["id"] for answer in answers]) == (0, ["e"])


def test_a_last_line_without_an_end_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert served(monkeypatch, sent(encode())[:-1], 64) == (0, [])
    assert served(monkeypatch, b"", 64) == (0, [])


def test_a_line_has_a_greatest_length(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapter, "LINE_BYTES_MAX", 200)
    code, answers = served(monkeypatch, sent(encode()) + b"x" * 500 + b"\n" + sent(decode()), 64)
    assert (code, [answer["id"] for answer in answers]) == (2, ["e"])
    assert "longer than 200 bytes" in capsys.readouterr().err


def test_as_a_process() -> None:
    requests = sent({"cmd": "hello", "protocol": 1}, encode(), {"cmd": "stop"})
    completed = subprocess.run(
        [sys.executable, "-m", "kraftspec", "adapter"], input=requests, capture_output=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (completed.returncode, completed.stderr) == (0, b"")
    hello, answer = (json.loads(text) for text in completed.stdout.splitlines())
    assert hello["name"].startswith("kraftspec")
    assert answer == {"id": "e", "hex": HEX}


def test_a_long_message_through_pipes() -> None:
    """Bytes of several megabytes, in lines longer than any pipe holds."""
    value = {"authBytes": "A" * 4_000_000}
    with adapter_named("kraftspec-python") as ours:
        assert isinstance(ours, Adapter)
        encoded = ours.request(encode_request("e", "SaslAuthenticateRequest", 2, value))
        assert len(encoded["hex"]) == 2 * (4 + 3_000_000 + 1)
        back = ours.request(decode_request("d", "SaslAuthenticateRequest", 2, encoded["hex"]))
        assert back["value"] == value
