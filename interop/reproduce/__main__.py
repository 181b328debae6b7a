"""``python -m kraftspec.interop.reproduce NAME``: the scenes that are public."""

from __future__ import annotations

from kraftspec.interop.reproduce.busy_observer import busy_observer
from kraftspec.interop.reproduce.fetch_snapshot import (
    fetch_snapshot_rejected,
    fetch_snapshot_without_topic,
)
from kraftspec.interop.reproduce.gridlock import gridlock
from kraftspec.interop.reproduce.new_disk import new_disk
from kraftspec.interop.reproduce.stage import command

SCENES = {
    "busy-observer": busy_observer,
    "fetch-snapshot-rejected": fetch_snapshot_rejected,
    "fetch-snapshot-without-topic": fetch_snapshot_without_topic,
    "gridlock": gridlock,
    "new-disk": new_disk,
}

if __name__ == "__main__":
    command(SCENES)()
