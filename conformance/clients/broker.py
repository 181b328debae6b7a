"""A small broker made of the generated codecs: one topic, one partition, in memory.

It serves what clients need to connect, produce, consume and create topics, like a broker of Kafka
(idempotent producers included), and lets a script change its answers. Groups have one member.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from kraftspec.conformance.clients import batches
from kraftspec.conformance.clients.answers import Script, encoded
from kraftspec.conformance.clients.exchange_files import Exchange, versions_of
from kraftspec.conformance.clients.tape import Tape, transcript_of_client
from kraftspec.fastpath import decode_batch, read_header
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import Uuid
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.loop_thread import end_listening
from kraftspec.proxy.error_answers import error_answer, mark
from kraftspec.proxy.frame import Api, apis_of
from kraftspec.reference.wire.frames import (
    FrameReader,
    WireError,
    peek_request,
    read_request,
)

TOPIC = "events"
USER, GROUP_MEMBER = "suite", "member-1"
CLUSTER_ID = "suite-of-clients-clus"
_APIS = {
    "Produce": "0-13", "Fetch": "4-17", "ListOffsets": "1-8", "Metadata": "0-12",
    "OffsetCommit": "2-9", "OffsetFetch": "1-9", "FindCoordinator": "0-4", "JoinGroup": "0-7",
    "Heartbeat": "0-4", "LeaveGroup": "0-4", "SyncGroup": "0-5", "SaslHandshake": "0-1",
    "ApiVersions": "0-4", "CreateTopics": "2-7", "InitProducerId": "0-5", "SaslAuthenticate": "0-2",
}  # fmt: skip
_EARLIEST = -2  # The timestamp that asks for the first offset.
_EPOCH_IN_LIST_OFFSETS = 4
_BATCHED_COORDINATORS = 4  # The version of FindCoordinator from which on it has several keys.
_FETCH_WAIT_S = 0.05  # No answer of an empty fetch waits longer; the tests have no time.
_BEFORE_SASL = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")


class ScriptError(Exception):
    """An answer cannot be made: the suite or an exchange is wrong, not the client."""


class ScriptedCluster:
    """``async with ScriptedCluster(exchange, …) as cluster``: brokers that share a partition."""

    def __init__(
        self, exchange: Exchange, tls: ssl.SSLContext | None = None, client_s: float = 0.0
    ) -> None:
        given = exchange.given
        self.given = given
        self.script = Script(exchange.answers)
        self.requests: list[tuple[str, int]] = []  # API and version of each.
        self.transcript = transcript_of_client()
        self.client_s = client_s
        self.topics: dict[str, Uuid] = {}
        if given.topic:
            self.add_topic(TOPIC)
        self.leader = given.leader
        self.epoch = 0
        self.log: list[tuple[int, bytes]] = []  # Base offset and batch.
        self.end = 0
        if given.records:
            self.log.append((0, batches.make(given.records, given.batch)))
            self.end = len(given.records)
        self.versions = {
            api: versions_of(text) for api, text in {**_APIS, **given.versions}.items()
        }
        # Of a producer's id and epoch: first sequence number to count and offset.
        self.producers: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        self.ports: dict[int, int] = {}
        self.failure: Exception | None = None
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedCluster:
        for node in range(1, self.given.brokers + 1):

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: int = node
            ) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._tasks.add(task)
                try:
                    with suppress(OSError, WireError, CodecError, asyncio.CancelledError):
                        await _Session(self, node, writer).run(reader)
                except Exception as error:
                    self.failure = error  # A bug of ours, or of a script: there is no verdict.
                finally:
                    self._tasks.discard(task)
                    writer.transport.abort() if task.cancelling() else writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=self._tls)
            self._servers.append(server)
            self.ports[node] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_listening(self._servers)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=5)

    def values(self) -> list[str]:
        """Return the values in the log that clients have produced."""
        return [
            bytes(record.value or b"").decode(errors="replace")
            for base, batch in self.log[1 if self.given.records else 0 :]
            for record in decode_batch(batch)
        ]

    def add_topic(self, name: str) -> None:
        """Create a topic."""
        self.topics.setdefault(name, Uuid((1 << 64 | len(self.topics) + 1).to_bytes(16, "big")))

    def append(self, data: bytes) -> tuple[int, int]:
        """Append a batch as Kafka does; return error code and base offset."""
        try:
            header = read_header(data)
            count = len(decode_batch(data))
        except CodecError:
            return ErrorCode.CORRUPT_MESSAGE, -1
        if header.producer_id >= 0:
            seen = self.producers.setdefault((header.producer_id, header.producer_epoch), {})
            first = header.base_sequence
            if first in seen:
                return 0, seen[first][1]
            due = max((at + length for at, (length, _) in seen.items()), default=0)
            if first != due and seen:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            seen[first] = (count, self.end)
        base = self.end
        self.log.append((base, base.to_bytes(8, "big") + bytes(data[8:])))
        self.end += count
        return 0, base


class _Session:
    """A connection."""

    def __init__(self, cluster: ScriptedCluster, node: int, writer: asyncio.StreamWriter) -> None:
        self.cluster, self.node, self.writer = cluster, node, writer
        self.is_trusted = cluster.given.sasl is None
        self.tape = Tape(cluster.transcript, node)

    async def run(self, reader: asyncio.StreamReader) -> None:
        frames = FrameReader(bytes_min=8)
        is_ended = False
        try:
            while data := await reader.read(1 << 16):
                self.tape.received(data)
                frames.feed(data)
                while (frame := frames.take()) is not None:
                    await self._serve(frame)
            is_ended = True
        finally:
            self.tape.end(by_client=is_ended)

    async def _send(self, data: bytes) -> None:
        self.tape.sent(data)
        self.writer.write(data)
        await self.writer.drain()

    async def _serve(self, frame: bytes) -> None:
        cluster = self.cluster
        key, version, correlation = peek_request(frame)
        api = apis_of(kafka).get(key)
        if api is None:
            raise WireError(f"no API {key}")
        cluster.requests.append((api.name, version))
        if not self.is_trusted and api.name not in _BEFORE_SASL:
            raise WireError("not authenticated")
        acting = cluster.script.next_for(api.name, version, self.node)
        for answer in acting:
            if answer.move_leader is not None:
                cluster.leader = answer.move_leader
                cluster.epoch += 1
        is_served = not any(answer.unserved for answer in acting)
        message, version = await self._answer(api, version, frame, is_served=is_served)
        if message is None:
            return
        acting += cluster.script.next_for(api.name, version, self.node, message)
        for answer in acting:
            if answer.error:
                mark(message, version, ErrorCode[answer.error])
        try:
            data = encoded(message, version, correlation, acting)
        except CodecError as error:
            raise ScriptError(f"{api.name} {version} cannot be encoded: {error}") from error
        for answer in acting:
            await asyncio.sleep(answer.late * cluster.client_s)
            if answer.twice:
                data += data
            if answer.pieces_ms:
                for at in range(len(data) - 1):
                    await self._send(data[at : at + 1])
                    await asyncio.sleep(answer.pieces_ms / 1000)
                data = data[-1:]
        await self._send(data)
        if any(answer.close for answer in acting):
            raise WireError("closed by the script")

    async def _answer(
        self, api: Api, version: int, frame: bytes, *, is_served: bool
    ) -> tuple[Any, int]:
        served = self.cluster.versions.get(api.name)
        if api.name == "ApiVersions" and (served is None or version not in served):
            return self._api_versions(ErrorCode.UNSUPPORTED_VERSION), 0
        if served is None or version not in served:
            raise WireError(f"{api.name} {version} is not served")  # As Kafka does.
        _, request = read_request(frame)
        answer = error_answer(request, api.response, version, 0, "items") or api.response()
        handler = getattr(self, f"_on_{api.name.lower()}", None)
        if handler is not None and is_served:
            answer = handler(request, answer, version)
            if asyncio.iscoroutine(answer):
                answer = await answer
        return answer, version

    # ---- handlers: request, an answer that names what it names, version ------------------------

    def _api_versions(self, code: int = 0) -> Any:
        keys = {name: int(name) for name in self.cluster.versions if name.isdecimal()}
        keys |= {api.name: api.key for api in apis_of(kafka).values()}
        return kafka.ApiVersionsResponse(
            error_code=code,
            api_keys=[
                kafka.ApiVersionsResponse.ApiVersion(
                    api_key=keys[name], min_version=served.start, max_version=served.stop - 1
                )
                for name, served in sorted(
                    self.cluster.versions.items(), key=lambda at: keys[at[0]]
                )
                if served is not None
            ],
        )

    def _on_apiversions(self, request: Any, answer: Any, version: int) -> Any:
        return self._api_versions()

    def _on_metadata(self, request: Any, answer: Any, version: int) -> Any:
        cluster = self.cluster
        wanted = None
        if request.topics is not None:
            wanted = [self._name(topic, topic.name) for topic in request.topics]
        if version == 0 and not wanted:
            wanted = None
        names = sorted(cluster.topics) if wanted is None else wanted
        response = kafka.MetadataResponse
        return response(
            brokers=[
                response.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
                for node, port in cluster.ports.items()
            ],
            cluster_id=CLUSTER_ID,
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> Any:
        cluster, response = self.cluster, kafka.MetadataResponse
        if name not in cluster.topics:
            return response.MetadataResponseTopic(
                name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        nodes = tuple(cluster.ports)
        code = ErrorCode.LEADER_NOT_AVAILABLE if cluster.leader < 0 else 0
        return response.MetadataResponseTopic(
            name=name,
            topic_id=cluster.topics[name],
            partitions=[
                response.MetadataResponsePartition(
                    error_code=code, leader_id=cluster.leader, leader_epoch=cluster.epoch,
                    replica_nodes=nodes, isr_nodes=nodes,
                )
            ],
        )  # fmt: skip

    def _name(self, topic: Any, name: str | None) -> str:
        """Return the name that a request has for a topic, or that of the id that it has."""
        return name or next(
            (known for known, one in self.cluster.topics.items() if one == topic.topic_id), ""
        )

    def _code(self, topic: str, partition: int) -> int:
        if not topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic not in self.cluster.topics or partition != 0:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return 0 if self.node == self.cluster.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _on_initproducerid(self, request: Any, answer: Any, version: int) -> Any:
        answer.producer_id, answer.producer_epoch = 4_000 + len(self.cluster.requests), 0
        return answer

    def _on_produce(self, request: Any, answer: Any, version: int) -> Any:
        for topic, answered in zip(request.topic_data, answer.responses, strict=True):
            for data, part in zip(topic.partition_data, answered.partition_responses, strict=True):
                name = self._name(topic, topic.name)
                part.error_code, part.base_offset = self._code(name, data.index), -1
                if not part.error_code:
                    batch = bytes(data.records or b"")
                    part.error_code, part.base_offset = self.cluster.append(batch)
                    part.log_start_offset = 0
        return None if request.acks == 0 else answer

    async def _on_fetch(self, request: Any, answer: Any, version: int) -> Any:
        cluster = self.cluster
        response = kafka.FetchResponse
        answer = response()
        is_empty = True
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                code = self._code(self._name(topic, topic.topic), part.partition)
                if not code and not 0 <= part.fetch_offset <= cluster.end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                records = b""
                if not code and part.fetch_offset < cluster.end:
                    ends = [base for base, _ in cluster.log[1:]] + [cluster.end]
                    kept = zip(cluster.log, ends, strict=True)
                    records = b"".join(batch for (_, batch), end in kept if end > part.fetch_offset)
                is_empty &= not code and not records
                parts.append(
                    response.PartitionData(
                        partition_index=part.partition, error_code=code, high_watermark=cluster.end,
                        last_stable_offset=cluster.end, log_start_offset=0, records=records,
                        aborted_transactions=None,
                    )
                )  # fmt: skip
            answer.responses.append(
                response.FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=parts
                )
            )
        if is_empty:
            await asyncio.sleep(min(_FETCH_WAIT_S, request.max_wait_ms / 1000))
        return answer

    def _on_listoffsets(self, request: Any, answer: Any, version: int) -> Any:
        for topic, answered in zip(request.topics, answer.topics, strict=True):
            for part, result in zip(topic.partitions, answered.partitions, strict=True):
                result.error_code = self._code(topic.name, part.partition_index)
                result.offset = 0 if part.timestamp == _EARLIEST else self.cluster.end
                if version >= _EPOCH_IN_LIST_OFFSETS:
                    result.leader_epoch = self.cluster.epoch
        return answer

    def _on_createtopics(self, request: Any, answer: Any, version: int) -> Any:
        for topic, result in zip(request.topics, answer.topics, strict=True):
            if topic.name in self.cluster.topics:
                result.error_code = ErrorCode.TOPIC_ALREADY_EXISTS
            result.num_partitions, result.replication_factor, result.configs = 1, 1, []
            self.cluster.add_topic(topic.name)
        return answer

    def _on_findcoordinator(self, request: Any, answer: Any, version: int) -> Any:
        where: dict[str, Any] = {"node_id": 1, "host": "127.0.0.1", "port": self.cluster.ports[1]}
        if version < _BATCHED_COORDINATORS:
            return kafka.FindCoordinatorResponse(error_message=None, **where)
        one = kafka.FindCoordinatorResponse.Coordinator
        keys = request.coordinator_keys
        return kafka.FindCoordinatorResponse(
            coordinators=[one(key=key, error_message=None, **where) for key in keys]
        )

    def _on_joingroup(self, request: Any, answer: Any, version: int) -> Any:
        chosen = request.protocols[0]
        member = kafka.JoinGroupResponse.JoinGroupResponseMember(
            member_id=GROUP_MEMBER, metadata=chosen.metadata
        )
        return kafka.JoinGroupResponse(
            generation_id=1, protocol_type=request.protocol_type, protocol_name=chosen.name,
            leader=GROUP_MEMBER, member_id=GROUP_MEMBER, members=[member],
        )  # fmt: skip

    def _on_syncgroup(self, request: Any, answer: Any, version: int) -> Any:
        return kafka.SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=next((one.assignment for one in request.assignments), b""),
        )

    def _on_offsetfetch(self, request: Any, answer: Any, version: int) -> Any:
        for group in [*answer.groups, answer]:
            for topic in group.topics or ():
                for part in topic.partitions:
                    part.committed_offset, part.metadata = -1, ""
        return answer

    def _on_saslhandshake(self, request: Any, answer: Any, version: int) -> Any:
        sasl = self.cluster.given.sasl
        has = [] if sasl is None else sasl.mechanisms
        code = 0 if request.mechanism in has else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return kafka.SaslHandshakeResponse(error_code=code, mechanisms=tuple(has))

    def _on_saslauthenticate(self, request: Any, answer: Any, version: int) -> Any:
        sasl = self.cluster.given.sasl
        words = bytes(request.auth_bytes).split(b"\0")
        self.is_trusted = sasl is not None and words[1:] == [USER.encode(), sasl.password.encode()]
        if self.is_trusted:
            return kafka.SaslAuthenticateResponse(error_message=None)
        return kafka.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
        )
