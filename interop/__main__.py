"""``python -m kraftspec.interop``: a fault campaign; what ``make interop`` runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from kraftspec.interop.campaign import Campaign


@click.command()
@click.option("--cycles", default=100, show_default=True, type=click.IntRange(1))
@click.option("--kafka", default=2, show_default=True, type=click.IntRange(1), help="Controllers.")
@click.option("--ours", default=1, show_default=True, type=click.IntRange(1), help="Our nodes.")
@click.option("--seed", default=1, show_default=True, type=int)
@click.option("--report", type=click.Path(path_type=Path), help="Where the outcome goes as JSON.")
def main(cycles: int, kafka: int, ours: int, seed: int, report: Path | None) -> None:
    """Kill, stop, pause and partition nodes of a mixed quorum, and compare their logs."""
    with tempfile.TemporaryDirectory(prefix="kraftspec-interop-") as directory:
        campaign = Campaign(Path(directory), kafka=kafka, ours=ours, seed=seed, progress=click.echo)
        with campaign:
            outcome = campaign.run(cycles)
    summary = outcome.summary()
    if report is not None:
        report.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    del summary["cycles"]
    click.echo(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
