"""Rules that name topics, where messages have their ids; and fields that cannot be set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.proxy.peers import APIS, Client, Node, answer_filled, end_nodes

from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.generated.kafka import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from kraftspec.proxy.frame import apis_of
from kraftspec.proxy.rules import Rule, RuleError, notes
from kraftspec.proxy.server import FaultProxy
from kraftspec.reference.wire.frames import response_header, sized

HOST = "127.0.0.1"
IDS = {"orders": Uuid("AAAAAAAAAAAAAAAAAAAAAQ"), "bills": Uuid("AAAAAAAAAAAAAAAAAAAAAg")}
UNKNOWN = Uuid("AAAAAAAAAAAAAAAAAAAAAw")
BROKER_PORT = 9

METADATA = MetadataRequest(topics=None)


def named(frame: bytes) -> bytes:
    """Return the answer of a broker with two topics."""
    key, version = frame[:2], int.from_bytes(frame[2:4], "big")
    if key != MetadataRequest.API_KEY.to_bytes(2, "big"):
        return answer_filled(frame)
    answer = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=1, host=HOST, port=BROKER_PORT)],
        topics=[
            MetadataResponse.MetadataResponseTopic(name=name, topic_id=topic_id)
            for name, topic_id in IDS.items()
        ],
    )
    header = response_header(MetadataResponse, version, int.from_bytes(frame[4:8], "big"))
    return sized(header, answer.encode(version))


def produce(topic_id: Uuid) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=b"records")
    topic = ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])


def fetch(topic_id: Uuid) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0)
    return FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])])


async def play(rules: list[Rule], messages: list[Any], *, must_rewrite: bool) -> tuple[Any, ...]:
    """Send messages in their newest versions; return the proxy, the node and the answers."""
    node = Node(named)
    server = await asyncio.start_server(node.serve, HOST, 0)
    async with FaultProxy(rules, must_rewrite=must_rewrite) as proxy:
        link = await proxy.listen(server.sockets[0].getsockname()[:2])
        client = Client(*await asyncio.open_connection(*link.address))
        answers = [
            await client.answer(one, APIS[type(one).__name__[:-7]].request.VALID_VERSIONS[-1])
            for one in messages
        ]
        client.writer.close()
    await end_nodes([server], [node])
    return proxy, node, answers


@pytest.mark.parametrize("must_rewrite", [True, False])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"api": "Produce", "where": {"topicData.name": "orders"}}, produce),
        ({"api": "Produce", "versions": "13+", "where": {"topicData[0].name": "ord*"}}, produce),
        ({"api": "Fetch", "where": {"topics.topic": "orders"}}, fetch),
        (
            {"api": "Fetch", "direction": "response", "where": {"request.topics.topic": "orders"}},
            fetch,
        ),
    ],
    ids=["produce", "element", "fetch", "answer"],
)
def test_a_topic_is_named_though_the_request_has_its_id(
    fields: dict[str, Any], message: Any, must_rewrite: bool
) -> None:
    messages = [METADATA, message(IDS["bills"]), message(IDS["orders"])]
    rule = Rule(error="UNKNOWN_SERVER_ERROR", error_at="items", **fields)
    proxy, node, answers = asyncio.run(play([rule], messages, must_rewrite=must_rewrite))
    (active,) = proxy.engine.rules
    assert (active.matched, active.acted) == (1, 1)
    assert not proxy.engine.reports
    bills, orders = (answer.to_json(type(answer).VALID_VERSIONS[-1]) for answer in answers[1:])
    assert "'errorCode': -1" in str(orders)
    assert "'errorCode': -1" not in str(bills)
    assert len(node.frames) == (3 if rule.direction == "response" else 2)


def test_a_topic_that_no_answer_has_named_is_reported() -> None:
    rule = Rule(name="r", api="Produce", where={"topicData.name": "orders"}, drop=True)
    messages = [METADATA, produce(UNKNOWN)]
    proxy, node, _ = asyncio.run(play([rule], messages, must_rewrite=True))
    assert list(proxy.engine.reports) == [
        f"Produce request 13, rule r: no answer to Metadata has named the topic {UNKNOWN} yet"
    ]
    assert len(node.frames) == 2


def test_without_need_metadata_is_not_decoded() -> None:
    rule = Rule(api="Produce", where={"acks": 1}, drop=True)
    proxy, _, _ = asyncio.run(play([rule], [METADATA], must_rewrite=False))
    assert not proxy.engine.wants("response", 3, 13)
    proxy.engine.add(Rule(api="Produce", where={"topicData.name": "a"}, drop=True))
    assert proxy.engine.wants("response", 3, 13)
    assert not proxy.engine.wants("response", 3, 9)  # It has no ids.


def test_what_cannot_be_set_leaves_all_as_it_was() -> None:
    """The addresses are the proxy's all the same, and what was set before is taken back."""
    change = {"topics.errorCode": 5, "brokers.port": {"add": 1 << 40}}
    rule = Rule(api="Metadata", direction="response", set=change, times=1)
    proxy, _, (answer,) = asyncio.run(play([rule], [METADATA], must_rewrite=True))
    (broker,) = answer.brokers
    assert broker.port in {link.address[1] for link in proxy.links}
    assert [topic.error_code for topic in answer.topics] == [0, 0]
    (active,) = proxy.engine.rules
    assert (active.matched, active.acted) == (1, 0)
    (report,) = proxy.engine.reports
    assert "brokers[0].port" in report


def test_a_field_that_a_version_lacks_is_not_set() -> None:
    rule = Rule(name="r", api="Produce", set={"topicData.name": "other"})
    proxy, node, _ = asyncio.run(play([rule], [produce(UNKNOWN)], must_rewrite=False))
    assert list(proxy.engine.reports) == [
        "Produce request 13, rule r: this version has no topicData.name"
    ]
    assert proxy.engine.rules[0].acted == 0
    assert node.requests()[0][2].topic_data[0].topic_id == UNKNOWN


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"where": {"topicData.name": "a"}}, []),  # By its id since 13.
        ({"where": {"topicData.topicId": "a"}, "versions": "11+"}, ["topicId in versions 11, 12:"]),
        ({"where": {"header.clientId": "a"}}, []),
        ({"where": {"acks": 1}}, []),
        (
            {"where": {"request.topicData.topicId": "a"}, "direction": "response"},
            ["topicId in versions 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:"],
        ),
    ],
    ids=str,
)
def test_which_versions_cannot_match(fields: dict[str, Any], note: list[str]) -> None:
    found = notes(Rule(api="Produce", drop=True, **fields), apis_of(kafka))
    assert len(found) == len(note)
    assert all(text in line for text, line in zip(note, found, strict=True))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"brokers.port": "abc"}, "the field is of type int32, and 'abc' is not"),
        ({"brokers.port": 1 << 31}, "the field is of type int32, and 2147483648 is not"),
        ({"topics.topicId": "abc"}, "the field is a uuid, and 'abc' is not"),
        ({"topics.isInternal": 1}, "the field is true or false, and 1 is not"),
        ({"clusterId": 1}, "the field is a text, and 1 is not"),
    ],
    ids=str,
)
def test_values_that_a_field_cannot_have(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(RuleError) as caught:
        FaultProxy([Rule(api="Metadata", direction="response", set=fields)])
    assert text in str(caught.value)
    FaultProxy([Rule(api="Metadata", direction="response", set={"brokers.port": (1 << 31) - 1})])
