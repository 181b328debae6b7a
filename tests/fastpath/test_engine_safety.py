"""What must not crash the native engine, leak from it or slip past it: values that run code."""

from __future__ import annotations

import gc
import sys
import threading
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from kraftspec.fastpath.errors import CodecError, ErrorClass
from kraftspec.fastpath.message import PART_BYTES_MIN, Codec, Message
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.kafka import (
    FetchResponse,
    MetadataResponse,
    ProduceRequest,
    VoteRequest,
)

from .engine_twins import codec, engine, hold_decode, hold_encode, same, verdict, vote
from .messages import field, message, tagged

Partition = VoteRequest.PartitionData
Topic = VoteRequest.TopicData
WIRES = ("int8", "int16", "uint16", "int32", "uint32", "int64")


class Runs:
    """A number that runs code when its value is read."""

    def __init__(self, code: Callable[[], object], number: int = 1) -> None:
        self.code = code
        self.number = number

    def __index__(self) -> int:
        self.code()
        return self.number

    def __float__(self) -> float:
        self.code()
        return float(self.number)


# ---------------------------------------------------------------- values that change the message


def lose_the_list(value: VoteRequest) -> None:
    value.topics.clear()


def lose_the_partitions(value: VoteRequest) -> None:
    for topic in value.topics:
        topic.partitions.clear()


def replace_the_list(value: VoteRequest) -> None:
    value.topics = []
    gc.collect()


def empty_the_slots(value: VoteRequest) -> None:
    for topic in value.topics:
        for partition in topic.partitions:
            for name in ("partition_index", "replica_epoch", "replica_id", "pre_vote"):
                if hasattr(partition, name):
                    delattr(partition, name)


def grow_the_partitions(value: VoteRequest) -> None:
    for topic in value.topics:
        topic.partitions += [Partition() for _ in range(100)]


def shrink_the_partitions(value: VoteRequest) -> None:
    for topic in value.topics:
        del topic.partitions[1:]


def another_type(value: VoteRequest) -> None:
    for topic in value.topics:
        topic.partitions[-1:] = [object()]  # type: ignore[list-item]  # meant


@pytest.mark.soak
@pytest.mark.parametrize(
    "change",
    [
        lose_the_list, lose_the_partitions, replace_the_list, empty_the_slots, grow_the_partitions,
        shrink_the_partitions, another_type,
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("attribute", ["partition_index", "replica_id", "last_offset"])
def test_a_number_that_changes_the_message(
    change: Callable[[VoteRequest], None], where: int, attribute: str
) -> None:
    """Whatever comes of it: bytes or a ``CodecError``, and the message can be used after it."""
    for encode in (
        lambda value: value.encode(2),
        lambda value: b"".join(value.encode_parts(2)),
        lambda value: value.encode_into(bytearray(1 << 16), 5, 2),
    ):
        value = vote()
        setattr(value.topics[0].partitions[where], attribute, Runs(partial(change, value)))
        assert verdict(partial(encode, value))[0] in ("value", "refused")
        value.topics = [Topic()]
        assert value.encode(2) == VoteRequest(topics=[Topic()]).encode(2)


def test_a_number_that_changes_an_array_of_numbers() -> None:
    for wire in WIRES:
        for flexible in ("none", "0+"):
            cls = message(field("N", f"[]{wire}"), flexible=flexible)
            for change in (list.clear, list.reverse, lambda held: held.extend([1] * 1000)):
                held: list[Any] = [1, 2, 3, None, 4]
                held[3] = Runs(partial(change, held))
                assert verdict(partial(cls(n=held).encode, 0))[0] in ("value", "refused")


def test_a_comparison_that_changes_the_message() -> None:
    """Values of other types in absent or tagged fields are compared by Python."""

    class Compared:
        def __init__(self) -> None:
            self.owner: Any = None

        def __eq__(self, other: object) -> bool:
            for name in self.owner.__struct_fields__:
                if hasattr(self.owner, name):
                    delattr(self.owner, name)
            return True

        __hash__ = None  # type: ignore[assignment]  # as anything that defines equality

    for cls in (
        message(field("A", "string"), field("New", "int32", versions="1+"), field("B", "string")),
        message(field("A", "string"), tagged(0, "New", "int32"), tagged(1, "B", "string")),
    ):
        unusual = Compared()
        unusual.owner = cls(new=unusual, a="a", b="b")
        assert verdict(partial(unusual.owner.encode, 0))[0] == "refused"


def test_a_struct_compared_by_python_changes_the_message() -> None:
    cls = message(tagged(0, "One", "Inner", fields=[field("X", "int32")]), field("A", "string"))

    class Compared(int):
        def __eq__(self, other: object) -> bool:
            del value.one
            return True

        __hash__ = int.__hash__

    value = cls(one=cls.Inner(x=Compared(0)))
    assert verdict(lambda: value.encode(0))[0] in ("value", "refused")


def produced(**fields: Any) -> ProduceRequest.PartitionProduceData:
    return ProduceRequest.PartitionProduceData(**fields)


def test_a_buffer_that_others_try_to_change() -> None:
    """The memory of large records is held until they are written."""
    held = bytearray(b"a" * (2 * PART_BYTES_MIN))
    for records in (held, memoryview(held)):
        partition = produced(records=records)
        outcome: list[type[BaseException] | None] = []

        def grow(outcome: Any = outcome) -> None:
            try:
                held.extend(b"b" * 1_000_000)
                outcome.append(None)
            except BufferError:
                outcome.append(BufferError)

        late = produced(index=Runs(grow))
        topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition, late])
        request = ProduceRequest(topic_data=[topic])
        assert bytes(held) in request.encode(9)
        assert outcome == [BufferError]
        late.index = 1
        del topic.partition_data[0]
        held.extend(b"")  # nothing holds it any more


def test_a_view_that_is_released_meanwhile() -> None:
    view = memoryview(b"a" * PART_BYTES_MIN)
    partition = ProduceRequest.PartitionProduceData(records=view)
    late = produced(index=Runs(view.release))
    for order in ([partition, late], [late, partition]):
        topic = ProduceRequest.TopicProduceData(name="t", partition_data=order)
        what = verdict(partial(ProduceRequest(topic_data=[topic]).encode, 9))
        assert what[0] == "value" or what[1] is ErrorClass.WRONG_TYPE
    partition.records = view
    view.release()
    topic = ProduceRequest.TopicProduceData(partition_data=[partition])
    with pytest.raises(CodecError) as caught:
        ProduceRequest(topic_data=[topic]).encode(9)
    assert caught.value.error_class is ErrorClass.WRONG_TYPE
    assert verdict(lambda: ProduceRequest.decode(view, 9))[1] is ErrorClass.WRONG_TYPE


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_refusal_passes_through(raised: type[BaseException]) -> None:
    def stop() -> None:
        raise raised

    value = vote()
    value.topics[0].partitions[1].replica_id = Runs(stop)  # type: ignore[assignment]  # meant
    buffer = bytearray(1000)
    for encode in (value.encode, value.encode_parts, lambda at: value.encode_into(buffer, 0, at)):
        with pytest.raises(raised):
            encode(2)
        assert buffer == bytes(1000)
    assert VoteRequest().encode(2)  # the scratch buffer is free again


def test_one_message_inside_another() -> None:
    """A number may encode a message itself: each call has its own buffer."""
    inner, outer = vote(200), vote(300)
    expected = vote(300)
    expected.topics[0].partitions[7].replica_id = len(inner.encode(2))
    inside: list[int] = []

    class Nested:
        def __index__(self) -> int:
            inside.append(inner.topics[0].partitions[0].replica_epoch)
            return len(inner.encode(2))

    outer.topics[0].partitions[7].replica_id = Nested()  # type: ignore[assignment]  # meant
    assert outer.encode(2) == expected.encode(2)
    assert b"".join(outer.encode_parts(2)) == expected.encode(2)
    assert len(inside) == 2


@pytest.mark.soak
def test_a_number_that_takes_the_plan_away() -> None:
    class Gone(Message, kw_only=True, gc=False):
        a: Any = 0
        b: str = "kept"
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    plan: Any = (
        layout(("a", "a", "int32", False, None), ("b", "b", "compact_string", False, None)),
    )

    def take() -> None:
        Gone.CODEC = Codec("none", (Gone,), plan, {0: 0})
        gc.collect()

    take()
    value = Gone(a=Runs(take, 5))
    for _ in range(5):
        assert engine.try_encode(value, 0) == bytes.fromhex("00000005") + b"\5kept\0"


def test_threads_that_meet_inside_a_call() -> None:
    waiting, go = threading.Event(), threading.Event()
    value, results = vote(50), []
    expected = vote(50)

    def wait() -> None:
        waiting.set()
        go.wait(120)

    value.topics[0].partitions[25].replica_id = Runs(wait, 0)  # type: ignore[assignment]  # meant
    thread = threading.Thread(target=lambda: results.append(value.encode(2)))
    thread.start()
    assert waiting.wait(120)
    for count in (1, 50, 500):
        assert vote(count).encode(2) == vote(count).encode(2)
    go.set()
    thread.join(120)
    assert results == [expected.encode(2)]


# -------------------------------------------------------------------- types that are not the ones


def test_a_subclass_is_not_read_by_the_slots_of_its_base() -> None:
    class Own(VoteRequest):
        note: str = "mine"

    own = Own(topics=[Topic()])
    assert engine.try_encode(own, 2) is None
    assert verdict(lambda: own.encode(2))[:3] == ("refused", ErrorClass.WRONG_TYPE, "")
    with codec("python"):
        pure = verdict(lambda: own.encode(2))
        read = Own.decode(vote().encode(2), 2)
    assert verdict(lambda: own.encode(2)) == pure
    assert same(Own.decode(vote().encode(2), 2), read)

    class OwnPartition(Partition):
        extra: int = 0

    value = vote()
    value.topics[0].partitions[1] = OwnPartition()
    assert hold_encode(value, 2) == "refused"


class Plain(Message, kw_only=True, gc=False):
    """A message by hand."""

    a: int = 0
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()


LAYOUT: Any = ((0, True, (("a", "a", "int32", False, None),), (), (), ()),)


def compiles(cls: type, layouts: Any = LAYOUT, structs: tuple[type, ...] = ()) -> bool:
    programs = engine.Programs((cls, *structs), layouts, {0: len(layouts) - 1})
    try:
        programs.compile(0)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return False
    return True


def test_what_the_engine_does_not_compile() -> None:
    assert compiles(Plain)

    class Tracked(Message, kw_only=True, gc=True):
        a: int = 0
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    class Needy(Message, kw_only=True, gc=False):
        a: int
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    class Busy(Message, kw_only=True, gc=False):
        a: int = 0
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

        def __post_init__(self) -> None:
            self.a = 1

    class Odd(Message, kw_only=True, gc=False):
        a: Any = msgspec.field(default_factory=dict)
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    class Lacking(Message, kw_only=True, gc=False):
        b: int = 0

    class Slotted:
        __slots__ = ("a", "unknown_tagged_fields")

    class Shadowed(Plain, kw_only=True, gc=False):
        a = property(lambda self: 5)  # a slot that is none any more

    for cls in (Tracked, Needy, Busy, Odd, Lacking, Slotted, Shadowed, int):
        assert not compiles(cls), cls


def layout(*fields: Any) -> Any:
    return (0, True, fields, (), (), ())


def test_layouts_that_no_generator_writes() -> None:
    nested = [layout(("a", "a", "struct", True, at)) for at in range(engine.DEPTH_MAX + 50)]
    deep: Any = (*LAYOUT, *nested)
    assert compiles(Plain, deep[: engine.DEPTH_MAX])
    assert not compiles(Plain, deep)
    programs = engine.Programs((Plain,), deep, {0: engine.DEPTH_MAX, 1: len(deep) - 1})
    programs.compile(0)  # which has compiled most of the other
    with pytest.raises(ValueError, match="too deep"):
        programs.compile(1)
    bad: Any
    for bad in (
        (layout(("a", "a", "struct", False, 0)),),  # itself
        (layout(("a", "a", "array", False, 7)),),
        (layout(("a", "a", "array", False, -1)),),
        (layout(("a", "a", "array", False, None)),),
        (layout(("a", "a", "struct", False, None)),),
        (layout(("a", "a", "int32", False, "int32")),),
        (layout(("a", "a", "string", False, 0)),),
        (layout(("a", "a", "varint", False, None)),),
        (layout(("a", "b", "int32", False, None)),),
        (layout(("a", "__class__", "int32", False, None)),),
        (layout(("a", "a", "array", False, "array")),),
        ((0, True, (), ((0, "a", "a", "int32", False, None, 1 << 70),), (), ()),),
        ((0, True, (), ((0, "a", "a", "int32", False, None, []),), (), ()),),
        ((0, True, (), ((0, "a", "a", "struct", False, None, ...),), (), ()),),
        ((0, True, (), (), (("a", "a", False, ...),), ()),),
        ((1, True, (), (), (), ()),),
    ):
        assert not compiles(Plain, bad), bad


def test_a_plan_that_does_not_compile_is_run_by_the_pure_codec() -> None:
    class Fixed(VoteRequest):
        pass

    cls = message(field("A", "int32"))
    built = cls(a=5)
    expected = built.encode(0)
    kept = cls.CODEC
    try:
        cls.CODEC = Codec(kept.rendered, (Fixed,), kept.layouts, kept.plans)
        cls.CODEC.encoders, cls.CODEC.decoders = kept.encoders, kept.decoders
        assert engine.try_encode(built, 0) is None
        assert built.encode(0) == expected
        assert built.encode_parts(0) == [expected]
        assert cls.decode(expected, 0) == built
        assert cls.decode_from(b"x" + expected, 1, 0) == (built, 1 + len(expected))
        for unusual in (None, 5, object()):
            cls.CODEC = unusual
            assert engine.try_encode(built, 0) is None
            with pytest.raises(AttributeError):
                built.encode(0)
    finally:
        cls.CODEC = kept
    assert built.encode(0) == expected


# ----------------------------------------------------------------------------- decode, and memory


def test_decode_makes_fresh_defaults() -> None:
    data = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData()])]
    ).encode(12)
    one, other = (FetchResponse.decode(data, 12) for _ in range(2))
    a, b = (built.responses[0].partitions[0] for built in (one, other))
    assert a.diverging_epoch is not b.diverging_epoch
    a.diverging_epoch.epoch = 5
    one.node_endpoints.append(FetchResponse.NodeEndpoint())
    assert b.diverging_epoch.epoch == -1
    assert other.node_endpoints == []
    assert same(FetchResponse.decode(data, 12), other)


def test_what_the_collector_has_to_walk() -> None:
    """Structs and arrays of primitives are in no cycle; a list might be put into itself."""
    data = MetadataResponse(
        topics=[
            MetadataResponse.MetadataResponseTopic(
                partitions=[MetadataResponse.MetadataResponsePartition(replica_nodes=(1, 2, 3))]
            )
        ]
    ).encode(12)
    decoded = MetadataResponse.decode(data, 12)
    assert not gc.is_tracked(decoded)
    assert gc.is_tracked(decoded.topics)
    assert not gc.is_tracked(decoded.topics[0].partitions[0].replica_nodes)


def test_a_collection_in_the_middle_of_a_decode_finds_nothing_half_made() -> None:
    data = ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(
                partition_data=[
                    ProduceRequest.PartitionProduceData(records=b"x") for _ in range(2000)
                ]
            )
        ]
    ).encode(9)
    seen: list[int] = []

    class Finalized:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            for thing in gc.get_objects():
                if type(thing) in (list, tuple):
                    repr(thing[:3] if len(thing) < 3000 else len(thing))
            seen.append(1)

    threshold = gc.get_threshold()
    gc.freeze()  # What other tests left is of no interest, and may be much.
    gc.set_threshold(5, 1000, 1000)
    try:
        Finalized()
        decoded = ProduceRequest.decode(data, 9)
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
    assert seen == [1] or sys.version_info >= (3, 12)  # which collects between instructions only
    assert len(decoded.topic_data[0].partition_data) == 2000


def test_a_count_is_held_against_the_input_before_memory_is_taken() -> None:
    cls = message(field("A", "[]int64"), field("B", "[]Inner", fields=[field("X", "int8")]))
    old = message(field("A", "[]string"), flexible="none")
    for message_class, data in (
        (cls, b"\xff\xff\xff\xff\x07"),
        (cls, b"\x80\x80\x80\x80\x04" + bytes(100)),
        (cls, b"\x01\xff\xff\xff\xff\x07" + bytes(100)),
        (old, b"\x7f\xff\xff\xff" + bytes(100)),
    ):
        assert not hold_decode(message_class, data, 0)


def test_views_of_one_input() -> None:
    partitions = [
        ProduceRequest.PartitionProduceData(index=at, records=bytes([at]) * at) for at in range(5)
    ]
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=partitions)
    data = ProduceRequest(topic_data=[topic]).encode(9)
    flat: list[Any] = [data, bytearray(data), memoryview(data), memoryview(b"x" + data)[1:],
                       memoryview(bytearray(data)), array("B", data)]  # fmt: skip
    for value in flat:
        decoded = ProduceRequest.decode(value, 9)
        views: list[Any] = [entry.records for entry in decoded.topic_data[0].partition_data]
        assert [bytes(view) for view in views] == [bytes([at]) * at for at in range(5)]
        assert [view.tolist() for view in views[1:]] == [[at] * at for at in range(1, 5)]
        assert {id(view.obj) for view in views} == {
            id(value.obj) if isinstance(value, memoryview) else id(value)
        }
        views[0].release()  # the others are on their own
        assert bytes(views[4][1:3]) == b"\x04\x04"
        assert decoded.topic_data[0].partition_data[4].records is views[4]
        assert hold_decode(ProduceRequest, value, 9)
    wide: list[Any] = [memoryview(bytes(8) + data + bytes(-len(data) % 8)).cast("q")]
    wide.append(array("Q", bytes(wide[0])))
    for value in wide:
        decoded, end = ProduceRequest.decode_from(value, 8, 9)
        assert (decoded.encode(9), end) == (data, 8 + len(data))
    unusual: Any
    for unusual in (memoryview(data)[::2], "text", None, [1]):
        what = verdict(partial(ProduceRequest.decode, unusual, 9))
        assert what[1] is ErrorClass.WRONG_TYPE


def test_the_input_cannot_be_resized_under_its_views() -> None:
    data = bytearray(vote().encode(2))
    VoteRequest.decode(data, 2)
    data.append(1)  # nothing of it is held
    records = bytearray(
        ProduceRequest(
            topic_data=[
                ProduceRequest.TopicProduceData(
                    partition_data=[ProduceRequest.PartitionProduceData(records=b"abc")]
                )
            ]
        ).encode(9)
    )
    decoded = ProduceRequest.decode(records, 9)
    with pytest.raises(BufferError):
        records.clear()
    del decoded
    records.clear()


def test_uuids_and_texts_that_are_shared_are_equal_to_new_ones() -> None:
    partition = Partition(replica_directory_id=Uuid(bytes(range(16))))
    topics = [Topic(topic_name=name, partitions=[partition]) for name in ("", "a", "é", "ab" * 40)]
    data = VoteRequest(cluster_id="same", topics=topics).encode(2)
    for _ in range(3):
        decoded = VoteRequest.decode(data, 2)
        assert [topic.topic_name for topic in decoded.topics] == ["", "a", "é", "ab" * 40]
        read = decoded.topics[0].partitions[0]
        assert (type(read.replica_directory_id), type(read.voter_directory_id)) == (Uuid, Uuid)
        assert read.voter_directory_id is ZERO_UUID
        assert hash(read.replica_directory_id) == hash(bytes(range(16)))
        assert str(read.replica_directory_id) == str(Uuid(bytes(range(16))))
    other = data.replace(b"same", b"Same")
    assert VoteRequest.decode(other, 2).cluster_id == "Same"
    assert VoteRequest.decode(data, 2).cluster_id == "same"
