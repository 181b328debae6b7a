"""What needs no Kafka: peers that answer rubbish or nothing, addresses, properties, backoff."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.generated.kafka import ApiVersionsResponse, DescribeClusterResponse
from kraftspec.reference.admin import (
    AdminClient,
    AdminError,
    AnswerError,
    ClientConfig,
    TimedOutError,
    load_client_config,
)
from kraftspec.reference.admin.caller import backoff_s, parse_addresses
from kraftspec.reference.admin.config import client_config
from kraftspec.reference.admin.connection import Connection

QUICK = ClientConfig(api_timeout_ms=1500, request_timeout_ms=700)
PATIENCE_S = 20.0

Answer = Callable[[bytes], bytes]  # A request's frame to what is sent back, sizes left out.


@contextmanager
def peer(answer: Answer, *, size: int | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Something that listens: its port, and what it was asked. ``size`` is a lie about answers."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)

        def talk(connection: socket.socket) -> None:
            with connection, connection.makefile("rb") as stream:
                connection.settimeout(PATIENCE_S)
                while head := stream.read(4):
                    requests.append(stream.read(int.from_bytes(head)))
                    reply = answer(requests[-1])
                    if not reply:
                        break
                    told = len(reply) if size is None else size
                    connection.sendall(told.to_bytes(4, signed=True) + reply)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError):  # The client has hung up.
                    talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], requests
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def versions(*offered: tuple[int, int, int], error: int = 0, version: int = 0) -> bytes:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in offered
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys).encode(version)


def connect(port: int) -> Connection:
    return Connection("127.0.0.1", port, QUICK, time.monotonic() + PATIENCE_S)


def test_a_peer_that_knows_only_the_first_api_versions() -> None:
    """It answers version 5 with an error in a body of version 0, and is asked again (KIP-511)."""

    def answer(request: bytes) -> bytes:
        version = int.from_bytes(request[2:4])
        if version > 1:
            return request[4:8] + versions((18, 0, 1), error=35)
        return request[4:8] + versions((18, 0, 1), (60, 0, 0), version=version)

    with peer(answer) as (port, requests), connect(port) as connection:
        assert connection.versions == {18: range(2), 60: range(1)}
    assert [int.from_bytes(request[2:4]) for request in requests] == [5, 1]


@pytest.mark.parametrize("offered", [(18, 0, 4), (18, 0, 9)])
def test_a_peer_that_refuses_what_it_offers(offered: tuple[int, int, int]) -> None:
    with (
        peer(lambda request: request[4:8] + versions(offered, error=35)) as (port, _),
        pytest.raises(AnswerError, match=r"UNSUPPORTED_VERSION \(35\).*offers that version"),
    ):
        connect(port)


RUBBISH = {
    "hangs up": (lambda request: b"", None, "hung up after 0 of 4 bytes"),
    "negative": (lambda request: b"x" * 9, -5, r"a frame of -5 bytes"),
    "nothing": (lambda request: b"x" * 9, 0, r"a frame of 0 bytes"),
    "HTTP": (lambda request: b"P/1.1 400 Bad", 0x48545450, r"a frame of 1213486160 bytes"),
    "short": (lambda request: request[4:8], 100, r"timed out|time is up"),
    "another": (lambda request: b"\0\0\0\x63" + versions(), None, r"the request 99, and 1 was"),
    "no body": (lambda request: request[4:8], None, r"errorCode"),
}


@pytest.mark.parametrize(("answer", "size", "pattern"), RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_told_in_time(answer: Answer, size: int | None, pattern: str) -> None:
    """As a time-out with what happened last: another try might have met a healthy node."""
    started = time.monotonic()
    with (
        peer(answer, size=size) as (port, _),
        AdminClient(f"127.0.0.1:{port}", to_controllers=True, config=QUICK) as admin,
        pytest.raises(TimedOutError, match=pattern),
    ):
        admin.describe_cluster()
    assert time.monotonic() - started < PATIENCE_S


WANTS_SECURITY = r"may want TLS or a login.*--command-config"


def test_who_hangs_up_may_want_security() -> None:
    """At once, as a listener of TLS does; or at the first question, as one that wants a login."""
    for offers in (b"", versions((18, 0, 4), (60, 0, 1), version=4)):

        def answer(request: bytes, offers: bytes = offers) -> bytes:
            is_greeting = int.from_bytes(request[:2]) == 18
            return request[4:8] + offers if offers and is_greeting else b""

        with (
            peer(answer) as (port, _),
            AdminClient(f"127.0.0.1:{port}", to_controllers=True, config=QUICK) as admin,
            pytest.raises(TimedOutError, match=WANTS_SECURITY) as told,
        ):
            admin.describe_cluster()
        assert str(told.value).count(str(port)) == 1


def test_whose_time_is_up_is_told_what_sets_it(dead_port: int) -> None:
    address = f"127.0.0.1:{dead_port}"
    arguments = ["quorum", "--bootstrap-controller", address, "describe", "--status"]
    done = CliRunner().invoke(main, [*arguments, "--timeout", "0.5"])
    assert done.exit_code == 1
    assert "within 500 ms (--timeout)" in done.stderr
    assert f"{address}: Connection refused; trying on ..." in done.stderr
    assert "default.api" not in done.stderr


def test_a_search_for_the_leader_is_not_told() -> None:
    """Two that do not lead are asked before it is worth a word, and its name is said once."""
    told: list[str] = []

    def answer(request: bytes) -> bytes:
        if int.from_bytes(request[:2]) == 18:
            return request[4:8] + versions((18, 0, 4), (60, 0, 1), version=4)
        refused = DescribeClusterResponse(error_code=6, error_message="NOT_LEADER_OR_FOLLOWER")
        return request[4:8] + b"\0" + refused.encode(1)

    searching = ClientConfig(api_timeout_ms=2_000, retry_backoff_ms=1, retry_backoff_max_ms=200)
    with peer(answer) as (one, requests), peer(answer) as (two, other_requests):
        addresses = f"127.0.0.1:{one},127.0.0.1:{two}"
        with (
            AdminClient(
                addresses, to_controllers=True, config=searching,
                on_retry=lambda why: told.append(f"{why} {len(requests) + len(other_requests)}"),
            ) as admin,
            pytest.raises(TimedOutError),
        ):  # fmt: skip
            admin.describe_cluster()
    assert told == ["NOT_LEADER_OR_FOLLOWER (6) 6"]  # Each attempt asks for versions, too.


def test_the_next_address_is_tried(dead_port: int) -> None:
    """Nobody listens at the first; the second does not know DescribeCluster."""
    with (
        peer(lambda request: request[4:8] + versions((18, 0, 4), version=4)) as (port, requests),
        AdminClient(
            f"127.0.0.1:{dead_port}, 127.0.0.1:{port}", to_controllers=True, config=QUICK
        ) as admin,
    ):
        with pytest.raises(AdminError, match=r"does not answer DescribeCluster: at no version"):
            admin.describe_cluster()
        assert len(requests) == 1


def test_addresses() -> None:
    assert parse_addresses(" a:1,[::1]:9093 ,") == [("a", 1), ("::1", 9093)]
    for wrong in ("", " , ", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:1:x"):
        with pytest.raises(ValueError, match="host:port"):
            parse_addresses(wrong)


def test_properties(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("request.timeout.ms = 5000\nclient.id=me\nlog.dirs=/a\n", "utf-8")
    config = load_client_config(str(path))
    assert (config.request_timeout_ms, config.client_id) == (5_000, "me")
    assert config.api_timeout_ms == ClientConfig().api_timeout_ms
    assert "/a" not in repr(config)
    path.write_text("retry.backoff.ms=soon\n", "utf-8")
    with pytest.raises(ValueError, match=r"client\.properties: retry\.backoff\.ms=soon: a number"):
        load_client_config(str(path))
    for wrong in ("-1", "", "2147483648", "٣"):
        with pytest.raises(ValueError, match=r"request\.timeout\.ms"):
            client_config({"request.timeout.ms": wrong})


def test_backoff_doubles_up_to_its_limit() -> None:
    """KIP-580: twice as long each time, and a fifth more or less."""
    config = ClientConfig()
    for failures, wanted_ms in ((0, 100), (1, 200), (3, 800), (4, 1_000), (1_000, 1_000)):
        for _ in range(20):
            assert 0.8 * wanted_ms <= backoff_s(config, failures) * 1000 <= 1.2 * wanted_ms
