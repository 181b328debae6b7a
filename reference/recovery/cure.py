"""Writes a plan: locks, copies of all that is touched, logs, and quorum-state last.

Each write goes through the project's own log and its files: batches synced, other files written
beside and renamed. A crash leaves a log that is shorter, or one that ends with the forced batch,
and the same command then makes the same plan for what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.kafka import QuorumStateData
from kraftspec.reference.log.directory import LOCK_NAME, META_NAME, METADATA_NAME, LogDirectory
from kraftspec.reference.log.files import LocalFiles, ensure_directory
from kraftspec.reference.log.metadata_log import LogConfig
from kraftspec.reference.recovery.plan import Change, Plan, Request, plan_of
from kraftspec.reference.recovery.verifier import verify
from kraftspec.reference.recovery.walker import batches_from

if TYPE_CHECKING:
    from kraftspec.reference.log.files import Files, Lock
    from kraftspec.reference.log.metadata_log import MetadataLog

_COPY_BYTES: Final = 1 << 20
_CONFIG: Final = LogConfig(zero_ahead_bytes=0)


def recover(
    paths: Sequence[str],
    request: Request,
    files: Files | None = None,
    *,
    backup: str = "",
    show: Callable[[Plan], None] = lambda plan: None,
) -> Plan:
    """Plan a recovery, and carry it out if ``backup`` names a directory that is not there yet.

    ``show`` gets the plan before anything is written. Nothing is written where something speaks
    against it: see ``Plan.refusals``. OSError as the disk does; then the same call, with another
    ``backup``, goes on.
    """
    files = files or LocalFiles()
    with ExitStack() as stack:
        locks, in_use = _lock(paths, files, stack, is_writing=bool(backup))
        plan = plan_of(verify(paths, files), request, files, in_use)
        show(plan)
        if not backup or plan.refusals or not plan.changes:
            return plan
        _back_up(plan, files, backup)
        for change in plan.changes:
            if change.changes_log:
                _write_log(plan, change, files, locks[change.number])
        for change in plan.changes:
            if change.vote_epoch >= 0:
                _write_vote(plan, change, files, locks[change.number])
    return plan


def _lock(
    paths: Sequence[str], files: Files, stack: ExitStack, *, is_writing: bool
) -> tuple[dict[int, Lock], list[int]]:
    """Lock the directories that can be locked; the others are in use.

    A dry run lets them go at once, and makes no file: what has no lock file was never in use.
    """
    locks: dict[int, Lock] = {}
    in_use = []
    for number, path in enumerate(paths):
        try:
            names = files.names(path)
        except OSError:
            continue  # It is told as unreadable.
        if META_NAME not in names or not (is_writing or LOCK_NAME in names):
            continue
        try:
            lock = files.lock(f"{path}/{LOCK_NAME}")
        except BlockingIOError:
            in_use.append(number)
            continue
        if is_writing:
            stack.callback(lock.close)
            locks[number] = lock
        else:
            lock.close()
    return locks, in_use


# ---- the copy ----------------------------------------------------------------------------------


def _back_up(plan: Plan, files: Files, backup: str) -> None:
    """Copy what is changed, as BACKUP/node-ID; durable on return. Nothing is written over."""
    try:
        files.names(backup)
    except FileNotFoundError:
        pass
    else:
        raise FileExistsError(f"{backup} is there already: name a directory that is not")
    ensure_directory(files, backup)
    for change in plan.changes:
        one = plan.directories[change.number]
        target = f"{backup}/node-{one.node_id}"
        ensure_directory(files, target)
        ensure_directory(files, f"{target}/{METADATA_NAME}")
        is_there = METADATA_NAME in files.names(one.path)  # Not of one that was just formatted.
        for name in files.names(f"{one.path}/{METADATA_NAME}") if is_there else ():
            _copy(files, f"{one.path}/{METADATA_NAME}/{name}", f"{target}/{METADATA_NAME}/{name}")
        files.sync_directory(f"{target}/{METADATA_NAME}")
        _copy(files, f"{one.path}/{META_NAME}", f"{target}/{META_NAME}")
        files.sync_directory(target)


def _copy(files: Files, source: str, target: str) -> None:
    read, written = files.open(source), files.open(target, create=True)
    try:
        position = 0
        while data := read.read_at(position, _COPY_BYTES):
            written.write_at(position, data)
            position += len(data)
        written.sync()
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or target) from error
    finally:
        read.close()
        written.close()


# ---- the cure ----------------------------------------------------------------------------------


def _opened(plan: Plan, change: Change, files: Files, lock: Lock) -> LogDirectory:
    one = plan.directories[change.number]
    assert one.meta is not None  # Else it was refused.
    return LogDirectory(one.path, files, lock, one.meta)


def _write_log(plan: Plan, change: Change, files: Files, lock: Lock) -> None:
    log = _opened(plan, change, files, lock).open_log(_CONFIG)
    try:
        if change.cut_at >= 0:
            log.truncate_to(change.cut_at)
        if change.checkpoint is not None:
            _copy_checkpoint(plan, change, files, log)
        if change.copy_to >= 0:
            source = plan.log_source
            for header, window in batches_from(source, files, change.copy_from, change.copy_to):
                _append(log, window[header.position : header.end])
        if log.end_offset != plan.end_offset:
            raise OSError(
                f"{log.directory} ends at {log.end_offset}, and not at {plan.end_offset}: "
                f"{plan.log_source.path} is not what it was"
            )
        log.flush()
        if change.takes_batch:
            for header in iterate_headers(plan.batch):
                _append(log, plan.batch[header.position : header.end])
                log.flush()
    finally:
        log.close()


def _append(log: MetadataLog, batch: bytes) -> None:
    appended = log.append_batches(batch)
    if appended.rejected is not None:
        raise OSError(f"{log.directory}, offset {log.end_offset}: {appended.rejected}")


def _copy_checkpoint(plan: Plan, change: Change, files: Files, log: MetadataLog) -> None:
    """Let the log begin with a checkpoint of the source, as that of a follower does."""
    checkpoint = change.checkpoint
    assert checkpoint is not None
    if checkpoint.id not in log.snapshots:
        part = log.begin_snapshot(checkpoint.id)
        file = files.open(f"{plan.log_source.path}/{METADATA_NAME}/{checkpoint.name}")
        try:
            while data := file.read_at(part.size, _COPY_BYTES):
                part.append(data)
            part.complete()
        finally:
            file.close()
            part.abandon()
    log.truncate_fully_to(checkpoint.id)


def _write_vote(plan: Plan, change: Change, files: Files, lock: Lock) -> None:
    """Let the node begin in the epoch, without a vote; static voters stay what they are."""
    one = plan.directories[change.number]
    state = QuorumStateData(leader_id=-1, leader_epoch=change.vote_epoch, voted_id=-1)
    if plan.is_static:
        state.current_voters = [QuorumStateData.Voter(voter_id=id_) for id_ in one.static_ids]
    version = 0 if plan.is_static else 1
    _opened(plan, change, files, lock).quorum_state.write(state, version)
