"""``kraftspec dump-log``: Apache Kafka's ``kafka-dump-log`` (``DumpLogSegments`` 4.4.0), and more.

The options and lines are Kafka's. More: FILE beside ``--files``, ``--json``, ``--follow``, the
files that Kafka's tool passes over, and files that are damaged: it says where, and goes on.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from kraftspec.cli.kafka_words import KafkaCommand, KafkaUsageError, refusals
from kraftspec.cli.output import EXIT_FINDINGS, RefusedError, json_option, printable
from kraftspec.cli.profiles import PROFILES

POLL_S = 0.2

_BUFFER_BYTES = 1 << 20


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _java_class(option: str, what: str) -> Callable[[_Command], _Command]:
    return click.option(
        option,
        is_flag=False,
        flag_value="",
        metavar="[CLASS]",
        help=f"Taken and not used: {what} are shown as text.",
    )


@click.command("dump-log", cls=KafkaCommand)
@click.argument("paths", nargs=-1, metavar="[FILE]…")
@click.option("--files", metavar="FILE1,FILE2,…", help="The files to dump, separated by commas.")
@click.option(
    "--cluster-metadata-decoder", is_flag=True, help="Decode data as cluster metadata records."
)
@click.option("--deep-iteration", is_flag=True, help="Show records, not only batches.")
@click.option("--print-data-log", is_flag=True, help="Show keys and values, too.")
@click.option(
    "--skip-record-metadata",
    is_flag=True,
    help="Show only the data of records; control records are left out.",
)
@click.option(
    "--index-sanity-check", is_flag=True, help="Only report whether indexes can be valid."
)
@click.option(
    "--verify-index-only", is_flag=True, help="Only report where indexes disagree with the log."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0, (1 << 31) - 1),
    metavar="SIZE",
    help="How much to read of a segment, in bytes.",
)
@click.option(
    "--max-message-size", type=click.IntRange(0), metavar="SIZE", help="Accepted and ignored."
)
@_java_class("--key-decoder-class", "keys")
@_java_class("--value-decoder-class", "values")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="The profile of the control records.  [default: what meta.properties says, or kafka]",
)
@click.option("-f", "--follow", is_flag=True, help="Follow the log; ^C ends it.")
@click.option("--version", is_flag=True, help="Show the version of Kafka whose tool this follows.")
@json_option
def dump_log(
    paths: tuple[str, ...],
    files: str | None,
    cluster_metadata_decoder: bool,
    deep_iteration: bool,
    print_data_log: bool,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_bytes: int | None,
    max_message_size: int | None,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    profile: str | None,
    follow: bool,
    version: bool,
    as_json: bool,
) -> None:
    """Dump segments, checkpoints, indexes and the other files of a log directory.

    FILE may be a directory: all of its files. Nothing is locked: the files of a running node can be
    read. --json prints one object a line. Exit code 1: damage.
    """
    from kraftspec.reference.tools.dump import BYTES_MAX, Dump, DumpRequest
    from kraftspec.reference.tools.dump_files import IndexOptions
    from kraftspec.reference.tools.dump_lines import DumpOptions

    if version:
        from kraftspec.specs import kafka_release

        click.echo(kafka_release())
        return
    named = [*(files.split(",") if files is not None else ()), *paths]
    if not named:
        raise KafkaUsageError("name the files to dump: FILE…, or --files FILE1,FILE2,…")
    for option, given in (("key", key_decoder_class), ("value", value_decoder_class)):
        if given is not None:
            click.echo(f"--{option}-decoder-class is a Java class: {option}s are text", err=True)
    # Kafka's own decoder option shows data, and data is shown by record.
    data = print_data_log or bool(value_decoder_class or key_decoder_class)
    shows_data = data or cluster_metadata_decoder
    request = DumpRequest(
        options=DumpOptions(
            deep=deep_iteration or shows_data,
            data=data,
            metadata=cluster_metadata_decoder,
            bare=skip_record_metadata,
        ),
        indexes=IndexOptions(verify_only=verify_index_only, sanity_check=index_sanity_check),
        bytes_max=BYTES_MAX if max_bytes is None else max_bytes,
        as_json=as_json,
        profile=profile,
    )
    with _Output() as output:
        dump = Dump(request, output.write, output.warn)
        if follow:
            _follow(named, dump, output)
        else:
            _dump(named, dump)
    if dump.problems:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _dump(named: list[str], dump: Any) -> None:
    with refusals():
        for name in named:
            os.stat(name)  # One that was mistyped is no file of an unknown kind.
    for name in named:
        path = Path(name)
        inside = sorted(path.rglob("*")) if path.is_dir() else None
        if inside is not None and not any(one.is_file() for one in inside):
            raise RefusedError(ValueError(f"{name} has no files in it"))
        for each in [name] if inside is None else [str(one) for one in inside if one.is_file()]:
            if inside is not None and os.path.basename(each).startswith("."):
                continue
            with refusals():
                dump.file(each)


def _follow(named: list[str], dump: Any, output: _Output) -> None:
    from kraftspec.reference.tools.dump_follow import LogFollower

    if len(named) > 1:
        raise KafkaUsageError("--follow takes one segment, or the directory of one log")
    with refusals(), suppress(KeyboardInterrupt):
        follower = LogFollower(Path(named[0]), dump)
        while True:
            follower.step()
            output.flush()
            time.sleep(POLL_S)


class _Output:
    """Writes to stdout by large pieces, and to stderr after what came before.

    On a terminal what it would obey is escaped. A reader that goes away ends the command.
    """

    def __enter__(self) -> _Output:
        self._stream = sys.stdout.buffer
        self._is_terminal = sys.stdout.isatty()
        self._buffer = io.BytesIO()
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def write(self, data: bytes) -> None:
        if self._is_terminal:
            data = printable(data.decode(errors="backslashreplace")).encode()
        self._buffer.write(data)
        if self._buffer.tell() >= _BUFFER_BYTES:
            self.flush()

    def warn(self, text: str) -> None:
        self.flush()
        click.echo(printable(text), nl=False, err=True)

    def flush(self) -> None:
        data = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        if data:
            self._stream.write(data)
            self._stream.flush()
