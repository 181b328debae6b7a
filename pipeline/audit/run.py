"""An audit from paths to a report: here, or on Spark's executors, with the same result.

The unit of work is a file (``segment.audit_file``); what comes back of one is a few kilobytes,
and the driver joins the parts of each partition in order.
"""

from __future__ import annotations

import os
import pickle
import posixpath
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from kraftspec import __version__
from kraftspec.pipeline.audit.continuity import Trail
from kraftspec.pipeline.audit.model import (
    Counts,
    Finding,
    Findings,
    PartitionReport,
    Report,
    merged,
)
from kraftspec.pipeline.audit.rules import Severity
from kraftspec.pipeline.audit.segment import Part, Task, audit_file, finish, join
from kraftspec.pipeline.audit.sidecars import cleaned_offsets, leader_epochs
from kraftspec.pipeline.files import Filesystem
from kraftspec.pipeline.layout import LogFile, Paths, survey

# (what is audited, its number, how many there are)
Advance = Callable[[str, int, int], None]
# Files a Spark job has at most; a job's tasks are kept on the driver.
JOB_FILES_MAX: Final = 10_000
# A Spark task costs some tens of milliseconds, which are as many megabytes of audit.
SPARK_TASKS_MIN: Final = 8
SPARK_TASK_BYTES: Final = 64 << 20


class Outcome(msgspec.Struct):
    """The result of one file: a part, or why it could not be read."""

    part: Part | None = None
    error: str = ""


class _FileGroup(msgspec.Struct):
    """Files that are audited in order: the segments of a partition, or one snapshot."""

    topic: str
    partition: int
    directory: str
    tasks: list[Task]


def audit(
    paths: Paths,
    *,
    filesystem: Filesystem = None,
    spark: Any = None,
    advance: Advance | None = None,
) -> Report:
    """Audit segments, partitions, log directories and snapshots.

    Args:
        paths: what ``layout.survey`` takes.
        filesystem: None, a ``pyarrow.fs`` or an fsspec filesystem.
        spark: a session, to spread the files over its executors; None audits them here.
        advance: called before each file, and once at the end.

    Raises:
        FileNotFoundError: there is nothing at a path.
        ValueError: a directory holds no logs, or there is no file in them.
    """
    known = survey(paths, filesystem)
    if not known.files:
        listed = ", ".join(str(os.fspath(path)) for path in _listed(paths))
        raise ValueError(f"{listed}: there is no segment and no checkpoint, so nothing to audit")
    findings = Findings()
    groups = list(_file_groups(known.files, findings))
    tasks = [task for group in groups for task in group.tasks]
    outcomes = _here(tasks, advance) if spark is None else _on_spark(spark, tasks, advance)
    partitions, explained, unread = [], dict[str, int](), dict[str, str]()
    for group in groups:
        part = _joined(group, outcomes, unread)
        partitions.append(_partition_report(group, part))
        findings.extend(part.findings)
        for reason, count in part.explained.items():
            explained[reason] = explained.get(reason, 0) + count
    for _ in outcomes:  # There are no more; this reports the end to ``advance``.
        pass
    topics: dict[str, Counts] = {}
    for one in partitions:
        topics.setdefault(one.topic, Counts()).merge(one.counts)
    return Report(
        kraftspec=__version__,
        paths=[os.fspath(path) for path in _listed(paths)],
        totals=merged(one.counts for one in partitions),
        topics=topics,
        partitions=partitions,
        findings=findings,
        explained=dict(sorted(explained.items())),
        unread=unread,
        ignored={one.path: one.reason for one in known.ignored},
    )


def _listed(paths: Paths) -> list[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)


def _file_groups(files: Sequence[LogFile], findings: Findings) -> Iterator[_FileGroup]:
    """Yield the groups in order, with the entries of the checkpoint files for each."""
    cleaned: dict[str, dict[tuple[str, int], int] | None] = {}
    for directory, group in groupby(files, key=lambda file: posixpath.dirname(file.path)):
        members = list(group)
        first = members[0]
        topic, partition = first.topic or "", -1 if first.partition is None else first.partition

        def unreadable(
            path: str, error: Exception, topic: str = topic, at: int = partition
        ) -> None:
            findings.add(
                Finding(
                    kind="checkpoint_unreadable",
                    topic=topic,
                    partition=at,
                    file=path,
                    position=0,
                    detail=str(error),
                )
            )

        epochs: list[tuple[int, int]] = []
        try:
            epochs = leader_epochs(directory, first.filesystem)
        except ValueError as error:
            unreadable(posixpath.join(directory, "leader-epoch-checkpoint"), error)
        parent = posixpath.dirname(directory)
        if parent not in cleaned:
            cleaned[parent] = None
            try:
                cleaned[parent] = cleaned_offsets(parent, first.filesystem)
            except ValueError as error:
                unreadable(posixpath.join(parent, "cleaner-offset-checkpoint"), error)
        checkpoint = cleaned[parent]
        clean_until = None if checkpoint is None else checkpoint.get((topic, partition), 0)
        segments = [file for file in members if file.kind == "segment"]
        if segments:
            tasks = [
                Task(
                    file=file,
                    is_last=file.end_offset is None,
                    clean_until=clean_until,
                    epochs=epochs,
                )
                for file in segments
            ]
            yield _FileGroup(topic, partition, directory, tasks)
        for file in members:
            if file.kind == "checkpoint":
                yield _FileGroup(topic, partition, file.path, [Task(file=file, clean_until=0)])


def _outcome(task: Task) -> Outcome:
    try:
        return Outcome(audit_file(task))
    except (OSError, ImportError) as error:
        return Outcome(error=f"{type(error).__name__}: {error}")


def _here(tasks: Sequence[Task], advance: Advance | None) -> Iterator[Outcome]:
    for number, task in enumerate(tasks):
        if advance is not None:
            advance(posixpath.basename(task.file.path), number, len(tasks))
        yield _outcome(task)
    if advance is not None:
        advance("done", len(tasks), len(tasks))


def _on_spark(spark: Any, tasks: Sequence[Task], advance: Advance | None) -> Iterator[Outcome]:
    """Audit on executors, a Spark task a file; yield the outcomes in order.

    An ordinary function of a column: mapInArrow would want pandas, and there are few rows.
    """
    from pyspark.sql.functions import udf  # noqa: PLC0415 - only with Spark

    decoder = msgspec.msgpack.Decoder(Outcome)
    for start in range(0, len(tasks), JOB_FILES_MAX):
        some = tasks[start : start + JOB_FILES_MAX]
        if advance is not None:
            advance(f"{len(some)} files on Spark", start, len(tasks))
        pickled = [pickle.dumps(task) for task in some]
        # A large file has a Spark task of its own, small ones share one.
        size = sum(task.file.size for task in some)
        spark_tasks = min(len(some), max(SPARK_TASKS_MIN, size // SPARK_TASK_BYTES))
        numbers = spark.range(0, len(some), 1, spark_tasks)
        outcome = udf(_worker(pickled), "binary", useArrow=False)
        rows = numbers.select("id", outcome("id").alias("outcome")).collect()
        by_number = {row["id"]: bytes(row["outcome"]) for row in rows}
        yield from (decoder.decode(by_number[number]) for number in range(len(some)))
    if advance is not None:
        advance("done", len(tasks), len(tasks))


def _worker(pickled: list[bytes]) -> Callable[[int], bytes]:
    """Return what an executor runs for each number of a task."""

    def work(number: int) -> bytes:
        return msgspec.msgpack.encode(_outcome(pickle.loads(pickled[number])))

    return work


def _joined(group: _FileGroup, outcomes: Iterator[Outcome], unread: dict[str, str]) -> Part:
    """Join the outcomes of the tasks of one group."""
    whole: Part | None = None
    for task in group.tasks:
        outcome = next(outcomes)
        if outcome.part is None:
            unread[task.file.path] = outcome.error
            if whole is not None:
                whole.trail.damages += 1  # What is missing here is missing for a reason.
        else:
            whole = outcome.part if whole is None else join(whole, outcome.part)
    if whole is None:
        whole = Part(
            topic=group.topic, partition=group.partition, counts=Counts(), trail=Trail(),
            findings=Findings(), unsettled=Findings(),
        )  # fmt: skip
    return finish(whole)


def _partition_report(group: _FileGroup, part: Part) -> PartitionReport:
    return PartitionReport(
        topic=group.topic,
        partition=group.partition,
        directory=group.directory,
        counts=part.counts,
        clean_until=part.clean_until,
        missing_offsets=part.trail.missing,
        errors=part.findings.count(Severity.ERROR),
        notes=part.findings.count(Severity.NOTE),
        files=[(task.file.path, task.file.size) for task in group.tasks],
    )
