"""Rules before a real broker and a real controller, by what both sides see.

A second proxy without rules stands between the first one and the node: what it records is what the
node got, and what it said. The client is byte by byte ours, so that what it gets is known, too.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pytest
from tests.proxy.asked import ASKED, BROKERS, TOPIC
from tests.proxy.peers import APIS, TIMEOUT_S, Client, request_frame

from kraftspec.conformance.cluster import Cluster
from kraftspec.generated import kafka as k
from kraftspec.generated.errors import ErrorCode
from kraftspec.proxy.recorder import Recorder
from kraftspec.proxy.rules import Rule
from kraftspec.proxy.server import FaultProxy

pytestmark = pytest.mark.kafka

CONTROLLER_APIS = {"DescribeQuorum", "Vote"}
INCONSISTENT_CLUSTER_ID = ErrorCode.INCONSISTENT_CLUSTER_ID
Result = TypeVar("Result")


class Scene:
    """A client, the proxy with rules, the one that records, and a node of Kafka's."""

    def __init__(self, cluster: Cluster, rules: list[Rule]) -> None:
        self.proxy = FaultProxy(rules)
        self.witness = FaultProxy()
        self._cluster = cluster
        self._record = io.StringIO()
        self.witness.engine.record_to(Recorder(self._record))
        self._addresses: dict[str, tuple[str, int]] = {}
        self._clients: list[Client] = []

    async def __aenter__(self) -> Scene:
        for name, bootstrap, node_id in (
            ("broker", self._cluster.bootstrap(), self._cluster.brokers[0].id),
            ("controller", self._cluster.controller_bootstrap(), self._cluster.controllers[0].id),
        ):
            host, _, port = bootstrap.partition(":")
            seen = await self.witness.listen((host, int(port)))
            link = await self.proxy.listen(seen.address, node_id=node_id)
            self._addresses[name] = link.address
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.writer.transport.abort()
        await self.proxy.close()
        await self.witness.close()

    async def client(self, api: str) -> Client:
        """Connect to the proxy, where the nodes are that serve an API."""
        where = "controller" if api in CONTROLLER_APIS else "broker"
        client = Client(*await asyncio.open_connection(*self._addresses[where]))
        self._clients.append(client)
        return client

    async def ask(self, api: str, client: Client | None = None, client_id: str = "me") -> Any:
        """Send a request, on a connection of its own by default, and return the answer."""
        version, request = ASKED[api]
        client = client or await self.client(api)
        return await client.answer(request(), version, client_id)

    def got(self) -> list[dict[str, Any]]:
        """Return the messages that the node got, as they are recorded."""
        return [line for line in self._lines() if line["direction"] == "request"]

    def said(self) -> list[dict[str, Any]]:
        """Return the messages that the node sent."""
        return [line for line in self._lines() if line["direction"] == "response"]

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._record.getvalue().splitlines()]

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what the node gets or says."""
        while not is_so():
            await asyncio.sleep(0.005)


def play(cluster: Cluster, rules: list[Rule], work: Callable[[Scene], Awaitable[Result]]) -> Result:
    """Run the work of a test between these rules and the cluster."""

    async def run() -> Result:
        async with asyncio.timeout(TIMEOUT_S), Scene(cluster, rules) as scene:
            return await work(scene)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("ruled")
    with Cluster(directory, controllers=1, brokers=1, release=BROKERS) as cluster:
        play(cluster, [], lambda scene: scene.ask("CreateTopics"))

        async def leads(scene: Scene) -> None:
            while codes(await scene.ask("Produce")) != {0}:
                await asyncio.sleep(0.05)

        play(cluster, [], leads)
        yield cluster


def codes(value: Any) -> set[int]:
    """Return every error code in a message."""
    seen = set()
    names = getattr(value, "__struct_fields__", ())
    for name in names:
        field = getattr(value, name)
        if name == "error_code":
            seen.add(int(field))
        for item in field if isinstance(field, list | tuple) else [field]:
            seen |= codes(item)
    return seen


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("ApiVersions", "UNSUPPORTED_VERSION"),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS"),
        ("DescribeCluster", "CLUSTER_AUTHORIZATION_FAILED"),
        ("DescribeQuorum", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "OFFSET_OUT_OF_RANGE"),
        ("InitProducerId", "COORDINATOR_NOT_AVAILABLE"),
        ("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("ListOffsets", "LEADER_NOT_AVAILABLE"),
        ("Metadata", "TOPIC_AUTHORIZATION_FAILED"),
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),
        ("Vote", "NOT_CONTROLLER"),
    ],
)
def test_an_error_instead_of_the_node(cluster: Cluster, api: str, error: str) -> None:
    """The client gets it once, and the node hears of the second request alone."""

    async def work(scene: Scene) -> None:
        client = await scene.client(api)
        version, request = ASKED[api]
        if api == "ApiVersions":  # Its answer has version 0 then (KIP-511).
            client.send(request(), version)
            frame = await client.frame()
            answer = k.ApiVersionsResponse.decode(frame[4:], 0)
        else:
            answer = await scene.ask(api, client)
        assert codes(answer) - {0} == {ErrorCode[error]}
        assert scene.got() == []
        usual = await scene.ask(api, client)
        assert ErrorCode[error] not in codes(usual) or api == "CreateTopics"
        assert [line["api"] for line in scene.got()] == [api]

    play(cluster, [Rule(api=api, error=error, times=1)], work)


@pytest.mark.parametrize("api", ["Produce", "Fetch", "DescribeQuorum"])
def test_an_error_after_the_node(cluster: Cluster, api: str) -> None:
    """The node has done it, and says so; the client gets an error."""

    async def work(scene: Scene) -> None:
        answer = await scene.ask(api)
        assert codes(answer) - {0} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        (line,) = scene.said()
        response = APIS[api].response.from_json(line["message"], line["version"])
        assert codes(response) == {0}

    rule = Rule(api=api, direction="response", error="NOT_LEADER_OR_FOLLOWER")
    play(cluster, [rule], work)


# ---- what is matched, and when -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"client_id": "y*"}, [False, True, False, True]),
        ({"where": {"header.clientId": ["you"]}}, [False, True, False, True]),
        ({"where": {"topics.name": TOPIC}}, [True] * 4),
        ({"where": {"topics.name": "other"}}, [False] * 4),
        ({"versions": "9-12"}, [True] * 4),
        ({"versions": "13+"}, [False] * 4),
        ({"node": 1}, [True] * 4),
        ({"node": 2}, [False] * 4),
        ({"nth": 3}, [False, False, True, False]),
        ({"after": 3}, [False, False, False, True]),
        ({"every": 2}, [False, True, False, True]),
        ({"times": 2}, [True, True, False, False]),
        ({"probability": 0.0}, [False] * 4),
        ({"direction": "response", "where": {"request.topics.name": TOPIC}}, [True] * 4),
        ({"direction": "response", "client_id": "me"}, [True, False, True, False]),
    ],
    ids=str,
)
def test_which_requests(cluster: Cluster, fields: dict[str, Any], refused: list[bool]) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("Metadata")
        results = []
        for client_id in ("me", "you", "me", "you"):
            answer = await scene.ask("Metadata", client, client_id)
            results.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes(answer))
        assert results == refused
        passed = 4 if fields.get("direction") == "response" else refused.count(False)
        assert len(scene.got()) == passed

    rule = Rule(api="Metadata", error="TOPIC_AUTHORIZATION_FAILED", **fields)
    play(cluster, [rule], work)


def test_what_passes_is_not_seen_by_later_rules(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        assert codes(await scene.ask("ListGroups")) == {0}
        assert codes(await scene.ask("ListGroups", client_id="you")) == {15}

    rules = [Rule(client_id="me", pass_=True), Rule(api="ListGroups", error=15)]
    play(cluster, rules, work)


# ---- when it is delivered ----------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("fields", [{"delay_ms": 300}, {"bytes_per_second": 100}], ids=str)
def test_later(cluster: Cluster, direction: Any, fields: dict[str, Any]) -> None:
    """A request of ListGroups has some 30 bytes, as has its answer."""

    async def work(scene: Scene) -> None:
        client = await scene.client("ListGroups")
        begun_s = time.monotonic()
        client.send(ASKED["ListGroups"][1](), 4)
        if direction == "response":
            await scene.until(lambda: bool(scene.said()))  # At the usual time.
        await client.frame()
        assert time.monotonic() - begun_s >= 0.15

    play(cluster, [Rule(api="ListGroups", direction=direction, **fields)], work)


@pytest.mark.parametrize("direction", ["request", "response"])
def test_held(cluster: Cluster, direction: Any) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("DescribeQuorum")
        asking = asyncio.create_task(scene.ask("DescribeQuorum", client))
        (rule,) = scene.proxy.engine.rules
        await scene.until(lambda: bool(rule.release_hooks))
        assert len(scene.said()) == (direction == "response")
        assert not asking.done()
        assert scene.proxy.engine.release(rule) == 1
        assert codes(await asking) == {0}

    play(cluster, [Rule(api="DescribeQuorum", direction=direction, hold=True)], work)


def test_reordered(cluster: Cluster) -> None:
    """The broker gets the second request first, and so answers it first."""

    async def work(scene: Scene) -> None:
        client = await scene.client("ListGroups")
        frames = [
            request_frame(ASKED[api][1](), ASKED[api][0], number)
            for number, api in ((1, "ListGroups"), (2, "Metadata"))
        ]
        client.writer.write(b"".join(frames))
        numbers = [int.from_bytes((await client.frame())[:4], "big") for _ in range(2)]
        assert numbers == [2, 1]
        assert [line["api"] for line in scene.got()] == ["Metadata", "ListGroups"]

    play(cluster, [Rule(api="ListGroups", reorder_ms=1000 * TIMEOUT_S)], work)


# ---- what is delivered -------------------------------------------------------------------------


def test_dropped(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("ListGroups")
        client.send(ASKED["ListGroups"][1](), 4)
        assert (await scene.ask("Metadata", client)).cluster_id  # Nothing came before.
        assert [line["api"] for line in scene.got()] == ["Metadata"]

    play(cluster, [Rule(api="ListGroups", drop=True)], work)


def test_an_answer_that_is_dropped(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("ListGroups")
        client.send(ASKED["ListGroups"][1](), 4)
        assert (await scene.ask("Metadata", client)).cluster_id
        assert [line["api"] for line in scene.said()] == ["ListGroups", "Metadata"]

    play(cluster, [Rule(api="ListGroups", direction="response", drop=True)], work)


def test_duplicated(cluster: Cluster) -> None:
    """The broker appends twice; the client hears of the first time alone."""

    async def work(scene: Scene) -> None:
        client = await scene.client("Produce")
        first = await scene.ask("Produce", client)
        second = await scene.ask("Produce", client)
        offsets = [one.responses[0].partition_responses[0].base_offset for one in (first, second)]
        assert offsets[1] == offsets[0] + 2
        assert [line["api"] for line in scene.got()] == ["Produce"] * 3

    play(cluster, [Rule(api="Produce", nth=1, duplicate=1)], work)


def test_fields_of_a_request(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        answer = await scene.ask("Metadata")
        assert answer.topics[0].name == "absent"
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (line,) = scene.got()
        assert line["message"]["topics"][0]["name"] == "absent"
        assert line["clientId"] == "changed"

    change = {
        "topics[0].name": "absent",
        "header.clientId": "changed",
        "allowAutoTopicCreation": False,
    }
    play(cluster, [Rule(api="Metadata", set=change)], work)


def test_fields_of_an_answer(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("Metadata")
        client.send(ASKED["Metadata"][1](), 12)
        frame = await client.frame()
        assert int.from_bytes(frame[:4], "big") == 77
        answer = k.MetadataResponse.decode(frame[5:], 12)
        (line,) = scene.said()
        assert (answer.cluster_id, line["message"]["clusterId"]) == ("another", cluster.cluster_id)
        assert answer.controller_id == line["message"]["controllerId"] + 10
        assert answer.throttle_time_ms == 25

    change = {"clusterId": "another", "controllerId": {"add": 10}, "header.correlationId": 77}
    rules = [
        Rule(api="Metadata", direction="response", set=change),
        Rule(api="Metadata", throttle_time_ms=25),
    ]
    play(cluster, rules, work)


# ---- broken frames and connections -------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"truncate_bytes": -4}, {"corrupt": {"at": 2, "xor": "7fff"}}],
    ids=str,
)
@pytest.mark.parametrize("api", ["ListGroups", "DescribeQuorum"])
def test_a_spoilt_request(cluster: Cluster, api: str, fields: dict[str, Any]) -> None:
    """Kafka hangs up: on a broker's and on a controller's listener. The next client is served."""

    async def work(scene: Scene) -> None:
        client = await scene.client(api)
        client.send(ASKED[api][1](), ASKED[api][0])
        assert await client.end() in ("eof", "reset")
        assert scene.said() == []
        assert codes(await scene.ask(api)) == {0}

    play(cluster, [msgspec.convert({"api": api, "times": 1, **fields}, Rule)], work)


@pytest.mark.parametrize(
    ("fields", "rest"),
    [({"cut_bytes": 10}, 10), ({"close": "before"}, 0), ({"truncate_bytes": 4}, 8)],
    ids=str,
)
def test_a_spoilt_answer(cluster: Cluster, fields: dict[str, Any], rest: int) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("ListGroups")
        client.send(ASKED["ListGroups"][1](), 4)
        got = await client.reader.readexactly(rest)
        if "truncate_bytes" in fields:
            assert got == (4).to_bytes(4, "big") + (1).to_bytes(4, "big")
        else:
            assert await client.end() == "eof"
        assert len(scene.said()) == 1

    play(cluster, [Rule(api="ListGroups", direction="response", **fields)], work)


@pytest.mark.parametrize(
    ("direction", "close", "got", "end"),
    [
        ("request", "before", 0, "eof"),
        ("request", "reset", 0, "reset"),
        ("response", "reset", 1, "reset"),
    ],
)
def test_a_connection_that_ends(
    cluster: Cluster, direction: Any, close: Any, got: int, end: str
) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("DescribeQuorum")
        client.send(ASKED["DescribeQuorum"][1](), 1)
        assert await client.end() == end
        assert len(scene.got()) == got

    play(cluster, [Rule(api="DescribeQuorum", direction=direction, close=close)], work)


def test_an_answer_and_then_the_end(cluster: Cluster) -> None:
    async def work(scene: Scene) -> None:
        client = await scene.client("Vote")
        answer = await scene.ask("Vote", client)
        assert answer.error_code == INCONSISTENT_CLUSTER_ID
        assert await client.end() == "eof"

    play(cluster, [Rule(api="Vote", direction="response", close="after")], work)
