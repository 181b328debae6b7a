"""An observer whose controller does not answer polls without waiting.

The page is docs/findings/kraft-busy-observer.md. Linux tells the processor time of a thread.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from kraftspec.conformance.cluster import Node
from kraftspec.interop.reproduce.stage import Stage

RAFT_THREAD = "raft-io"  # In the name of Kafka's thread; our node has one for all.
FETCH_TIMEOUT_S = 4.0  # The default is 2 s; the fetch before it takes up to half a second.
OBSERVED_S = 10.0
BUSY_TIMES = 10  # What it uses then, beside what it uses while the controller answers.
BUSY_S = 0.3  # At least: a busy machine gives it little.


def busy_observer(stage: Stage) -> bool:
    """Let a controller freeze, and look what the raft thread of an observer uses meanwhile."""
    cluster = stage.cluster(1)
    (controller,) = cluster.controllers
    observer = cluster.add_node("controller" if stage.is_ours else "broker")
    observed_s = min(OBSERVED_S, stage.observe_s)

    def used(what: str) -> float:
        before = _raft_seconds(observer)
        time.sleep(observed_s)
        seconds = _raft_seconds(observer) - before
        stage.step(
            f"controller {controller.id} {what}: in {observed_s:g} s the raft thread of observer "
            f"{observer.id} uses {seconds:.2f} s of processor time"
        )
        return seconds

    usual = used("answers")
    controller.pause()
    try:
        time.sleep(FETCH_TIMEOUT_S)
        busy = used("is stopped by SIGSTOP")
    finally:
        controller.resume()
    return busy > max(BUSY_S, BUSY_TIMES * usual)


def _text(path: Path) -> str:
    """A file of a thread; nothing if it has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _raft_seconds(node: Node) -> float:
    """Return the processor time of a node's raft thread, or of all its threads."""
    assert node.process is not None
    threads = list(Path(f"/proc/{node.process.pid}/task").iterdir())
    raft = [one for one in threads if RAFT_THREAD in _text(one / "comm")]
    ticks = 0
    for thread in raft or threads:
        # The name of a thread, in parentheses, may have blanks.
        if fields := _text(thread / "stat").rpartition(")")[2].split():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
