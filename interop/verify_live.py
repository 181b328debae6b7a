"""``python -m kraftspec.interop.verify_live``: `quorum verify` beside a quorum whose leaders die.

A quorum of our nodes takes records, and its leader is killed every few seconds. Its directories are
verified again and again: whatever is wrong or unknown is a false alarm. Each verification is a line
of a file, and the same command goes on until there are as many as were asked for.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from kraftspec.conformance.cluster.node import free_port
from kraftspec.reference.recovery import Severity, verify

NODES: Final = 4  # Three voters and an observer.
PATIENCE_S = 600.0
INTERRUPTED: Final = 130
WARM = 100  # Acknowledged records, before the first verification.
ROUND = 50  # Verifications of one quorum; then a new one is started.


class Run(msgspec.Struct, kw_only=True):
    """One verification: what it found wrong, up to where it said that all is committed."""

    alarms: list[str]
    certain: int
    is_still: bool
    seconds: float


@contextmanager
def quorum_under_load(
    directory: Path, kill_every_s: int = 3, rate: int = 200
) -> Iterator[list[str]]:
    """Start a quorum that takes records and whose leaders are killed; the log directories."""
    command = [
        sys.executable, "-m", "kraftspec", "quorum", "up", "--nodes", "3", "--observers", "1",
        "--kill-leader-every", str(kill_every_s), "--rate", str(rate), "--json",
        "--port", str(free_port(set())), "--directory", str(directory),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S * 3, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                if json.loads(line).get("acknowledged", 0) > WARM:
                    break
            threading.Thread(target=process.stdout.read, daemon=True).start()
            paths = [str(path) for path in sorted(directory.glob("*/log"))]
            assert len(paths) == NODES, paths
            yield paths
            assert process.poll() is None, "the quorum ended by itself"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
            watchdog.cancel()


def verify_once(paths: list[str]) -> Run:
    """Verify directories whose nodes write."""
    begun = time.monotonic()
    judgement = verify(paths)
    return Run(
        alarms=[
            f"{one.code}: {one.text}"
            for one in judgement.verdicts
            if one.severity is not Severity.NOTE
        ],
        certain=judgement.certain.end_offset if judgement.certain else -1,
        is_still=judgement.is_still,
        seconds=round(time.monotonic() - begun, 3),
    )


def read_runs(out: Path) -> list[Run]:
    """Return the verifications that are there; a last line that is not whole does not count."""
    if not out.exists():
        return []
    whole, _, _ = out.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=Run) for line in whole.splitlines()]


def _verify_until(runs: int, done: list[Run], out: Path) -> None:
    while len(done) < runs:
        with (
            tempfile.TemporaryDirectory(prefix="kraftspec-verify-") as directory,
            quorum_under_load(Path(directory).resolve()) as paths,
            out.open("ab") as file,
        ):
            for _ in range(min(ROUND, runs - len(done))):
                done.append(verify_once(paths))
                file.write(msgspec.json.encode(done[-1]) + b"\n")
                file.flush()
        click.echo(f"{len(done)} of {runs}", err=True)


@click.command()
@click.option("--runs", default=1000, show_default=True, type=click.IntRange(1))
@click.option(
    "--out", default="build/verify-live.jsonl", show_default=True, metavar="FILE",
    type=click.Path(path_type=Path), help="Where each verification is a line, and stays.",
)  # fmt: skip
def main(runs: int, out: Path) -> None:
    """Verify a quorum under load and faults; go on where the last run ended.

    Exit code: 0 no false alarm, 1 a false alarm, 130 interrupted.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    done = read_runs(out)
    out.write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in done))
    try:
        _verify_until(runs, done, out)
    except KeyboardInterrupt:
        click.echo("Interrupted: the same command goes on.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    alarms = [alarm for run in done for alarm in run.alarms]
    moving = sum(not run.is_still for run in done)
    slowest = max(run.seconds for run in done)
    click.echo(
        f"{len(done)} verifications, {moving} of them of directories that changed meanwhile, "
        f"the slowest in {slowest:.1f} s; {len(alarms)} false alarms"
    )
    for alarm in alarms:
        click.echo(f"  {alarm}")
    raise click.exceptions.Exit(1 if alarms else 0)


if __name__ == "__main__":
    main()
