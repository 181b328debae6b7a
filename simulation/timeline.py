"""What will happen in a run, in order of time, whoever has planned it.

The heap has (time, number, what, arguments). Numbers keep things of one time in the order in which
they were planned, so the order never depends on how a heap is built.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kraftspec.reference.raft import ReplicaKey
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import Swarm
from kraftspec.simulation.world import World


class Timeline:
    """The world, its conditions, and the plan. `schedule.Schedule` adds what the network draws.

    ``loss``, ``duplicate``, ``straggler`` and ``late_reply`` are what messages meet, in ten
    thousand; ``corrupted`` are the nodes that have to be wiped; ``has_faults`` until the faults are
    over, which is after ``quiet_from`` decisions.
    """

    def __init__(self, world: World, swarm: Swarm, rng: Rng) -> None:
        self.world = world
        self.swarm = swarm
        self.rng = rng
        self.met = world.met
        self.has_faults = True
        self.quiet_from = 0
        self.loss = swarm.loss
        self.duplicate = swarm.duplicate
        self.straggler = swarm.straggler
        self.late_reply = swarm.late_reply
        self.corrupted: dict[int, None] = {}
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time_us: int, what: Callable[..., None], *arguments: Any) -> None:
        """Plan something."""
        self._number += 1
        heappush(self._heap, (time_us, self._number, what, arguments))

    def after(self, delay_us: int, what: Callable[..., None], *arguments: Any) -> None:
        """Plan something from now on."""
        self.at(self.world.now_us + delay_us, what, *arguments)

    def run(self, events: int, until_us: int = NEVER_US) -> None:
        """Let happen what is planned, until the world has seen so many events in all."""
        heap, world = self._heap, self.world
        while heap and world.events < events:
            time_us, _, what, arguments = heap[0]
            if time_us > until_us:
                world.now_us = until_us
                return
            heappop(heap)
            world.now_us = time_us
            what(*arguments)

    def restart(self, replica: Replica) -> None:
        """Start a node that is down; one whose disk is corrupted is wiped before."""
        raise NotImplementedError

    def whole_disks(self) -> dict[ReplicaKey, None]:
        """Return the keys of those whose disks have what was written to them."""
        replicas = self.world.replicas.values()
        return {replica.key: None for replica in replicas if replica.id not in self.corrupted}
