"""Whose bytes the dissector takes, which it joins, and which request it gives a response to."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from .packets import Capture, Connection, frame
from .sessions import Sent, messages, request_frame, response_frame
from .tshark import frames, run, tshark

pytestmark = pytest.mark.wireshark

PAGE = Path(__file__).resolve().parents[3] / "docs" / "wireshark.md"
ASKED = Sent(
    messages()["MetadataRequest"],
    9,
    MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")]).encode(9),
)
ANSWERED = Sent(
    messages()["MetadataResponse"], 9, MetadataResponse(cluster_id="a cluster").encode(9)
)


def texts(capture: Capture, dissector: Path, path: Path, *options: str) -> list[str]:
    """Return the line of each frame: what it is."""
    capture.write(path)
    return [
        top.text.removeprefix("Apache Kafka (kraftspec), ")
        for top in frames(path, dissector, *options)
    ]


def exchange(port: int, client: int = 0) -> Capture:
    """Return a request and its response."""
    capture, connection = Capture(), Connection(client, port)
    capture.send(connection, 0, request_frame(ASKED, 7))
    capture.send(connection, 1, response_frame(ANSWERED, 7))
    return capture


BOTH = ["Metadata v9 request, correlation id 7", "Metadata v9 response, correlation id 7"]


@pytest.mark.parametrize("port", [9092, 9093])
def test_it_takes_the_ports_of_kafka(dissector: Path, tmp_path: Path, port: int) -> None:
    assert texts(exchange(port), dissector, tmp_path / "a.pcap") == BOTH


def test_it_recognises_a_request_on_any_port(dissector: Path, tmp_path: Path) -> None:
    assert texts(exchange(28_177), dissector, tmp_path / "a.pcap") == BOTH


def test_its_ports_can_be_chosen(dissector: Path, tmp_path: Path) -> None:
    """A response comes first, so that nothing but the port says what it is."""
    capture = Capture()
    capture.send(Connection(0, 17_000), 1, response_frame(ANSWERED, 7))
    path = tmp_path / "a.pcap"
    assert texts(capture, dissector, path) == []
    chosen = texts(capture, dissector, path, "-o", "kraftspec.ports:17000-17002")
    assert chosen == ["response, correlation id 7"]


def test_other_protocols_keep_their_bytes(dissector: Path, tmp_path: Path) -> None:
    capture = Capture()
    capture.send(Connection(0, 9093), 0, bytes.fromhex("16030100050100000100"))
    capture.send(Connection(1, 8080), 0, b"GET / HTTP/1.1\r\n\r\n")
    assert texts(capture, dissector, tmp_path / "a.pcap") == []


def test_frames_in_pieces_and_in_one_packet_are_told_apart(dissector: Path, tmp_path: Path) -> None:
    capture, connection = Capture(), Connection(0, 9092)
    stream = b"".join(request_frame(ASKED, number) for number in range(3))
    capture.send(connection, 0, stream)
    answers = b"".join(response_frame(ANSWERED, number) for number in range(3))
    capture.send(connection, 1, answers, size=5)
    assert texts(capture, dissector, tmp_path / "a.pcap") == [
        f"Metadata v9 {kind}, correlation id {number}"
        for kind in ("request", "response")
        for number in range(3)
    ]


def test_correlation_ids_belong_to_their_connection(dissector: Path, tmp_path: Path) -> None:
    capture = Capture()
    first, second = Connection(0, 9092), Connection(1, 9092)
    versions = Sent(messages()["ApiVersionsRequest"], 0, ApiVersionsRequest().encode(0))
    known = Sent(messages()["ApiVersionsResponse"], 0, ApiVersionsResponse().encode(0))
    capture.send(first, 0, request_frame(ASKED, 7))
    capture.send(second, 0, request_frame(versions, 7))
    capture.send(second, 1, response_frame(known, 7))
    capture.send(first, 1, response_frame(ANSWERED, 7))
    path = tmp_path / "a.pcap"
    assert texts(capture, dissector, path)[2:] == [
        "ApiVersions v0 response, correlation id 7", BOTH[1],
    ]  # fmt: skip
    tops = list(frames(path, dissector, "-2"))  # Twice, so that requests know their responses.
    assert [top.named("request_in")[0].value for top in tops[2:]] == ["2", "1"]
    assert [top.named("response_in")[0].value for top in tops[:2]] == ["4", "3"]
    assert float(tops[3].named("response_time")[0].value) == pytest.approx(0.003)


def test_a_response_without_its_request_is_not_guessed(dissector: Path, tmp_path: Path) -> None:
    capture = Capture()
    capture.send(Connection(0, 9092), 1, response_frame(ANSWERED, 7))
    capture.write(tmp_path / "a.pcap")
    (top,) = frames(tmp_path / "a.pcap", dissector)
    assert top.text.endswith("response, correlation id 7")
    assert [line.raw for line in top.named("data")] == [b"\0" + ANSWERED.data]
    assert any("its request is not in the capture" in line.text for line in top.walk())


def test_an_older_node_answers_api_versions_in_version_0(dissector: Path, tmp_path: Path) -> None:
    capture, connection = Capture(), Connection(0, 9092)
    request = Sent(messages()["ApiVersionsRequest"], 4, ApiVersionsRequest().encode(4))
    key = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    body = ApiVersionsResponse(error_code=35, api_keys=[key]).encode(0)
    capture.send(connection, 0, request_frame(request, 7))
    capture.send(connection, 1, frame(bytes((0, 0, 0, 7)), body))
    capture.write(tmp_path / "a.pcap")
    _, top = frames(tmp_path / "a.pcap", dissector)
    assert "ApiVersionsResponse v0" in [line.text for line in top.below]
    assert [line.text for line in top.named("api_versions.error_code")] == [
        "errorCode: UNSUPPORTED_VERSION (35)"
    ]
    assert not top.named("error")


@pytest.mark.parametrize(("key", "version"), [(3, 99), (999, 0)])
def test_an_unknown_version_or_api_is_named(
    dissector: Path, tmp_path: Path, key: int, version: int
) -> None:
    capture = Capture()
    header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes((0, 0, 0, 7, 0xFF, 0xFF))
    capture.send(Connection(0, 9092), 0, frame(header, b"abc"))
    capture.write(tmp_path / "a.pcap")
    (top,) = frames(tmp_path / "a.pcap", dissector)
    name = "Metadata" if key == 3 else "API key 999"
    assert top.text.endswith(f", {name} v{version} request, correlation id 7")
    assert any(f"no layout of {name} v{version} request" in line.text for line in top.walk())


def test_a_size_that_no_frame_has_is_reported(dissector: Path, tmp_path: Path) -> None:
    capture, connection = exchange(9092), Connection(0, 9092)
    connection.next[:] = [1 + len(request_frame(ASKED, 7)), 1 + len(response_frame(ANSWERED, 7))]
    capture.send(connection, 0, b"\xff\xff\xff\xf6" + bytes(20))
    capture.write(tmp_path / "a.pcap")
    top = list(frames(tmp_path / "a.pcap", dissector))[2]
    assert [line.value for line in top.named("error")] == [
        "message at byte 0: a frame of -10 bytes [negative_length]"
    ]


def test_filters_find_frames_by_their_fields(dissector: Path, tmp_path: Path) -> None:
    exchange(9092).write(tmp_path / "a.pcap")
    numbers = {
        filter_text: run(tmp_path / "a.pcap", dissector, "-Y", filter_text, "-T", "fields", "-e",
                         "frame.number").decode().split()
        for filter_text in (
            'kraftspec.metadata.topics.name == "orders"', "kraftspec.metadata.topics.length == 1",
            "kraftspec.header.request_api_key == 3", 'kraftspec.metadata.cluster_id == "a cluster"',
        )
    }  # fmt: skip
    assert list(numbers.values()) == [["1"], ["1"], ["1"], ["2"]]


def test_every_name_is_one_that_filters_accept(dissector: Path, tmp_path: Path) -> None:
    """Wireshark lists the fields of plugins; each has one type, whichever messages have it."""
    plugins = tmp_path / ".local" / "lib" / "wireshark" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "kafka.lua").write_bytes(dissector.read_bytes())
    listed = subprocess.run(
        [tshark(), "-G", "fields"], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    rows = [line.split("\t") for line in listed.stdout.decode(errors="replace").splitlines()]
    names = [row[2] for row in rows if row[0] == "F" and row[2].startswith("kraftspec.")]
    assert len(names) == len(set(names)) > 2_000
    assert all(re.fullmatch(r"[a-z0-9_.]+", name) for name in names)
    assert "kraftspec.fetch.topics.partitions.fetch_offset" in names


def test_tshark_as_the_page_types_it(dissector: Path, tmp_path: Path) -> None:
    line = "tshark -r capture.pcap -X lua_script:kraftspec.lua -O kraftspec"
    assert f"\n{line}\n" in PAGE.read_text("utf-8")
    exchange(9092).write(tmp_path / "capture.pcap")
    (tmp_path / "kraftspec.lua").write_bytes(dissector.read_bytes())
    words = [tshark(), *line.split()[1:]]
    shown = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True, timeout=600)
    assert shown.stdout.count(b"Apache Kafka (kraftspec), Metadata v") == 2


def test_the_command_writes_it(dissector: Path, tmp_path: Path) -> None:
    out = tmp_path / "here.lua"
    result = CliRunner().invoke(main, ["spec", "dissector", "--out", str(out)])
    assert (result.exit_code, result.stdout) == (0, f"wrote {out}\n")
    assert out.read_bytes() == dissector.read_bytes()
    printed = CliRunner().invoke(main, ["spec", "dissector", "--out", "-"])
    assert printed.stdout == out.read_text()
    assert len(printed.stdout) < 200_000
