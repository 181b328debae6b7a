"""Properties of the readers of record batches that hold for any input: the twins agree.

Input: one byte selects the entry, one holds its options, the rest is read. With ``MEND`` the first
batch gets the right length and CRC, so that inputs pass those two checks.

Pure Python is a hundred times slower than native code. So all compiled readers, which must not
crash, read every input, and the entry and its twin read one in ``TWINS_ONE_IN``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
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
from kraftspec.fastpath import columns, crc, native, walk
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
from kraftspec.fastpath.recovery import SECTOR_BYTES, Recovery, check_batches, find_end
from kraftspec.fastpath.scan import pure_walk, scan, valid_prefix

INPUT_BYTES_MAX = 4096
SECONDS_MAX = 2.0
SIZE_MAX = 1 << 20  # Decompressed bytes. More is rejected, which limits the memory.
RATIO_MAX = 100
LIMITS = {"size_max": SIZE_MAX, "ratio_max": RATIO_MAX}
MEND = 0x80
SEEDS_MAX = 600


def outcome(call: Callable[[], Any]) -> Any:
    """Return the value, or the error as (class, offset, path). Twins have the same outcome."""
    try:
        return call()
    except CodecError as error:
        if error.offset is None or error.offset < 0 or not error.detail:
            raise BrokenError(f"an error without its place: {error!r}") from error
        return ("refused", error.error_class, error.offset, error.path)


def same(what: str, native_call: Callable[[], Any], pure_call: Callable[[], Any]) -> bool:
    """Return whether both accept the input; raise ``BrokenError`` if they differ."""
    ours, twin = outcome(native_call), outcome(pure_call)
    if repr(ours) != repr(twin):
        verdicts = f"native {_verdict(ours)}, pure {_verdict(twin)}"
        raise BrokenError(f"{what}: {verdicts}: {ours!r:.500} and {twin!r:.500}")
    return _verdict(ours) == "takes it"


def _verdict(outcome: Any) -> str:
    """Describe the kind of an outcome. Findings are told apart by it."""
    refused = isinstance(outcome, tuple) and outcome[:1] == ("refused",)
    return f"refuses it as {outcome[1]}" if refused else "takes it"


def check_batch(data: bytes, option: int) -> bool:
    """One batch: its records."""
    crc_too = not option & 1
    return same(
        "read_batch",
        lambda: read_batch(data, check_crc=crc_too, **LIMITS),
        lambda: pure_read_batch(memoryview(data), 0, crc_too, SIZE_MAX, RATIO_MAX),
    )


def check_objects(data: bytes, option: int) -> bool:
    """One batch as objects, then all batches that follow."""
    crc_too = not option & 1
    taken = same(
        "decode_batch",
        lambda: decode_batch(data, check_crc=crc_too, **LIMITS),
        lambda: pure_decode_batch(memoryview(data), 0, crc_too, SIZE_MAX, RATIO_MAX)[0],
    )
    outcome(lambda: sum(1 for _ in iterate_records(data, check_crc=crc_too, **LIMITS)))
    return taken


def rows_of(decode: Callable[..., columns.Columns], data: bytes, option: int) -> list[Any]:
    """Decode to columns by one of the twins; return everything, including the damage."""
    table = decode(
        data,
        errors="skip" if option & 2 else "stop",
        check_crc=not option & 1,
        values=columns.VALUES[(option >> 2) % 3],
        timestamps=columns.TIMESTAMPS[(option >> 4) % 5],
        rows_max=1 + (option & 0x40),
        **LIMITS,
    )
    batch = table.to_pyarrow()
    batch.validate(full=True)
    cells = [
        # Python's dates have a smaller range than int64.
        (cell.cast("int64") if str(cell.type).startswith("timestamp") else cell).to_pylist()
        for cell in batch.columns
    ]
    return [batch.schema, cells, table.next_offset, table.batches, table.damage]


def check_columns(data: bytes, option: int) -> bool:
    """A segment as columns: the rows before, between and after damage."""
    ours = rows_of(columns.decode_columns, data, option)
    twin = rows_of(columns.pure_decode_columns, data, option)
    if repr(ours) != repr(twin):
        raise BrokenError(f"columns: native {ours!r:.800}, pure {twin!r:.800}")
    return not twin[-1]


def check_scan(data: bytes, option: int) -> bool:
    """Every byte belongs to a valid batch or to damage; the twins' valid prefixes agree."""
    crc_too = not option & 1
    with scan(data, check_crc=crc_too, resync=bool(option & 2)) as scanner:
        spans = [(header.position, header.end) for header in scanner]
        spans += [(damage.position, damage.position + damage.size) for damage in scanner.damage]
        at = 0
        for start, end in sorted(spans):
            if start != at:
                raise BrokenError(
                    f"scan: neither batch nor damage from byte {at} on: {sorted(spans)}"
                )
            at = end
        whole = not scanner.damage
        if at != len(data) and (whole or option & 2):
            raise BrokenError(f"scan stops at byte {at} of {len(data)}")
        good = scanner.valid_prefix
    view = memoryview(data)
    if valid_prefix(data, check_crc=crc_too).size != good:
        raise BrokenError("valid_prefix and scan differ")
    if pure_walk(view, 0, crc_too)[0] != good:
        raise BrokenError("the twins of valid_prefix differ")
    return whole


def check_message(data: bytes, option: int) -> bool:
    """The batch as a message: an accepted one encodes to the same bytes, also through JSON."""
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
    """A compressed block alone: it stays below the limits, or it is rejected."""
    codec = 1 + option % 4
    block = outcome(lambda: decompress(codec, data, **LIMITS))
    if isinstance(block, bytes) and len(block) > SIZE_MAX:
        raise BrokenError(f"{len(block)} bytes come out")
    return isinstance(block, bytes)


def check_crc(data: bytes, option: int) -> bool:
    """Every implementation of the CRC gives the same, in one piece and in two."""
    compiled = native.load("_crc")
    at = min(option, len(data))
    expected = crc.crc32c_python(data)
    results = {path: compiled.run(path, data) for path in compiled.paths()} if compiled else {}
    results["in two"] = crc.crc32c(data[at:], crc.crc32c(data[:at]))
    results["combined"] = crc.crc32c_combine(
        crc.crc32c(data[:at]), crc.crc32c(data[at:]), len(data) - at
    )
    if set(results.values()) != {expected}:
        raise BrokenError(f"CRC-32C is {expected:08x}, and not {results}")
    return True


def recovered(data: bytes, window_bytes: int) -> Recovery:
    """Recover a log of these bytes, read in windows of a size."""
    with (
        tempfile.TemporaryFile(buffering=0) as file,
        patch.object(walk, "WINDOW_BYTES", window_bytes),
    ):
        file.write(data)
        return find_end(partial(walk.read_file, file.fileno()), len(data))


def is_good(data: bytes, position: int) -> bool:
    """Whether a batch with a valid CRC starts there, with no attribute unknown to Kafka."""
    try:
        return read_header(data, position).attributes >> 8 == 0
    except CodecError:
        return False


def check_recovery(data: bytes, option: int) -> bool:
    """Recovery of a file: the end of the log; no batch is removed that a crash cannot damage."""
    end = due = 0
    with scan(data) as scanner:
        for header in scanner:
            if header.base_offset < due or header.last_offset < header.base_offset:
                break
            end, due = header.end, header.last_offset + 1
    recovery = recovered(data, RECORDS_AT + 3 * option)
    torn_end = max(end, len(data.rstrip(b"\0")))
    expected = (end, due, torn_end - end, len(data) - torn_end)
    if (recovery.end, recovery.next_offset, recovery.torn_bytes, recovery.zero_bytes) != expected:
        raise BrokenError(f"recovery: {recovery}, and expected is {expected}")
    if bool(recovery.reason) != (torn_end > end) or (recovery.is_corrupt and torn_end == end):
        raise BrokenError(f"recovery reports wrong damage: {recovery}")
    goods = [at for at in range(end + 1, torn_end) if is_good(data, at)]
    if "is due" in recovery.reason:
        goods.insert(0, end)
    if bool(goods) != bool(recovery.good_bytes) or recovery.good_bytes > len(data) - end:
        raise BrokenError(f"recovery: good batches start at {goods}, and it reports {recovery}")
    sectors = [data[at : at + 512] for at in range(end - end % 512, torn_end, 512)]
    sectors[:1] = [data[end : end - end % 512 + 512]]
    if goods and not recovery.is_corrupt and all(any(sector) for sector in sectors):
        raise BrokenError(
            f"recovery cuts good batches at {goods}, and no sector is lost: {recovery}"
        )
    return not recovery.torn_bytes


def check_append_input(data: bytes, option: int) -> bool:
    """Append accepts exactly those batches that recovery keeps."""
    recovery = recovered(data, RECORDS_AT + 3 * option)
    try:
        base_offset, next_offset = check_batches(memoryview(data), 0)
    except ValueError:  # CodecError is a ValueError.
        if recovery.end == len(data):
            raise BrokenError(f"not appended, but recovered: {recovery}") from None
        return False
    if (recovery.end, recovery.base_offset, recovery.next_offset) != (
        len(data),
        base_offset,
        next_offset,
    ):
        raise BrokenError(f"appended as {base_offset} to {next_offset}, recovered as {recovery}")
    return True


def pieces(data: bytes) -> Iterator[bytes | None]:
    """Split the input: a byte is the size of the next piece, or zero for null."""
    at = 0
    while at < len(data):
        size = data[at]
        at += 1
        yield None if size == 0 else data[at : at + size - 1]
        at += max(0, size - 1)


def arrow_columns(data: bytes, option: int) -> dict[str, Any]:
    """Make keys and values of the input's pieces: Arrow arrays, sliced or chunked."""
    rows = list(pieces(data))
    kind = (pa.binary(), pa.large_binary(), pa.binary_view())[option % 3]
    cut = len(rows) * (option >> 2 & 7) // 8
    values, keys = pa.array(rows, kind)[cut:], pa.array(rows[::-1], kind)[: len(rows) - cut]
    arguments: dict[str, Any] = {"values": values, "timestamps": option}
    if option & 0x20:
        half = len(values) // 2
        arguments["values"] = pa.chunked_array([values[:half], values[half:]], kind)
    if option & 0x40:
        arguments["keys"] = keys
        arguments["timestamps"] = pa.array([len(row or b"") for row in rows], pa.int64())[cut:]
    return arguments


def check_arrow_input(data: bytes, option: int) -> bool:
    """A batch from Arrow arrays has the same bytes as the twin's, and as one from lists."""
    arguments = arrow_columns(data, option)
    lists: dict[str, Any] = {
        name: column if isinstance(column, int) else column.to_pylist()
        for name, column in arguments.items()
    }
    taken = same(
        "encode_batch", lambda: encode_batch(**arguments), lambda: pure_encode_batch(**arguments)
    )
    if outcome(lambda: encode_batch(**lists)) != outcome(lambda: encode_batch(**arguments)):
        raise BrokenError(f"lists and Arrow arrays give other bytes: {lists}")
    return taken


ENTRIES = (
    check_batch, check_objects, check_columns, check_scan, check_message, check_decompress,
    check_crc, check_recovery, check_append_input, check_arrow_input,
)  # fmt: skip


def label(selector: bytes) -> Label:
    """Return the label of inputs that begin with these bytes."""
    entry = ENTRIES[selector[0] % len(ENTRIES)].__name__.removeprefix("check_")
    return Label(KAFKA, "RecordBatch", RecordBatch.VALID_VERSIONS[-1], entry)


def check(data: bytes, one_in: int = TWINS_ONE_IN) -> bool:
    """Give an input to its reader; return whether it is accepted. Raises ``BrokenError``."""
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
    """Give the bytes to every compiled reader; return whether all of them read a batch."""
    reader, table_of = native.load("_batch_reader"), native.load("_columns")
    if reader is None or table_of is None:
        return False
    view, crc_too = memoryview(data), not option & 1
    limits = (inflate, SIZE_MAX, RATIO_MAX)
    table = table_of.Table(view, columns.COLUMNS, columns.VALUES[(option >> 2) % 3], "int64")
    reader.walk(view, 0, crc_too)
    count = 0
    reads: tuple[Callable[[], Any], ...] = (
        lambda: reader.read_records(view, 0, *limits),
        lambda: reader.decode_batch(view, 0, crc_too, *limits),
        lambda: table.run(0, crc_too, 1 << 20, 1 << 20, *limits, SIZE_MAX)[2] or None,
    )
    for read in reads:
        with suppress(CodecError):  # Decompression may fail.
            count += read() is not None
    return count == 3


def mended(data: bytes) -> bytes:
    """Set the length and the CRC of the first batch."""
    if len(data) <= CRC_AT + 4:
        return data
    out = bytearray(data)
    out[LENGTH_AT:LOG_OVERHEAD_BYTES] = (len(out) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
    out[CRC_AT : CRC_AT + 4] = crc.crc32c(out[CRC_AT + 4 :]).to_bytes(4, "big")
    return bytes(out)


def modules() -> list[str]:
    """Name the modules whose coverage guides the fuzzer: the twins of compiled code."""
    names = ("append", "batch_reader", "columns", "compression", "record_batch", "scan")
    return [f"kraftspec.fastpath.{name}" for name in names]


def seeds() -> Iterator[bytes]:
    """Yield golden batches for each entry, compressed blocks, and short logs."""
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
    """Change an input as messages are changed; sometimes change its options, or zero a sector."""
    out = messages.mutated(random, data, other)
    if random.random() < 0.1:
        out = bytes((out[0], random.randrange(256))) + out[SELECTOR_BYTES:]
    if random.random() < 0.1 and len(out) > SECTOR_BYTES:
        at = SELECTOR_BYTES + random.randrange(len(out)) // SECTOR_BYTES * SECTOR_BYTES
        out = out[:at] + bytes(len(out[at : at + SECTOR_BYTES])) + out[at + SECTOR_BYTES :]
    return out
