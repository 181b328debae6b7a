"""TLS and SASL with real peers: Kafka's tools at our listeners, our nodes at Kafka's."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.reference.kafka_tools import KafkaTools, Said

from kraftspec.conformance.cluster import java_command
from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.generated import kafka as messages
from kraftspec.generated.errors import ErrorCode
from kraftspec.interop.ours import wait_until
from kraftspec.reference.admin import AdminClient, load_client_config
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.wire.blocking import ask

from .certificates import Authority
from .secured import (
    ADMIN,
    CLUSTER_ID,
    LISTENERS,
    NOBODY,
    NODE,
    PASSWORDS,
    SCRAMS,
    client_properties,
    format_ours,
    scram_arguments,
    server_properties,
    write_properties,
)

pytestmark = pytest.mark.kafka

WAIT_S = 180.0  # A server of Kafka's starts on a loaded machine.


class Loop:
    """An event loop in a thread of its own, for nodes while a test waits for Java."""

    def __enter__(self) -> Loop:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def run(self, coroutine: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return future.result(WAIT_S)

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


@contextmanager
def running(loop: Loop, path: Path) -> Iterator[Node]:
    """Start a node of ours by its properties, and stop it in the end."""
    node = Node(load_config(path))
    loop.run(node.start())
    try:
        yield node
    finally:
        loop.run(node.stop(1.0))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as started:
        yield started


def node_properties(
    home: Path, authority: Authority, node_id: int, mechanism: str, **changes: str
) -> tuple[Path, dict[str, int]]:
    """Write the properties of a controller that listens in all four ways."""
    taken: set[int] = set()
    ports = {name: free_port(taken) for name in LISTENERS}
    properties = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "log.dirs": str(home / "data"),
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports['CONTROLLER']}",
        **server_properties(home, authority, ports, node_id, mechanism),
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return write_properties(home / "node.properties", properties), ports


# ---- Kafka's tools at our listeners ------------------------------------------------------------


@pytest.fixture(scope="module")
def ours(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, loop: Loop
) -> Iterator[dict[str, int]]:
    """The ports of a node of ours that leads a quorum alone."""
    home = tmp_path_factory.mktemp("ours")
    path, ports = node_properties(home, authority, 1, "SCRAM-SHA-512")
    format_ours(path, standalone=True)
    with running(loop, path) as node:
        loop.run(node.until(lambda it: it.core.committed_offset > 0, WAIT_S))
        yield ports


PROTOCOLS = {name: protocol for name, protocol in LISTENERS.items() if name != "OPEN"}
GOOD = [
    *((name, mechanism) for name in ("CONTROLLER", "CLEAR") for mechanism in ("PLAIN", *SCRAMS)),
    ("MUTUAL", ""),
]


def describe(kafka: KafkaTools, port: int, home: Path, properties: dict[str, str]) -> Said:
    path = write_properties(home / "client.properties", properties)
    controllers = ("--bootstrap-controller", f"{HOST}:{port}")
    return kafka.quorum(*controllers, "--command-config", str(path), "describe", "--status")


@pytest.mark.parametrize(("listener", "mechanism"), GOOD)
def test_kafkas_tool_is_let_in(
    ours: dict[str, int],
    kafka: KafkaTools,
    authority: Authority,
    tmp_path: Path,
    listener: str,
    mechanism: str,
) -> None:
    name = ADMIN if mechanism in ("", "PLAIN") else NODE
    identity = authority.sign("admin") if not mechanism else None
    properties = client_properties(
        tmp_path, authority, PROTOCOLS[listener], mechanism, name, identity=identity
    )
    done = describe(kafka, ours[listener], tmp_path, properties)
    assert done.code == 0, done.err
    assert f"ClusterId:              {CLUSTER_ID}" in done.out
    assert "LeaderId:               1" in done.out


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAMS])
def test_a_wrong_password_is_told(
    ours: dict[str, int], kafka: KafkaTools, authority: Authority, tmp_path: Path, mechanism: str
) -> None:
    properties = client_properties(
        tmp_path, authority, "SASL_SSL", mechanism, NODE, PASSWORDS[NODE] + "x"
    )
    done = describe(kafka, ours["CONTROLLER"], tmp_path, properties)
    assert done.code == 1
    assert "SaslAuthenticationException: Authentication failed" in done.err


@pytest.mark.parametrize(
    ("listener", "mechanism"), [("CONTROLLER", "PLAIN"), ("CLEAR", SCRAMS[0]), ("OPEN", "")]
)
def test_who_is_nobody_in_particular_may_not_ask(
    ours: dict[str, int],
    kafka: KafkaTools,
    authority: Authority,
    tmp_path: Path,
    listener: str,
    mechanism: str,
) -> None:
    """Neither a user without rights, nor who comes by the listener that asks nobody."""
    properties = client_properties(tmp_path, authority, LISTENERS[listener], mechanism, NOBODY)
    done = describe(kafka, ours[listener], tmp_path, properties)
    assert done.code == 1
    assert "ClusterAuthorizationException" in done.err


def test_a_mechanism_that_is_not_offered(
    ours: dict[str, int], kafka: KafkaTools, authority: Authority, tmp_path: Path
) -> None:
    properties = client_properties(tmp_path, authority, "SASL_PLAINTEXT", "PLAIN")
    properties["sasl.mechanism"] = "OAUTHBEARER"
    properties["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="x";'
    )
    done = describe(kafka, ours["CLEAR"], tmp_path, properties)
    assert done.code == 1
    assert "UnsupportedSaslMechanismException" in done.err or "OAuth" in done.err


@pytest.mark.parametrize("certificate", ["none", "foreign"])
def test_a_certificate_is_needed(
    ours: dict[str, int],
    kafka: KafkaTools,
    authority: Authority,
    tmp_path: Path,
    certificate: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    identity = Authority("another").sign("admin") if certificate == "foreign" else None
    properties = client_properties(tmp_path, authority, "SSL", identity=identity)
    # Asyncio hangs up without a word: the client tries again until its time is over.
    properties |= {"request.timeout.ms": "1500", "default.api.timeout.ms": "1500"}
    reasons = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
    deadline = time.monotonic() + WAIT_S
    while True:
        assert describe(kafka, ours["MUTUAL"], tmp_path, properties).code == 1
        if any(vars(record).get("reason") in reasons for record in caplog.records):
            break
        # On a slow machine its time is over before it has come as far as that.
        assert time.monotonic() < deadline


def test_a_server_that_is_another_is_not_trusted(
    ours: dict[str, int], kafka: KafkaTools, tmp_path: Path
) -> None:
    properties = client_properties(tmp_path, Authority("another"), "SASL_SSL", "PLAIN")
    done = describe(kafka, ours["CONTROLLER"], tmp_path, properties)
    assert done.code == 1
    assert "SslAuthenticationException" in done.err


# ---- our nodes at Kafka's listeners ------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[dict[str, int]]:
    """The ports of a controller of Kafka's that leads a quorum alone."""
    home = tmp_path_factory.mktemp("theirs")
    path, ports = node_properties(home, authority, 1, "PLAIN")
    scram = [word for argument in scram_arguments() for word in ("--add-scram", argument)]
    command = ["format", "-t", CLUSTER_ID, "--standalone", "-c", str(path), *scram]
    storage = java_command("kafka.tools.StorageTool", *command)
    done = subprocess.run(storage, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with (home / "node.log").open("wb") as log:
        options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
        server = subprocess.Popen(
            java_command("kafka.Kafka", str(path), options=options),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home,
        )  # fmt: skip
    try:
        wait_until_leading(home / "node.log", server)
        wait_until("its authorizer has read the log", partial(authorizes, ports["OPEN"]))
        yield ports
    finally:
        server.kill()
        server.wait()


def wait_until_leading(log: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while "Kafka Server started" not in log.read_text("utf-8", "replace"):
        text = log.read_text("utf-8", "replace")
        assert server.poll() is None, text[-3000:]
        assert time.monotonic() < deadline, text[-3000:]
        time.sleep(0.05)


def authorizes(port: int) -> bool:
    """Until it has read the ACLs, a controller answers that it met an error not foreseen."""
    request, response = messages.DescribeQuorumRequest(), messages.DescribeQuorumResponse
    answer = ask(port, request, 2, response, timeout_s=WAIT_S)
    return answer.error_code != ErrorCode.UNKNOWN_SERVER_ERROR


REQUESTS: list[tuple[Any, int, Any]] = [
    (messages.VoteRequest(), 2, messages.VoteResponse),
    (messages.BeginQuorumEpochRequest(), 1, messages.BeginQuorumEpochResponse),
    (messages.EndQuorumEpochRequest(), 1, messages.EndQuorumEpochResponse),
    (messages.FetchRequest(), 17, messages.FetchResponse),
    (messages.FetchSnapshotRequest(), 1, messages.FetchSnapshotResponse),
    (messages.DescribeQuorumRequest(), 2, messages.DescribeQuorumResponse),
    (messages.AddRaftVoterRequest(voter_id=9), 1, messages.AddRaftVoterResponse),
    (messages.RemoveRaftVoterRequest(voter_id=9), 0, messages.RemoveRaftVoterResponse),
    (messages.UpdateRaftVoterRequest(voter_id=9), 0, messages.UpdateRaftVoterResponse),
    (messages.DescribeClusterRequest(endpoint_type=2), 2, messages.DescribeClusterResponse),
    (messages.SaslHandshakeRequest(mechanism="PLAIN"), 1, messages.SaslHandshakeResponse),
    (messages.SaslAuthenticateRequest(), 2, messages.SaslAuthenticateResponse),
]


@pytest.mark.parametrize(
    ("request_", "version", "response"), REQUESTS, ids=[type(one[0]).__name__ for one in REQUESTS]
)
def test_the_anonymous_are_answered_alike(
    ours: dict[str, int], theirs: dict[str, int], request_: Any, version: int, response: Any
) -> None:
    """By the listener where nobody is asked who he is, of every API that has a need."""
    answers = [
        ask(ports["OPEN"], request_, version, response, timeout_s=WAIT_S)
        for ports in (ours, theirs)
    ]
    codes = [answer.error_code for answer in answers]
    assert codes[0] == codes[1]
    assert codes[0] in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE)


def observer(
    home: Path, authority: Authority, port: int, listener: str, mechanism: str, node_id: int = 2
) -> Path:
    """Write the properties of a node of ours that knows one listener of theirs, and format it."""
    own = {listener: free_port(set())}
    properties = {
        "process.roles": "controller",
        "node.id": str(node_id),
        "log.dirs": str(home / "data"),
        "controller.quorum.bootstrap.servers": f"{HOST}:{port}",
        **server_properties(home, authority, own, node_id, mechanism),
    }
    path = write_properties(home / "node.properties", properties)
    format_ours(path, no_initial_controllers=True)
    return path


@pytest.mark.parametrize(("listener", "mechanism"), GOOD)
def test_our_node_is_let_in(
    theirs: dict[str, int],
    authority: Authority,
    loop: Loop,
    tmp_path: Path,
    listener: str,
    mechanism: str,
) -> None:
    path = observer(tmp_path, authority, theirs[listener], listener, mechanism or "PLAIN")
    with running(loop, path) as node:
        loop.run(node.until(lambda it: it.core.committed_offset > 0, WAIT_S))
        assert node.core.leader_id == 1


def has_caught_up(admin: AdminClient, node_id: int) -> bool:
    """Whether an observer has had all there was: Kafka adds no other."""
    observers = admin.describe_quorum().observers
    return any(one.id == node_id and one.last_caught_up_ms >= 0 for one in observers)


def test_kafka_and_we_are_voters_together(
    theirs: dict[str, int], authority: Authority, loop: Loop, kafka: KafkaTools, tmp_path: Path
) -> None:
    """Added by Kafka's tool over SASL_SSL, ours is asked by the leader, and answers, as a voter."""
    path = observer(tmp_path, authority, theirs["CONTROLLER"], "CONTROLLER", "PLAIN")
    with running(loop, path) as node:
        loop.run(node.until(lambda it: it.core.committed_offset > 0, WAIT_S))
        client = client_properties(tmp_path / "client", authority, "SASL_SSL", "PLAIN")
        properties = {key: it for key, it in client.items() if not key.startswith("ssl.")}
        properties |= load_config(path).properties  # The stores are the node's own.
        command = write_properties(tmp_path / "add.properties", properties)
        at = f"{HOST}:{theirs['CONTROLLER']}"
        where = ("--bootstrap-controller", at)
        config = load_client_config(str(command))
        with AdminClient(at, to_controllers=True, config=config) as admin:
            deadline = time.monotonic() + WAIT_S
            while not has_caught_up(admin, 2):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        added = kafka.quorum(*where, "--command-config", str(command), "add-controller")
        assert added.code == 0, added.err
        loop.run(node.until(lambda it: it.core.is_voter, WAIT_S))
        directory_id = str(node.core.config.directory_id)
        removed = kafka.quorum(
            *where, "--command-config", str(command), "remove-controller",
            "--controller-id", "2", "--controller-directory-id", directory_id,
        )  # fmt: skip
        assert removed.code == 0, removed.err


@pytest.mark.parametrize("spoil", ["password", "authority", "host"])
def test_our_node_says_why_it_is_not_let_in(
    theirs: dict[str, int],
    authority: Authority,
    loop: Loop,
    tmp_path: Path,
    spoil: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    path = observer(tmp_path, authority, theirs["CONTROLLER"], "CONTROLLER", "SCRAM-SHA-256")
    text = path.read_text("latin-1")
    if spoil == "password":
        text = text.replace(PASSWORDS[NODE], "another")
        expected = "it does not take 'node'"
    elif spoil == "authority":
        Authority("another").write_pkcs12(tmp_path / "trust.p12")
        expected = "certificate verify failed"
    else:
        text = text.replace(f"servers={HOST}", "servers=localhost")
        expected = "Hostname mismatch"
    path.write_text(text, "latin-1")

    def warned() -> bool:
        return any(expected in str(vars(record).get("reason")) for record in caplog.records)

    with running(loop, path) as node:
        deadline = time.monotonic() + WAIT_S
        while not warned():
            assert time.monotonic() < deadline, [vars(record) for record in caplog.records]
            time.sleep(0.02)
        assert node.core.leader_id < 0
    assert not any("another" in str(vars(record)) for record in caplog.records)
