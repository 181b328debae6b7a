"""What must hold for any input to what reads record batches: native and pure Python agree.

Input: one byte chooses the entry, one has its options, the rest is what is read. With ``MEND`` the
first batch is given the length and CRC that it should have, so that inputs come past those two.

Pure Python is a hundred times as slow as what it is compared with. So every input goes through all
compiled readers, which must not crash, and one in ``TWINS_ONE_IN`` through the entry and its twin.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from kraftspec.conformance.fuzz.targets import (
    SELECTOR_BYTES,
    TWINS_ONE_IN,
    BrokenError,
    Label,
    by_twins,
    messages,
)
from kraftspec.conformance.vectors import KAFKA, read_vectors, vectors_root
from kraftspec.fastpath import append, columns, crc, native
from kraftspec.fastpath.batch_reader import (
    decode_batch,
    inflate,
    iterate_records,
    pure_decode_batch,
    pure_read_batch,
    read_batch,
    read_header,
)
from kraftspec.fastpath.batch_writer import encode_batch, pure_encode_batch
from kraftspec.fastpath.compression import decompress
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.record_batch import RecordBatch
from kraftspec.fastpath.records import (
    CRC_AT,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    RECORDS_AT,
    Compression,
)
from kraftspec.fastpath.scan import pure_walk, scan, valid_prefix

INPUT_BYTES_MAX = 4096
SECONDS_MAX = 2.0
SIZE_MAX = 1 << 20  # Decompressed bytes: more is refused, and so nothing takes more memory.
RATIO_MAX = 100
LIMITS = {"size_max": SIZE_MAX, "ratio_max": RATIO_MAX}
MEND = 0x80
SEEDS_MAX = 600


def outcome(call: Callable[[], Any]) -> Any:
    """Return the value, or the refusal as (class, offset, path): what twins must share."""
    try:
        return call()
    except CodecError as error:
        if error.offset is None or error.offset < 0 or not error.detail:
            raise BrokenError(f"a refusal without its place: {error!r}") from error
        return ("refused", error.error_class, error.offset, error.path)


def same(what: str, native_call: Callable[[], Any], pure_call: Callable[[], Any]) -> bool:
    """Return whether both take the input; raise ``BrokenError`` where they part."""
    ours, twin = outcome(native_call), outcome(pure_call)
    if repr(ours) != repr(twin):
        verdicts = f"native {_verdict(ours)}, pure {_verdict(twin)}"
        raise BrokenError(f"{what}: {verdicts}: {ours!r:.500} and {twin!r:.500}")
    return _verdict(ours) == "takes it"


def _verdict(outcome: Any) -> str:
    """Say which kind an outcome is: what tells one mistake from another."""
    refused = isinstance(outcome, tuple) and outcome[:1] == ("refused",)
    return f"refuses it as {outcome[1]}" if refused else "takes it"


def check_batch(data: bytes, option: int) -> bool:
    """One batch: its records as they stand."""
    crc_too = not option & 1
    return same(
        "read_batch",
        lambda: read_batch(data, check_crc=crc_too, **LIMITS),
        lambda: pure_read_batch(memoryview(data), 0, crc_too, SIZE_MAX, RATIO_MAX),
    )


def check_objects(data: bytes, option: int) -> bool:
    """One batch as objects, then all that follow."""
    crc_too = not option & 1
    taken = same(
        "decode_batch",
        lambda: decode_batch(data, check_crc=crc_too, **LIMITS),
        lambda: pure_decode_batch(memoryview(data), 0, crc_too, SIZE_MAX, RATIO_MAX)[0],
    )
    outcome(lambda: sum(1 for _ in iterate_records(data, check_crc=crc_too, **LIMITS)))
    return taken


def rows_of(decode: Callable[..., columns.Columns], data: bytes, option: int) -> list[Any]:
    """Decode to columns by one of the twins; all that there is to know, the damage included."""
    found = decode(
        data,
        errors="skip" if option & 2 else "stop",
        check_crc=not option & 1,
        values=columns.VALUES[(option >> 2) % 3],
        timestamps=columns.TIMESTAMPS[(option >> 4) % 5],
        rows_max=1 + (option & 0x40),
        **LIMITS,
    )
    batch = found.to_pyarrow()
    batch.validate(full=True)
    cells = [
        # Python's dates end where int64 does not.
        (cell.cast("int64") if str(cell.type).startswith("timestamp") else cell).to_pylist()
        for cell in batch.columns
    ]
    return [batch.schema, cells, found.next_offset, found.batches, found.damage]


def check_columns(data: bytes, option: int) -> bool:
    """A segment as columns: the rows before, between and after what is damaged."""
    ours = rows_of(columns.decode_columns, data, option)
    twin = rows_of(columns.pure_decode_columns, data, option)
    if repr(ours) != repr(twin):
        raise BrokenError(f"columns: native {ours!r:.800}, pure {twin!r:.800}")
    return not twin[-1]


def check_scan(data: bytes, option: int) -> bool:
    """Every byte is a good batch's or some damage's, and the valid prefix is the twin's."""
    crc_too = not option & 1
    with scan(data, check_crc=crc_too, resync=bool(option & 2)) as scanner:
        spans = [(header.position, header.end) for header in scanner]
        spans += [(found.position, found.position + found.size) for found in scanner.damage]
        at = 0
        for start, end in sorted(spans):
            if start != at:
                raise BrokenError(f"scan: nothing is said of byte {at} on: {sorted(spans)}")
            at = end
        whole = not scanner.damage
        if at != len(data) and (whole or option & 2):
            raise BrokenError(f"scan stops at byte {at} of {len(data)}")
        good = scanner.valid_prefix
    view = memoryview(data)
    if valid_prefix(data, check_crc=crc_too).size != good:
        raise BrokenError("valid_prefix and scan part")
    if pure_walk(view, 0, crc_too)[0] != good:
        raise BrokenError("the twins of valid_prefix part")
    return whole


def check_message(data: bytes, option: int) -> bool:
    """The batch as a message: what is taken gives the same bytes again, also through JSON."""
    value = outcome(lambda: RecordBatch.decode(data, 2))
    if not isinstance(value, RecordBatch):
        return False
    again = RecordBatch.from_json(value.to_json(2), 2)
    if again != value:
        raise BrokenError(f"its JSON is another value: {value}")
    if not value.attributes & 7 and again.encode(2) != data:
        raise BrokenError(f"written again it is {again.encode(2).hex()}")
    return True


def check_decompress(data: bytes, option: int) -> bool:
    """A compressed block by itself: within the limits, or refused."""
    codec = 1 + option % 4
    block = outcome(lambda: decompress(codec, data, **LIMITS))
    if isinstance(block, bytes) and len(block) > SIZE_MAX:
        raise BrokenError(f"{len(block)} bytes come out")
    return isinstance(block, bytes)


def check_crc(data: bytes, option: int) -> bool:
    """Each way to the CRC gives the same, in one piece and in two."""
    compiled = native.load("_crc")
    at = min(option, len(data))
    expected = crc.crc32c_python(data)
    found = {path: compiled.run(path, data) for path in compiled.paths()} if compiled else {}
    found["in two"] = crc.crc32c(data[at:], crc.crc32c(data[:at]))
    found["combined"] = crc.crc32c_combine(
        crc.crc32c(data[:at]), crc.crc32c(data[at:]), len(data) - at
    )
    if set(found.values()) != {expected}:
        raise BrokenError(f"CRC-32C is {expected:08x}, and not {found}")
    return True


def recovered(data: bytes, window_bytes: int) -> append.Recovery:
    """Recover a log of these bytes, read in windows of a size."""
    with (
        tempfile.TemporaryFile(buffering=0) as file,
        patch.object(append, "_CHUNK_BYTES", window_bytes),
    ):
        file.write(data)
        return append.find_end(file.fileno())


def is_good(data: bytes, position: int) -> bool:
    """Whether a batch starts there, CRC included, with no attribute that Kafka has not."""
    try:
        return read_header(data, position).attributes >> 8 == 0
    except CodecError:
        return False


def check_recovery(data: bytes, option: int) -> bool:
    """A file: how far it is a log, and that no good batch is cut which no crash left unsynced."""
    end = due = 0
    with scan(data) as scanner:
        for header in scanner:
            if header.base_offset < due or header.last_offset < header.base_offset:
                break
            end, due = header.end, header.last_offset + 1
    found = recovered(data, RECORDS_AT + 3 * option)
    torn_end = max(end, len(data.rstrip(b"\0")))
    expected = (end, due, torn_end - end, len(data) - torn_end)
    if (found.end, found.next_offset, found.torn_bytes, found.zero_bytes) != expected:
        raise BrokenError(f"recovery: {found}, and expected is {expected}")
    if bool(found.reason) != (torn_end > end) or (found.is_corrupt and torn_end == end):
        raise BrokenError(f"recovery tells of what is not, or not of what is: {found}")
    goods = [at for at in range(end + 1, torn_end) if is_good(data, at)]
    if "is due" in found.reason:
        goods.insert(0, end)
    if bool(goods) != bool(found.good_bytes) or found.good_bytes > len(data) - end:
        raise BrokenError(f"recovery: good batches start at {goods}, and it says {found}")
    sectors = [data[at : at + 512] for at in range(end - end % 512, torn_end, 512)]
    sectors[:1] = [data[end : end - end % 512 + 512]]
    if goods and not found.is_corrupt and all(any(sector) for sector in sectors):
        raise BrokenError(f"recovery cuts good batches at {goods}, and no sector is lost: {found}")
    return not found.torn_bytes


def check_append_input(data: bytes, option: int) -> bool:
    """Batches to be appended: what is taken is what recovery keeps, and nothing else is."""
    kept = recovered(data, RECORDS_AT + 3 * option)
    try:
        base_offset, next_offset = append.check_batches(memoryview(data), 0)
    except ValueError:  # CodecError is one, too.
        if kept.end == len(data):
            raise BrokenError(f"not appended, but recovered: {kept}") from None
        return False
    if (kept.end, kept.base_offset, kept.next_offset) != (len(data), base_offset, next_offset):
        raise BrokenError(f"appended as {base_offset} to {next_offset}, recovered as {kept}")
    return True


def pieces(data: bytes) -> Iterator[bytes | None]:
    """Cut the input up by its own bytes: null, or so many bytes of what follows."""
    at = 0
    while at < len(data):
        size = data[at]
        at += 1
        yield None if size == 0 else data[at : at + size - 1]
        at += max(0, size - 1)


def arrow_columns(data: bytes, option: int) -> dict[str, Any]:
    """Keys and values of the input's pieces as Arrow arrays of some type, sliced or in chunks."""
    rows = list(pieces(data))
    kind = (pa.binary(), pa.large_binary(), pa.binary_view())[option % 3]
    cut = len(rows) * (option >> 2 & 7) // 8
    values, keys = pa.array(rows, kind)[cut:], pa.array(rows[::-1], kind)[: len(rows) - cut]
    given: dict[str, Any] = {"values": values, "timestamps": option}
    if option & 0x20:
        half = len(values) // 2
        given["values"] = pa.chunked_array([values[:half], values[half:]], kind)
    if option & 0x40:
        given["keys"] = keys
        given["timestamps"] = pa.array([len(row or b"") for row in rows], pa.int64())[cut:]
    return given


def check_arrow_input(data: bytes, option: int) -> bool:
    """Arrow arrays into a batch: the twin's bytes, and those of the same rows as lists."""
    given = arrow_columns(data, option)
    lists: dict[str, Any] = {
        name: column if isinstance(column, int) else column.to_pylist()
        for name, column in given.items()
    }
    taken = same("encode_batch", lambda: encode_batch(**given), lambda: pure_encode_batch(**given))
    if outcome(lambda: encode_batch(**lists)) != outcome(lambda: encode_batch(**given)):
        raise BrokenError(f"lists and Arrow arrays give other bytes: {lists}")
    return taken


ENTRIES = (
    check_batch, check_objects, check_columns, check_scan, check_message, check_decompress,
    check_crc, check_recovery, check_append_input, check_arrow_input,
)  # fmt: skip


def label(selector: bytes) -> Label:
    """Return what reads the batches of inputs that begin so."""
    entry = ENTRIES[selector[0] % len(ENTRIES)].__name__.removeprefix("check_")
    return Label(KAFKA, "RecordBatch", RecordBatch.VALID_VERSIONS[-1], entry)


def check(data: bytes, one_in: int = TWINS_ONE_IN) -> bool:
    """Give an input to what reads it; return whether it is taken. Raises ``BrokenError``."""
    if len(data) < SELECTOR_BYTES:
        return False
    entry, option = ENTRIES[data[0] % len(ENTRIES)], data[1]
    body = mended(data[SELECTOR_BYTES:]) if option & MEND else data[SELECTOR_BYTES:]
    started = time.thread_time()
    try:
        taken = run_compiled(body, option)
        if by_twins(data, one_in):
            taken = entry(body, option)
    except BrokenError:
        raise
    except Exception as error:
        raise BrokenError(f"{entry.__name__}: {type(error).__name__}: {error}") from error
    seconds = time.thread_time() - started
    if seconds > SECONDS_MAX:
        raise BrokenError(f"{entry.__name__} took {seconds:.1f} s")
    return taken


def run_compiled(data: bytes, option: int) -> bool:
    """Give the bytes to every compiled reader; return whether there are such, and a batch."""
    reader, table_of = native.load("_batch_reader"), native.load("_columns")
    if reader is None or table_of is None:
        return False
    view, crc_too = memoryview(data), not option & 1
    limits = (inflate, SIZE_MAX, RATIO_MAX)
    table = table_of.Table(view, columns.COLUMNS, columns.VALUES[(option >> 2) % 3], "int64")
    reader.walk(view, 0, crc_too)
    found = 0
    reads: tuple[Callable[[], Any], ...] = (
        lambda: reader.read_records(view, 0, *limits),
        lambda: reader.decode_batch(view, 0, crc_too, *limits),
        lambda: table.run(0, crc_too, 1 << 20, 1 << 20, *limits, SIZE_MAX)[2] or None,
    )
    for read in reads:
        with suppress(CodecError):  # Of what could not be decompressed.
            found += read() is not None
    return found == 3


def mended(data: bytes) -> bytes:
    """Give the first batch the length of what is there, and its CRC."""
    if len(data) <= CRC_AT + 4:
        return data
    out = bytearray(data)
    out[LENGTH_AT:LOG_OVERHEAD_BYTES] = (len(out) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
    out[CRC_AT : CRC_AT + 4] = crc.crc32c(out[CRC_AT + 4 :]).to_bytes(4, "big")
    return bytes(out)


def modules() -> list[str]:
    """Name the modules whose coverage guides: the twins of what is compiled."""
    names = ("append", "batch_reader", "columns", "compression", "record_batch", "scan")
    return [f"kraftspec.fastpath.{name}" for name in names]


def seeds() -> Iterator[bytes]:
    """Yield batches of Kafka's own making for each entry, compressed blocks, and short logs."""
    batches = [
        bytes.fromhex(test.hex)
        for _, file in read_vectors(vectors_root())
        if file.message == "RecordBatch"
        for test in file.tests
        if test.result == "valid"
        and isinstance(test.hex, str)
        and len(test.hex) < 2 * INPUT_BYTES_MAX
    ]
    batches = batches[:: len(batches) // SEEDS_MAX + 1]
    for number, batch in enumerate(batches):
        option = MEND if number % 2 else 0
        for entry in range(len(ENTRIES)):
            yield bytes((entry, option)) + batch
    for batch in batches:
        codec = batch[22] & 7
        if codec != Compression.NONE:
            yield bytes((ENTRIES.index(check_decompress), codec - 1)) + batch[RECORDS_AT:]
    for size in range(1, 700, 70):
        log = [encode_batch([b"x" * size], timestamps=1, base_offset=at) for at in range(300, 304)]
        for reader in (check_recovery, check_append_input, check_scan):
            yield bytes((ENTRIES.index(reader), size % 100)) + b"".join(log)


def mutated(random: Random, data: bytes, other: bytes) -> bytes:
    """Change an input as messages are changed; now and then its options, or lose a sector."""
    out = messages.mutated(random, data, other)
    if random.random() < 0.1:
        out = bytes((out[0], random.randrange(256))) + out[SELECTOR_BYTES:]
    if random.random() < 0.1 and len(out) > append.SECTOR_BYTES:
        at = (
            SELECTOR_BYTES + random.randrange(len(out)) // append.SECTOR_BYTES * append.SECTOR_BYTES
        )
        out = (
            out[:at]
            + bytes(len(out[at : at + append.SECTOR_BYTES]))
            + out[at + append.SECTOR_BYTES :]
        )
    return out
