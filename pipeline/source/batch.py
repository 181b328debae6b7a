"""Reading a table: planned in the driver, read in the workers."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kraftspec.pipeline.filters import parse_filters
from kraftspec.pipeline.reader import GONE, read_split
from kraftspec.pipeline.report import Report
from kraftspec.pipeline.rows import read_options
from kraftspec.pipeline.source.logs import files_of, partitions_of, segments_among
from kraftspec.pipeline.source.options import LATEST, OptionError, Options
from kraftspec.pipeline.source.pushdown import Term, term_of
from kraftspec.pipeline.source.ranges import OffsetRange, ends_of, lost, offset_ranges, starts_of
from kraftspec.pipeline.source.reports import write_report
from kraftspec.pipeline.source.schema import converter_of
from kraftspec.pipeline.splits import Split, packed, plan_splits


class Work(InputPartition):
    """What one task reads."""

    def __init__(self, offset_ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(offset_ranges)
        self.offset_ranges = offset_ranges


@cache
def _settle() -> None:
    """Hide what is loaded by now from the garbage collector, once in a worker of Spark's.

    One that is used again collects garbage after each task, and would look through all modules each
    time (``pyspark.daemon``), which takes longer than to decode 10 MB.
    """
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.collect()
        gc.freeze()


class WorkReader:
    """Reads the work of a task as the record batches that Spark wants. It pickles."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.converter = converter_of(options, schema)
        self.terms: list[Term] = []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows; after the last one, write the report."""
        if not isinstance(partition, Work):
            return  # Where there is nothing to read, Spark asks for nothing once.
        report = Report()
        for offset_range in partition.offset_ranges:
            yield from self._rows(offset_range, report)
        report.warn()
        if self.options.report is not None:
            write_report(self.options.report, partition.offset_ranges, report)
        _settle()

    def _rows(self, offset_range: OffsetRange, report: Report) -> Iterator[Any]:
        options = read_options(
            self.converter.core,
            [*self.terms, *offset_range.terms],
            self.converter.mode,
            # Spark applies no filter of these again, and nothing but a place passes one.
            damage_filter=parse_filters(self.terms),
            isolation=self.options.isolation,
            values="binary",
            timestamps="timestamp[us, tz=UTC]",
        )
        regions = report.damaged_regions
        for batch in read_split(Split((offset_range.part,)), options=options, report=report):
            converted = self.converter.convert(batch, report)
            if converted is not None:
                yield converted
        for damaged in report.damaged[regions:]:
            if damaged.verdict == GONE:
                lost(self.options, f"{damaged.file}: {damaged.detail}")


class BatchReader(DataSourceReader):
    """Reads a table."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.work = WorkReader(options, schema)
        if options.starting is not None and options.starting.offset == LATEST:
            raise OptionError("option startingOffsets: a table that starts at the latest is empty")

    def partitions(self) -> list[InputPartition]:
        """Divide the available data into tasks."""
        options, terms = self.options, self.work.terms
        is_bounded = options.starting is not None or options.ending is not None
        every = files_of(options, must_exist=True)
        files = segments_among(every)
        # Checkpoints of the metadata log are part of its rows and have no offsets of the log.
        if not is_bounded and (options.decode == "metadata" or not files):
            files = every
        size = options.split_bytes_for(files)
        if not is_bounded:
            splits = plan_splits(
                files, size, terms,
                isolation=options.isolation, use_txn_indexes=options.use_txn_indexes,
            )  # fmt: skip
            return [Work(tuple(map(OffsetRange, split.parts))) for split in splits]
        logs = partitions_of(files)
        starts, ends = starts_of(options, logs), ends_of(options, logs)
        ranges = (
            offset_range
            for key, log in logs.items()
            for offset_range in offset_ranges(
                log, starts[key], ends[key], options, size, terms=terms
            )
        )
        return [Work(together) for together in packed(ranges, size)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the record batches of one task."""
        return self.work.read(partition)


class FilteringReader(BatchReader):
    """Reads a table, and takes filters from Spark.

    Spark refuses a reader with this method in a session where pushing filters is not switched on.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Take the filters that are applied here exactly; return the others."""
        for filter_ in filters:
            term = term_of(filter_, self.work.converter.filterable)
            if term is None:
                yield filter_
            else:
                self.work.terms.append(term)
