"""What is fetched or built once and kept: where it lies, and how processes take turns."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """Where what is built is kept: the user's cache, for all checkouts and installed packages.

    So each thing that lies there is named after all that it was made from.
    """
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "kraftspec"
    user = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return user / "kraftspec"


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one process do what others wait for; the file ``path`` is the lock.

    Who holds it must not ask for it again, so each thing that is made has a lock of its own.
    Without ``wait``, BlockingIOError if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        # Closing the file lets it go.
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
