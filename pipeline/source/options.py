"""The options of ``kafkalog``. Where Spark's own Kafka source has one, name and form are its own.

An option that is misspelt, or holds what it may not, raises ``OptionError``, which names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, Self

from kraftspec.pipeline.layout import LogFile
from kraftspec.pipeline.rows import ISOLATIONS, MODES, Isolation, Mode
from kraftspec.pipeline.splits import SPLIT_BYTES

# Offsets, or milliseconds, by topic and partition.
Offsets = dict[str, dict[int, int]]

LATEST: Final = -1
EARLIEST: Final = -2

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


class OptionError(ValueError):
    """An option of ``kafkalog`` is none, or holds what it may not."""


@dataclass(frozen=True)
class Bound:
    """Where reading starts or ends, as in the options: the logs are not read yet.

    One ``offset`` or ``timestamp`` (milliseconds) is for all partitions; ``offsets`` and
    ``timestamps`` name each. The negative offsets are ``EARLIEST`` and ``LATEST``.
    """

    option: str
    offset: int | None = None
    offsets: Offsets | None = None
    timestamp: int | None = None
    timestamps: Offsets | None = None


@dataclass(frozen=True)
class Options:
    """All options, parsed and checked. The guide to the pipeline explains each."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    assigned: dict[str, tuple[int, ...]] | None
    starting: Bound | None
    ending: Bound | None
    start_unmatched: Literal["error", "latest"]
    mode: Mode
    isolation: Isolation
    use_txn_indexes: bool
    include_headers: bool
    include_metadata: bool
    include_control: bool
    fail_on_data_loss: bool
    split_bytes: int
    partitions_min: int | None
    offsets_per_trigger_max: int | None
    bytes_per_trigger_max: int | None
    push_filters: bool
    report: str | None
    decode: Literal["metadata"] | None
    record_type: str | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options of Spark; names are case-insensitive.

        Raises:
            OptionError: with the option's name, what it may hold and what it held.
        """
        read = _Reader(options)
        # Spark calls it so where several paths are loaded.
        paths = read("paths", _paths, ())
        if path := read("path", str):
            paths = (path, *paths)
        if not paths:
            raise OptionError('option path is missing: .load("/var/kafka-logs") gives it')
        result = cls(
            paths=paths,
            topics=read("subscribe", _topics),
            topic_pattern=read("subscribePattern", _pattern),
            assigned=read("assign", _assignment),
            starting=_bound(read, "starting", "earliest"),
            ending=_bound(read, "ending", "latest"),
            start_unmatched=read(
                "startingOffsetsByTimestampStrategy", _one_of("error", "latest"), "error"
            ),
            mode=read("mode", _one_of(*MODES), "PERMISSIVE"),
            # Kafka's consumers get the same error.
            isolation=read("kafka.isolation.level", _one_of(*ISOLATIONS), "read_uncommitted"),
            use_txn_indexes=read("useTxnIndexes", _boolean, False),
            include_headers=read("includeHeaders", _boolean, False),
            include_metadata=read("includeMetadata", _boolean, False),
            include_control=read("includeControl", _boolean, False),
            fail_on_data_loss=read("failOnDataLoss", _boolean, True),
            split_bytes=read("splitBytes", _size, SPLIT_BYTES),
            partitions_min=read("minPartitions", _count),
            offsets_per_trigger_max=read("maxOffsetsPerTrigger", _count),
            bytes_per_trigger_max=read("maxBytesPerTrigger", _size),
            push_filters=read("pushFilters", _boolean, True),
            report=read("report", str),
            decode=read("decode", _one_of("metadata")),
            record_type=read("recordType", str),
        )
        _refuse_several(read, ("assign", "subscribe", "subscribePattern"))
        _refuse_several(read, ("maxOffsetsPerTrigger", "maxBytesPerTrigger"))
        if result.record_type is not None and result.decode is None:
            raise OptionError("option recordType goes with decode=metadata")
        if result.use_txn_indexes and result.isolation != "read_committed":
            raise OptionError("option useTxnIndexes goes with kafka.isolation.level=read_committed")
        read.refuse_unknown()
        return result

    def split_bytes_for(self, files: Iterable[LogFile]) -> int:
        """Return how large a split may be that there are ``minPartitions`` of them, about."""
        if self.partitions_min is None:
            return self.split_bytes
        size = sum(file.size for file in files)
        return max(1, min(self.split_bytes, size // self.partitions_min))


class _Reader:
    """Reads options by name, and knows which were never read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._by_lower_name = {name.lower(): (name, value) for name, value in options.items()}
        self._known: dict[str, str] = {}

    def __call__(self, name: str, parse: Callable[[str], Any], default: Any = None) -> Any:
        self._known[name.lower()] = name
        if not self.has(name):
            return default
        value = self._by_lower_name[name.lower()][1]
        try:
            return parse(value)
        except ValueError as error:
            shown = value if len(value) <= 100 else f"{value[:100]}…"  # noqa: PLR2004 (a line)
            raise OptionError(f"option {name}: {error}, not {shown!r}") from None

    def has(self, name: str) -> bool:
        return name.lower() in self._by_lower_name

    def refuse_unknown(self) -> None:
        # A query that moves over brings options of the consumer. There is none here.
        unknown = [
            spelling
            for name, (spelling, _) in self._by_lower_name.items()
            if name not in self._known and not name.startswith("kafka.")
        ]
        if unknown:
            close = get_close_matches(unknown[0].lower(), self._known, 1)
            hint = f"; did you mean {self._known[close[0]]}?" if close else ""
            raise OptionError(f"kafkalog has no option {unknown[0]}{hint}")


def _refuse_several(read: _Reader, names: tuple[str, ...]) -> None:
    present = [name for name in names if read.has(name)]
    if len(present) > 1:
        raise OptionError(f"options {' and '.join(present)} exclude each other: give one of them")


def _bound(read: _Reader, side: str, word: str) -> Bound | None:
    """Read ``startingOffsets`` and its kin; a timestamp wins over offsets, as in Spark's."""
    timestamp = read(f"{side}Timestamp", _timestamp)
    timestamps = read(f"{side}OffsetsByTimestamp", _by_partition(_timestamp))
    named = read(f"{side}Offsets", _offsets(side))
    if timestamp is not None:
        return Bound(f"{side}Timestamp", timestamp=timestamp)
    if timestamps is not None:
        return Bound(f"{side}OffsetsByTimestamp", timestamps=timestamps)
    if isinstance(named, int):
        return Bound(f"{side}Offsets", offset=named)
    return None if named is None else Bound(f"{side}Offsets", offsets=named)


def _offsets(side: str) -> Callable[[str], int | Offsets]:
    """Offsets of one side. An end at the earliest is refused; what a start may be depends."""
    words = {"latest": LATEST} if side == "ending" else {"latest": LATEST, "earliest": EARLIEST}
    least = LATEST if side == "ending" else EARLIEST
    form = ", ".join(f'"{word}"' for word in sorted(words))

    def offset(value: Any) -> int:
        return _integer(value, least, _INT64_MAX, "an offset, -1 for the latest")

    def parse(text: str) -> int | Offsets:
        if text.strip().lower() in words:
            return words[text.strip().lower()]
        try:
            return _by_partition(offset)(text)
        except ValueError as error:
            raise ValueError(f"{form} or {error}") from None

    return parse


def _by_partition(parse: Callable[[Any], int]) -> Callable[[str], Offsets]:
    def read(text: str) -> Offsets:
        form = 'JSON like {"topic":{"0":23,"1":-1}}'
        topics = _json_object(text, form)
        offsets: Offsets = {}
        for topic, partitions in topics.items():
            if not isinstance(partitions, dict):
                raise ValueError(form)
            offsets[topic] = {}
            for partition, value in partitions.items():
                if not isinstance(value, int) or isinstance(value, bool):
                    raise ValueError(form)
                offsets[topic][_partition(partition)] = parse(value)
        return offsets

    return read


def _paths(text: str) -> tuple[str, ...]:
    form = 'JSON like ["/var/kafka-logs-1","/var/kafka-logs-2"]'
    try:
        paths = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(form) from None
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise ValueError(form)
    return tuple(paths)


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    form = 'JSON like {"topic":[0,1]}'
    topics = _json_object(text, form)
    if not all(isinstance(partitions, list) for partitions in topics.values()):
        raise ValueError(form)
    return {
        topic: tuple(_partition(partition) for partition in partitions)
        for topic, partitions in topics.items()
    }


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(form) from None
    if not isinstance(value, dict):
        raise ValueError(form)
    return value


def _partition(value: Any) -> int:
    return _integer(value, 0, _INT32_MAX, "partitions that are numbers")


def _timestamp(value: Any) -> int:
    return _integer(value, 0, _INT64_MAX, "milliseconds since 1970")


def _count(text: str) -> int:
    return _integer(text, 1, _INT64_MAX, "a number of at least 1")


def _integer(value: Any, least: int, most: int, form: str) -> int:
    text = str(value).strip()
    # Digits of ASCII and no more than int64 has: Python would read many more, and slowly.
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise ValueError(form)
    number = int(text)
    if not least <= number <= most:
        raise ValueError(form)
    return number


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([bkmgt]?)b?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("a number of bytes, 64m for instance")
    return int(match[1]) * _UNITS[match[2]]


def _topics(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("topics with commas between them")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _boolean(text: str) -> bool:
    return bool(_one_of("true", "false")(text) == "true")


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for word in words:
            if text.strip().lower() == word.lower():
                return word
        raise ValueError(f"one of {', '.join(words)}")

    return parse
