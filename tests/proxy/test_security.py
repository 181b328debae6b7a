"""TLS and logins that end at the proxy, on the side of the peers and on that of the nodes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.proxy.peers import APIS, TIMEOUT_S, Client, Node, end_nodes
from tests.proxy.test_rules import beat
from tests.reference.node.certificates import Authority
from tests.reference.node.secured import login, write_properties

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import ApiVersionsResponse
from kraftspec.proxy.rules import Rule
from kraftspec.proxy.security import node_security, peer_security
from kraftspec.proxy.server import FaultProxy
from kraftspec.reference.node.security.sasl import AuthenticationError, authenticate_client
from kraftspec.reference.node.settings import SaslConfig
from kraftspec.reference.wire.client import api_versions_request

USERS = {"alice": "wonder, land", "bob": "builder"}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def peers_file(home: Path, authority: Authority, **more: str) -> str:
    key = authority.sign("proxy").write_pem(home / "proxy.pem")
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.jaas.config": login("PLAIN", "x", "x", USERS),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return str(write_properties(home / "listener.properties", properties))


def client_file(home: Path, authority: Authority, protocol: str, mechanism: str = "PLAIN") -> str:
    trust = authority.write_pem(home / "trust.pem")
    properties = {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login(mechanism, "alice", USERS["alice"]),
    }
    return str(write_properties(home / f"client-{protocol}.properties", properties))


class Secured:
    """A plain node, a proxy before it that ends TLS and logins, and one that begins them."""

    def __init__(self, listening: str, connecting: str | None = None) -> None:
        self.node = Node()
        self.clients: list[Client] = []
        self.outer = FaultProxy(peer_security=peer_security(listening))
        self.inner = FaultProxy(
            node_security=None if connecting is None else node_security(connecting)
        )

    async def __aenter__(self) -> Secured:
        self.server = await asyncio.start_server(self.node.serve, "127.0.0.1", 0)
        link = await self.outer.listen(self.server.sockets[0].getsockname()[:2])
        self.at_tls = link.address
        self.at_plain = (await self.inner.listen(link.address)).address
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            client.writer.transport.abort()
        await self.inner.close()
        await self.outer.close()
        await end_nodes([self.server], [self.node])

    async def client(self, tls: ssl.SSLContext | None = None) -> Client:
        address = self.at_plain if tls is None else self.at_tls
        client = Client(*await asyncio.open_connection(*address, ssl=tls))
        self.clients.append(client)
        return client


async def logged_in(client: Client, sasl: SaslConfig) -> None:
    async def exchange(request: Any, version: int, response: Any) -> Any:
        return await client.answer(request, version)

    await authenticate_client(sasl, exchange)


def run(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await work()

    asyncio.run(bounded())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_proxy_logs_in_for_a_plain_client(
    tmp_path: Path, authority: Authority, mechanism: str
) -> None:
    """The client speaks neither TLS nor SASL, the outer side wants both, the node gets neither."""

    async def work() -> None:
        connecting = client_file(tmp_path, authority, "SASL_SSL", mechanism)
        async with Secured(peers_file(tmp_path, authority), connecting) as scene:
            client = await scene.client()
            await beat(client)
            scene.inner.engine.add(Rule(api="Heartbeat", error="UNKNOWN_MEMBER_ID", times=1))
            assert (await beat(client)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            scene.outer.engine.add(Rule(api="Heartbeat", set={"generationId": 9}))
            await beat(client)
            assert [row[2].generation_id for row in scene.node.requests()] == [7, 9]
            assert not scene.inner.engine.reports
            assert not scene.outer.engine.reports

    run(work)


def test_a_client_logs_in_at_the_proxy(tmp_path: Path, authority: Authority) -> None:
    async def work() -> None:
        known = node_security(client_file(tmp_path, authority, "SASL_SSL", "SCRAM-SHA-256"))
        assert known.tls is not None
        assert known.sasl is not None
        async with Secured(peers_file(tmp_path, authority)) as scene:
            client = await scene.client(known.tls)
            versions = await client.answer(api_versions_request(3), 3)  # Before a login, too.
            assert isinstance(versions, ApiVersionsResponse)
            await logged_in(client, known.sasl)
            await beat(client)
            assert [name for name, _, _ in scene.node.requests()] == ["ApiVersions", "Heartbeat"]

    run(work)


@pytest.mark.parametrize("what", ["a wrong password", "no login", "tokens without headers"])
def test_who_is_not_let_in(tmp_path: Path, authority: Authority, what: str) -> None:
    async def work() -> None:
        known = node_security(client_file(tmp_path, authority, "SASL_SSL"))
        assert known.sasl is not None
        async with Secured(peers_file(tmp_path, authority)) as scene:
            client = await scene.client(known.tls)
            if what == "a wrong password":
                wrong = client_file(tmp_path, authority, "SASL_SSL")
                Path(wrong).write_text(Path(wrong).read_text().replace("wonder", "other"))
                sasl = node_security(wrong).sasl
                assert sasl is not None
                with pytest.raises(AuthenticationError, match="does not take 'alice'"):
                    await logged_in(client, sasl)
            elif what == "no login":
                client.send(APIS["Heartbeat"].request(group_id="g"), 4)
            else:
                client.send(APIS["SaslHandshake"].request(mechanism="PLAIN"), 0)
            assert await client.end() == "eof"
            assert scene.node.frames == []

    run(work)


def test_a_login_by_rules(tmp_path: Path, authority: Authority) -> None:
    async def work() -> None:
        known = node_security(client_file(tmp_path, authority, "SASL_SSL"))
        assert known.sasl is not None
        async with Secured(peers_file(tmp_path, authority)) as scene:
            scene.outer.engine.add(Rule(api="SaslAuthenticate", error=58))
            with pytest.raises(AuthenticationError, match="error 58"):
                await logged_in(await scene.client(known.tls), known.sasl)

    run(work)


def test_a_node_that_does_not_take_the_login(tmp_path: Path, authority: Authority) -> None:
    async def work() -> None:
        connecting = client_file(tmp_path, authority, "SASL_SSL")
        async with Secured(peers_file(tmp_path, authority), connecting) as scene:
            scene.outer.engine.add(Rule(api="SaslHandshake", error=33))
            client = await scene.client()
            client.send(APIS["Heartbeat"].request(group_id="g"), 4)
            assert await client.end() == "reset"
            (report,) = scene.inner.engine.reports
            assert "it does not take PLAIN (error 33)" in report
            scene.outer.engine.add(Rule(name="cut", api="SaslHandshake", close="before"))
            scene.outer.engine.remove("rule-1")
            assert await (await scene.client()).end() == "reset"
            assert any("hung up" in text for text in scene.inner.engine.reports)

    run(work)


def test_a_node_that_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    async def work() -> None:
        other = tmp_path / "other"
        other.mkdir()
        connecting = client_file(other, Authority("another"), "SSL")
        async with Secured(peers_file(tmp_path, authority), connecting) as scene:
            assert await (await scene.client()).end() == "reset"
            (report,) = scene.inner.engine.reports
            assert "certificate" in report

    run(work)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: it is one of"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location: it is missing"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth=maybe"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms=GSSAPI"),
        ({"sasl.jaas.config": "org.x required;"}, 'add user_NAME="PASSWORD"'),
        ({"sasl.jaas.config": "org.x"}, "sasl.jaas.config: after the login module"),
    ],
    ids=str,
)
def test_mistakes(
    tmp_path: Path, authority: Authority, changes: Mapping[str, str], expected: str
) -> None:
    path = Path(peers_file(tmp_path, authority))
    lines = [line for line in path.read_text().splitlines() if line.split("=")[0] not in changes]
    lines += [f"{key}={value}" for key, value in changes.items()]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"listener\.properties: ") as refused:
        peer_security(str(path))
    assert expected in str(refused.value)
