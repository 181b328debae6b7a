"""``kraftspec quorum verify``: what the directories of a quorum's nodes say together."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from kraftspec.cli.exits import verdicts
from kraftspec.cli.output import console, emit_json, json_option, printable

if TYPE_CHECKING:
    from rich.console import Console

    from kraftspec.reference.recovery import Directory, Judgement
    from kraftspec.reference.recovery.elections import Candidate

_COLOURS = {"error": "bold red", "warning": "yellow", "unknown": "magenta", "note": "dim"}
_MARKS_MAX = 9  # Columns of the picture.
_BRANCHES = "█▓▒░"  # What of the picture is filled, a branch each.
_CELL_CHARS_MIN = 6


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@json_option
def verify(directories: tuple[str, ...], as_json: bool) -> None:
    """Say what the log directories of controllers and brokers hold, and what is wrong.

    DIR is the log directory, which has meta.properties and __cluster_metadata-0, or the latter.
    Nothing is changed or locked: the nodes may run. Give as many directories of one cluster as
    there are.

    Exit code: 0 all is well, 1 something is wrong, 2 wrong usage, 3 the directories are too few to
    say, or cannot be read.
    """
    from kraftspec.reference.log.files import ReadOnlyFiles
    from kraftspec.reference.recovery import verify as examine
    from kraftspec.reference.recovery.report import to_json

    with verdicts("Interrupted: there is no verdict.", (OSError,)):
        files = ReadOnlyFiles()
        judgement = examine(log_directories(directories), files)
        if as_json:
            emit_json(to_json(judgement, files))
        else:
            _show(judgement, console())
    raise click.exceptions.Exit(judgement.exit_code)


def log_directories(paths: Iterable[str]) -> list[str]:
    """Return the log directories that are meant: of a metadata log, the one that it is in.

    Raises ``OSError`` for what is no directory.
    """
    from kraftspec.reference.log.directory import METADATA_NAME

    named = []
    for path in paths:
        directory = path.rstrip("/") or path
        if not stat.S_ISDIR(os.stat(directory).st_mode):
            raise NotADirectoryError(f"{path} is a file: name log directories (metadata.log.dir)")
        head, tail = os.path.split(directory)
        named.append((head or ".") if tail == METADATA_NAME else directory)
    return named


def _show(judgement: Judgement, out: Console) -> None:
    from kraftspec.reference.log.files import ReadOnlyFiles
    from kraftspec.reference.recovery.report import records_in_doubt

    _show_directories(judgement, out)
    _show_voters(judgement, out)
    _show_picture(judgement, out)
    _show_leaders(judgement, out)
    _show_elections(judgement, out)
    _show_committed(judgement, out)
    lines = records_in_doubt(judgement, ReadOnlyFiles())
    if lines:
        node = judgement.directories[judgement.reference].node_id
        out.print(f"Not certainly committed, of the log of node {node}:")
        for line in lines:
            out.print(f"  {printable(line)}")
    _show_verdicts(judgement, out)


def _show_directories(judgement: Judgement, out: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("Node", justify="right")
    for head in ("Is", "Directory id"):
        table.add_column(head, no_wrap=True)
    for head in ("Log", "Epoch"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("Checkpoints", "Quorum-state"):
        table.add_column(head, overflow="fold")
    for one in judgement.directories:
        if one.formatting_problem:
            continue
        log = one.log
        ends = [f"{each.id.end_offset}-{each.id.epoch}" for each in one.checkpoints]
        table.add_row(
            str(one.node_id), "voter" if one.is_voter else "observer", str(one.directory_id),
            f"{log.start_offset} to {log.end_offset}", str(log.last_epoch),
            " ".join(ends[-2:]) or "-", _vote_text(one),
        )  # fmt: skip
    out.print(table)
    for one in judgement.directories:
        out.print(f"node {'?' if one.meta is None else one.node_id}: {printable(one.path)}")
    clusters = dict.fromkeys(one.meta.cluster_id for one in judgement.directories if one.meta)
    out.print(f"cluster: {printable(', '.join(clusters)) or '?'}")
    if not judgement.is_still:
        out.print("Some of these nodes run: what is said of them is of the moment of reading.")


def _vote_text(one: Directory) -> str:
    vote = one.vote
    if vote is None:
        return "cannot be read" if one.vote_problem else "none"
    leader = f"leader {vote.leader_id}" if vote.leader_id >= 0 else "no leader"
    voted = "" if vote.voted is None else f", voted for {vote.voted.id}"
    return f"epoch {vote.epoch}, {leader}{voted}"


def _show_voters(judgement: Judgement, out: Console) -> None:
    """Say which voters are in force, by whose log: once for those that agree."""
    views: dict[str, list[int]] = {}
    for one in judgement.directories:
        entry = one.in_force
        if one.formatting_problem:
            continue
        ids = ", ".join(map(str, entry.voters.ids)) or "unknown"
        views.setdefault(f"{ids}, from {entry.origin}", []).append(one.node_id)
    for text, nodes in views.items():
        out.print(f"voters: {text} ({_nodes(nodes)})")


def _show_picture(judgement: Judgement, out: Console) -> None:
    """Draw who holds what: a line a node, a column from each offset of interest to the next."""
    from itertools import pairwise

    from rich.table import Table

    directories = judgement.directories
    numbers = [at for at, one in enumerate(directories) if not one.formatting_problem]
    if not numbers:
        return
    marks = _marks(judgement, numbers)
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 0))
    table.add_column("offset ", justify="left")
    for mark in marks:
        table.add_column(str(mark), no_wrap=True)
    drawn: dict[int, list[int]] = {start: [] for start in marks}  # Whose log filled a column first.
    for at in sorted(numbers, key=lambda at: directories[at].log.position, reverse=True):
        cells = [
            _cell(judgement, at, start, end, drawn[start])
            * max(len(str(start)) + 1, _CELL_CHARS_MIN)
            for start, end in pairwise(marks)
        ]
        table.add_row(f"node {directories[at].node_id} ", *cells, "")
    out.print(table)
    shades = max(map(len, drawn.values()))
    if shades > 1:
        out.print(f"({', '.join(_BRANCHES[:shades])}: logs that part)")


def _cell(judgement: Judgement, at: int, start: int, end: int, drawn: list[int]) -> str:
    """Return what fills a column of a node: another shade for each branch."""
    log = judgement.directories[at].log
    if start < log.start_offset:
        return "·"  # A checkpoint has it.
    if start >= log.end_offset:
        return " "
    for branch, other in enumerate(drawn):
        until = min(end, log.end_offset, judgement.directories[other].log.end_offset)
        if judgement.comparison.agree_until(at, other) >= until:
            return _BRANCHES[min(branch, len(_BRANCHES) - 1)]
    drawn.append(at)
    return _BRANCHES[min(len(drawn), len(_BRANCHES)) - 1]


def _marks(judgement: Judgement, numbers: list[int]) -> list[int]:
    """Return the offsets where something begins or ends; the last ones, if there are many."""
    directories = judgement.directories
    offsets = {0}
    for at in numbers:
        log = directories[at].log
        offsets |= {log.start_offset, log.end_offset}
        for other in numbers:
            parting = judgement.comparison.parting(at, other)
            if parting is not None:
                offsets.add(parting.offset)
    if judgement.certain is not None:
        offsets.add(judgement.certain.end_offset)
    listed = sorted(offsets)
    return listed if len(listed) <= _MARKS_MAX else [listed[0], *listed[1 - _MARKS_MAX :]]


def _show_leaders(judgement: Judgement, out: Console) -> None:
    from kraftspec.reference.recovery.report import leaders_of

    led = leaders_of(judgement)
    if led:
        shown = [
            f"{one['epoch']}: {one['leaderId']} from {one['offset']}"
            + (" (by force)" if one["isForced"] else "")
            for one in led[-8:]
        ]
        out.print(f"leaders by epoch: {'… ' if len(led) > len(shown) else ''}{'; '.join(shown)}")


def _show_elections(judgement: Judgement, out: Console) -> None:
    for one in judgement.candidates:
        out.print(_candidate_text(one))


def _candidate_text(one: Candidate) -> str:
    if one.is_electable:
        return f"node {one.key.id} could be elected, by {_nodes(one.granted)} ({one.needed} needed)"
    text = f"node {one.key.id} could not be elected: {one.needed} votes are needed, it has "
    text += f"{len(one.granted)}"
    if one.may_be_electable:
        text = f"node {one.key.id} could be elected only with votes of {_nodes(one.absent)}"
    return text + "".join(f"; {voter} refuses: {why}" for voter, why in one.refused.items())


def _show_committed(judgement: Judgement, out: Console) -> None:
    certain = judgement.certain
    if certain is None:
        out.print("committed: nothing is certain")
    else:
        out.print(
            f"committed: certainly all before {certain.end_offset} (epoch {certain.epoch}): "
            f"{certain.text}"
        )
    if not judgement.is_still:
        out.print("committed at most: the logs grow, so nobody can say")
    elif judgement.perhaps_end is None:
        out.print("committed at most: nobody can say, voters that were not given may have more")
    else:
        out.print(
            f"committed at most: all before {judgement.perhaps_end}, which every node has that "
            f"could be elected"
        )


def _show_verdicts(judgement: Judgement, out: Console) -> None:
    from rich.padding import Padding

    for one in judgement.verdicts:
        out.print(
            f"{one.severity}: {one.code}: {printable(one.text)}", style=_COLOURS[one.severity]
        )
        if one.advice:
            out.print(Padding(one.advice, (0, 0, 0, 4), expand=False))
    if judgement.exit_code == 0:
        out.print("Nothing is wrong.")


def _nodes(ids: list[int]) -> str:
    listed = ", ".join(map(str, ids))
    return f"nodes {listed}" if len(ids) > 1 else f"node {listed}"
