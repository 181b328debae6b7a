"""Three nodes in processes of their own, over TCP, and what makes one of them append.

``python -m benchmarks.networked FILE`` is one node: it reads commands, a line of JSON each, and
answers each with a line. `NetworkedQuorum` starts three and talks to them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftspec.conformance.cluster.node import free_port
from kraftspec.memory import keep_freed_memory
from kraftspec.reference.local.quorum import LocalQuorum, is_leading
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.runtime import Node
from kraftspec.reference.profiles.common.node import LOG_NAME

from .quorum import Records, batches_of
from .turns import ROOT

PATIENCE_S = 600.0
# Times that a disk which others use does not break; nothing waits for more to be appended.
SETTINGS = {
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "30000",
    "controller.quorum.request.timeout.ms": "30000",
    "controller.quorum.append.linger.ms": "0",
    # These are not metadata records: writing a snapshot would read the whole log, and then fail.
    "metadata.log.max.record.bytes.between.snapshots": str(1 << 40),
    "metadata.log.max.snapshot.interval.ms": "0",
}

# ---- the client side ---------------------------------------------------------------------------


class NetworkedQuorum:
    """``with NetworkedQuorum(directory) as quorum``: three voters that have a leader."""

    def __init__(self, directory: Path) -> None:
        local = LocalQuorum(directory, first_port=free_port(set()), settings=SETTINGS)
        self.log_dirs = [path.parent / LOG_NAME for path in local.properties.values()]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.networked", str(path)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for path in local.properties.values()
        ]
        self._leader = self.processes[0]

    def __enter__(self) -> NetworkedQuorum:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for process in self.processes:
                if self._call(process, {"do": "state"})["leads"]:
                    self._leader = process
                    return self
            time.sleep(0.01)
        self.close()
        raise TimeoutError(f"none of three nodes led within {PATIENCE_S:.0f} s")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all three in good order."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()

    def make(self, count: int, at: int) -> None:
        """Let the leader's client make the records of a round."""
        self._call(self._leader, {"do": "make", "count": count, "at": at})

    def append(self, in_flight: int) -> dict[str, Any]:
        """Append the round; return once all of it is acknowledged, and durable on all three."""
        reply = self._call(self._leader, {"do": "append", "inFlight": in_flight})
        self._all({"do": "durable", "end": reply["end"]})
        return reply

    def start_offset(self) -> int:
        """Where the next round begins, in all three; from now on syncs are counted anew."""
        end: int = self._call(self._leader, {"do": "state"})["end"]
        self._all({"do": "durable", "end": end})
        self._all({"do": "synced"})
        return end

    def synced(self) -> list[list[int]]:
        """Return the end offset of each sync of each node since the round began."""
        return [reply["ends"] for reply in self._all({"do": "synced"})]

    def _all(self, command: dict[str, Any]) -> list[dict[str, Any]]:
        for process in self.processes:
            self._send(process, command)
        return [self._receive(process) for process in self.processes]

    def _call(self, process: subprocess.Popen[str], command: dict[str, Any]) -> dict[str, Any]:
        self._send(process, command)
        return self._receive(process)

    @staticmethod
    def _send(process: subprocess.Popen[str], command: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()

    @staticmethod
    def _receive(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"a node ended with {process.wait(PATIENCE_S)}"
        reply: dict[str, Any] = json.loads(line)
        return reply


# ---- the node side -----------------------------------------------------------------------------


async def serve(path: str) -> None:
    """Run a node until the input ends."""
    keep_freed_memory()  # As `kraftspec node` does.
    node = Node(load_config(path))
    await node.start()
    ends = _count_syncs(node)
    batches: list[Records] = []
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            command = json.loads(line)
            answer = await _obey(node, ends, batches, command)
            print(json.dumps(answer), flush=True)
    finally:
        await node.stop(0.1)


async def _obey(
    node: Node, ends: list[int], batches: list[Records], command: dict[str, Any]
) -> dict[str, Any]:
    match command["do"]:
        case "make":
            batches[:] = batches_of(command["count"], command["at"])
            return {}
        case "append":
            return await _append(node, batches, command["inFlight"])
        case "durable":
            end = command["end"]
            await node.until(lambda it: it.core.log.flushed_offset >= end, PATIENCE_S)
            return {}
        case "synced":
            reply = {"ends": ends.copy()}
            ends.clear()
            return reply
    return {"leads": is_leading(node), "end": node.core.log.end_offset}


def _count_syncs(node: Node) -> list[int]:
    """Return a list that gets the end offset of every sync of the log."""
    ends: list[int] = []
    flush = node.storage.flush

    def counted(effect: Any) -> Any:
        done = flush(effect)
        ends.append(done.end_offset)
        return done

    node.storage.flush = counted  # type: ignore[method-assign] # For this process alone.
    return ends


async def _append(node: Node, batches: Sequence[Records], in_flight: int) -> dict[str, Any]:
    latencies_s = [0.0] * len(batches)
    offsets = [0] * len(batches)
    end = 0
    numbers = iter(range(len(batches)))

    async def client() -> None:
        nonlocal end
        for number in numbers:  # All clients share it: each takes the next batch.
            begun_s = time.perf_counter()
            done = await node.append(batches[number])
            latencies_s[number] = time.perf_counter() - begun_s
            offsets[number] = done.base_offset
            end = max(end, done.last_offset + 1)

    begun_s = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(in_flight)))
    seconds = time.perf_counter() - begun_s
    return {"seconds": seconds, "latencies": latencies_s, "offsets": offsets, "end": end}


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
