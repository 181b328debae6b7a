"""What tasks say when they are done, as files: Spark has no other way back from a data source.

A task writes one JSON file, named for what it read: a task that Spark runs twice writes the same
file twice, so that the counts stay exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem

from kraftspec.pipeline.files import resolve
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.source.ranges import OffsetRange


def _filesystem(directory: str) -> tuple[Any, str]:
    filesystem, path = resolve(directory)
    return filesystem if isinstance(filesystem, FileSystem) else LocalFileSystem(), path


def write_report(directory: str, read: Sequence[OffsetRange], report: Report) -> None:
    """Write what a task that read ``read`` has to say into ``directory``."""
    parts = [
        (one.part.file.path, one.part.start, one.part.end, one.offset_min, one.offset_end)
        for one in read
    ]
    name = hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
    filesystem, path = _filesystem(directory)
    filesystem.create_dir(path, recursive=True)
    with filesystem.open_output_stream(f"{path}/{name}.json") as file:
        file.write(msgspec.json.encode(report))


def read_report(directory: str) -> Report:
    """Return the sum of the reports that all tasks wrote to the directory of the option ``report``.

    Use a directory a query: it knows not what was read by which. FileNotFoundError without one.
    """
    filesystem, path = _filesystem(directory)
    total = Report()
    for info in filesystem.get_file_info(FileSelector(path)):
        if info.path.endswith(".json"):
            with filesystem.open_input_stream(info.path) as file:
                total.add(msgspec.json.decode(file.read(), type=Report))
    return total
