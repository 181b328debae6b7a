"""What planning costs: finding files, and dividing them into tasks."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

from kraftspec.pipeline import discover, plan_splits

FILES_A_PARTITION = 5  # So that both the listing of directories and the reading of files count.


def many_files(segment: Path, directory: Path, count: int) -> Path:
    """Return a log directory of ``count`` segments, all of them links to one."""
    shutil.rmtree(directory, ignore_errors=True)
    for number in range(count):
        partition, at = divmod(number, FILES_A_PARTITION)
        target = directory / f"many-{partition}"
        target.mkdir(parents=True, exist_ok=True)
        os.link(segment, target / f"{at * 1000:020}.log")
    return directory


def measured(many: Path, divided: Path) -> dict[str, Any]:
    """Measure ``discover`` over many files, and ``plan_splits`` over large ones."""
    begin = time.perf_counter()
    files = discover(many)
    listed = time.perf_counter()
    large = discover(divided)
    between = time.perf_counter()
    splits = plan_splits(large)
    end = time.perf_counter()
    return {
        "files": len(files),
        "discover_s": listed - begin,
        "large_files": len(large),
        "splits": len(splits),
        "plan_s": end - between,
        "split_bytes": sum(len(pickle.dumps(split)) for split in splits) / len(splits),
    }
