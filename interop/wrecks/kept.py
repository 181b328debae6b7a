"""Wrecks are made once, and kept in the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from kraftspec.cache import cache_directory, locked
from kraftspec.conformance.cluster import RELEASE
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.making import Making, forget_outputs
from kraftspec.interop.wrecks.manifest import NAME

VERSION = 4  # Raise it when wrecks are made differently: those of before are not taken any more.


def wreck_path(kind: str, seed: int, release: str) -> Path:
    """Return where a wreck is kept, whether it was made or not."""
    return cache_directory() / f"wrecks-{VERSION}" / release / f"{kind}-{seed}"


def make(kind: str, seed: int, release: str = RELEASE) -> Path:
    """Make a wreck if it is not there yet; return its directory."""
    path = wreck_path(kind, seed, release)
    with locked(path.with_suffix(".lock")):
        if not (path / NAME).exists():
            half = path.with_suffix(".half")
            for left in (path, half):
                shutil.rmtree(left, ignore_errors=True)
            _make(kind, seed, release, half)
            half.rename(path)
    return path


def _make(kind: str, seed: int, release: str, home: Path) -> None:
    with Making(home, kind, seed, release) as making:
        plan = KINDS[kind](making)
        manifest = making.manifest(plan)
        forget_outputs(making.cluster.nodes.values())
    manifest.write(home)  # Last: without it there is no wreck.
