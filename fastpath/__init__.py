"""What the codecs run on: primitives, errors, plans, record batches, and the append of a log.

It imports no other package of the project, so a codec loads no more than it needs. A number on
the wire is checked here, once: its range, its length against the bytes that are left, and the
offset that an error will have. What is compiled has a twin in plain Python.

Called by generated codecs, by `reference` and by the pipeline.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftspec.fastpath.append import Appended as Appended
    from kraftspec.fastpath.append import AppendFailedError as AppendFailedError
    from kraftspec.fastpath.append import CorruptLogError as CorruptLogError
    from kraftspec.fastpath.append import LogAppender as LogAppender
    from kraftspec.fastpath.batch_reader import decode_batch as decode_batch
    from kraftspec.fastpath.batch_reader import iterate_records as iterate_records
    from kraftspec.fastpath.batch_reader import read_batch as read_batch
    from kraftspec.fastpath.batch_reader import read_header as read_header
    from kraftspec.fastpath.batch_writer import BatchBuilder as BatchBuilder
    from kraftspec.fastpath.batch_writer import control_record_key as control_record_key
    from kraftspec.fastpath.batch_writer import encode_batch as encode_batch
    from kraftspec.fastpath.batch_writer import encode_control_batch as encode_control_batch
    from kraftspec.fastpath.columns import decode_columns as decode_columns
    from kraftspec.fastpath.columns import iterate_columns as iterate_columns
    from kraftspec.fastpath.crc import crc32c as crc32c
    from kraftspec.fastpath.crc import crc32c_combine as crc32c_combine
    from kraftspec.fastpath.crc import crc32c_implementation as crc32c_implementation
    from kraftspec.fastpath.record_batch import RecordBatch as RecordBatch
    from kraftspec.fastpath.scan import valid_prefix as valid_prefix

# The module of each name; it is imported when one of its names is used.
_HOMES = {
    "AppendFailedError": "append",
    "Appended": "append",
    "BatchBuilder": "batch_writer",
    "CorruptLogError": "append",
    "LogAppender": "append",
    "RecordBatch": "record_batch",
    "control_record_key": "batch_writer",
    "crc32c": "crc",
    "crc32c_combine": "crc",
    "crc32c_implementation": "crc",
    "decode_batch": "batch_reader",
    "decode_columns": "columns",
    "encode_batch": "batch_writer",
    "encode_control_batch": "batch_writer",
    "iterate_columns": "columns",
    "iterate_records": "batch_reader",
    "read_batch": "batch_reader",
    "read_header": "batch_reader",
    "valid_prefix": "scan",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
