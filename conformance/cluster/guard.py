"""A guard ends a cluster's processes if their parent cannot."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from types import TracebackType
from typing import Self

# The read returns when the last process with the pipe's other end has ended.
_WATCH = "read -r _; kill -KILL 0"


class Guard:
    """A process group that dies with this process, even by SIGKILL or a crash.

    Its leader is a shell that waits for the end of a pipe from us; all that is started with
    ``process_group=guard.process_group`` is killed with it.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        self.process_group = self._shell.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes of the group, including the guard."""
        with suppress(ProcessLookupError):
            os.killpg(self.process_group, signal.SIGKILL)
        self._shell.communicate()
