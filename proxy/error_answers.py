"""Where an API has its error codes: answers with an error, made from a request.

Nothing here knows an API by its name. A response with an array whose structs have error codes gets
an element for each that the request names: each topic, partition, group or resource. The array of
the request is the one whose fields identify the same things. Errors about topics and partitions
go to these elements. All others go to the outermost place that the version has.

An answer has no place for an error where the request names nothing, as a Metadata request for all
topics before version 13 does, and where the request says nothing of the response's elements
(DescribeLogDirs before version 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kraftspec.generated.errors import ErrorCode

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Codec, Message
    from kraftspec.fastpath.plan import Layout

Level = Literal["top", "items"]

CODE_NAMES: Final = ("errorCode", "partitionErrorCode")

# Names of fields that say which topic, partition, … an element is about. Requests and responses
# call the same thing differently: fields of one value here are the same.
_IDENTITIES: Final = {
    "name": "name", "topic": "name", "topicName": "name", "user": "name",
    "topicId": "topicId",
    "index": "partition", "partition": "partition", "partitionIndex": "partition",
    "partitionId": "partition",
    "groupId": "groupId", "key": "key", "id": "id", "feature": "feature", "logDir": "logDir",
    "producerId": "producerId", "transactionalId": "transactionalId",
    "resourceType": "resourceType", "resourceName": "resourceName",
    "memberId": "memberId", "groupInstanceId": "groupInstanceId",
    "entityType": "entityType", "entityName": "entityName",
}  # fmt: skip
# One answer for the elements of two arrays: those whose passwords go, and those that get one.
_ALL_ARRAYS: Final = {"AlterUserScramCredentialsRequest"}

OF_ITEMS: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    }
)


def level_of(code: int) -> Level:
    """Return where an error belongs: to the elements, if it is about topics or partitions."""
    return "items" if code in OF_ITEMS else "top"


def error_answer(
    request: Message,
    response: type[Message],
    version: int,
    code: int,
    level: Level | None = None,
) -> Message | None:
    """Return the answer to a request that has an error; None where no place for the code is left.

    Args:
        request: the request, of that version.
        response: the class of the response.
        version: of both.
        code: the error code.
        level: ``items`` or ``top``; by default where the error belongs.
    """
    maker = _Maker(request.CODEC, response.CODEC, code, level or level_of(code))
    root = _Source(request, request.CODEC.layout(version))
    maker.takes_all = type(request).__name__ in _ALL_ARRAYS
    answer, is_placed = maker.struct(response.CODEC.layout(version), root)
    return answer if is_placed else None


def mark(response: Message, version: int, code: int, level: Level | None = None) -> int:
    """Put an error code into a response that a node gave; return into how many places."""
    codec = response.CODEC
    return _mark(codec, codec.layout(version), response, code, level or level_of(code))


def _mark(codec: Codec, layout: Layout, value: Any, code: int, level: Level) -> int:
    own = _codes(layout)
    if own and level == "top":
        return _put(value, own, code)
    count = 0
    for _, attr, element in _arrays(layout):
        for item in getattr(value, attr) or ():
            count += _mark(codec, codec.layouts[element], item, code, level)
    return count or _put(value, own, code)


def _put(value: Any, attrs: list[str], code: int) -> int:
    for attr in attrs:
        setattr(value, attr, code)
    return len(attrs)


class _Source(NamedTuple):
    """What an element of the response is about: a struct of the request, or a plain value."""

    value: Any
    layout: Layout | None


class _Array(NamedTuple):
    """An array of a request, with its elements, or an array in the elements of an array."""

    name: str
    items: list[_Source]
    names: frozenset[str]
    element: int | str


class _Maker:
    def __init__(self, request: Codec, response: Codec, code: int, level: Level) -> None:
        self.request = request
        self.response = response
        self.code = code
        self.level = level
        self.takes_all = False

    def struct(self, layout: Layout, source: _Source) -> tuple[Any, bool]:
        """Return a struct of the response about ``source``, and whether the code is in it."""
        value = self.response.structs[layout[0]]()
        self._identify(layout, source, value)
        for _, attr, wire, is_nullable, _ in _fields(layout):
            if wire.endswith("records") and not is_nullable and getattr(value, attr) is None:
                setattr(value, attr, b"")  # The one default that cannot be encoded.
        own = _codes(layout)
        is_placed = False
        if not own or self.level == "items":
            for _, attr, element in _arrays(layout):
                if _has_code(self.response, element):
                    items = self._mirror(element, source)
                    setattr(value, attr, [item for item, _ in items])
                    is_placed |= any(placed for _, placed in items)
        if not is_placed:
            is_placed = _put(value, own, self.code) > 0
        return value, is_placed

    def _mirror(self, element: int, source: _Source) -> list[tuple[Any, bool]]:
        layout = self.response.layouts[element]
        sources = self._sources(layout, source)
        return [self.struct(layout, item) for array in sources for item in array.items]

    def _sources(self, layout: Layout, source: _Source) -> list[_Array]:
        """Return the array of the request that names the elements of an array of the response."""
        if source.layout is None:
            return []
        arrays = list(self._candidates(source))
        scores = [_score(layout, array) for array in arrays]
        best = max(scores, default=0)
        if best:
            chosen = [array for array, score in zip(arrays, scores, strict=True) if score == best]
            return chosen if self.takes_all else chosen[:1]
        # Results without a name stand in the order of what was asked for.
        if not _identities(layout):
            return [array for array in arrays if isinstance(array.element, int)][:1]
        return []

    def _candidates(self, source: _Source) -> list[_Array]:
        assert source.layout is not None
        arrays = []
        for name, attr, wire, _, element in _fields(source.layout):
            if not wire.endswith("array") or element is None:
                continue
            array = self._array(name, element, getattr(source.value, attr) or ())
            arrays.append(array)
            if isinstance(element, int):
                inner = self.request.layouts[element]
                for inner_name, inner_attr, inner_wire, _, inner_element in _fields(inner):
                    if inner_wire.endswith("array") and isinstance(inner_element, int):
                        values = [
                            one for item in array.items for one in getattr(item.value, inner_attr)
                        ]
                        arrays.append(self._array(inner_name, inner_element, values))
        return arrays

    def _array(self, name: str, element: int | str, values: Any) -> _Array:
        layout = self.request.layouts[element] if isinstance(element, int) else None
        names = frozenset(_identities(layout)) if layout is not None else frozenset[str]()
        return _Array(name, [_Source(value, layout) for value in values], names, element)

    def _identify(self, layout: Layout, source: _Source, value: Any) -> None:
        """Say in a struct of the response what it is about, as the request did."""
        known = _identities(layout)
        if source.layout is None:
            attr = next((attr for attr, wire in known.values() if _fits(source.value, wire)), None)
            if attr is not None:
                setattr(value, attr, source.value)
            return
        for identity, (attr, _) in _identities(source.layout).items():
            if identity in known:
                setattr(value, known[identity][0], getattr(source.value, attr))
        self._copy_entity(layout, source, value)

    def _copy_entity(self, layout: Layout, source: _Source, value: Any) -> None:
        """Copy an array that as a whole says what an element is about, such as a quota's entity."""
        assert source.layout is not None
        theirs = {
            name: (attr, element)
            for name, attr, wire, _, element in _fields(source.layout)
            if wire.endswith("array") and isinstance(element, int)
        }
        for name, attr, element in _arrays(layout):
            if name not in theirs or _has_code(self.response, element):
                continue
            inner = self.response.layouts[element]
            if len(_identities(inner)) != len(_fields(inner)):
                continue
            from_attr, from_element = theirs[name]
            items = []
            for item in getattr(source.value, from_attr) or ():
                copy = self.response.structs[inner[0]]()
                self._identify(inner, _Source(item, self.request.layouts[from_element]), copy)
                items.append(copy)
            setattr(value, attr, items)


def _score(layout: Layout, array: _Array) -> int:
    known = _identities(layout)
    if isinstance(array.element, int):
        return 2 * len(array.names & set(known))
    kind = "string" if array.element.endswith("string") else array.element
    return int(any(wire.endswith(kind) for _, wire in known.values()))


def _fits(value: Any, wire: str) -> bool:
    return wire.endswith("string") if isinstance(value, str) else wire.startswith("int")


def _fields(layout: Layout) -> list[tuple[str, str, str, bool, str | int | None]]:
    """Return all fields of a struct that the version has, tagged ones included."""
    tagged = [
        (name, attr, wire, nullable, element)
        for _, name, attr, wire, nullable, element, _ in layout[3]
    ]
    return [*layout[2], *tagged]


def _identities(layout: Layout) -> dict[str, tuple[str, str]]:
    """Return what identifies a struct: identity to (attribute, wire type)."""
    return {
        _IDENTITIES[name]: (attr, wire)
        for name, attr, wire, _, element in _fields(layout)
        if name in _IDENTITIES and element is None
    }


def _codes(layout: Layout) -> list[str]:
    return [attr for name, attr, *_ in _fields(layout) if name in CODE_NAMES]


def _arrays(layout: Layout) -> list[tuple[str, str, int]]:
    """Return the arrays of structs of a struct: name, attribute, layout of an element."""
    return [
        (name, attr, element)
        for name, attr, wire, _, element in _fields(layout)
        if wire.endswith("array") and isinstance(element, int)
    ]


def _has_code(codec: Codec, element: int) -> bool:
    layout = codec.layouts[element]
    return bool(_codes(layout)) or any(_has_code(codec, inner) for _, _, inner in _arrays(layout))
