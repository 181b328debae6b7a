"""Files of exchanges: given, rules, answers, steps; mistakes are named by ``path:line:column``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kraftspec.conformance.clients.faults import FAULTS
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.proxy.engine import Engine
from kraftspec.proxy.frame import apis_of
from kraftspec.proxy.rules import Rule, RuleError
from kraftspec.words import alike
from kraftspec.yaml_files import Steps, YamlFile

DIRECTORY = Path(__file__).resolve().parent / "exchanges"
Name = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Hex = Annotated[str, Meta(pattern="^([0-9a-f]{2}| )*$")]
Ends = Literal["ok", "error", "either"]
Hazard = Literal[
    "none", "gzip", "snappy", "lz4", "zstd", "bad-crc", "bad-magic", "count-high", "count-negative",
    "length-high", "length-negative", "cut", "broken-gzip", "bomb-gzip", "bomb-zstd",
    "record-length-high", "headers-high", "unknown-codec",
]  # fmt: skip


class _Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What has no fields but its own."""


class Sasl(_Strict, frozen=True, kw_only=True):
    """The broker wants SASL PLAIN; the client says user `suite`, password `secret`."""

    password: Annotated[str, Meta(description="That the broker takes.")] = "secret"
    mechanisms: Annotated[tuple[str, ...], Meta(description="That the broker has.")] = ("PLAIN",)


class Given(_Strict, frozen=True, kw_only=True):
    """The broker, and what it has."""

    broker: Annotated[
        Literal["scripted", "either"],
        Meta(description="either: with --kafka, Kafka itself stands behind the rules."),
    ] = "scripted"
    brokers: Annotated[
        Annotated[int, Meta(ge=1, le=3)], Meta(description="Scripted ones; 1 leads the partition.")
    ] = 1
    versions: Annotated[
        dict[str, str], Meta(description="API, or key, to the versions it serves: 3-7, or none.")
    ] = {}
    records: Annotated[list[str], Meta(description="Values in the partition at the start.")] = []
    batch: Annotated[Hazard, Meta(description="How the batch of these records is made.")] = "none"
    topic: Annotated[bool, Meta(description="Whether the topic is there.")] = True
    leader: Annotated[int, Meta(description="The partition's leader; -1 is none.")] = 1
    sasl: Sasl | None = None
    tls: Annotated[
        Literal["trusted", "untrusted", "expired", "other-host", "not-tls"] | None,
        Meta(description="What the certificate is; the client wants TLS and checks names."),
    ] = None


class Answer(_Strict, frozen=True, kw_only=True):
    """How the scripted broker answers otherwise than it should. It counts matches from 1."""

    api: str
    versions: str = ""
    node: int | None = None
    nth: Annotated[int, Meta(ge=0, description="On this match alone; 0: on each.")] = 0
    after: Annotated[int, Meta(ge=0, description="Not on the first so many matches.")] = 0
    error: Annotated[str, Meta(description="In the place where the API has it.")] = ""
    claim: Annotated[
        dict[str, int],
        Meta(
            description="Path of an array, text, bytes or records to the length that is said. "
            "An answer that has no such field is no match."
        ),
    ] = {}
    tags: Annotated[bool, Meta(description="Unknown tagged fields in header and structs.")] = False
    append: Annotated[Hex, Meta(description="Hex, behind the body.")] = ""
    body: Annotated[Hex | None, Meta(description="Hex, for the whole body.")] = None
    frame_size: Annotated[int | None, Meta(description="The size before the frame.")] = None
    frame: Annotated[Hex | None, Meta(description="Hex, for all, size included.")] = None
    move_leader: Annotated[
        int | None, Meta(description="The partition gets this leader before the request is served.")
    ] = None
    twice: Annotated[bool, Meta(description="The answer is sent twice.")] = False
    late: Annotated[
        float, Meta(ge=0, description="Sent so many of the client's time-outs later.")
    ] = 0.0
    unserved: Annotated[
        bool, Meta(description="The request is answered as if it had been served, and is not.")
    ] = False
    pieces_ms: Annotated[
        int, Meta(ge=0, description="The answer is sent byte by byte, with so much between.")
    ] = 0
    correlation: Annotated[int, Meta(description="Is added to the correlation id.")] = 0
    close: Annotated[bool, Meta(description="The connection is closed after it.")] = False


class Produce(_Strict, frozen=True, kw_only=True):
    """Produce values; the driver answers when all are acknowledged or one has failed."""

    values: Annotated[list[str], Meta(min_length=1)]
    ends: Ends = "ok"


class Consume(_Strict, frozen=True, kw_only=True):
    """Read the partition from an offset until there are so many records."""

    count: Annotated[int, Meta(ge=1)]
    offset: int = 0
    values: Annotated[
        list[str] | None,
        Meta(
            description="That must come; by default those of `given`, and "
            "what was acknowledged before."
        ),
    ] = None
    ends: Ends = "ok"


class Admin(_Strict, frozen=True, kw_only=True):
    """Create a topic."""

    create_topic: str
    ends: Ends = "ok"


class Connect(_Strict, frozen=True, kw_only=True):
    """Connect; it is the first step where it is not named."""

    ends: Ends = "ok"


class Step(_Strict, frozen=True, kw_only=True):
    """One thing that the client is told to do."""

    connect: Connect | None = None
    produce: Produce | None = None
    consume: Consume | None = None
    admin: Admin | None = None

    @property
    def verb(self) -> str:
        """The name of the one that there is."""
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)


class Requests(_Strict, frozen=True, kw_only=True):
    """How many requests of an API a client may send."""

    min: int = 0
    max: int | None = None


class Exchange(_Strict, frozen=True, kw_only=True):
    """An exchange."""

    name: Name
    about: Annotated[str, Meta(min_length=10)]
    cites: Annotated[str, Meta(min_length=3, description="Section of a KIP, or of the protocol.")]
    given: Given = Given()
    idempotent: Annotated[bool, Meta(description="The producer is; nothing may double.")] = False
    acks: Literal[-1, 0, 1] = -1
    rules: Annotated[list[Rule], Meta(description="Of the fault proxy, docs/proxy.md.")] = []
    answers: list[Answer] = []
    steps: Annotated[list[Step], Meta(min_length=1)]
    requests: Annotated[
        dict[str, Requests | Annotated[int, Meta(ge=0)]],
        Meta(description="API to how many may come: a number, or min and max."),
    ] = {}
    client_waits: Annotated[
        bool, Meta(description="A client sees the error by its own time-out alone.")
    ] = False
    broken: Annotated[str, Meta(description="The switch of our client that fails it.")] = ""


class ExchangeFile(_Strict, frozen=True, kw_only=True):
    """Exchanges for `kraftspec conform clients`."""

    exchanges: list[Exchange]


def own_files() -> list[Path]:
    """Return the files of the project's own exchanges."""
    return sorted(DIRECTORY.glob("*.yaml"))


def read_exchanges(paths: list[Path]) -> list[Exchange]:
    """Read files of exchanges. Raises YamlFileError with all mistakes, OSError."""
    return [one for path in paths for one in parse_exchanges(path.read_text("utf-8"), str(path))]


def parse_exchanges(text: str, name: str) -> list[Exchange]:
    """Read and check the text of a file of exchanges. Raises YamlFileError with all mistakes."""
    file = YamlFile(text, name)
    exchanges = file.items("exchanges", Exchange)
    if not exchanges:
        file.convert(file.values or {}, ExchangeFile, [])
    names: set[str] = set()
    for number, exchange in enumerate(exchanges):
        if exchange is None:
            continue
        where: Steps = ["exchanges", number]
        if exchange.name in names:
            file.problem([*where, "name"], f"there is an exchange {exchange.name!r} already")
        names.add(exchange.name)
        for below, problem in _problems(exchange):
            file.problem([*where, *below], problem)
    file.finish()
    return [exchange for exchange in exchanges if exchange is not None]


def versions_of(text: str) -> range | None:
    """Return the versions that ``3-7`` or ``4`` name; None for ``none``. Raises ValueError."""
    if text == "none":
        return None
    first, dash, last = text.partition("-")
    return range(int(first), int(last if dash else first) + 1)


def _problems(exchange: Exchange) -> Iterator[tuple[Steps, str]]:
    known = {api.name: api for api in apis_of(kafka).values()}
    for at, step in enumerate(exchange.steps):
        if sum(getattr(step, name) is not None for name in step.__struct_fields__) != 1:
            yield ["steps", at], "one of connect, produce, consume and admin"
    engine = Engine()
    for at, rule in enumerate(exchange.rules):
        try:
            engine.add(rule)
        except RuleError as error:
            field = (error.field or "").partition(".")[0]
            yield ["rules", at, *([field] if field else [])], str(error)
    for at, answer in enumerate(exchange.answers):
        if answer.api not in known:
            text = f"there is no API {answer.api!r}{alike(answer.api, known)}"
            yield ["answers", at, "api"], text
        if answer.error and answer.error not in ErrorCode.__members__:
            text = f"there is no error {answer.error!r}{alike(answer.error, ErrorCode.__members__)}"
            yield ["answers", at, "error"], text
    if exchange.given.broker == "either" and exchange.answers:
        yield ["answers"], "Kafka does not follow a script: only rules, where broker is either"
    for api, text in exchange.given.versions.items():
        below: Steps = ["given", "versions", api]
        if api not in known and not api.isdecimal():  # A key that nobody knows may be served, too.
            yield below, f"there is no API {api!r}{alike(api, known)}"
        try:
            versions_of(text)
        except ValueError:
            yield below, f"{text!r} is none of 4, 3-7 and none"
    if exchange.broken and exchange.broken not in FAULTS:
        text = f"there is no fault {exchange.broken!r}{alike(exchange.broken, FAULTS)}"
        yield ["broken"], text
    for api in exchange.requests:
        if api not in known:
            yield ["requests", api], f"there is no API {api!r}{alike(api, known)}"


def schema_text() -> str:
    """Return the JSON Schema of files of exchanges, for editors."""
    names = sorted(api.name for api in apis_of(kafka).values())
    schema: dict[str, Any] = msgspec.json.schema(ExchangeFile)
    schema["$defs"]["Answer"]["properties"]["api"] |= {"enum": names}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Exchanges of kraftspec conform clients",
        **schema,
    }
    return json.dumps(document, indent=2) + "\n"
