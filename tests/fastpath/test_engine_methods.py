"""The methods of a message by the native engine, beside those in Python, and how one is chosen."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from array import array
from functools import partial
from typing import Any

import pytest

from kraftspec.fastpath.message import PART_BYTES_MIN, Codec, Message, Struct
from kraftspec.generated.kafka import FetchResponse, LeaderChangeMessage, VoteRequest

from .engine_twins import codec, engine, verdict, vote


def test_functions_called_with_what_is_no_message() -> None:
    for unusual in (None, 5, object(), VoteRequest, "VoteRequest", VoteRequest.TopicData()):
        assert engine.try_encode(unusual, 2) is None
        with pytest.raises((AttributeError, TypeError)):
            Message.encode(unusual, 2)  # type: ignore[arg-type]  # meant
    assert engine.try_decode(int, b"", 2) is None
    with pytest.raises(TypeError):
        VoteRequest.decode()  # type: ignore[call-arg]  # meant
    with pytest.raises(TypeError):
        VoteRequest.decode(b"", 2, whatever=1)  # type: ignore[call-arg]  # meant


def test_the_methods_are_what_they_were() -> None:
    """Keywords, documentation and names are those of the pure methods."""
    data = vote().encode(version=2)
    assert VoteRequest.decode(data=data, version=2, lenient=False, copy=True) == vote()
    assert VoteRequest.decode_from(data=data, offset=0, version=2) == (vote(), len(data))
    assert vote().encode_into(buffer=bytearray(999), offset=1, version=2) == 1 + len(data)
    assert "CodecError" in str(Message.encode.__doc__)
    assert Message.encode.__qualname__ == "Message.encode"
    assert VoteRequest.decode.__name__ == "decode"


# ------------------------------------------------------------------------------------ encode_into


def fetch(records: Any) -> FetchResponse:
    partition = FetchResponse.PartitionData(records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition, partition])
    return FetchResponse(responses=[topic])


def test_encode_into_the_buffer_that_the_records_are_views_of() -> None:
    """Bytes that would be overwritten before they are read are copied first."""
    size = 3 * PART_BYTES_MIN
    for start in (0, 10, size // 2, size, 2 * size):
        buffer = bytearray(at % 251 for at in range(5 * size))
        value = fetch(memoryview(buffer)[size : 2 * size])
        expected = value.encode(12)
        end = value.encode_into(buffer, start, 12)
        assert bytes(buffer[start:end]) == expected


@pytest.mark.parametrize(("offset", "kind"), [(1.0, "float"), ("1", "str"), (None, "NoneType")])
@pytest.mark.parametrize("name", ["native", "python"])
def test_an_offset_that_is_no_integer(offset: Any, kind: str, name: str) -> None:
    why = f"'{kind}' object cannot be interpreted as an integer"
    with codec(name):
        with pytest.raises(TypeError, match=why):
            vote().encode_into(bytearray(1000), offset, 2)
        with pytest.raises(TypeError, match=why):
            VoteRequest.decode_from(vote().encode(2), offset, 2)


def test_both_codecs_refuse_the_same_buffers() -> None:
    value = vote()
    size = len(value.encode(2))
    cases: list[tuple[Any, Any]] = [
        (bytearray(size), 0), (bytearray(size), 1), (bytearray(size + 1), 1), (bytearray(9), -1),
        (bytearray(size), -size), (bytearray(size), 1 << 70), (bytearray(size), True),
        (memoryview(bytearray(size)), 0), (memoryview(bytes(size)), 0), (bytes(size), 0),
        (memoryview(bytearray(2 * size))[::2], 0), (array("B", bytes(size)), 0),
        (memoryview(array("b", bytes(size))), 0), (memoryview(array("i", [0] * 999)), 0),
    ]  # fmt: skip
    for buffer, offset in cases:
        reported = []
        for name in ("native", "python"):
            held = bytearray(buffer) if isinstance(buffer, bytearray) else buffer
            with codec(name):
                reported.append((verdict(partial(value.encode_into, held, offset, 2)), bytes(held)))
        assert reported[0] == reported[1], (buffer, offset)


# --------------------------------------------------------------------------------- the two codecs


def test_the_codec_can_be_chosen() -> None:
    native_encode = Message.encode
    with codec("python"):
        assert Message.encode is not native_encode
        assert vote().encode(2) == native_encode(vote(), 2)
    assert Message.encode is native_encode


def test_pure_python_has_no_native_codec_to_choose() -> None:
    program = """
from kraftspec.fastpath import message
message.use_codec("python")
try:
    message.use_codec("native")
except RuntimeError as error:
    assert str(error) == "there is no native codec, but pure Python (KRAFTSPEC_PURE is set)", error
else:
    raise AssertionError
"""
    environment = {**os.environ, "KRAFTSPEC_PURE": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600, env=environment)


def test_another_interpreter_of_the_process_is_refused() -> None:
    program = """
import sys
interpreters = __import__("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
import kraftspec.fastpath._engine
inner = '''
try:
    import kraftspec.fastpath._engine
except ImportError:
    print("refused", flush=True)
else:
    print("loaded", flush=True)
'''
interpreters.run_string(interpreters.create(), inner)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == "refused\n", done.stderr


def test_classes_go_away_with_their_plans() -> None:
    """Compiled plans are in a cycle with the class that they are of."""

    def make() -> None:
        class Gone(Message, kw_only=True, gc=False):
            a: str = ""
            unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

        plan: Any = ((0, True, (("a", "a", "compact_string", False, None),), (), (), ()),)
        Gone.CODEC = Codec("none", (Gone,), plan, {0: 0})
        data = engine.try_encode(Gone(a="some text"), 0)
        assert engine.try_decode(Gone, data, 0).a == "some text"

    def count() -> int:
        gc.collect()
        return sum(1 for thing in gc.get_objects() if type(thing).__name__ == "Programs")

    make()
    before = count()
    for _ in range(20):
        make()
    assert count() <= before + 1


def test_leader_change_and_struct_are_whole() -> None:
    """A message that is never a request or response has the same methods."""
    value = LeaderChangeMessage(leader_id=3)
    assert LeaderChangeMessage.decode(value.encode(0), 0) == value
    assert issubclass(LeaderChangeMessage, Struct)
