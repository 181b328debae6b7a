"""A whole cluster behind the proxy: messages carry the addresses of its listeners."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.proxy.peers import APIS, Client, Node, end_nodes
from tests.proxy.samples import filled

from kraftspec.conformance.cluster.node import free_port
from kraftspec.generated import kafka
from kraftspec.generated.kafka import (
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    DescribeQuorumResponse,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    StreamsGroupHeartbeatRequest,
)
from kraftspec.proxy.addresses import rewrite, way_to_addresses
from kraftspec.proxy.rules import Rule
from kraftspec.proxy.server import FaultProxy
from kraftspec.reference.admin.client import quorum_request
from kraftspec.reference.local.quorum import LocalQuorum
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import response_header, sized

HOST = "127.0.0.1"


def test_which_messages_have_addresses() -> None:
    names = {
        cls.__name__
        for api in APIS.values()
        for cls in (api.request, api.response)
        for version in cls.VALID_VERSIONS
        if way_to_addresses(cls, version) is not None
    }
    assert names == {
        "AddRaftVoterRequest", "BeginQuorumEpochRequest", "BeginQuorumEpochResponse",
        "BrokerRegistrationRequest", "ControllerRegistrationRequest", "DescribeClusterResponse",
        "DescribeQuorumResponse", "EndQuorumEpochRequest", "EndQuorumEpochResponse",
        "FetchResponse", "FetchSnapshotResponse", "FindCoordinatorResponse", "MetadataResponse",
        "ProduceResponse", "ShareAcknowledgeResponse", "ShareFetchResponse",
        "UpdateRaftVoterRequest", "UpdateRaftVoterResponse", "VoteResponse",
    }  # fmt: skip
    assert way_to_addresses(StreamsGroupHeartbeatRequest, 0) is None


@pytest.mark.parametrize("name", ["request", "response"])
def test_all_addresses_of_all_messages_are_replaced(name: Any) -> None:
    """Compared with the JSON of the messages, in which hosts are found by their name alone."""

    def hosts(value: Any) -> list[tuple[str, int]]:
        if isinstance(value, list):
            return [host for item in value for host in hosts(item)]
        if not isinstance(value, dict):
            return []
        here = [(value["host"], value["port"])] if {"host", "port"} <= set(value) else []
        return here + [host for field in value.values() for host in hosts(field)]

    for api in APIS.values():
        cls = api.message(name)
        for version in cls.VALID_VERSIONS:
            message = filled(cls, version)
            before = hosts(message.to_json(version))
            way = way_to_addresses(cls, version)
            if cls.__name__.startswith("Streams") or not before:
                assert way is None
                continue
            assert way is not None
            assert rewrite(message, way, lambda host, port, _: (f"for-{host}", port + 1)) == len(
                before
            )
            after = hosts(message.to_json(version))
            assert after == [(f"for-{host}", port + 1) for host, port in before]


def test_brokers_that_metadata_names_are_reached_through_the_proxy() -> None:
    async def run() -> None:
        nodes = [Node(), Node()]
        servers = [await asyncio.start_server(node.serve, HOST, 0) for node in nodes]
        ports = [server.sockets[0].getsockname()[1] for server in servers]

        def answer(frame: bytes) -> bytes:
            brokers = [
                MetadataResponse.MetadataResponseBroker(node_id=n, host=HOST, port=port)
                for n, port in enumerate(ports, 1)
            ]
            message = MetadataResponse(brokers=brokers)
            return sized(response_header(MetadataResponse, 5, 1), message.encode(5))

        nodes[0].answer = answer
        rule = Rule(api="Heartbeat", node=2, error=16)
        async with FaultProxy([rule], must_rewrite=True) as proxy:
            first = await proxy.listen((HOST, ports[0]))
            client = Client(*await asyncio.open_connection(*first.address))
            answered = await client.answer(MetadataRequest(topics=[]), 5)
            addresses = [(broker.host, broker.port) for broker in answered.brokers]
            assert addresses[0] == first.address
            assert addresses[1] not in {first.address, (HOST, ports[1])}
            assert [link.target.names for link in proxy.links] == [
                {f"{HOST}:{ports[0]}", "1"},
                {f"{HOST}:{ports[1]}", "2"},
            ]
            second = Client(*await asyncio.open_connection(*addresses[1]))
            # The node is known by the id that the metadata gave it.
            answered = await second.answer(filled(APIS["Heartbeat"].request, 4), 4)
            assert answered.error_code == 16
            await second.answer(FetchRequest(), 12)
            assert [name for name, _, _ in nodes[1].requests()] == ["Fetch"]
            # An address of the proxy's own is left as it is, in requests, too.
            endpoint = BeginQuorumEpochRequest.LeaderEndpoint(
                name="C", host=HOST, port=addresses[1][1]
            )
            other = BeginQuorumEpochRequest.LeaderEndpoint(name="D", host=HOST, port=ports[0])
            begin = BeginQuorumEpochRequest(leader_endpoints=[endpoint, other])
            await second.answer(begin, 1)
            _, _, seen = nodes[1].requests()[-1]
            assert [one.port for one in seen.leader_endpoints] == [
                addresses[1][1],
                first.address[1],
            ]
            for one in (client, second):
                one.writer.transport.abort()
        await end_nodes(servers, nodes)

    asyncio.run(run())


def test_ports_that_were_given_and_none_that_is_left(dead_port: int) -> None:
    async def run() -> None:
        async with FaultProxy(
            must_rewrite=True, advertised_host="proxy", ports=range(dead_port, dead_port + 1)
        ) as proxy:
            link = await proxy.listen((HOST, 1))
            assert proxy.stand_in(HOST, 1, 7) == ("proxy", link.address[1])
            assert "7" in link.target.names
            assert proxy.stand_in("proxy", link.address[1]) is None
            assert proxy.stand_in(HOST, 2) is None  # Somebody has the only port.
            (report,) = proxy.engine.reports
            assert report.startswith(f"nobody stands for {HOST}:2: Address already in use")

    asyncio.run(run())


def test_a_quorum_of_our_nodes(tmp_path: Path) -> None:
    """Who asks one node about the quorum reaches all of them, and never past the proxy."""

    async def run() -> None:
        async with (
            LocalQuorum(tmp_path / "quorum", voters=3, first_port=free_port(set())) as quorum,
            FaultProxy(must_rewrite=True) as proxy,
        ):
            leader = await quorum.wait_leader(60)
            own = {node_id: port_of(quorum, node_id) for node_id in quorum.nodes}
            link = await proxy.listen((HOST, own[leader.config.node_id]))

            def talk() -> None:
                response = ask(
                    link.address[1], quorum_request(kafka), 2, DescribeQuorumResponse, timeout_s=60
                )
                ports = {node.node_id: node.listeners[0].port for node in response.nodes}
                assert set(ports) == set(own)
                assert not set(ports.values()) & set(own.values())
                for through in ports.values():
                    versions = ask(
                        through, api_versions_request(3), 3, ApiVersionsResponse, timeout_s=60
                    )
                    assert versions.api_keys

            await asyncio.to_thread(talk)
            assert len(proxy.links) == 3
            assert {link.target.address[1] for link in proxy.links} == set(own.values())

    asyncio.run(run())


def port_of(quorum: LocalQuorum, node_id: int) -> int:
    ((_, port),) = quorum.nodes[node_id].listeners.values()
    return port
