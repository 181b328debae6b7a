"""Rules that answer with errors, and rules that cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.proxy.peers import answer_filled, stage
from tests.proxy.test_rules import HEARTBEAT, beat, produce

from kraftspec.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from kraftspec.proxy.rules import Corruption, Rule, RuleError
from kraftspec.proxy.server import FaultProxy


def test_an_error_is_where_clients_look_for_it() -> None:
    rules = [
        Rule(api="Produce", error="NOT_LEADER_OR_FOLLOWER"),
        Rule(api="Fetch", error="NOT_LEADER_OR_FOLLOWER", times=1),
        Rule(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND"),
        Rule(api="ListOffsets", error=9, error_at="items"),
    ]

    async def run() -> None:
        async with stage(rules) as scene:
            client = await scene.client()
            answer = await client.answer(produce(), 9)
            (topic,) = answer.responses
            assert topic.name == "orders"
            assert [(p.index, p.error_code) for p in topic.partition_responses] == [(0, 6), (1, 6)]
            partition = FetchRequest.FetchPartition(partition=3, fetch_offset=8)
            fetch = FetchRequest(
                topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])]
            )
            answer = await client.answer(fetch, 12)
            assert answer.error_code == 0
            (topic,) = answer.responses
            assert (topic.topic, topic.partitions[0].partition_index) == ("t", 3)
            assert topic.partitions[0].error_code == 6
            answer = await client.answer(fetch, 12)
            assert (answer.error_code, answer.responses) == (70, [])
            part = ListOffsetsRequest.ListOffsetsPartition(partition_index=1)
            topics = [ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])]
            answer = await client.answer(ListOffsetsRequest(topics=topics), 6)
            assert answer.topics[0].partitions[0].error_code == 9
            assert scene.node.frames == []

    asyncio.run(run())


def test_an_error_waits_for_the_answers_before_it() -> None:
    """Answers come in the order of the requests, also those that the proxy gives by itself."""

    async def run() -> None:
        async with stage([Rule(api="Heartbeat", error=16)], answer=lambda _: None) as scene:
            client = await scene.client()
            client.send(MetadataRequest(topics=[]), 5)
            client.send(HEARTBEAT, 4)
            client.send(MetadataRequest(topics=[]), 5)
            await scene.node.until(lambda: len(scene.node.frames) == 2)
            (connection,) = scene.proxy.connections
            assert connection.to_client.sent_bytes == 0
            for frame in scene.node.frames:
                scene.node.writers[0].write(answer_filled(frame))
            assert [(await client.frame())[3] for _ in range(3)] == [1, 2, 3]

    asyncio.run(run())


def test_an_error_in_a_response_is_of_what_the_node_has_done() -> None:
    rule = Rule(api="Produce", direction="response", error="REQUEST_TIMED_OUT")

    async def run() -> None:
        async with stage([rule]) as scene:
            answer = await (await scene.client()).answer(produce(), 9)
            codes = {p.error_code for t in answer.responses for p in t.partition_responses}
            assert codes == {7}
            assert len(scene.node.frames) == 1

    asyncio.run(run())


def test_a_refused_api_versions_request_is_answered_in_version_0() -> None:
    async def run() -> None:
        async with stage([Rule(api="ApiVersions", error="UNSUPPORTED_VERSION", versions="4+")]) as (
            scene
        ):
            client = await scene.client()
            client.send(ApiVersionsRequest(), 4)
            frame = await client.frame()
            answer = ApiVersionsResponse.decode(frame[4:], 0)
            assert answer.error_code == 35
            assert [(one.api_key, one.min_version) for one in answer.api_keys] == [(18, 0)]
            assert (await client.answer(ApiVersionsRequest(), 3)).error_code != 35

    asyncio.run(run())


def test_an_error_without_a_place_passes_and_is_reported() -> None:
    async def run() -> None:
        async with stage([Rule(api="Metadata", error="LEADER_NOT_AVAILABLE")]) as scene:
            client = await scene.client()
            await client.answer(MetadataRequest(topics=None), 9)
            assert len(scene.node.frames) == 1
            (report,) = scene.proxy.engine.reports
            assert "rule rule-1: no place for the error LEADER_NOT_AVAILABLE" in report
            assert scene.proxy.engine.rules[0].acted == 0

    asyncio.run(run())


def test_an_error_for_a_request_without_acks_is_nobodys() -> None:
    async def run() -> None:
        async with stage([Rule(api="Produce", error=6)]) as scene:
            client = await scene.client()
            client.send(produce(acks=0), 9)
            await client.answer(MetadataRequest(topics=[]), 5)
            assert [name for name, _, _ in scene.node.requests()] == ["Metadata"]

    asyncio.run(run())


def test_an_error_may_come_late() -> None:
    async def run() -> None:
        async with stage([Rule(api="Heartbeat", error=16, delay_ms=200)]) as scene:
            client = await scene.client()
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert (await beat(client)).error_code == 16
            assert loop.time() - began >= 0.2

    asyncio.run(run())


# ---- rules that cannot be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "it does nothing"),
        ({"api": "Produse", "drop": True}, "did you mean Produce?"),
        ({"api": 99, "drop": True}, "there is no API 99"),
        ({"api": [], "drop": True}, "the list is empty"),
        ({"api": "Vote", "versions": "3+", "drop": True}, "Vote has versions 0 to 2"),
        ({"versions": "3..4", "drop": True}, "is not versions"),
        ({"versions": "4-3", "drop": True}, "ends before it begins"),
        ({"error": "NO_SUCH"}, "there is no error 'NO_SUCH'"),
        ({"error": 40_000}, "40000 is not an int16"),
        ({"error_at": "top", "drop": True}, "there is no error"),
        ({"error": 1, "drop": True}, "error and drop do not go together"),
        ({"pass_": True, "delay_ms": 1}, "do not go together"),
        ({"throttle_time_ms": 1, "direction": "request"}, "requests have no throttle time"),
        ({"corrupt": Corruption()}, "either at or bytes"),
        ({"corrupt": Corruption(at=1, bytes=1)}, "either at or bytes"),
        ({"where": {"a b": 1}, "drop": True}, "is not a path"),
        ({"where": {"noSuchField": 1}, "drop": True}, "no request has a field"),
        ({"api": "Fetch", "where": {"topics": 1}, "drop": True}, "a field of it: topic"),
        ({"api": "Fetch", "where": {"topic": 1}, "drop": True}, "has no field 'topic'"),
        ({"api": "Fetch", "where": {"maxBytes": {"mx": 1}}, "drop": True}, "or min and max"),
        ({"api": "Fetch", "where": {"maxBytes": [{"min": "a"}]}, "drop": True}, "or min and max"),
        ({"api": "Fetch", "where": {"maxBytes": {}}, "drop": True}, "or min and max"),
        ({"api": "Fetch", "set": {"maxBytes": {"ad": 1}}}, "or {add: number}"),
        ({"api": "Fetch", "set": {"maxBytes": {"add": True}}}, "or {add: number}"),
        ({"api": "Fetch", "where": {"maxBytes[0]": 1}, "drop": True}, "has no field"),
        ({"where": {"header.nothing": 1}, "drop": True}, "the header of a request has"),
        ({"direction": "response", "where": {"request": 1}, "drop": True}, "names no field"),
        ({"api": "Fetch", "set": {"request.maxBytes": 1}}, "has no field"),
        (
            {"api": "Produce", "versions": "13+", "set": {"topicData.name": "a"}},
            "ProduceRequest has 'topicData.name' at versions 3 to 12 alone",
        ),
    ],
    ids=str,
)
def test_mistakes(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(RuleError, match=expected.replace("?", r"\?").replace("..", r"\.\.")):
        FaultProxy([Rule(**fields)])
