"""A node in a process of its own, among peers that a test plays.

The peers listen, note what the node sends, and answer by rules that the test changes as it goes.
What they send is made of the generated messages, and of no core: so a test brings about what only
a fault would, and sees on the wire what the node does.
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.reference.node.processes import WAIT_S
from tests.waiting import until

from kraftspec.conformance.cluster.node import HOST, free_port
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.tools.storage import FormatRequest
from kraftspec.reference.wire.apis import api_name, message_of
from kraftspec.reference.wire.blocking import ask
from kraftspec.reference.wire.frames import read_request_head, response_header, sized

PEERS = (2, 3, 9)  # The last is no voter.
TOPIC = "__cluster_metadata"
TOPIC_ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
CLUSTER_ID = "ZHJhZnRzLW9mLXRlc3RzLQ"
LONG_MS = 60_000  # Longer than a scene: nothing happens because of this time.
CHECKED_MS = 200  # Half again as much without fetches, and check quorum ends a leader.
BEGINS = 12  # In that time it sends three BeginQuorumEpoch, one each half of the fetch time-out.
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7

# (peer, request) → its response; None hangs up, and a list is that many responses, or none.
Rule = Callable[[int, Any], Any]


class Sent(NamedTuple):
    """A request of the node: the peer that it reached, the API's name, and what it says.

    ``data`` is the same as it came, at ``version``.
    """

    to: int
    api: str
    body: Any
    version: int
    data: bytes


def about_log(message: Any) -> Any:
    """Return what a message says of the metadata log: itself, where it has no topics."""
    topics = getattr(message, "topics", None) or getattr(message, "responses", None)
    return topics[0].partitions[0] if topics else message


def control_types(records: bytes) -> list[int]:
    """Return the types of the control records in some batches."""
    types, at = [], 0
    while at < len(records):
        types += [int.from_bytes((one.key or b"")[2:4]) for one in decode_batch(records, at)]
        at += 12 + int.from_bytes(records[at + 8 : at + 12])
    return types


class Stage:
    """``with Stage(directory, "kip-996") as stage``: peers 2, 3 and 9 listen; ``start`` node 1.

    ``rules`` answer the node, by the API's name; ``sent`` is what it sent, in order of arrival.
    ``served`` is the highest version that an older peer serves, by peer and API.
    """

    def __init__(self, directory: Path, profile: str, *options: str) -> None:
        self.directory = directory
        self.profile = profile
        self.messages: Any = parts_of(profile).messages
        self.rules: dict[str, Rule] = {}
        self.served: dict[tuple[int, str], int] = {}
        self.sent: list[Sent] = []
        self.port = free_port(set())
        self._options = options
        self._peers = {peer: socket.create_server((HOST, 0)) for peer in PEERS}
        self.ports = {peer: server.getsockname()[1] for peer, server in self._peers.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._talks: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for peer, server in self._peers.items():
            threading.Thread(target=self._serve, args=(peer, server), daemon=True).start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(WAIT_S)
            if kind is not None:
                print(self._output.read_text()[-5_000:])
        for server in self._peers.values():
            server.shutdown(socket.SHUT_RDWR)
            server.close()

    # ---- the node ------------------------------------------------------------------------------

    @property
    def _output(self) -> Path:
        return self.directory / "output.txt"

    def start(self, request: FormatRequest, **properties: object) -> None:
        """Format and start node 1; ``__`` in the name of a property stands for a dot."""
        path = self.directory / "node.properties"
        lines = [f"{key.replace('__', '.')}={value}\n" for key, value in properties.items()]
        path.write_text("".join([f"log.dirs={self.directory / 'log'}\n", *lines]))
        parts_of(self.profile).node.format(path, request)
        self.start_again()

    def start_again(self) -> None:
        """Start node 1, which is formatted and down."""
        path = self.directory / "node.properties"
        command = [sys.executable, "-m", "kraftspec", "node", "--profile", self.profile]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *self._options, "-c", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def ask(self, api: str, request: Any) -> Any:
        """Send the node a request, once it listens; return what it answers about the log."""
        response = getattr(self.messages, f"{api}Response")
        version = type(request).VALID_VERSIONS[-1]
        answers: list[Any] = []

        def look() -> bool:
            with suppress(ConnectionRefusedError):
                answers.append(ask(self.port, request, version, response, timeout_s=WAIT_S))
            return bool(answers)

        until(look)
        return about_log(answers[0])

    def wait(self, api: str, count: int = 1, *, to: int = 2, **fields: object) -> list[Any]:
        """Wait for so many requests to a peer, with these fields; return what they say."""
        matching: list[Any] = []

        def look() -> bool:
            all_of_it = [about_log(one.body) for one in list(self.sent) if one[:2] == (to, api)]
            matching[:] = [
                one for one in all_of_it if all(getattr(one, k) == v for k, v in fields.items())
            ]
            return len(matching) >= count

        until(look)
        return matching

    def ended(self) -> str:
        """Wait until the node has ended by itself; return what it has written."""
        assert self._process is not None
        assert self._process.wait(WAIT_S) != 0
        return self._output.read_text()

    def kill(self) -> None:
        """End the node, and return when its peers have read all that it sent."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(WAIT_S)
        while self._talks:
            self._talks.pop().join(WAIT_S)

    def restart_quiet(self) -> None:
        """Kill the node and start it again, with an election time-out of which it sees no end."""
        self.kill()
        path = self.directory / "node.properties"
        change = r"(?m)(election\.timeout\.ms)=.*", rf"\1={LONG_MS}"
        path.write_text(re.sub(*change, path.read_text()))
        self.start_again()
        self.ask("DescribeQuorum", self.message("DescribeQuorumRequest"))

    def falls_silent(self, api: str) -> None:
        """End a rule: the peers hang up from now on, and no answer of theirs is under way."""
        del self.rules[api]
        before = self.count(api)
        until(lambda: self.count(api) > before)

    def count(self, api: str, to: tuple[int, ...] = PEERS) -> int:
        """How many requests of an API have reached peers."""
        return sum(one.api == api and one.to in to for one in list(self.sent))

    # ---- the peers -----------------------------------------------------------------------------

    def _serve(self, peer: int, server: socket.socket) -> None:
        with suppress(OSError):  # It is closed at the end.
            while True:
                connection, _ = server.accept()
                talk = threading.Thread(target=self._talk, args=(peer, connection), daemon=True)
                talk.start()
                self._talks.append(talk)

    def _talk(self, peer: int, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(size))
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                kind = message_of(self.messages, "request", key)
                assert kind is not None
                head = read_request_head(frame, kind)
                answer = self._answer(peer, kind, version, bytes(frame[head.body_at :]))
                if answer is None:
                    return
                for response in answer if isinstance(answer, list) else [answer]:
                    header = response_header(type(response), version, correlation_id)
                    connection.sendall(sized(header + response.encode(version)))

    def _answer(self, peer: int, request: Any, version: int, data: bytes) -> Any:
        api = api_name(request)
        if api != "ApiVersions":
            body = request.decode(data, version)
            self.sent.append(Sent(peer, api, body, version, data))
            rule = self.rules.get(api)
            response = None if rule is None else rule(peer, body)
            return response if rule is self.rules.get(api) else None
        kind = self.messages.ApiVersionsResponse
        served = [
            (name.removesuffix("Request"), *row[2:5])
            for name, row in self.messages.CATALOGUE.items()
            if row[1] == "request"
        ]
        return kind(
            api_keys=[
                kind.ApiVersion(
                    api_key=key,
                    min_version=first,
                    max_version=self.served.get((peer, name), end - 1),
                )
                for name, key, first, end in served
            ]
        )

    # ---- messages ------------------------------------------------------------------------------

    def message(self, name: str, *, top: dict[str, Any] | None = None, **fields: Any) -> Any:
        """Return a message about the log; ``top`` is beside its topics, where it has any."""
        kind = getattr(self.messages, name)
        if not hasattr(kind, "TopicData"):
            return kind(**fields, **(top or {}))
        partition = kind.PartitionData(**fields)
        return kind(
            topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])], **(top or {})
        )

    def fetch_reply(self, **fields: Any) -> Any:
        """Return an answer to Fetch: an error and no leader, if nothing else is said."""
        kind = self.messages.FetchResponse
        leader = kind.LeaderIdAndEpoch(
            leader_id=fields.pop("leader_id", -1), leader_epoch=fields.pop("leader_epoch", 0)
        )
        partition = kind.PartitionData(current_leader=leader, **fields)
        topic = kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
        return kind(responses=[topic])

    def fetch(
        self, offset: int, epoch: int, leader_epoch: int, *, max_wait_ms: int = 1000, **who: Any
    ) -> bytes:
        """Fetch from the node as a replica; return the records, none of them with an error."""
        kind = self.messages.FetchRequest
        partition = kind.FetchPartition(
            current_leader_epoch=leader_epoch, fetch_offset=offset, last_fetched_epoch=epoch
        )
        topic = kind.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
        request = kind(topics=[topic], max_wait_ms=max_wait_ms, max_bytes=1 << 20, **who)
        return bytes(self.ask("Fetch", request).records or b"")


# ---- what scenes have in common ----------------------------------------------------------------


def times(prefix: str, fetch_ms: int) -> dict[str, object]:
    return {
        f"{prefix}__election__timeout__ms": 300,
        f"{prefix}__election__backoff__max__ms": 100,
        f"{prefix}__fetch__timeout__ms": fetch_ms,
        f"{prefix}__request__timeout__ms": 500,
        f"{prefix}__retry__backoff__ms": 20,
    }


def answers_votes(stage: Stage, *, granted: bool) -> None:
    """Let all peers answer votes and pre-votes like that, and know no leader."""

    def rule(peer: int, body: Any) -> Any:
        request = about_log(body)
        fields = {"pre_vote": request.pre_vote} if hasattr(request, "pre_vote") else {}
        epoch = getattr(request, "candidate_epoch", None) or getattr(request, "replica_epoch", 0)
        return stage.message(
            "VoteResponse", leader_id=-1, leader_epoch=epoch, vote_granted=granted, **fields
        )

    stage.rules["Vote"] = rule


def follows(stage: Stage) -> None:
    """Let all peers vote for node 1 and follow it, but for their fetches."""
    answers_votes(stage, granted=True)

    def rule(peer: int, body: Any) -> Any:
        name = f"{api_name(type(body))}Response"
        return stage.message(name, leader_id=1, leader_epoch=about_log(body).leader_epoch)

    stage.rules["BeginQuorumEpoch"] = stage.rules["EndQuorumEpoch"] = rule


def resigns(stage: Stage) -> bool:
    """Whether a leader whose followers do not fetch gives up."""
    epoch = stage.wait("BeginQuorumEpoch")[0].leader_epoch

    def is_over() -> bool:
        begins = stage.wait("BeginQuorumEpoch", leader_epoch=epoch)
        return stage.count("EndQuorumEpoch") > 0 or len(begins) >= BEGINS

    until(is_over)
    return stage.count("EndQuorumEpoch") > 0


def start_static(
    stage: Stage, fetch_ms: int = LONG_MS, others: tuple[int, ...] = (2, 3), **properties: object
) -> None:
    """Start node 1, a static voter of kip-996 or kip-853 beside others."""
    ports = {1: stage.port, **{peer: stage.ports[peer] for peer in others}}
    stage.rules.setdefault(
        "Fetch", lambda peer, body: stage.fetch_reply(error_code=NOT_LEADER, high_watermark=-1)
    )
    stage.start(
        FormatRequest(cluster_id=CLUSTER_ID),
        controller__quorum__voters=",".join(f"{id}@{HOST}:{port}" for id, port in ports.items()),
        **{**controller(stage, fetch_ms), **properties},
    )


def controller(stage: Stage, fetch_ms: int) -> dict[str, object]:
    return {
        "process__roles": "controller",
        "node__id": 1,
        "controller__listener__names": "CONTROLLER",
        "listeners": f"CONTROLLER://{HOST}:{stage.port}",
        **times("controller__quorum", fetch_ms),
    }
