"""Metadata records and tables as files: all of them, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kraftspec.pipeline.metadata.records import RECORD

PART_ROWS_MAX: Final = 1 << 20
COMPRESSION: Final = "zstd"
_json: Final = msgspec.json.Encoder().encode


def write_dataset(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    directory: Path,
    *,
    replace: bool = False,
) -> None:
    """Write a Parquet dataset ``directory``, in parts of ``PART_ROWS_MAX`` rows.

    The directory appears when it is whole; FileExistsError where there is something already that
    is not to be replaced, ValueError where it is more than Parquet files.
    """
    with _new_directory(directory, replace) as place:
        writer = _part(place, schema, 0)
        number, rows = 0, 0
        try:
            for batch in batches:
                if rows >= PART_ROWS_MAX:
                    writer.close()
                    number, rows = number + 1, 0
                    writer = _part(place, schema, number)
                writer.write_batch(batch)
                rows += batch.num_rows
        finally:
            writer.close()


def _part(place: Path, schema: pa.Schema, number: int) -> pq.ParquetWriter:
    return pq.ParquetWriter(place / f"part-{number:05}.parquet", schema, compression=COMPRESSION)


def write_tables(tables: Mapping[str, pa.Table], directory: Path, *, replace: bool = False) -> None:
    """Write each table as ``NAME.parquet`` of a directory, as ``write_dataset`` does."""
    with _new_directory(directory, replace) as place:
        for name, table in tables.items():
            pq.write_table(table, place / f"{name}.parquet", compression=COMPRESSION)


@contextmanager
def _new_directory(directory: Path, replace: bool) -> Iterator[Path]:
    """Yield a temporary directory, renamed to ``directory`` at the end or removed on error."""
    if directory.is_dir() and replace:
        for path in directory.iterdir():
            if path.suffix != ".parquet":
                raise ValueError(f"{directory} is not replaced, for it also has {path.name}")
    elif directory.exists() and not replace:
        raise FileExistsError(f"{directory} is there already: name a directory that is not")
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        place.chmod(0o777 & ~_umask())
        yield place
        if directory.is_dir():
            shutil.rmtree(directory)
        else:
            directory.unlink(missing_ok=True)
        os.rename(place, directory)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _umask() -> int:
    """Return the mask of new files: a temporary directory is for its owner alone otherwise."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def json_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield each row as a line of JSON; a record that is JSON already is an object in it."""
    is_text = RECORD in batch.schema.names and pa.types.is_string(batch.schema.field(RECORD).type)
    for row in batch.to_pylist():
        if is_text and row[RECORD] is not None:
            row[RECORD] = msgspec.Raw(row[RECORD].encode())
        yield _json(row) + b"\n"


def tables_json(tables: Mapping[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    """Return tables as JSON has them: their rows, by the table's name."""
    rows: dict[str, list[dict[str, Any]]] = msgspec.to_builtins(
        {name: table.to_pylist() for name, table in tables.items()}
    )
    return rows
