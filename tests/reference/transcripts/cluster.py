"""The nodes of a transcript, the time and the messages between them; each command is a method.

Nothing moves by itself: messages wait until they are delivered, and time until a tick. Where a
command is about a voter that is no node of the transcript, the transcript says what it answers.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.reference.transcripts import words
from tests.reference.transcripts.machine import PATH, Machine, Message

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.raft import Cause, Config, ElectionState, FatalError
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.types import NONE, Node, VersionRange, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.wire.apis import Api

if TYPE_CHECKING:
    from kraftspec.reference.raft.profile import Profile

HEX_BYTES_A_LINE = 45
STEPS_MAX = 20_000  # Of one command: more is a livelock.

_WIRE_NAMES = {
    "BeginEpoch": "BeginQuorumEpoch",
    "EndEpoch": "EndQuorumEpoch",
    "AddVoter": "AddRaftVoter",
    "RemoveVoter": "RemoveRaftVoter",
    "UpdateVoter": "UpdateRaftVoter",
}
# Left out of what is told briefly: what goes on all the time.
LONG_STORY = {
    *("Fetch", "FetchReply", "BeginEpoch", "BeginEpochReply", "UpdateVoter", "UpdateVoterReply"),
    *("FindQuorum", "FindQuorumReply"),
    *("flush", "drop-connection", "ignores"),
}
_LOST = ("lost", "refused")


class ScriptError(ValueError):
    """A command that makes no sense."""


class Cluster:
    """The nodes of one transcript, with the time and the messages between them."""

    def __init__(self) -> None:
        self.now_us = 0
        self.profile = profile_named("kafka", listener=words.LISTENER)
        self.requests = _requests_of(self.profile)
        self.nodes: dict[int, Machine] = {}
        self.api_max: dict[tuple[int, str], int] = {}
        self._answered: dict[tuple[int, int], tuple[Message, ms.Request]] = {}  # Last, on a link.
        self.flying: list[Message] = []
        self.cuts: set[tuple[int, int]] = set()
        self.lines: list[str] = []
        self._told_us = 0
        self._quiet = False
        self._brief = False
        self._correlation = 0
        self._commands: dict[str, Callable[[list[str]], None]] = {
            name.removeprefix("do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    # ---- what is said ----------------------------------------------------------------------------

    def say(self, text: str, data: bytes = b"") -> None:
        """Tell something, and its bytes in hex beneath."""
        if self._quiet or (self._brief and _is_long_story(text)):
            return
        if self.now_us != self._told_us:
            self._told_us = self.now_us
            self.lines.append(f"at {words.duration_words(self.now_us)}")
        self.lines.append(text)
        if self._brief:
            return
        for start in range(0, len(data), HEX_BYTES_A_LINE):
            self.lines.append(f"    {data[start : start + HEX_BYTES_A_LINE].hex()}")

    def send(self, message: Message) -> None:
        """Put a message on its way, unless nobody is there to take it."""
        source, target = (str(id) if id else "tool" for id in (message.source, message.target))
        self.say(_line(source, target, message), message.body)
        if message.target:
            self.flying.append(message)

    def run(self, command: str) -> list[str]:
        """Carry out a command; return what happened, line by line."""
        self.lines = []
        words_part, brace, json_part = command.partition("{")
        parts = shlex.split(words_part) + ([brace + json_part] if brace else [])
        self._quiet = parts[0] == "quiet"
        self._brief = parts[0] == "brief"
        if self._quiet or self._brief:
            parts = parts[1:]
        if parts[0] not in self._commands:
            raise ScriptError(f"there is no command {parts[0]}: {', '.join(self._commands)}")
        self._commands[parts[0]](parts[1:])
        if self._quiet:
            self._quiet = False
            self._told_us = self.now_us
            self.do_show([str(id) for id in self.nodes])
        return self.lines

    # ---- nodes ---------------------------------------------------------------------------------

    def do_profile(self, arguments: list[str]) -> None:
        """profile NAME [without=FIXES] [SETTING=VALUE]...: the protocol of the nodes, before them.

        FIXES are those of the profile to do without; SETTING is a number that the profile takes.
        """
        options = _options(arguments[1:])
        without = options.pop("without", "")
        numbers: dict[str, Any] = {
            name.replace("-", "_"): int(value) for name, value in options.items()
        }
        if self.nodes:
            raise ScriptError("profile comes before quorum")
        self.profile = profile_named(
            arguments[0], without=without.split(",") if without else (), **numbers
        )
        self.requests = _requests_of(self.profile)

    def do_quorum(self, arguments: list[str]) -> None:
        """quorum VOTERS [kraft=0|1] [nodes=IDS] [servers=IDS] [SETTING=VALUE]...: make nodes.

        VOTERS is 1,2,3; ``nodes`` are those that the transcript runs, all voters if not said;
        ``servers`` those that they begin with where no voter's address is known, the same.
        """
        voters = [int(id) for id in arguments[0].split(",")]
        options = _options(arguments[1:])
        level = int(options.pop("kraft", "0"))
        nodes = [int(id) for id in options.pop("nodes", arguments[0]).split(",")]
        servers = [int(id) for id in options.pop("servers", arguments[0]).split(",")]
        settings = words.read_fields(Config, options)
        for id in nodes:
            self._make(id, voters, servers, level, settings)

    def _make(
        self, id: int, voters: list[int], servers: list[int], level: int, settings: dict[str, Any]
    ) -> None:
        static = VoterSet(
            Voter(words.read_key(str(voter)), words.endpoints_of(voter)) for voter in voters
        )
        dynamic = words.read_voters(",".join(f"{voter}/d{voter}" for voter in voters))
        contacts = tuple(Node(-2 - one, "localhost", words.PORT_BASE + one) for one in servers)
        fields: dict[str, Any] = {
            "cluster_id": words.CLUSTER_ID,
            "node_id": id,
            "directory_id": words.directory_of(id),
            "endpoints": words.endpoints_of(id),
            "voters": VoterSet() if level else static,
            "bootstrap_servers": contacts if level else (),
            "append_linger_us": 0,
            "kraft_versions": VersionRange(0, 1),
        }
        if self.profile.name == "kip-595":  # Voters are ids, and nobody has said a cluster yet.
            fields["cluster_id"], fields["directory_id"] = "", ZERO_UUID
            fields["voters"] = VoterSet(Voter(words.read_key(str(voter))) for voter in voters)
            fields["bootstrap_servers"] = contacts
            fields["retry_backoff_max_us"] = words.duration_us("1s")
        draw = (min(id, 9) - 1) / 10  # Node 1 has the shortest election time-out, then node 2.
        machine = Machine(self, Config(**(fields | settings)), self.profile, draw)
        machine.format(dynamic if level and id in voters else None)
        self.nodes[id] = machine

    def do_draw(self, arguments: list[str]) -> None:
        """draw NODE FRACTION: what its random numbers are from now on, 0 to below 1."""
        self._node(arguments[0]).draws.fraction = float(arguments[1])

    def do_serves(self, arguments: list[str]) -> None:
        """serves NODE API vN: the highest version of an API that a node serves (an old release)."""
        name = self._api(arguments[1]).name
        self.api_max[int(arguments[0]), name] = int(arguments[2].removeprefix("v"))

    def do_disk(self, arguments: list[str]) -> None:
        """disk NODE state|log|snapshot ...: what the disk has before a life.

        ``state epoch=5 [leader-id=2] [voted=2/d2] [version=0]``, ``log 1:a,b 2:leader-1``,
        ``snapshot 3-1 a,b`` (of a log that has that much).
        """
        node = self._node(arguments[0])
        storage = node.open()
        if arguments[1] == "log":
            for batch in arguments[2:]:
                node.prepare(storage, batch)
            storage.log.flush()
        elif arguments[1] == "snapshot":
            id = words.read_snapshot(arguments[2])
            values = [text.encode() for text in arguments[3].split(",")]
            effect = fx.WriteSnapshot(id, 0, 0, None)
            storage.write_snapshot(effect, values, 0)
        else:
            options = _options(arguments[2:])
            voted = words.read_key(options["voted"]) if "voted" in options else None
            state = ElectionState(int(options["epoch"]), int(options.get("leader-id", NONE)), voted)
            level = int(options.get("version", "0" if node.config.voters else "1"))
            storage.persist_election(fx.PersistElection(state, level, node.config.voters.ids))
        storage.close()

    def do_start(self, arguments: list[str]) -> None:
        """start [NODE]...: begin a life; all nodes that are down if none is named."""
        ids = [int(id) for id in arguments] or [id for id, n in self.nodes.items() if not n.is_up]
        for id in ids:
            self.nodes[id].start()

    def do_stop(self, arguments: list[str]) -> None:
        """stop NODE: a clean stop of the process, without a word to the others."""
        self._node(arguments[0]).stop()
        self._forget(int(arguments[0]))

    def do_crash(self, arguments: list[str]) -> None:
        """crash NODE: a power loss, which loses what was not synced."""
        self._node(arguments[0]).kill(power_loss=True)
        self._forget(int(arguments[0]))

    def do_wipe(self, arguments: list[str]) -> None:
        """wipe NODE: give a node that is down an empty disk, formatted, with a new directory id."""
        node = self._node(arguments[0])
        node.replace_disk()
        self.say(f"{node.id} has directory {words.directory_words(node.config.directory_id)}")

    def do_show(self, arguments: list[str]) -> None:
        """show [NODE]...: role, epoch, vote, high watermark, log, voters and timers of nodes."""
        for id in [int(id) for id in arguments] or list(self.nodes):
            self.say(f"{id} is {self.nodes[id].summary()}")

    def do_file(self, arguments: list[str]) -> None:
        """file NODE NAME: the bytes of a file of the metadata log, as text where it is one."""
        node = self._node(arguments[0])
        data = node.content(arguments[1])
        if arguments[1].endswith((".log", ".checkpoint", "index")):
            self.say(f"{node.id} {arguments[1]} size={len(data)}", data)
        else:
            self.say(f"{node.id} {arguments[1]}")
            for line in data.decode().splitlines():
                self.say(f"    {line}")

    def do_files(self, arguments: list[str]) -> None:
        """files NODE: the names of the files of the metadata log."""
        node = self._node(arguments[0])
        names = node.files.names(f"{PATH}/{METADATA_NAME}")
        self.say(f"{node.id} files {' '.join(names)}")

    # ---- time and messages ---------------------------------------------------------------------

    def do_tick(self, arguments: list[str]) -> None:
        """tick TIME: let that much time go by. No message moves."""
        target_us = self.now_us + words.duration_us(arguments[0])
        for _ in range(STEPS_MAX):
            if not self._next_timer(target_us):
                self.now_us = target_us
                return
        raise ScriptError("the nodes' timers never end")

    def do_run(self, arguments: list[str]) -> None:
        """run TIME: let time go by, and all messages arrive at once, except over links cut.

        What is for nobody of the transcript is lost.
        """
        target_us = self.now_us + words.duration_us(arguments[0])
        for _ in range(STEPS_MAX):
            if self.flying:
                message = self.flying.pop(0)
                if message.target in self.nodes:
                    self._deliver(message)
            elif not self._next_timer(target_us):
                self.now_us = target_us
                return
        raise ScriptError("the nodes never come to rest")

    def _next_timer(self, target_us: int) -> bool:
        """Let the next timer strike, if one does until then."""
        up = [node for node in self.nodes.values() if node.is_up]
        due = [(node.core.next_deadline_us(), node.id) for node in up]
        if not due or min(due)[0] > target_us:
            return False
        at_us, id = min(due)
        self.now_us = max(self.now_us, at_us)
        self.nodes[id].step(ev.Tick())
        return True

    def do_deliver(self, arguments: list[str]) -> None:
        """deliver all | A->B...: let messages arrive, one link after the other.

        ``all`` goes on until none is left but for those to nobody of the transcript. ``A->B``
        delivers what is on its way from A to B by then.
        """
        if arguments == ["all"]:
            for _ in range(STEPS_MAX):
                message = next((m for m in self.flying if m.target in self.nodes), None)
                if message is None:
                    return
                self.flying.remove(message)
                self._deliver(message)
            raise ScriptError("the nodes never stop to talk")
        for link in arguments:
            messages = self._take(link)
            if not messages:
                raise ScriptError(f"nothing is on its way {link}")
            for message in messages:
                self._deliver(message)

    def _deliver(self, message: Message) -> None:
        node = self.nodes.get(message.target)
        link = f"{message.source}->{message.target}"
        if node is None:
            raise ScriptError(f"node {message.target} is none of this transcript: use reply")
        if (message.source, message.target) in self.cuts:
            self.say(f"lost {link} {message.words}")
        elif not node.is_up:
            self.say(f"refused {link} {message.words}")
            if not message.is_reply and message.source in self.nodes:
                self._fail(message, unsupported=False)
        else:
            node.receive(message)

    def do_drop(self, arguments: list[str]) -> None:
        """drop all | A->B...: lose messages that are on their way."""
        if arguments == ["all"]:
            self.flying.clear()
        for link in arguments if arguments != ["all"] else []:
            for message in self._take(link):
                self.say(f"lost {link} {message.words}")

    def do_fail(self, arguments: list[str]) -> None:
        """fail A->B: the connection broke: A's request of B will not be answered."""
        for message in self._take(arguments[0]):
            self._fail(message, unsupported=False)

    def _fail(self, message: Message, unsupported: bool) -> None:
        node = self.nodes[message.source]
        if (
            node.is_up
            and message.incarnation == node.incarnation
            and message.correlation in node.sent_requests
        ):
            del node.sent_requests[message.correlation]
            node.step(ev.RequestFailed(message.correlation, unsupported))

    def do_cut(self, arguments: list[str]) -> None:
        """cut A-B | A->B...: messages on this link are lost from now on, both ways or one."""
        for link in arguments:
            self.cuts |= set(_links(link))

    def do_heal(self, arguments: list[str]) -> None:
        """heal [A-B | A->B]...: the link is whole again, or all links."""
        for link in arguments:
            self.cuts -= set(_links(link))
        if not arguments:
            self.cuts.clear()

    def _take(self, link: str) -> list[Message]:
        """Take what is on its way on a link, or on both ways of one."""
        links = set(_links(link))
        messages = [m for m in self.flying if (m.source, m.target) in links]
        self.flying = [m for m in self.flying if (m.source, m.target) not in links]
        return messages

    def _forget(self, id: int) -> None:
        """Drop the connections of a node that went down."""
        lost = [m for m in self.flying if id in (m.source, m.target)]
        self.flying = [m for m in self.flying if id not in (m.source, m.target)]
        for message in lost:
            if not message.is_reply and message.source != id and message.source in self.nodes:
                self._fail(message, unsupported=False)

    # ---- what the transcript says in place of others ---------------------------------------------

    def do_receive(self, arguments: list[str]) -> None:
        """receive NODE API vN FIELD=VALUE... | JSON | hex BYTES: a request from outside arrives.

        The answer goes to whoever asked, and is shown.
        """
        node = self._node(arguments[0])
        api = self._api(arguments[1])
        kind = self.requests[arguments[1]]
        version = int(arguments[2].removeprefix("v"))
        rest = arguments[3:]
        if rest[:1] == ["hex"]:
            body = bytes.fromhex("".join(rest[1:]))
            text = arguments[1]
        elif rest[:1] and rest[0].startswith("{"):
            message_class: Any = getattr(words.generated_by(self.profile), f"{api.name}Request")
            body = message_class.from_json(json.loads(" ".join(rest)), version).encode(version)
            text = f"{arguments[1]} {' '.join(rest)}"
        else:
            fields = {"cluster_id": words.CLUSTER_ID} | words.read_fields(kind, _options(rest))
            if kind in (ms.Fetch, ms.FetchSnapshot):
                fields.setdefault("max_bytes", words.MAX_BYTES)
            body = self.profile.encode_request(kind(**fields), version)
            text = words.message_words(self.profile.decode_request(api.key, version, body))
        self._correlation += 1
        message = Message(0, node.id, False, self._correlation, 0, api.key, version, body, text)
        self.say(_line("tool", node.id, message), body)
        node.receive(message)

    def do_reply(self, arguments: list[str]) -> None:
        """reply B->A [API|again] FIELD=VALUE...: a voter that is no node here answers A's request.

        It is the newest request that is on its way from A to B, of that API if one is named; or
        ``again`` the one that B has answered last.
        ``batches=2@5:a,b`` are records of epoch 2 at offset 5; ``damage=70`` spoils byte 70.
        ``checkpoint=added-3/d3:a,b`` is a whole snapshot, of control records and values.
        """
        source, target = _links(arguments[0])[0]
        rest = arguments[1:]
        node = self.nodes[target]
        if rest[:1] == ["again"]:
            rest.pop(0)
            pending, request = self._answered[source, target]
            node.sent_requests[pending.correlation] = request, pending.version
        else:
            api = rest.pop(0) if rest and rest[0] in self.requests else None
            pending = self._request_of(target, source, api)
            request, _ = node.sent_requests[pending.correlation]
        self._answered[source, target] = pending, request
        options = _options(rest)
        records = bytearray(_batches(options.pop("batches", "")))
        for position in options.pop("damage", "").split(",") if "damage" in options else ():
            records[int(position)] ^= 1
        kind = words.reply_kind(type(request))
        checkpoint = options.pop("checkpoint", "")
        reply = kind(**words.read_fields(kind, options))
        if (
            reply.leader_id >= 0
            and not reply.leader_endpoints
            and "leader-endpoints" not in options
        ):
            reply.leader_endpoints = words.endpoints_of(reply.leader_id)
        if records:
            reply.records = bytes(records)
        if checkpoint:
            reply.data = node.checkpoint(checkpoint)
            reply.size = len(reply.data)
        message = node.answer_to(pending, request, reply)
        self.say(_line(source, target, message), message.body)
        message.source, message.target = source, target
        node.receive(message)

    def _request_of(self, source: int, target: int, api: str | None) -> Message:
        """Take the newest request that is on its way, and that its sender still awaits."""
        for message in reversed(self.flying):
            if (message.source, message.target, message.is_reply) == (source, target, False) and (
                api is None or message.words.split()[0] == api
            ):
                break
        else:
            raise ScriptError(f"{source} asks {target} nothing")
        self.flying.remove(message)
        if message.correlation not in self.nodes[source].sent_requests:
            raise ScriptError(f"{source} awaits no answer of {target} any more")
        return message

    # ---- what the state machine, the operator and the disk do ------------------------------------

    def do_append(self, arguments: list[str]) -> None:
        """append NODE a,b [epoch=N]: the state machine appends records, in the node's epoch."""
        node = self._node(arguments[0])
        epoch = int(_options(arguments[2:]).get("epoch", node.core.epoch))
        records = tuple(text.encode() for text in arguments[1].split(",") if text)
        node.step(ev.AppendRequested(1, epoch, records))

    def do_resign(self, arguments: list[str]) -> None:
        """resign NODE [epoch=N]: the state machine does not want to lead any longer."""
        node = self._node(arguments[0])
        node.step(ev.ResignRequested(int(_options(arguments[1:]).get("epoch", node.core.epoch))))

    def do_shutdown(self, arguments: list[str]) -> None:
        """shutdown NODE TIME: leave in good order, within that time."""
        self._node(arguments[0]).step(ev.ShutdownRequested(words.duration_us(arguments[1])))

    def do_upgrade(self, arguments: list[str]) -> None:
        """upgrade NODE LEVEL [epoch=N] [validate-only=true]: raise kraft.version."""
        node = self._node(arguments[0])
        options = _options(arguments[2:])
        epoch = int(options.get("epoch", node.core.epoch))
        validate_only = options.get("validate-only") == "true"
        node.step(ev.UpgradeRequested(1, epoch, int(arguments[1]), validate_only))

    def do_snapshot(self, arguments: list[str]) -> None:
        """snapshot NODE END-EPOCH a,b [timestamp=MS]: the state machine writes a snapshot."""
        node = self._node(arguments[0])
        node.snapshot_data = [text.encode() for text in arguments[2].split(",")]
        timestamp_ms = int(_options(arguments[3:]).get("timestamp", 0))
        node.step(ev.SnapshotRequested(words.read_snapshot(arguments[1]), timestamp_ms))

    def do_clean(self, arguments: list[str]) -> None:
        """clean NODE: time to delete what snapshots made superfluous."""
        node = self._node(arguments[0])
        node.step(ev.CleanRequested(node.storage.log.size_bytes))

    def do_hold(self, arguments: list[str]) -> None:
        """hold NODE: its disk takes its time from now on; ``flush`` lets it be done."""
        self._node(arguments[0]).holds_flushes = True

    def do_flush(self, arguments: list[str]) -> None:
        """flush NODE: the sync that its disk is busy with is done."""
        self._node(arguments[0]).finish_flush()

    def do_transition(self, arguments: list[str]) -> None:
        """transition NODE CAUSE [epoch=N] [leader-id=N] [endpoints=none]: ask for one as such.

        Not by a message: this asks the machine of roles itself. A node that meets a fatal one ends;
        here only the question is answered, and the node is left as it was.
        """
        node = self._node(arguments[0])
        core = node.core
        options = _options(arguments[2:])
        leader_id = int(options.get("leader-id", NONE))
        endpoints = words.endpoints_of(leader_id) if leader_id >= 0 else ()
        options_of_move: dict[str, Any] = {"leader_id": leader_id, "endpoints": endpoints}
        if "endpoints" in options:
            options_of_move["endpoints"] = words.read_endpoints(options["endpoints"])
        if "epoch" in options:
            options_of_move["epoch"] = int(options["epoch"])
        core.effects = []
        before = core.role
        try:
            core.move(Cause[arguments[1].replace("-", "_").upper()], **options_of_move)
        except FatalError as error:
            if core.role is not before:
                raise
            self.say(f"{node.id} fatal: {error}")
            return
        raise ScriptError(f"{arguments[1]} is not fatal: {node.summary()}")

    # ---- inside --------------------------------------------------------------------------------

    def _api(self, request: str) -> Api:
        if request not in self.requests:
            raise ScriptError(f"there is no request {request}: {', '.join(self.requests)}")
        names = (request, _WIRE_NAMES.get(request, request), f"{request}QuorumRecords")
        return next(api for api in self.profile.apis.values() if api.name in names)

    def _node(self, id: str) -> Machine:
        if int(id) not in self.nodes:
            raise ScriptError(f"node {id} is none of this transcript: {list(self.nodes)}")
        return self.nodes[int(id)]


def commands() -> Iterator[tuple[str, str]]:
    """Yield the name and the description of every command."""
    for name in dir(Cluster):
        if name.startswith("do_"):
            yield name.removeprefix("do_"), getattr(Cluster, name).__doc__


def _options(arguments: list[str]) -> dict[str, str]:
    pairs = [argument.partition("=") for argument in arguments]
    for name, equals, _ in pairs:
        if not equals:
            raise ScriptError(f"{name} is no NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _requests_of(profile: Profile) -> dict[str, type[ms.Request]]:
    """Return the requests of the core, and those of this profile, by name; its own come first."""
    package = type(profile).__module__.rpartition(".")[0]
    kinds = [kind for kind in ms.Request.__subclasses__() if kind.__module__ == ms.__name__]
    kinds += [k for k in ms.Request.__subclasses__() if k.__module__.startswith(package)]
    return {kind.__name__: kind for kind in kinds}


def _is_long_story(text: str) -> bool:
    first, second = (*text.split(maxsplit=2), "", "")[:2]
    return first in _LOST or second in LONG_STORY


def _links(text: str) -> list[tuple[int, int]]:
    """Return (source, target) of ``1->2``, and both ways of ``1-2``."""
    if "->" in text:
        source, target = text.split("->")
        return [(int(source), int(target))]
    left, right = map(int, text.split("-"))
    return [(left, right), (right, left)]


def _line(source: object, target: object, message: Message) -> str:
    """Return ``1->2 Vote v2 epoch=5 ...``."""
    name, _, fields = message.words.partition(" ")
    return f"{source}->{target} {name} v{message.version} {fields}".rstrip()


def _batches(text: str) -> bytes:
    """Return the batches that ``2@5:a,b;3@7:c`` says: epoch, base offset, values."""
    data = b""
    for batch in text.split(";") if text else []:
        where, _, values = batch.partition(":")
        epoch, base_offset = map(int, where.split("@"))
        data += encode_batch(
            [value.encode() for value in values.split(",")],
            timestamps=0,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
        )
    return data
