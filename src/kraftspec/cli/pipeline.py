"""``kraftspec pipeline``: Kafka logs as tables, and campaigns over Spark executors."""

from __future__ import annotations

import click

from kraftspec.cli import LazyGroup

# Name → where the command stands.
_COMMANDS: dict[str, str] = {
    "campaign": "kraftspec.cli.pipeline_campaign:campaign",
    "scan": "kraftspec.cli.pipeline_scan:scan",
    "audit": "kraftspec.cli.pipeline_audit:audit",
    "metadata": "kraftspec.cli.pipeline_metadata:metadata",
}


@click.command(cls=LazyGroup, homes=_COMMANDS)
def pipeline() -> None:
    """Read Kafka logs as tables, and run campaigns, on Spark."""
