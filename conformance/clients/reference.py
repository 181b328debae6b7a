"""A driver over a small client of our own, made of the generated codecs: the suite's yardstick.

As it is, it passes every exchange. With a switch (``--break NAME``, or a line ``{"verb": "break",
"fault": NAME}``) it has one fault, so that each exchange is known to fail a client that has it.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from kraftspec import __version__
from kraftspec.conformance.clients.driver import PROTOCOL, Ask
from kraftspec.conformance.clients.faults import FAULTS, Faulty
from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import ApiVersionsRequest, ApiVersionsResponse
from kraftspec.reference.wire.apis import api_name, common_version
from kraftspec.reference.wire.client import api_versions_request
from kraftspec.reference.wire.frames import (
    RESPONSE_BYTES_MIN,
    WireError,
    request_header,
    sized,
)

BACKOFF_S = 0.02
_ATTEMPTS = 4  # Where a batch may be sent again, an answer has this part of the time-out.
FRAME_BYTES_MAX = 64 << 20
_UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION)
_ID_FREE_TOPICS = {"Produce": 12, "Fetch": 12}  # The newest versions that name topics.
_RETRIED = frozenset(
    int(ErrorCode[name])
    for name in (
        "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION",
        "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "CORRUPT_MESSAGE",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "COORDINATOR_NOT_AVAILABLE", "FENCED_LEADER_EPOCH",
        "COORDINATOR_LOAD_IN_PROGRESS", "KAFKA_STORAGE_ERROR", "NOT_CONTROLLER",
        "BROKER_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH",
    )
)  # fmt: skip


class ClientError(Exception):
    """What the client has to say: the final word on what it was asked."""


class RetriableError(Exception):
    """An error after which the same may be tried again."""


class Connection:
    """A connection to a broker, negotiated and authenticated."""

    def __init__(self, faulty: Faulty, address: tuple[str, int], ask: Ask, until: float) -> None:
        self.faulty = faulty
        self._correlation = 0
        self.until = until
        plain = socket.create_connection(address, max(until - time.monotonic(), 0.01))
        self.socket: socket.socket = plain
        self.versions: dict[int, range] = {}
        try:
            if "ca" in ask.security:
                context = ssl.create_default_context(cafile=ask.security["ca"])
                faulty.trust(context)
                self.socket = context.wrap_socket(plain, server_hostname=address[0])
            self._negotiate()
            if "user" in ask.security:
                self._authenticate(ask.security)
        except BaseException:
            self.socket.close()
            raise

    def ask(self, request: Any, *, version: int | None = None) -> Any:
        """Send a request and return its answer. OSError and CodecError end the connection."""
        api = api_name(type(request))
        if version is None:
            ours = type(request).VALID_VERSIONS
            ours = range(ours.start, min(ours.stop, _ID_FREE_TOPICS.get(api, 99) + 1))
            theirs = self.versions.get(request.API_KEY)
            version = self.faulty.version(ours, theirs, common_version(ours, theirs))
            if version is None:
                raise ClientError(f"the broker has no version of {api} that is known here")
        self._correlation += 1
        header = request_header(type(request), version, self._correlation, "suite")
        self.socket.settimeout(self.faulty.wait_s(max(self.until - time.monotonic(), 0.01)))
        self.socket.sendall(sized(header, bytes(request.encode(version))))
        if api == "Produce" and request.acks == 0:
            return None
        return self._answer(getattr(kafka, f"{api}Response"), version)

    def _answer(self, kind: Any, version: int) -> Any:
        size = int.from_bytes(self._read(4), "big", signed=True)
        self.faulty.size(size)
        if not RESPONSE_BYTES_MIN <= size <= FRAME_BYTES_MAX:
            raise WireError(f"a frame of {size} bytes")
        frame = self._read(size)
        correlation = int.from_bytes(frame[:4], "big", signed=True)
        if not self.faulty.takes(correlation, self._correlation):
            raise WireError(f"an answer to request {correlation}, not {self._correlation}")
        return self.faulty.decoded(kind, frame, version)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                some = self.socket.recv(min(size - len(data), 1 << 16))
            except TimeoutError:
                raise TimeoutError(f"no answer in time, {len(data)} of {size} bytes") from None
            if not some:
                some = self.faulty.hung_up(size - len(data))
            data += some
        return bytes(data)

    def _negotiate(self) -> None:
        version = ApiVersionsRequest.VALID_VERSIONS.stop - 1
        while True:
            request = api_versions_request(version)
            answer: ApiVersionsResponse = self.ask(request, version=version)
            self.versions = {
                one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys
            }
            if not answer.error_code:
                return
            if answer.error_code != _UNSUPPORTED or not version or self.faulty.has("no-fallback"):
                raise ClientError(f"ApiVersions: {_name(answer.error_code)}")
            offered = self.versions.get(API_VERSIONS_KEY, range(1))
            version = min(max(offered.stop - 1, 0), version - 1)

    def _authenticate(self, security: dict[str, str]) -> None:
        answer = self.ask(kafka.SaslHandshakeRequest(mechanism="PLAIN"))
        if answer.error_code:
            raise ClientError(f"SASL: the broker has {list(answer.mechanisms)}")
        word = f"\0{security['user']}\0{security['password']}".encode()
        answer = self.ask(kafka.SaslAuthenticateRequest(auth_bytes=word))
        if answer.error_code:
            raise ClientError(f"{_name(answer.error_code)}: {answer.error_message}")


class Client:
    """Produces, consumes and creates topics; every call has the client's time-out."""

    def __init__(self, faulty: Faulty, ask: Ask) -> None:
        self.faulty, self.security = faulty, ask
        self.until = self.timeout_s = 0.0
        self._connections: dict[tuple[str, int], Connection] = {}
        host, _, port = ask.bootstrap.rpartition(":")
        self._bootstrap = (host, int(port))
        self._leaders: dict[str, tuple[str, int]] = {}
        self._producer: tuple[int, int] | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.socket.close()
        self._connections.clear()

    def connect(self) -> None:
        """See whether the broker can be reached."""
        self._retried(lambda: self._ask(self._bootstrap, kafka.MetadataRequest(topics=[])))

    def produce(self, ask: Ask) -> None:
        """Produce values in one batch."""
        if self.security.idempotent and self._producer is None:
            self._producer = self._retried(self._init_producer)
        producer_id, epoch = self._producer or (-1, -1)
        sequence = self._sequence if self._producer else -1
        attempts = 0

        def once() -> None:
            nonlocal sequence, attempts
            attempts += 1
            if attempts > 1:
                sequence = self.faulty.sequence(sequence)
            batch = encode_batch(
                [value.encode() for value in ask.values], timestamps=int(time.time() * 1000),
                producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
            )  # fmt: skip
            answer = self._ask(self._leader(ask.topic), self._produce_request(ask, batch))
            if answer is None:
                return
            part = answer.responses[0].partition_responses[0]
            if part.error_code == int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                return
            self._check(part.error_code, ask.topic)

        self._retried(once, is_produce=True)
        if self._producer:
            self._sequence += len(ask.values)

    def consume(self, ask: Ask) -> list[str]:
        """Return so many values from an offset on."""
        values: list[str] = []
        offset = ask.offset

        def once() -> None:
            nonlocal offset
            while len(values) < ask.count:
                part = kafka.FetchRequest.FetchPartition(
                    partition=ask.partition, fetch_offset=offset, partition_max_bytes=1 << 20
                )
                topic = kafka.FetchRequest.FetchTopic(topic=ask.topic, partitions=[part])
                request = kafka.FetchRequest(
                    topics=[topic], max_wait_ms=100, max_bytes=1 << 20, session_id=0
                )
                answer = self._ask(self._leader(ask.topic), request)
                self._check(answer.error_code, ask.topic)
                partition = answer.responses[0].partitions[0]
                self._check(partition.error_code, ask.topic)
                for record in self.faulty.records(bytes(partition.records or b"")):
                    if record.offset >= offset or self.faulty.has("old-records"):
                        values.append(bytes(record.value or b"").decode())
                        offset = max(offset, record.offset + 1)
                if time.monotonic() > self.until:
                    raise ClientError(f"{len(values)} of {ask.count} records came in time")

        self._retried(once)
        return values[: ask.count]

    def create_topic(self, name: str) -> None:
        """Create a topic."""
        topic = kafka.CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1
        )

        def once() -> None:
            request = kafka.CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
            self._check(self._ask(self._bootstrap, request).topics[0].error_code, name)

        self._retried(once)

    # ---- below ---------------------------------------------------------------------------------

    def _produce_request(self, ask: Ask, batch: bytes) -> kafka.ProduceRequest:
        kind = kafka.ProduceRequest
        part = kind.PartitionProduceData(index=ask.partition, records=batch)
        topic = kind.TopicProduceData(name=ask.topic, partition_data=[part])
        return kind(
            transactional_id=None, acks=self.security.acks, timeout_ms=1_000, topic_data=[topic]
        )

    def _init_producer(self) -> tuple[int, int]:
        request = kafka.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self._ask(self._bootstrap, request)
        self._check(answer.error_code, "")
        return answer.producer_id, answer.producer_epoch

    def _leader(self, topic: str) -> tuple[str, int]:
        if topic not in self._leaders:
            wanted = kafka.MetadataRequest.MetadataRequestTopic(name=topic)
            request = kafka.MetadataRequest(topics=[wanted], allow_auto_topic_creation=True)
            answer = self._ask(self._bootstrap, request)
            nodes = {one.node_id: (one.host, one.port) for one in answer.brokers}
            metadata = answer.topics[0]
            self._check(metadata.error_code, topic)
            part = metadata.partitions[0]
            self._check(part.error_code, topic)
            if part.leader_id not in nodes:
                self._check(int(ErrorCode.LEADER_NOT_AVAILABLE), topic)
            self._leaders[topic] = nodes[part.leader_id]
        return self._leaders[topic]

    def _ask(self, address: tuple[str, int], request: Any) -> Any:
        connection = self._connections.get(address)
        try:
            if connection is None:
                connection = Connection(self.faulty, address, self.security, self.until)
                self._connections[address] = connection
            attempt_s = self.timeout_s / _ATTEMPTS if self.security.idempotent else self.timeout_s
            connection.until = min(self.until, time.monotonic() + attempt_s)
            return connection.ask(request)
        except ssl.SSLError as error:
            raise ClientError(f"TLS: {error}") from error
        except (OSError, CodecError, ClientError):
            if not self.faulty.has("late-answer"):
                if connection is not None:
                    connection.socket.close()
                self._connections.pop(address, None)
            raise

    def _check(self, code: int, topic: str) -> None:
        if not code or self.faulty.has("no-codes"):
            return
        if not self.faulty.has("no-refresh"):
            self._leaders.pop(topic, None)
        if code in _RETRIED or self.faulty.has("retry-all"):
            raise RetriableError(_name(code))
        raise ClientError(_name(code))

    def _retried(self, once: Callable[[], Any], *, is_produce: bool = False) -> Any:
        while True:
            try:
                return once()
            except (RetriableError, OSError, CodecError) as error:
                if self.faulty.stops_at(error, is_produce=is_produce):
                    if self.faulty.has("lost-is-done"):
                        return None
                    raise ClientError(str(error)) from error
                if time.monotonic() + BACKOFF_S > self.until:
                    raise ClientError(f"time is over; at last: {error}") from error
                if not isinstance(error, RetriableError) and not self.faulty.has("no-refresh"):
                    self._leaders.clear()
                time.sleep(BACKOFF_S)


def _name(code: int) -> str:
    return ErrorCode(code).name if code in list(ErrorCode) else f"error {code}"


def main(arguments: list[str]) -> None:
    """Answer lines until there are no more."""
    parser = argparse.ArgumentParser(
        prog="python -m kraftspec.conformance.clients.reference",
        description="The driver of the suite's own client: a line of JSON each way.",
        epilog="The faults:\n" + "\n".join(f"  {name:18} {text}" for name, text in FAULTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--break", dest="fault", metavar="FAULT", default="", choices=FAULTS)
    faulty = Faulty(parser.parse_args(arguments).fault)
    _say(protocol=PROTOCOL, client="kraftspec", version=__version__, language="python", cannot=[])
    client: Client | None = None
    for line in sys.stdin.buffer:
        words = msgspec.json.decode(line)
        if words.get("verb") == "break":
            faulty = Faulty(words["fault"])
            _say(ok=True)
            continue
        ask = msgspec.convert(words, Ask)
        try:
            if ask.verb == "connect":
                client = Client(faulty, ask)
            assert client is not None
            client.timeout_s = ask.timeout_ms / 1000
            client.until = time.monotonic() + client.timeout_s
            values: list[str] = []
            match ask.verb:
                case "connect":
                    client.connect()
                case "produce":
                    client.produce(ask)
                case "consume":
                    values = client.consume(ask)
                case "admin":
                    client.create_topic(ask.create_topic)
                case "close":
                    client.close()
            _say(ok=True, values=values)
        except (ClientError, OSError, CodecError) as error:
            text = str(error) or type(error).__name__
            _say(ok=False, error="" if faulty.has("silent-error") else text)


def _say(**words: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(words) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
