"""Each kind of rule, by what the node and the client then see."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.proxy.peers import Client, Stage, request_frame, stage
from tests.proxy.samples import filled

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import (
    HeartbeatRequest,
    ProduceRequest,
    ProduceResponse,
    VoteRequest,
)
from kraftspec.proxy.rules import Rule, RuleError

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")


def produce(topic: str = "orders", partitions: int = 2, acks: int = -1) -> ProduceRequest:
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=b"records")
        for index in range(partitions)
    ]
    topic_data = ProduceRequest.TopicProduceData(name=topic, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic_data])


async def beat(client: Client, generation: int = 7, client_id: str = "me") -> Any:
    message = HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")
    return await client.answer(message, 4, client_id)


def generations(scene: Stage) -> list[int]:
    return [message.generation_id for _, _, message in scene.node.requests()]


# ---- what is matched ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "is_matched"),
    [
        ({}, True),
        ({"api": "Heartbeat"}, True),
        ({"api": 12}, True),
        ({"api": ["Fetch", "Heartbeat"]}, True),
        ({"api": "Fetch"}, False),
        ({"versions": "4"}, True),
        ({"versions": 4}, True),
        ({"versions": "2-4"}, True),
        ({"versions": "4+"}, True),
        ({"versions": "0-3"}, False),
        ({"direction": "request"}, True),
        ({"direction": "response"}, False),
        ({"client_id": "me"}, True),
        ({"client_id": "m*"}, True),
        ({"client_id": "you"}, False),
        ({"node": 1}, True),
        ({"node": 2}, False),
        ({"where": {"groupId": "g"}}, True),
        ({"where": {"groupId": "[f-h]"}}, True),
        ({"where": {"groupId": ["a", "g"]}}, True),
        ({"where": {"groupId": "h"}}, False),
        ({"where": {"generationId": 7}}, True),
        ({"where": {"generationId": {"min": 7}}}, True),
        ({"where": {"generationId": {"max": 6}}}, False),
        ({"where": {"groupInstanceId": None}}, True),
        ({"where": {"groupId": "g", "generationId": 8}}, False),
        ({"where": {"header.clientId": "me"}}, True),
        ({"where": {"header.correlationId": 1}}, True),
        ({"where": {"header.requestApiVersion": 3}}, False),
    ],
    ids=str,
)
def test_matching(fields: dict[str, Any], is_matched: bool) -> None:
    """A matched request is changed on its way to the node; the client knows nothing of it."""

    async def run() -> None:
        direction = fields.get("direction")
        change = {"header.clientId": "changed"} if direction != "response" else {"errorCode": 27}
        rule = Rule(**{"set": change, **fields})
        async with stage([rule]) as scene:
            answer = await beat(await scene.client())
            assert (b"changed" in scene.node.frames[0]) is is_matched
            assert (answer.error_code == 27) is (direction == "response")

    asyncio.run(run())


def test_a_field_in_any_element_matches_and_one_by_its_index() -> None:
    rules = [
        Rule(api="Produce", where={"topicData.partitionData.index": 1}, set={"timeoutMs": 1}),
        Rule(api="Produce", where={"topicData[0].partitionData[-1].index": 1}, set={"acks": 1}),
        Rule(api="Produce", where={"topicData[*].partitionData[0].index": 1}, set={"acks": 0}),
    ]

    async def run() -> None:
        async with stage(rules) as scene:
            await (await scene.client()).answer(produce(), 9)
            ((_, _, message),) = scene.node.requests()
            assert (message.timeout_ms, message.acks) == (1, 1)

    asyncio.run(run())


def test_responses_are_matched_by_their_request() -> None:
    rules = [
        Rule(
            api="Heartbeat",
            direction="response",
            where={"request.generationId": 8},
            error="REBALANCE_IN_PROGRESS",
        ),
        Rule(api="Heartbeat", direction="response", client_id="b", error="FENCED_INSTANCE_ID"),
    ]

    async def run() -> None:
        async with stage(rules) as scene:
            client = await scene.client()
            codes = [(await beat(client, 7)).error_code, (await beat(client, 8)).error_code]
            codes.append((await beat(client, 7, "b")).error_code)
            usual = (await beat(client, 7)).error_code
            assert codes == [usual, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID]
            assert generations(scene) == [7, 8, 7, 7]

    asyncio.run(run())


# ---- when a rule acts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "acted"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"after": 2}, [3, 4, 5, 6]),
        ({"every": 2}, [2, 4, 6]),
        ({"times": 2}, [1, 2]),
        ({"after": 1, "every": 2, "times": 2}, [3, 5]),
        ({"after": 2, "nth": 2}, [4]),
        ({"probability": 0.0}, []),
        ({"probability": 1.0}, [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_turns(fields: dict[str, Any], acted: list[int]) -> None:
    async def run() -> None:
        rule = Rule(**{"api": "Heartbeat", "error": "NOT_COORDINATOR", **fields})
        async with stage([rule]) as scene:
            client = await scene.client()
            codes = [(await beat(client, number)).error_code for number in range(1, 7)]
            assert [n for n, code in enumerate(codes, 1) if code == 16] == acted
            assert generations(scene) == [n for n in range(1, 7) if n not in acted]

    asyncio.run(run())


def test_chance_is_of_the_seed() -> None:
    async def codes(seed: int) -> list[int]:
        rule = Rule(api="Heartbeat", error="NOT_COORDINATOR", probability=0.5, seed=seed)
        async with stage([rule]) as scene:
            client = await scene.client()
            return [(await beat(client)).error_code for _ in range(40)]

    first = asyncio.run(codes(1))
    assert first == asyncio.run(codes(1))
    assert first != asyncio.run(codes(2))
    random_numbers = random.Random(1)
    assert [code == 16 for code in first] == [random_numbers.random() < 0.5 for _ in range(40)]


def test_rules_act_in_their_order_and_pass_ends_them() -> None:
    rules = [
        Rule(api="Heartbeat", set={"generationId": {"add": 1}}),
        Rule(api="Heartbeat", where={"generationId": 8}, set={"generationId": 80}),
        Rule(api="Heartbeat", where={"generationId": 80}, pass_=True),
        Rule(api="Heartbeat", drop=True),
    ]

    async def run() -> None:
        async with stage(rules) as scene:
            client = await scene.client()
            client.send(HeartbeatRequest(group_id="g", generation_id=5, member_id="m"), 4)
            client.send(HEARTBEAT, 4)
            assert int.from_bytes((await client.frame())[:4], "big") == 2
            assert generations(scene) == [80]

    asyncio.run(run())


def test_rules_come_and_go_while_it_runs() -> None:
    async def run() -> None:
        async with stage() as scene:
            client = await scene.client()
            engine = scene.proxy.engine
            usual = (await beat(client)).error_code
            engine.add(Rule(name="x", api="Heartbeat", error=16))
            assert (await beat(client)).error_code == 16
            with pytest.raises(RuleError, match="already"):
                engine.add(Rule(name="x", drop=True))
            assert engine.remove("x").acted == 1
            assert (await beat(client)).error_code == usual
            with pytest.raises(KeyError):
                engine.remove("x")

    asyncio.run(run())


# ---- what a rule does --------------------------------------------------------------------------


def test_delay() -> None:
    """The delayed frame and what follows it arrive in their order; other connections go on."""
    rule = Rule(api="Heartbeat", where={"generationId": 1}, delay_ms=300)

    async def run() -> None:
        async with stage([rule]) as scene:
            client, other = await scene.client(), await scene.client()
            loop = asyncio.get_running_loop()
            began = loop.time()
            for generation in (1, 2, 3):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            await beat(other, 9)
            for _ in range(3):
                await client.frame()
            assert loop.time() - began >= 0.3
            assert generations(scene) == [9, 1, 2, 3]

    asyncio.run(run())


@pytest.mark.parametrize("direction", ["request", "response"])
def test_hold_and_release(direction: Any) -> None:
    rule = Rule(name="held", api="Heartbeat", direction=direction, hold=True, times=1)

    async def run() -> None:
        async with stage([rule]) as scene:
            client, other = await scene.client(), await scene.client()
            engine = scene.proxy.engine
            for generation in (1, 2):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            active = engine.rule("held")
            async with asyncio.timeout(60):
                while not active.release_hooks:
                    await asyncio.sleep(0.001)
            await beat(other, 9)
            assert 9 in generations(scene)
            assert (1 in generations(scene)) == (direction == "response")
            assert engine.release(active) == 1
            assert [(await client.frame())[3] for _ in range(2)] == [1, 2]
            assert engine.release(active) == 0

    asyncio.run(run())


@pytest.mark.parametrize("direction", ["request", "response"])
def test_drop(direction: Any) -> None:
    rule = Rule(api="Heartbeat", direction=direction, drop=True, nth=2)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            for generation in (1, 2, 3):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            assert [(await client.frame())[3] for _ in range(2)] == [1, 3]
            assert generations(scene) == ([1, 3] if direction == "request" else [1, 2, 3])

    asyncio.run(run())


def test_a_duplicated_request_is_answered_once() -> None:
    rule = Rule(api="Heartbeat", duplicate=2, nth=1)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            for generation in (1, 2):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            assert [(await client.frame())[3] for _ in range(2)] == [1, 2]
            assert generations(scene) == [1, 1, 1, 2]

    asyncio.run(run())


def test_a_duplicated_response_comes_twice() -> None:
    rule = Rule(api="Heartbeat", direction="response", duplicate=1, nth=1)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            for generation in (1, 2):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            assert [(await client.frame())[3] for _ in range(3)] == [1, 1, 2]
            assert generations(scene) == [1, 2]

    asyncio.run(run())


@pytest.mark.parametrize("direction", ["request", "response"])
def test_reorder(direction: Any) -> None:
    rule = Rule(api="Heartbeat", direction=direction, reorder_ms=3_600_000, nth=2)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            for generation in (1, 2, 3, 4):
                client.send(HeartbeatRequest(generation_id=generation), 4)
            assert [(await client.frame())[3] for _ in range(4)] == [1, 3, 2, 4]
            expected = [1, 3, 2, 4] if direction == "request" else [1, 2, 3, 4]
            assert generations(scene) == expected

    asyncio.run(run())


def test_reorder_does_not_wait_for_ever() -> None:
    rule = Rule(api="Heartbeat", reorder_ms=20)

    async def run() -> None:
        async with stage([rule]) as scene:
            await beat(await scene.client())

    asyncio.run(run())


def test_set_in_a_request_and_in_a_response() -> None:
    rules = [
        Rule(
            api="Produce",
            set={
                "header.clientId": "somebody",
                "topicData[0].name": "other",
                "topicData.partitionData.index": {"add": 10},
                "acks": 1,
            },
        ),
        Rule(
            api="Produce",
            direction="response",
            set={"responses.partitionResponses.baseOffset": 42, "header.correlationId": {"add": 5}},
        ),
    ]

    async def run() -> None:
        async with stage(rules) as scene:
            client = await scene.client()
            client.send(produce(), 9)
            frame = await client.frame()
            assert frame[:4] == b"\0\0\0\6"
            answer = ProduceResponse.decode(frame[5:], 9)
            offsets = {p.base_offset for t in answer.responses for p in t.partition_responses}
            assert offsets == {42}
            ((_, _, message),) = scene.node.requests()
            (topic,) = message.topic_data
            assert (message.acks, topic.name) == (1, "other")
            assert [p.index for p in topic.partition_data] == [10, 11]
            assert all(p.records == b"records" for p in topic.partition_data)
            assert b"somebody" in scene.node.frames[0]

    asyncio.run(run())


def test_set_uuids_and_what_does_not_fit() -> None:
    uuid = "AAAAAAAAAAAAAAAAAAAAAQ"
    rules = [
        Rule(api="Vote", set={"topics.partitions.replicaDirectoryId": uuid}),
        Rule(api="Vote", set={"voterId": {"add": 1 << 40}}),
    ]

    async def run() -> None:
        async with stage(rules[:1]) as scene:
            message = filled(VoteRequest, 2)
            await (await scene.client()).answer(message, 2)
            ((_, _, seen),) = scene.node.requests()
            ids = {str(p.replica_directory_id) for t in seen.topics for p in t.partitions}
            assert ids == {uuid}
        async with stage(rules[1:]) as scene:
            await (await scene.client()).answer(message, 2)
            ((_, _, seen),) = scene.node.requests()
            assert seen == message  # It passes unchanged,
            (report,) = scene.proxy.engine.reports
            assert "voterId" in report  # and that is reported.

    asyncio.run(run())


def test_throttle_time() -> None:
    async def run() -> None:
        async with stage([Rule(throttle_time_ms=1234)]) as scene:
            client = await scene.client()
            assert (await beat(client)).throttle_time_ms == 1234
            await client.answer(filled(VoteRequest, 2), 2)
            (report,) = scene.proxy.engine.reports
            assert report == "Vote response 2, rule rule-1: this version has no throttleTimeMs"

    asyncio.run(run())


def test_bytes_per_second() -> None:
    frame = request_frame(produce(), 9, 1)
    rule = Rule(api="Produce", bytes_per_second=len(frame) * 10)

    async def run() -> None:
        async with stage([rule]) as scene:
            client = await scene.client()
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(4):
                client.send(produce(), 9)
            for _ in range(4):
                await client.frame()
            assert loop.time() - began >= 0.4

    asyncio.run(run())
