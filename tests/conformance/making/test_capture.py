"""Captured frames: the proxy that records them, what is kept, and the set that is committed."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kraftspec.cli.conform_capture import capture as capture_command
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.making.capture import proxy as proxy_module
from kraftspec.conformance.making.capture.capture import KRAFT
from kraftspec.conformance.making.capture.frames import Checked, Piece, check, message_named
from kraftspec.conformance.making.capture.keep import FAMILY, chosen, names_machine, shape, write
from kraftspec.conformance.making.capture.proxy import Frame, Proxy
from kraftspec.conformance.raw import vectors as raw
from kraftspec.conformance.vectors import KAFKA, read_vectors, vectors_root
from kraftspec.fastpath.message import Message
from kraftspec.generated.api_keys import ApiKey
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslHandshakeRequest,
    VoteRequest,
)
from kraftspec.reference.wire.frames import request_header, sized

HOST = "127.0.0.1"
HEADERS = ("RequestHeader", "ResponseHeader")


def request_frame(request: Message, version: int) -> bytes:
    return request_header(type(request), version, 7, "test") + request.encode(version)


class Echo:
    """A server on loopback that answers with what it is told to, once it has read as much."""

    def __init__(self, size: int, answer: bytes) -> None:
        self.seen = b""
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, args=(size, answer))
        self._thread.start()

    def _serve(self, size: int, answer: bytes) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as stream:
            self.seen = stream.read(size)
            connection.sendall(answer)

    def join(self) -> None:
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as running:
        yield running


def exchange(proxy: Proxy, sent: bytes, answer: bytes) -> None:
    """Send through the proxy to a server that answers; both must get every byte."""
    server = Echo(len(sent), answer)
    port = proxy.open("a listener", server.port)
    with socket.create_connection((HOST, port), 10) as client:
        client.sendall(sent)
        with client.makefile("rb") as stream:
            assert stream.read(len(answer)) == answer
    server.join()
    assert server.seen == sent


def test_what_passes_is_paired_and_labelled(proxy: Proxy) -> None:
    proxy.recorder.phase = "a test"
    request = request_frame(ApiVersionsRequest(), 3)
    response = (7).to_bytes(4, "big") + ApiVersionsResponse().encode(3)
    exchange(proxy, sized(request), sized(response))
    common: Any = {"api_key": 18, "api_version": 3, "client_id": "test", "phase": "a test"}
    assert proxy.recorder.frames == [
        Frame(direction="request", listener="a listener", payload=request, **common),
        Frame(direction="response", listener="a listener", payload=response, **common),
    ]
    assert (proxy.recorder.connections, proxy.recorder.unrecorded) == (1, {})


def test_what_is_too_large_passes_and_is_not_kept(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "FRAME_BYTES_MAX", 1 << 20)
    large = sized(bytes((1 << 20) + 1))
    small = request_frame(VoteRequest(), 2)
    exchange(proxy, large + sized(small), sized(b"no number"))
    assert [frame.payload for frame in proxy.recorder.frames] == [small]
    assert proxy.recorder.unrecorded == {
        "larger than 1 MiB": 1,
        "answers nothing that was asked": 1,
    }


def test_tokens_without_a_header_are_not_taken_for_requests(proxy: Proxy) -> None:
    handshake = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    token = sized(b"\0user\0password that is long enough")
    exchange(proxy, sized(handshake) + token, sized(bytes(6)))
    assert [frame.api_key for frame in proxy.recorder.frames] == [17]
    assert proxy.recorder.unrecorded["SASL tokens without a header"] == 1


def test_what_is_no_request_passes_too(proxy: Proxy) -> None:
    exchange(proxy, sized(b"short") + (-1).to_bytes(4, "big", signed=True), b"")
    assert proxy.recorder.frames == []
    assert proxy.recorder.unrecorded["no header of a request"] == 1


def test_a_node_that_is_down_hangs_up_on_its_client(proxy: Proxy, dead_port: int) -> None:
    with socket.create_connection((HOST, proxy.open("gone", dead_port)), 10) as client:
        assert client.recv(1) == b""


def test_memory_has_an_end(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "RECORDED_BYTES_MAX", 0)
    exchange(proxy, sized(request_frame(VoteRequest(), 2)), b"")
    assert proxy.recorder.frames == []
    assert proxy.recorder.unrecorded == {"more than 0 MiB in all": 1}


def test_a_shape_stands_for_what_looks_alike() -> None:
    value: dict[str, Any] = {"errorCode": 0, "id": 5, "name": "abc", "parts": [{"at": 1}]}
    assert shape(value) == shape({**value, "id": 6, "name": "xyz", "parts": [{"at": 2}]})
    changes: tuple[dict[str, Any], ...] = (
        {"errorCode": 6},
        {"id": -5},
        {"id": 0},
        {"id": 500},
        {"name": ""},
        {"name": None},
        {"name": "x" * 200},
        {"parts": []},
        {"parts": [{"at": 1}, {"at": 2}]},
        {"parts": [{"at": 1000}]},
        {"more": True},
    )
    for change in changes:
        assert shape({**value, **change}) != shape(value), change


def test_one_piece_of_each_shape_is_kept_and_few_are_large() -> None:
    checked = Checked()
    for number in range(1, 9):
        for size in (3, 600, 5000 + number, 17_000):
            piece = Piece("VoteRequest", number % 2, bytes([number]) * size)
            checked.values[piece] = {"clusterId": "x" * size}
    pieces = chosen(checked)["VoteRequest"]
    assert [piece.version for piece in pieces] == sorted(piece.version for piece in pieces)
    sizes = [len(piece.data) for piece in pieces if piece.version == 0]
    assert sizes == [3, 600, 5002]


def test_what_names_a_machine_is_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "build-host-7")
    assert names_machine(b"\x0cbuild-host-7")
    assert names_machine(b"\x10/" + b"home/somebody/data")
    assert names_machine(b"file:/srv/kafka")
    assert not names_machine(b"\x0a/127.0.0.1\x17/tmp/kraftspec-capture/broker-1/data-0")
    assert not names_machine(b"application/json, a/b, 3/4")
    checked = Checked()
    for text in ("/" + "home/somebody", "127.0.0.1"):
        piece = Piece("VoteRequest", 1, VoteRequest(cluster_id=text).encode(1))
        checked.values[piece] = {"clusterId": text}
        checked.comments[piece] = "a test"
    (tmp_path / "Stale.json").write_text("{}")
    written = write(checked, tmp_path)
    assert (len(written.pieces), written.withheld) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["VoteRequest.json"]
    assert "somebody" not in (tmp_path / "VoteRequest.json").read_text()


def frame(direction: Any, request: Message, version: int, payload: bytes) -> Frame:
    assert request.API_KEY is not None
    return Frame(direction, request.API_KEY, version, "plain-1", "a test", "broker 1", payload)


@pytest.mark.kafka
def test_nothing_that_is_wrong_with_a_frame_goes_unseen() -> None:
    vote = VoteRequest(cluster_id="c")
    good = request_frame(vote, 2)
    refused = (7).to_bytes(4, "big") + ApiVersionsResponse(error_code=35).encode(0)
    frames = [
        frame("request", vote, 2, good),
        frame("request", vote, 2, good + b"\0"),
        frame("request", vote, 2, good[:-1]),
        frame("request", vote, 2, good[:9]),
        frame("request", vote, 99, good),
        frame("response", ApiVersionsRequest(), 99, refused),
    ]
    with kafka_adapter() as kafka:
        checked = check(frames, kafka)
    assert {(piece.message, piece.version) for piece in checked.values} == {
        ("RequestHeader", 2),
        ("ResponseHeader", 0),
        ("VoteRequest", 2),
        ("ApiVersionsResponse", 0),
    }
    assert checked.unknown == {"request of API key 52 version 99": 1}
    assert checked.one_way == set()
    lines = [str(disagreement) for disagreement in checked.disagreements]
    assert len([line for line in lines if "our native codec" in line]) == 2
    assert len([line for line in lines if "our python codec" in line]) == 2
    assert any("Kafka: left 1 bytes" in line for line in lines)
    assert any("Kafka: refused" in line for line in lines)
    assert any("our header" in line for line in lines)
    assert all("by Kafka's own classes" in line for line in lines)


@pytest.mark.kafka
def test_a_short_capture_of_three_languages(tmp_path: Path) -> None:
    arguments = ["--out", str(tmp_path), "--workload", "short", "--json"]
    directory = ["--directory", str(tmp_path / "cluster")]
    result = CliRunner().invoke(capture_command, [*arguments, *directory])
    report = msgspec.json.decode(result.stdout)
    assert (report["failures"], report["disagreements"], report["unknown"]) == ([], [], {})
    assert result.exit_code == 0, result.stderr
    assert report["frames"] > 500
    assert len(report["apiKeys"]) > 40
    assert {"BROKER_REGISTRATION", "BROKER_HEARTBEAT", "ENVELOPE"} <= set(report["kraft"])
    files = list(read_vectors(tmp_path))
    comments = " ".join(str(test.comment) for _, file in files for test in file.tests)
    for client in ("java produce:", "go 4.3:", "python kafka-python-4.3:", "raft-client"):
        assert client in comments
    assert sum(len(file.tests) for _, file in files) == report["kept"] + report["headers"]
    assert not (tmp_path / "cluster").exists()


def test_a_workload_that_there_is_not(tmp_path: Path) -> None:
    result = CliRunner().invoke(capture_command, ["--out", str(tmp_path), "--workload", "rust"])
    assert result.exit_code == 3
    assert result.stderr == (
        "Error: there is no workload 'rust': java, plain, go, python, nodes, all, short\n"
    )


@pytest.fixture(scope="module")
def captured() -> list[tuple[raw.VectorFile, raw.Test]]:
    files = read_vectors(vectors_root(), f"{FAMILY}/")
    return [(file, test) for spec, file in files if spec == KAFKA for test in file.tests]


def test_the_committed_set_is_what_was_promised(
    captured: list[tuple[raw.VectorFile, raw.Test]],
) -> None:
    bodies = [(file, test) for file, test in captured if file.message not in HEADERS]
    assert len(bodies) >= 3000
    keys = {message_named(file.message).API_KEY for file, _ in bodies}
    assert len(keys) >= 60
    assert {ApiKey[name].value for name in KRAFT} <= keys
    assert {test.family for _, test in captured} == {FAMILY}
    assert {test.result for _, test in captured} == {"valid"}
    assert len({test.id for _, test in captured}) == len(captured)
    assert {file.message for file, _ in captured} >= set(HEADERS)
    size = sum(path.stat().st_size for path in (vectors_root() / FAMILY).glob("*.json"))
    assert size < 8 << 20


def test_three_languages_and_the_nodes_speak(
    captured: list[tuple[raw.VectorFile, raw.Test]],
) -> None:
    sources = {re.split("[ :]", str(test.comment))[0] for _, test in captured}
    assert {"java", "go", "python", "nodes", "brokers", "tools"} <= sources
    plain = [test for _, test in captured if "plain request" in str(test.comment)]
    assert 0 < len(plain) < len(captured) / 4
    # Real nodes and clients said something in every message, old versions of it aside.
    real = {file.message for file, test in captured if "plain request" not in str(test.comment)}
    assert real == {file.message for file, _ in captured}


def test_the_committed_set_names_no_machine(
    captured: list[tuple[raw.VectorFile, raw.Test]],
) -> None:
    """No path but the capture's own, no host but loopback, no user but those of the workloads."""
    users = re.compile(rb"User:([\w-]+)")
    hosts = re.compile(rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
    for file, test in captured:
        data = bytes.fromhex(str(test.hex))
        assert not names_machine(data), (file.message, test.id)
        assert b"/root" not in data, (file.message, test.id)
        named = set(users.findall(data))
        assert named <= {b"ANONYMOUS", b"alice", b"bob", b"carol", b"go", b"py"}, test.id
        assert set(hosts.findall(data)) <= {b"127.0.0.1", b"127.0.0.9", b"0.0.0.0"}, test.id


def test_every_captured_frame_is_read_and_written_again(
    captured: list[tuple[raw.VectorFile, raw.Test]],
) -> None:
    for file, test in captured:
        message = message_named(file.message)
        data = bytes.fromhex(str(test.hex))
        value = message.decode(data, test.version)
        assert value.to_json(test.version) == test.value, test.id
        if test.op == "roundtrip":
            assert message.from_json(test.value, test.version).encode(test.version) == data, test.id
