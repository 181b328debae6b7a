"""``python -m kraftspec.interop.wrecks.dying N …``: ``kraftspec …``, killed amid its N-th change.

A change is a write, a cut or a rename. Of a write the first half is done; of others nothing.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from typing import Any

CHANGES = ("pwrite", "ftruncate", "replace")
_pwrite = os.pwrite


def _dying(call: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def change(*arguments: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            if call is _pwrite:
                descriptor, data, position = arguments
                _pwrite(descriptor, data[: len(data) // 2], position)
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)

    return change


if __name__ == "__main__":
    left = [int(sys.argv.pop(1))]
    for name in CHANGES:
        setattr(os, name, _dying(getattr(os, name), left))
    runpy.run_module("kraftspec", run_name="__main__", alter_sys=True)
